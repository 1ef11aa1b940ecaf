//! Queries of a network's topics, epochs and learned state.

use std::ops::RangeInclusive;
use std::sync::Arc;

use model::topic::{Address, BlockHeight, TopicId};
use wire::inference::{ActorSummary, Bundle, HistoryEpoch, WorkerValues};

use crate::math::regret::{ByActor, Losses, Role, RoleValues};
use crate::math::synthesis::weights::{normalized, weights};
use crate::network::epoch::EpochProgress;
use crate::network::learned::{Experience, Learned};
use crate::network::submission::Submission;
use crate::network::topic::Topic;
use crate::store::{Bundles, Input, Store, StoreError};
use crate::{Inference, InferenceError, NetworkState, Result};

/// Value against which a regret is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    /// The combined value.
    Combined,
    /// The naive value. Only inferers have such a regret.
    Naive,
    /// The combined value without this actor.
    OneOut(Role, Address),
    /// The value combined from the inferers and only this forecaster. Both the inferers and this
    /// forecaster have such a regret.
    OneIn(Address),
}

/// Maximum number of addresses in the error for an ambiguous name.
const AMBIGUOUS_ACTORS_SHOWN: usize = 8;

/// Declares queries that call the store's method of the same name with the topic as first argument.
macro_rules! queries {
    ($($(#[$about:meta])+ $query:ident($($name:ident: $kind:ty),+) -> $found:ty;)+) => {
        impl Inference {$(
            $(#[$about])+
            ///
            /// # Errors
            /// [`InferenceError`] if the topic does not exist, or the store fails.
            pub async fn $query(
                &self,
                topic: TopicId,
                $($name: $kind),+
            ) -> Result<$found> {
                self.read(topic, move |store| store.$query(topic, $($name),+)).await
            }
        )+}
    };
}

queries! {
    /// Returns the latest epochs of `topic` that have a bundle and a nonce in `nonces`, at most
    /// `limit`, oldest first.
    history(nonces: RangeInclusive<BlockHeight>, limit: u32) -> Vec<HistoryEpoch>;

    /// Returns the nonces of the latest epochs of `topic` that have a bundle and a nonce in `nonces`,
    /// at most `limit`, oldest first.
    nonces(nonces: RangeInclusive<BlockHeight>, limit: u32) -> Vec<BlockHeight>;

    /// Returns the addresses of the forecasters in the epoch `nonce` of `topic`, sorted.
    forecasting(nonce: BlockHeight) -> Vec<Address>;

    /// Returns the losses of the latest epochs of `topic` up to `nonce` from which the network learned,
    /// at most `limit`, latest first.
    losses_until(nonce: BlockHeight, limit: u32) -> Vec<(BlockHeight, Losses)>;
}

impl Inference {
    /// Returns the address of the actor that `actor` selects in the epochs of `topic` with a nonce in
    /// `nonces`: the actor with this address, or else the only actor that used this name in the latest
    /// epoch in which it was used. Returns `actor` if there is none, or if there are no epochs.
    ///
    /// # Errors
    /// [`InferenceError::AmbiguousActor`]. Otherwise as [`Self::history`].
    pub(crate) async fn find_actor(
        &self,
        topic: TopicId,
        nonces: Option<RangeInclusive<BlockHeight>>,
        actor: Option<String>,
    ) -> Result<Option<String>> {
        let (Some(nonces), Some(name)) = (nonces, actor.clone()) else { return Ok(actor) };
        let wanted = name.clone();
        let mut found =
            self.read(topic, move |store| store.find_actors(topic, &nonces, &wanted)).await?;
        if found.len() > 1 {
            found.truncate(AMBIGUOUS_ACTORS_SHOWN);
            return Err(InferenceError::AmbiguousActor { name, workers: found });
        }
        Ok(found.pop().or(actor))
    }

    /// Returns the losses of the epoch `nonce` of `topic`, or `None` if the network has not learned
    /// from it.
    ///
    /// # Errors
    /// As [`Self::history`].
    pub async fn losses_at(&self, topic: TopicId, nonce: BlockHeight) -> Result<Option<Losses>> {
        let found = self.losses_until(topic, nonce, 1).await?.into_iter();
        Ok(found.filter(|(of, _)| *of == nonce).map(|(_, losses)| losses).next())
    }

    /// Returns the latest bundle of `topic`. All its values are from the same epoch.
    ///
    /// # Errors
    /// [`InferenceError::NoBundle`] if no epoch has a bundle yet. Otherwise as [`Self::history`].
    pub async fn latest(&self, topic: TopicId) -> Result<Arc<Bundles>> {
        self.find_topic(topic)?;
        self.cached(topic, |entry| &mut entry.bundles, NetworkState::load_newest).await
    }

    /// Returns the same bundle as [`Self::latest`], unless another service closed an epoch very
    /// recently.
    pub(crate) async fn recent_bundle(&self, topic: TopicId) -> Result<Arc<Bundles>> {
        self.find_topic(topic)?;
        self.recent(topic, |entry| &mut entry.bundles, NetworkState::load_newest).await
    }

    /// Returns the bundle of the epoch `nonce` of `topic`.
    ///
    /// # Errors
    /// [`InferenceError::NoBundle`] if that epoch has no bundle. Otherwise as [`Self::history`].
    pub async fn bundle_at(&self, topic: TopicId, nonce: BlockHeight) -> Result<Bundles> {
        let found = self.read(topic, move |store| store.bundles(topic, Some(nonce))).await?;
        found.ok_or(InferenceError::NoBundle(topic))
    }

    /// Returns the progress of `topic`'s epochs.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn progress(&self, topic: TopicId) -> Result<EpochProgress> {
        self.find_topic(topic)?;
        let progress = self.cached(topic, |entry| &mut entry.progress, NetworkState::load_progress);
        Ok(progress.await?.as_ref().clone())
    }

    /// Returns the same progress as [`Self::progress`], but possibly without very recent changes by
    /// other services.
    pub(crate) async fn recent_epochs(&self, topic: TopicId) -> Result<Arc<EpochProgress>> {
        self.recent(topic, |entry| &mut entry.progress, NetworkState::load_progress).await
    }

    /// Returns the learned state of `topic`.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn learned(&self, topic: TopicId) -> Result<Arc<Learned>> {
        self.find_topic(topic)?;
        Ok(self.cached(topic, |entry| &mut entry.known, NetworkState::load_learned).await?.learned)
    }

    /// Returns the submissions for the epoch `nonce` of `topic`, sorted by worker. Each inference has a
    /// value for every label of the epoch.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn submissions(&self, topic: TopicId, nonce: BlockHeight) -> Result<Vec<Submission>> {
        let settings = self.find_topic(topic)?;
        self.read(topic, move |store| {
            with_labels(store, &settings, nonce, store.submissions(topic, nonce)?)
        })
        .await
    }

    /// Returns the latest submission of `worker` for `topic` up to the epoch `until`, and the nonce of
    /// its epoch.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn newest_of(
        &self,
        topic: TopicId,
        worker: Address,
        until: BlockHeight,
    ) -> Result<Option<(BlockHeight, Submission)>> {
        let settings = self.find_topic(topic)?;
        self.read(topic, move |store| {
            let Some((nonce, submission)) = store.newest_of(topic, &worker, until)? else {
                return Ok(None);
            };
            let mut expanded = with_labels(store, &settings, nonce, vec![submission])?;
            Ok(expanded.pop().map(|submission| (nonce, submission)))
        })
        .await
    }

    /// Returns the input of the epoch `nonce` of `topic`, or `None` if it has none.
    ///
    /// # Errors
    /// [`InferenceError`] if the store fails.
    pub async fn input(&self, topic: TopicId, nonce: BlockHeight) -> Result<Option<Input>> {
        self.with_store(move |shared| Ok(shared.store.input(topic, nonce)?)).await
    }

    /// Returns the regret of `actor` in `role`, and the nonce of the latest epoch that changed it. If
    /// the actor has no such regret, returns the regret of newcomers and the nonce 0.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn regret(
        &self,
        topic: TopicId,
        against: Against,
        role: Role,
        actor: Address,
    ) -> Result<(BlockHeight, f64)> {
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
            return Ok((0, learned.initial_regret));
        };
        let last_nonce = |role, name| {
            let seen: Option<&Experience> = learned.experience[role].get(name);
            seen.map_or(0, |seen| seen.last_nonce)
        };
        let own = last_nonce(role, &actor);
        let Some((other_role, other)) = other else {
            return Ok((own, regret));
        };
        let bound = own.min(last_nonce(other_role, &other));
        let met = self.read(topic, move |store| store.met(topic, bound, [&other, &actor])).await?;
        Ok((met.unwrap_or(bound), regret))
    }

    /// Returns the weights that result from the current regrets, for the actors of the latest epoch
    /// from which the network learned. The weights sum to 1. Empty if the network has not learned yet.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn learned_shares(&self, topic: TopicId) -> Result<RoleValues> {
        let settings = self.find_topic(topic)?;
        let learned = self.learned(topic).await?;
        Ok(shares(&settings, &learned))
    }
}

