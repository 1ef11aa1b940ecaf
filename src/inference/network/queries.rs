//! What a network is asked for.

use std::{ops::RangeInclusive, sync::Arc};

use model::topic::{Address, BlockHeight, TopicId};

use crate::{
    Inference, InferenceError, ReadError, Shared,
    math::{
        regret::{ByActor, Losses, PairwiseRegrets, RoleValues},
        synthesis::weights::{normalized, weights},
    },
    network::{epoch::Progress, learned::Learned, submission::Submission, topic::Topic},
    store::{Bundles, EpochView, Received},
};

/// A regret, and the epoch it was learned from last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedRegret {
    /// The nonce; 0 where the actor has no regret of its own.
    pub nonce: BlockHeight,
    /// The regret, or what a newcomer starts from.
    pub regret: f64,
}

/// Which regret is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegretOf<'a> {
    /// An inferer's, against the combined value.
    Inferer(&'a Address),
    /// A forecaster's, against the combined value.
    Forecaster(&'a Address),
    /// An inferer's, against the naive value.
    Naive(&'a Address),
    /// An inferer's, without the inferer named first.
    OneOutInfererInferer(&'a Address, &'a Address),
    /// A forecaster's, without the inferer named first.
    OneOutInfererForecaster(&'a Address, &'a Address),
    /// An inferer's, without the forecaster named first.
    OneOutForecasterInferer(&'a Address, &'a Address),
    /// A forecaster's, without the forecaster named first.
    OneOutForecasterForecaster(&'a Address, &'a Address),
    /// An inferer's (or its own), with the forecaster named first alone.
    OneInForecaster(&'a Address, &'a Address),
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
        self.find_topic(topic)?;
        let found = self.with_store(move |shared| Ok(shared.store.bundles(topic, Some(nonce))?));
        found.await?.ok_or(ReadError::NoBundle { topic })
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
    ) -> Result<Vec<EpochView>, ReadError> {
        self.find_topic(topic)?;
        let found =
            self.with_store(move |shared| Ok(shared.store.history(topic, nonces, limit)?));
        Ok(found.await?)
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
        self.find_topic(topic)?;
        Ok(self.with_store(move |shared| Ok(shared.store.forecasting(topic, nonce)?)).await?)
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
        self.find_topic(topic)?;
        Ok(self.with_store(move |shared| Ok(shared.store.nonces(topic, nonces, limit)?)).await?)
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
        let found = self.with_store(move |shared| {
            let submissions = shared.store.submissions(topic, nonce)?;
            Ok(with_ids(&settings, submissions, || shared.store.labels(topic, nonce))?)
        });
        Ok(found.await?)
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
        let found = self.with_store(move |shared| {
            let Some(Received { nonce, submission }) = shared.store.newest_of(topic, &worker)?
            else {
                return Ok(None);
            };
            let mut with_ids =
                with_ids(&settings, vec![submission], || shared.store.labels(topic, nonce))?;
            Ok(with_ids.pop().map(|submission| Received { nonce, submission }))
        });
        Ok(found.await?)
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
        self.find_topic(topic)?;
        let found =
            self.with_store(move |shared| Ok(shared.store.losses_until(topic, nonce, limit)?));
        Ok(found.await?)
    }

    /// Returns a regret of `topic`.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn regret(&self, topic: TopicId, of: RegretOf<'_>) -> Result<TimedRegret, ReadError> {
        let learned = self.learned(topic).await?;
        let Some(regret) = regret(&learned, of) else {
            return Ok(TimedRegret { nonce: 0, regret: learned.initial_regret });
        };
        let inferer = |name| learned.inferers.get(name).map_or(0, |seen| seen.last_nonce);
        let forecaster = |name| learned.forecasters.get(name).map_or(0, |seen| seen.last_nonce);
        let (a, b) = match of {
            RegretOf::Inferer(name) | RegretOf::Naive(name) => {
                return Ok(TimedRegret { nonce: inferer(name), regret });
            }
            RegretOf::Forecaster(name) => {
                return Ok(TimedRegret { nonce: forecaster(name), regret });
            }
            RegretOf::OneInForecaster(with, name) if with == name => {
                return Ok(TimedRegret { nonce: forecaster(with), regret });
            }
            RegretOf::OneOutInfererInferer(out, name) => {
                ((out, inferer(out)), (name, inferer(name)))
            }
            RegretOf::OneOutInfererForecaster(out, name) => {
                ((out, inferer(out)), (name, forecaster(name)))
            }
            RegretOf::OneOutForecasterForecaster(out, name) => {
                ((out, forecaster(out)), (name, forecaster(name)))
            }
            RegretOf::OneOutForecasterInferer(out, name) | RegretOf::OneInForecaster(out, name) => {
                ((out, forecaster(out)), (name, inferer(name)))
            }
        };
        let bound = a.1.min(b.1);
        let pair = [a.0.clone(), b.0.clone()];
        let met = self
            .with_store(move |shared| Ok(shared.store.met(topic, bound, [&pair[0], &pair[1]])?));
        Ok(TimedRegret { nonce: met.await?.unwrap_or(bound), regret })
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
    let RoleValues { inferer, forecaster } = &learned.regrets.ordinary;
    let took_part =
        |experience: &std::collections::BTreeMap<Address, crate::network::learned::Experience>,
         name: &Address| {
            experience.get(name).is_some_and(|seen| Some(seen.last_nonce) == learned.nonce)
        };
    let inferer: ByActor<f64> = inferer
        .iter()
        .filter(|(name, _)| took_part(&learned.inferers, name))
        .map(|(name, regret)| (name.clone(), *regret))
        .collect();
    let forecaster: ByActor<f64> = forecaster
        .iter()
        .filter(|(name, _)| took_part(&learned.forecasters, name))
        .map(|(name, regret)| (name.clone(), *regret))
        .collect();
    let regrets: Vec<f64> = inferer.values().chain(forecaster.values()).copied().collect();
    let params = topic.params(learned.regret_scale);
    let shares = normalized(&weights(&regrets, &params)).unwrap_or_default();
    let mut shares = shares.into_iter();
    let mut of = |family: ByActor<f64>| -> ByActor<f64> {
        family.into_keys().zip(shares.by_ref()).collect()
    };
    RoleValues { inferer: of(inferer), forecaster: of(forecaster) }
}

fn regret(learned: &Learned, of: RegretOf<'_>) -> Option<f64> {
    let regrets = &learned.regrets;
    let PairwiseRegrets { inferer, forecaster } = match of {
        RegretOf::OneOutForecasterInferer(..) | RegretOf::OneOutForecasterForecaster(..) => {
            &regrets.one_out_forecaster
        }
        RegretOf::OneInForecaster(..) => &regrets.one_in_forecaster,
        _ => &regrets.one_out_inferer,
    };
    match of {
        RegretOf::Inferer(name) => regrets.ordinary.inferer.get(name).copied(),
        RegretOf::Forecaster(name) => regrets.ordinary.forecaster.get(name).copied(),
        RegretOf::Naive(name) => regrets.naive.get(name).copied(),
        RegretOf::OneOutInfererForecaster(out, name)
        | RegretOf::OneOutForecasterForecaster(out, name) => forecaster.get(out, name),
        RegretOf::OneInForecaster(with, name) if with == name => forecaster.get(with, name),
        RegretOf::OneOutInfererInferer(out, name)
        | RegretOf::OneOutForecasterInferer(out, name)
        | RegretOf::OneInForecaster(out, name) => inferer.get(out, name),
    }
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
