//! What a network is asked for.

use std::{ops::RangeInclusive, sync::Arc};

use model::topic::{Address, BlockHeight, TopicId};
use wire::inference::HistoryEpoch;

use crate::{
    Inference, InferenceError, ReadError, Shared,
    math::{
        regret::{Losses, Role, RoleValues},
        synthesis::weights::{normalized, weights},
    },
    network::{
        epoch::Progress,
        learned::{Experience, Learned},
        submission::Submission,
        topic::Topic,
    },
    store::{Bundles, Received},
};

/// A regret, and the epoch it was learned from last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedRegret {
    /// The nonce; 0 where the actor has no regret of its own.
    pub nonce: BlockHeight,
    /// The regret, or what a newcomer starts from.
    pub regret: f64,
}

/// The quantity that a regret is against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    /// The combined value.
    Combined,
    /// The naive value, for inferers.
    Naive,
    /// The combined value without this actor.
    OneOut(Role, Address),
    /// The inferers combined with this forecaster alone. For a forecaster it is its own.
    OneIn(Address),
}

impl Inference {
    /// Returns the newest bundle of `topic`: of the last epoch that closed with one, never half of
    /// an epoch.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`], [`ReadError::NoBundle`] before the first, or
    /// [`ReadError::Failed`].
    pub async fn latest(&self, topic: TopicId) -> Result<Arc<Bundles>, ReadError> {
        self.find_topic(topic)?;
        if let Some(bundles) = self.shared.cache.get(topic).bundles {
            return Ok(bundles);
        }
        let found = self.with_store(move |shared| shared.load_newest(topic)).await?;
        found.ok_or(ReadError::NoBundle { topic })
    }

    /// Returns the bundle of the epoch `nonce` of `topic`.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`], [`ReadError::NoBundle`] if that epoch has none, or
    /// [`ReadError::Failed`].
    pub async fn bundle_at(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
    ) -> Result<Bundles, ReadError> {
        let found = self.read(topic, move |store| store.bundles(topic, Some(nonce))).await?;
        found.ok_or(ReadError::NoBundle { topic })
    }

    /// Returns the newest `limit` epochs of `topic` with a nonce in `nonces` that have a bundle,
    /// oldest first.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn history(
        &self,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        limit: u32,
    ) -> Result<Vec<HistoryEpoch>, ReadError> {
        self.read(topic, move |store| store.history(topic, nonces, limit)).await
    }

    /// Returns where `topic` stands.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn progress(&self, topic: TopicId) -> Result<Progress, ReadError> {
        self.find_topic(topic)?;
        Ok(self.epochs_of(topic).await?.as_ref().clone())
    }

    /// Where the epochs of `topic` stand.
    pub(crate) async fn epochs_of(&self, topic: TopicId) -> Result<Arc<Progress>, InferenceError> {
        if let Some(progress) = self.shared.cache.get(topic).progress {
            return Ok(progress);
        }
        self.with_store(move |shared| shared.load_progress(topic)).await
    }

    /// Returns what `topic` has learned.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn learned(&self, topic: TopicId) -> Result<Arc<Learned>, ReadError> {
        self.find_topic(topic)?;
        if let Some(known) = self.shared.cache.get(topic).known {
            return Ok(known.learned);
        }
        Ok(self.with_store(move |shared| shared.load_learned(topic)).await?.learned)
    }

    /// Returns who forecast in the epoch `nonce` of `topic`, by address.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn forecasting(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
    ) -> Result<Vec<Address>, ReadError> {
        self.read(topic, move |store| store.forecasting(topic, nonce)).await
    }

    /// Returns the nonces of the newest `limit` epochs of `topic` in `nonces` that have a bundle,
    /// oldest first.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn nonces(
        &self,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        limit: u32,
    ) -> Result<Vec<BlockHeight>, ReadError> {
        self.read(topic, move |store| store.nonces(topic, nonces, limit)).await
    }

    /// Returns what was submitted for the epoch `nonce` of `topic`, by worker: under all labels of
    /// the epoch, with their ids.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn submissions(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
    ) -> Result<Vec<Submission>, ReadError> {
        let settings = self.find_topic(topic)?;
        self.read(topic, move |store| {
            let submissions = store.submissions(topic, nonce)?;
            with_ids(&settings, submissions, || store.labels(topic, nonce))
        })
        .await
    }

    /// Returns the newest submission of `worker` for `topic`, if it ever made one.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn newest_of(
        &self,
        topic: TopicId,
        worker: Address,
    ) -> Result<Option<Received>, ReadError> {
        let settings = self.find_topic(topic)?;
        self.read(topic, move |store| {
            let Some(Received { nonce, submission }) = store.newest_of(topic, &worker)? else {
                return Ok(None);
            };
            let mut with_ids =
                with_ids(&settings, vec![submission], || store.labels(topic, nonce))?;
            Ok(with_ids.pop().map(|submission| Received { nonce, submission }))
        })
        .await
    }

    /// Returns the losses of the newest `limit` epochs of `topic` up to `nonce` that were learned
    /// from, newest first.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn losses_until(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        limit: u32,
    ) -> Result<Vec<(BlockHeight, Losses)>, ReadError> {
        self.read(topic, move |store| store.losses_until(topic, nonce, limit)).await
    }

    /// Returns the regret of `actor`, who does `role`, on `topic`.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn regret(
        &self,
        topic: TopicId,
        against: Against,
        role: Role,
        actor: Address,
    ) -> Result<TimedRegret, ReadError> {
        let learned = self.learned(topic).await?;
        let regrets = &learned.regrets;
        let (regret, other) = match against {
            Against::Combined => (regrets.ordinary[role].get(&actor).copied(), None),
            Against::Naive => (regrets.naive.get(&actor).copied(), None),
            Against::OneOut(out_role, other) => {
                let pairwise = match out_role {
                    Role::Inferer => &regrets.one_out_inferer,
                    Role::Forecaster => &regrets.one_out_forecaster,
                };
                (pairwise[role].get(&other, &actor), Some((out_role, other)))
            }
            Against::OneIn(other) => {
                let regret = regrets.one_in_forecaster[role].get(&other, &actor);
                (regret, Some((Role::Forecaster, other)).filter(|(_, other)| *other != actor))
            }
        };
        let Some(regret) = regret else {
            return Ok(TimedRegret { nonce: 0, regret: learned.initial_regret });
        };
        let last_nonce = |role, name| {
            let seen: Option<&Experience> = learned.experience[role].get(name);
            seen.map_or(0, |seen| seen.last_nonce)
        };
        let own = last_nonce(role, &actor);
        let Some((other_role, other)) = other else {
            return Ok(TimedRegret { nonce: own, regret });
        };
        let bound = own.min(last_nonce(other_role, &other));
        let met = self.read(topic, move |store| store.met(topic, bound, [&other, &actor])).await?;
        Ok(TimedRegret { nonce: met.unwrap_or(bound), regret })
    }

    /// Returns each actor's share by the regrets that were learned last: of actors that took part in
    /// that epoch. All shares sum to 1; empty before the first lesson.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn learned_shares(&self, topic: TopicId) -> Result<RoleValues, ReadError> {
        let settings = self.find_topic(topic)?;
        let learned = self.learned(topic).await?;
        Ok(shares(&settings, &learned))
    }
}

