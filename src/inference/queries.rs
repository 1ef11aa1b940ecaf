//! What a network is asked for.

use std::{ops::RangeInclusive, sync::Arc};

use model::topic::{Address, BlockHeight, TopicId};

use crate::{
    Inference, ReadError,
    epoch::Progress,
    learned::Learned,
    regret::{Family, Losses, Standing, Versus},
    store::{Bundles, EpochView, Received},
    submission::Submission,
    synthesis::weights::{normalized, weights},
    topic::Topic,
};

/// How many epochs back the newest one is looked for in which two actors met. Longer ago, the regret
/// of one against the other is told with the older of their last epochs.
const MET_WITHIN_EPOCHS: u32 = 100;

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
        self.known(topic)?;
        let (n_closed, held) = {
            let latest = self.shared.latest.read();
            (latest.n_closed, latest.bundles.get(&topic).map(Arc::clone))
        };
        if let Some(bundles) = held {
            return Ok(bundles);
        }
        let found = self.with_store(move |shared| Ok(shared.store.bundles(topic, None)?)).await?;
        let bundles = Arc::new(found.ok_or(ReadError::NoBundle { topic })?);
        let mut latest = self.shared.latest.write();
        if latest.n_closed == n_closed {
            latest.bundles.insert(topic, Arc::clone(&bundles));
        }
        Ok(bundles)
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
        self.known(topic)?;
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
        self.known(topic)?;
        let found =
            self.with_store(move |shared| Ok(shared.store.history(topic, nonces, limit)?));
        Ok(found.await?)
    }

    /// Returns where `topic` stands.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn progress(&self, topic: TopicId) -> Result<Progress, ReadError> {
        self.known(topic)?;
        Ok(self.with_store(move |shared| Ok(shared.store.progress(topic)?)).await?)
    }

    /// Returns what `topic` has learned.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn learned(&self, topic: TopicId) -> Result<Learned, ReadError> {
        self.known(topic)?;
        Ok(self.with_store(move |shared| Ok(shared.store.learned(topic)?)).await?)
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
        let settings = self.known(topic)?;
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
        let settings = self.known(topic)?;
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
        self.known(topic)?;
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
        let bound = match of {
            RegretOf::Inferer(name) | RegretOf::Naive(name) => inferer(name),
            RegretOf::Forecaster(name) => forecaster(name),
            RegretOf::OneOutInfererInferer(out, name) => inferer(out).min(inferer(name)),
            RegretOf::OneOutInfererForecaster(out, name) => inferer(out).min(forecaster(name)),
            RegretOf::OneOutForecasterInferer(out, name) => forecaster(out).min(inferer(name)),
            RegretOf::OneOutForecasterForecaster(out, name) => {
                forecaster(out).min(forecaster(name))
            }
            RegretOf::OneInForecaster(with, name) if with == name => forecaster(with),
            RegretOf::OneInForecaster(with, name) => forecaster(with).min(inferer(name)),
        };
        let losses = self.losses_until(topic, bound, MET_WITHIN_EPOCHS).await?;
        let met = losses.iter().find(|(_, losses)| have_met(losses, of));
        Ok(TimedRegret { nonce: met.map_or(bound, |(nonce, _)| *nonce), regret })
    }

    /// Returns each actor's share by the regrets that were learned last: of those who took part in
    /// that epoch. All shares sum to 1; empty before the first lesson.
    ///
    /// # Errors
    /// [`ReadError::UnknownTopic`] or [`ReadError::Failed`].
    pub async fn learned_shares(&self, topic: TopicId) -> Result<Standing, ReadError> {
        let settings = self.known(topic)?;
        let learned = self.learned(topic).await?;
        Ok(shares(&settings, &learned))
    }
}

/// The share of each actor of the epoch that was learned from last.
fn shares(topic: &Topic, learned: &Learned) -> Standing {
    let Standing { inferer, forecaster } = &learned.regrets.ordinary;
    let took_part =
        |experience: &std::collections::BTreeMap<Address, crate::learned::Experience>,
         name: &Address| {
            experience.get(name).is_some_and(|seen| Some(seen.last_nonce) == learned.nonce)
        };
    let inferer: Family = inferer
        .iter()
        .filter(|(name, _)| took_part(&learned.inferers, name))
        .map(|(name, regret)| (name.clone(), *regret))
        .collect();
    let forecaster: Family = forecaster
        .iter()
        .filter(|(name, _)| took_part(&learned.forecasters, name))
        .map(|(name, regret)| (name.clone(), *regret))
        .collect();
    let regrets: Vec<f64> = inferer.values().chain(forecaster.values()).copied().collect();
    let params = topic.params(learned.regret_scale);
    let shares = normalized(&weights(&regrets, &params)).unwrap_or_default();
    let mut shares = shares.into_iter();
    let mut of = |family: Family| -> Family { family.into_keys().zip(shares.by_ref()).collect() };
    Standing { inferer: of(inferer), forecaster: of(forecaster) }
}

fn regret(learned: &Learned, of: RegretOf<'_>) -> Option<f64> {
    let regrets = &learned.regrets;
    let Versus { inferer, forecaster } = match of {
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

/// Whether all that a regret is about took part in the epoch with `losses`.
fn have_met(losses: &Losses, of: RegretOf<'_>) -> bool {
    let inferer = |name| losses.inferer.contains_key(name);
    let forecaster = |name| losses.forecaster.contains_key(name);
    match of {
        RegretOf::Inferer(name) | RegretOf::Naive(name) => inferer(name),
        RegretOf::Forecaster(name) => forecaster(name),
        RegretOf::OneOutInfererInferer(out, name) => inferer(out) && inferer(name),
        RegretOf::OneOutInfererForecaster(out, name) => inferer(out) && forecaster(name),
        RegretOf::OneOutForecasterInferer(out, name) => forecaster(out) && inferer(name),
        RegretOf::OneOutForecasterForecaster(out, name) => forecaster(out) && forecaster(name),
        RegretOf::OneInForecaster(with, name) => {
            forecaster(with) && (with == name || inferer(name))
        }
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