impl NetworkState {
    pub(crate) fn load_newest(&self, topic: TopicId) -> Result<Arc<Bundles>> {
        let read = || {
            let bundles = self.store.bundles(topic, None)?;
            bundles.map(Arc::new).ok_or(InferenceError::NoBundle(topic))
        };
        self.cache.load(topic, |entry| &mut entry.bundles, read)
    }

    fn load_progress(&self, topic: TopicId) -> Result<Arc<EpochProgress>> {
        let read = || Ok(Arc::new(self.store.progress(topic)?));
        self.cache.load(topic, |entry| &mut entry.progress, read)
    }
}

/// Returns the weight of each actor in the latest epoch from which the network learned.
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

/// Adds the default value for each missing label of the epoch `nonce` to the inferences in
/// `submissions`.
fn with_labels(
    store: &Store,
    topic: &Topic,
    nonce: BlockHeight,
    mut submissions: Vec<Submission>,
) -> Result<Vec<Submission>, StoreError> {
    if !topic.is_single() {
        let labels = store.labels(topic.id, nonce)?;
        for submission in submissions.iter_mut().filter(|one| !one.inference.is_empty()) {
            submission.inference = submission.dense(&labels, topic.labeling.default);
        }
    }
    Ok(submissions)
}

/// A topic with its progress and its actors.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Settings of the topic.
    pub topic: Arc<Topic>,
    /// Progress of the topic's epochs.
    pub progress: Arc<EpochProgress>,
    /// Actors in the topic's latest bundle.
    pub actors: Arc<TopicActors>,
}