impl Shared {
    fn load_newest(&self, topic: TopicId) -> Result<Option<Arc<Bundles>>, InferenceError> {
        let _turn = self.cache.load();
        self.read_newest(topic)
    }

    /// The newest bundle of `topic`, for who has the turn to load.
    pub(crate) fn read_newest(
        &self,
        topic: TopicId,
    ) -> Result<Option<Arc<Bundles>>, InferenceError> {
        let entry = self.cache.get(topic);
        if entry.bundles.is_some() {
            return Ok(entry.bundles);
        }
        let Some(bundles) = self.store.bundles(topic, None)?.map(Arc::new) else {
            return Ok(None);
        };
        self.cache.keep(topic, &entry, |entry| entry.bundles = Some(Arc::clone(&bundles)));
        Ok(Some(bundles))
    }

    fn load_progress(&self, topic: TopicId) -> Result<Arc<Progress>, InferenceError> {
        let entry = self.cache.get(topic);
        let progress = Arc::new(self.store.progress(topic)?);
        self.cache.keep(topic, &entry, |entry| entry.progress = Some(Arc::clone(&progress)));
        Ok(progress)
    }
}

/// The share of each actor of the epoch that was learned from last.
fn shares(topic: &Topic, learned: &Learned) -> RoleValues {
    let actors = learned.actors(|seen| Some(seen.last_nonce) == learned.nonce);
    let regrets: Vec<f64> = actors.iter().map(|(.., regret)| *regret).collect();
    let shares = normalized(&weights(&regrets, &topic.params(learned.regret_scale)));
    let mut by_role = RoleValues::default();
    for ((role, name, _), share) in actors.into_iter().zip(shares.unwrap_or_default()) {
        by_role[role].insert(name.clone(), share);
    }
    by_role
}

/// `submissions` under all labels of their epoch.
fn with_ids<E>(
    topic: &Topic,
    submissions: Vec<Submission>,
    labels: impl FnOnce() -> Result<Vec<String>, E>,
) -> Result<Vec<Submission>, E> {
    if !topic.takes_any_label() {
        return Ok(submissions);
    }
    let labels = labels()?;
    let dense = |submission: Submission| {
        let inference = if submission.inference.is_empty() {
            Vec::new()
        } else {
            submission.dense(&labels, topic.labeling.default)
        };
        Submission { inference, ..submission }
    };
    Ok(submissions.into_iter().map(dense).collect())
}