/// Actors in a topic's latest bundle.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopicActors {
    /// Epoch of the latest bundle, or `None` if there is no bundle yet.
    pub last_nonce: Option<BlockHeight>,
    /// Number of epochs from which the network learned.
    pub n_learned: u64,
    /// Inferers sorted by address, then forecasters sorted by address.
    pub actors: Vec<ActorSummary>,
    /// Serialized `actors`: the elements of a JSON array without brackets. Cached, since serializing a
    /// thousand inferers would dominate the time of a request for all topics.
    pub elements: String,
}

impl Inference {
    /// Returns all topics with their progress and actors, sorted by id.
    ///
    /// # Errors
    /// [`InferenceError`] if the store fails.
    pub async fn overviews(&self) -> Result<Vec<Overview>> {
        self.catch_up_all().await?;
        let mut overviews = Vec::new();
        for topic in self.topics() {
            let progress = self.recent_epochs(topic.id).await?;
            let actors =
                self.recent(topic.id, |entry| &mut entry.actors, NetworkState::load_actors);
            let actors = actors.await?;
            overviews.push(Overview { topic, progress, actors });
        }
        Ok(overviews)
    }
}

impl NetworkState {
    fn load_actors(&self, topic: TopicId) -> Result<Arc<TopicActors>> {
        let read = || {
            let learned = self.load_learned(topic)?.learned;
            let n_learned = learned.n_learned;
            let bundles = match self.load_newest(topic) {
                Err(InferenceError::NoBundle(_)) => {
                    return Ok(Arc::new(TopicActors { n_learned, ..TopicActors::default() }));
                }
                found => found?,
            };
            let nonce = bundles.bundle.nonce;
            let actors = summaries(&bundles, &self.store.names(topic, nonce)?, &learned);
            let array = serde_json::to_string(&actors).map_err(StoreError::from)?;
            let elements = array.trim_matches(['[', ']']).to_owned();
            Ok(Arc::new(TopicActors { last_nonce: Some(nonce), n_learned, actors, elements }))
        };
        self.cache.load(topic, |entry| &mut entry.actors, read)
    }
}

fn summaries(bundles: &Bundles, names: &ByActor<String>, learned: &Learned) -> Vec<ActorSummary> {
    let Bundle { inferer_values, forecaster_values, .. } = &bundles.bundle.bundle;
    let of_role = |(role, values): (Role, &Vec<WorkerValues>)| {
        let summary = |WorkerValues { worker, .. }: &WorkerValues| ActorSummary {
            worker: worker.to_string(),
            role: role.name().to_owned(),
            name: names.get(worker).cloned(),
            weight: bundles.shares[role].get(worker).copied(),
            regret: learned.regrets.ordinary[role].get(worker).copied(),
            loss: learned.losses[role].get(worker).copied(),
            score: learned.scores[role].get(worker).copied(),
        };
        values.iter().map(summary).collect::<Vec<_>>()
    };
    Role::ALL.into_iter().zip([inferer_values, forecaster_values]).flat_map(of_role).collect()
}
