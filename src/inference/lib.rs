//! A prediction network of one chain, from submissions to the served values.
//!
//! [`Inference`] is the entry point: it accepts submissions, closes epochs, learns from them and
//! returns their values. [`math`] contains the formulas as plain functions, [`network`] the topics,
//! epochs and their schedule, [`store`] the SQLite file or shared PostgreSQL database, and [`server`]
//! the HTTP API. The cluster and the dataset service are accessed through the traits in
//! [`network::upstream`].
//!
//! ```no_run
//! # async fn example(inference: inference::Inference) -> Result<(), inference::InferenceError> {
//! use model::topic::TopicId;
//!
//! let nonce = inference.chain().height();
//! inference.open_epoch(TopicId::FIRST, nonce).await?;
//! inference.close(TopicId::FIRST, nonce).await?;
//! # Ok(())
//! # }
//! ```

mod error;
pub mod math;
mod metrics;
pub mod network;
pub mod server;
pub mod store;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use model::topic::{Address, BlockHeight, TopicId};
use parking_lot::{Mutex, RwLock};
use task::clock::Clock;
use task::steady_date::SteadyDate;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::warn;
use web::metrics::Metrics;

pub use self::error::{InferenceError, Result};
use crate::math::sortition::Record;
use crate::network::cache::{Cache, CachedTopic};
use crate::network::chain::{Blocks, Chain};
use crate::network::epoch::is_open;
use crate::network::epoch_end::{closing, lesson};
use crate::network::problems::Conditions;
use crate::network::submission::{Origin, Payload, Submission, Submitter};
use crate::network::topic::{DAY, Keep, Retention, Topic};
use crate::network::topics::TopicList;
use crate::store::{
    CloseInput, EndOptions, EpochTotals, Input, Store, StoreError, StorePlace, StoredLearned,
    SubmitOutcome,
};

/// Options for opening a network.
#[derive(Debug, Clone)]
pub struct InferenceOptions {
    /// Duration of a block, at least [`network::chain::BLOCK_TIME_MIN`].
    pub block_time: Duration,
    /// Default retention of a topic's epochs.
    pub retention: Retention,
    /// Built-in topics. A built-in topic replaces the stored topic with its id, unless a key created
    /// the stored topic. A paused topic stays paused.
    pub topics: Vec<Topic>,
}

/// Topic, epoch and worker of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Id of the topic.
    pub topic: TopicId,
    /// Block at which the epoch opened.
    pub nonce: BlockHeight,
    /// Address of the worker on the chain.
    pub worker: Address,
    /// Name of the worker, if known.
    pub name: Option<String>,
}

/// Handle to a network. Cheap to clone. All clones share one file and one chain.
#[derive(Clone, derive_more::Debug)]
#[debug("Inference")]
pub struct Inference {
    shared: Arc<NetworkState>,
}

struct NetworkState {
    store: Store,
    chain: Chain,
    retention: Retention,
    /// Date of the local clock from which the age of epochs is counted.
    date: Mutex<SteadyDate>,
    topics: RwLock<TopicList>,
    /// Held while the list of topics is reloaded, so that only one task reads it.
    reading_list: Mutex<()>,
    cache: Cache,
    conditions: Conditions,
    news: watch::Sender<News>,
    metrics: Metrics,
    /// Held while a topic is created or changed, so that ids stay unique.
    changing: Arc<tokio::sync::Mutex<()>>,
}

/// Counters of new bundles and changed topics. An increase wakes the tasks that wait for either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct News {
    /// Number of bundles since the program started.
    pub n_bundles: u64,
    /// Number of created or changed topics since the program started.
    pub n_changes: u64,
}

impl Inference {
    /// Opens the network in `store`. If the store is empty, creates a network at height 1. Several
    /// services can use the same PostgreSQL database at the same time. No epoch opens or closes in a
    /// read-only database.
    ///
    /// # Errors
    /// [`InferenceError::Topic`] if a topic of `options` is invalid, [`InferenceError::Store`] if the
    /// store cannot be opened, or if it is read-only and empty.
    pub async fn open(
        store: impl Into<StorePlace>,
        clock: Clock,
        options: InferenceOptions,
    ) -> Result<Self> {
        for topic in &options.topics {
            topic.check()?;
        }
        let store = store.into();
        let open = move || NetworkState::open(Store::open(&store)?, clock, &options);
        Ok(Self { shared: Arc::new(blocking(open).await?) })
    }

    /// Returns the clock of the chain.
    pub fn chain(&self) -> &Chain {
        &self.shared.chain
    }

    /// Stores `payload` from `sender`, a worker of the network itself. The payload is durable once this
    /// function returns.
    ///
    /// # Errors
    /// [`InferenceError`] with the reason if the payload is rejected.
    pub async fn submit(&self, sender: Sender, payload: Payload) -> Result<()> {
        self.submit_of(Origin::NETWORK, sender, payload).await
    }

    /// Stores `payload` from `origin`, or only validates it if `origin` is a dry run. Counts the
    /// outcome in the metrics.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub async fn submit_of(&self, origin: Origin, sender: Sender, payload: Payload) -> Result<()> {
        let submitted = self.take_submission(origin, sender, payload).await;
        self.shared.metrics.add(metrics::SUBMISSIONS, &[metrics::outcome(&submitted)]);
        submitted
    }

    async fn take_submission(
        &self,
        origin: Origin,
        sender: Sender,
        payload: Payload,
    ) -> Result<()> {
        let Sender { topic, nonce, worker, name } = sender;
        let submitter = origin.submitter;
        let settings = self.find_topic(topic)?;
        let is_open = is_open(settings.timing, nonce, self.shared.chain.height());
        if is_open && submitter != Submitter::Network && !settings.whitelist.admits(&worker) {
            return Err(InferenceError::NotWhitelisted { topic, worker });
        }
        let submission = match Submission::checked(&settings, worker, name, payload) {
            Err(_) if !is_open => return Err(InferenceError::NotOpen(nonce)),
            checked => checked?,
        };
        let is_trusted = submitter.is_operators() || settings.whitelist.is_enabled;
        let submitted = self.with_store(move |shared| {
            // Accepts a payload that is already stored: a client that did not receive the response
            // submits it again, possibly after the window.
            let or_kept = |outcome, submission: &Submission| {
                let is_kept = shared.store.has_submission(topic, nonce, submission)?;
                Ok(if is_kept { SubmitOutcome::Taken } else { outcome })
            };
            if !is_open {
                return or_kept(SubmitOutcome::NotOpen, &submission);
            }
            let record = if is_trusted {
                Record::Trusted
            } else if shared.load_learned(topic)?.learned.is_scored(&submission.worker) {
                Record::Scored
            } else {
                Record::Newcomer
            };
            let origin = Origin { record, ..origin };
            let now = shared.chain.now();
            match shared.store.submit(topic, nonce, submission.clone(), origin, now)? {
                SubmitOutcome::Repeated => or_kept(SubmitOutcome::Repeated, &submission),
                outcome => Ok(outcome),
            }
        });
        match submitted.await? {
            SubmitOutcome::Taken => Ok(()),
            SubmitOutcome::Repeated => Err(InferenceError::Repeated(nonce)),
            SubmitOutcome::NotOpen => Err(InferenceError::NotOpen(nonce)),
            SubmitOutcome::Full { limit } => Err(InferenceError::Full { nonce, limit }),
        }
    }

    /// Opens the epoch `nonce` of `topic`. Returns false if the topic already has this epoch, a
    /// later epoch, or an epoch that opened less than an epoch length before.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn open_epoch(&self, topic: TopicId, nonce: BlockHeight) -> Result<bool> {
        let epoch_length = self.find_topic(topic)?.timing.epoch_length;
        self.with_store(move |shared| {
            let now = shared.chain.now();
            let opened = shared.store.open_epoch(topic, nonce, epoch_length, now)?;
            shared.cache.change(topic, |entry| entry.progress = None);
            Ok(opened)
        })
        .await
    }

    /// Closes the epoch `nonce` of `topic` and stores its bundle. Returns true if it was open. Epochs
    /// without inferences close without a bundle, which is logged.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn close(&self, topic: TopicId, nonce: BlockHeight) -> Result<bool> {
        let (settings, began) = (self.find_topic(topic)?, Instant::now());
        let closed = self.with_store(move |shared| {
            let options = shared.end_options(&settings);
            let make = move |closable: CloseInput| closing(&settings, nonce, closable);
            let closed = shared.store.close(topic, nonce, options, make)?;
            let was_open = closed.is_some();
            shared.cache.change(topic, |entry| entry.close(closed));
            Ok(was_open)
        });
        let closed = closed.await?;
        if closed {
            self.shared.metrics.observe(metrics::CLOSE, &[], began.elapsed());
            self.shared.news.send_modify(|news| news.n_bundles += 1);
        }
        Ok(closed)
    }

    /// Learns from the epoch `nonce` of `topic` with its ground truth `outcome`. If `outcome` is
    /// `None`, the epoch ends without having been learned from. Returns true if the epoch was closed
    /// and had not been learned from before.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn learn(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        outcome: Option<f64>,
    ) -> Result<bool> {
        let (settings, began) = (self.find_topic(topic)?, Instant::now());
        let inference = self.clone();
        let learned = self.with_store(move |shared| {
            let input = shared.store.input(topic, nonce)?;
            let options = shared.end_options(&settings);
            let learned = shared.store.learn(topic, nonce, options, move |bundle, learned| {
                lesson(&inference, &settings, bundle, learned, input.zip(outcome))
            })?;
            let was_closed = learned.is_some();
            shared.cache.change(topic, |entry| entry.learn(learned));
            Ok(was_closed)
        });
        let learned = learned.await?;
        if learned {
            self.shared.metrics.observe(metrics::LEARN, &[], began.elapsed());
        }
        Ok(learned)
    }

    /// Stores `input` as the input of the epoch `nonce` of `topic`.
    ///
    /// # Errors
    /// [`InferenceError`] if the store fails.
    pub async fn put_input(&self, topic: TopicId, nonce: BlockHeight, input: Input) -> Result<()> {
        self.with_store(move |shared| Ok(shared.store.put_input(topic, nonce, input)?)).await
    }

    /// Returns the retention of `topic`'s epochs.
    pub fn retention_of(&self, topic: &Topic) -> Retention {
        self.shared.retention_of(topic)
    }

    /// Returns the totals of `topic`'s closed epochs.
    ///
    /// # Errors
    /// [`InferenceError`] if the store fails.
    pub async fn holdings(&self, topic: TopicId) -> Result<EpochTotals> {
        self.with_store(move |shared| Ok(shared.store.holdings(topic)?)).await
    }

    /// Checks that the store can be written.
    ///
    /// # Errors
    /// [`InferenceError::Store`] if it cannot.
    pub async fn check_file(&self) -> Result<()> {
        self.with_store(|shared| Ok(shared.store.check()?)).await
    }

    /// Returns true if the store is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.shared.store.is_read_only()
    }

    /// Returns the topic with the id `topic`.
    ///
    /// # Errors
    /// [`InferenceError::UnknownTopic`] if it does not exist.
    pub fn find_topic(&self, topic: TopicId) -> Result<Arc<Topic>> {
        self.topic(topic).ok_or(InferenceError::UnknownTopic(topic))
    }

    /// Limits the database file to `n_pages`, to simulate a full disk.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, n_pages: u32) {
        self.shared.store.limit_pages(n_pages);
    }

    /// Runs `read` on a blocking thread if `topic` exists.
    async fn read<T: Send + 'static>(
        &self,
        topic: TopicId,
        read: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T> {
        self.find_topic(topic)?;
        self.with_store(move |shared| Ok(read(&shared.store)?)).await
    }

    /// Returns the cached value in `slot` of `topic`, or loads it on a blocking thread. First applies
    /// the changes that other services made in a shared database.
    async fn cached<T: Clone + Send + 'static>(
        &self,
        topic: TopicId,
        slot: fn(&mut CachedTopic) -> &mut Option<T>,
        load: fn(&NetworkState, TopicId) -> Result<T>,
    ) -> Result<T> {
        if self.shared.store.is_shared() {
            let catch_up_and_load = move |shared: &NetworkState| {
                shared.catch_up(topic)?;
                load(shared, topic)
            };
            return self.with_store(catch_up_and_load).await;
        }
        self.recent(topic, slot, load).await
    }

    /// Returns the same value as [`Self::cached`], but possibly without the latest changes by other
    /// services, since a cached value is not checked against the database.
    async fn recent<T: Clone + Send + 'static>(
        &self,
        topic: TopicId,
        slot: fn(&mut CachedTopic) -> &mut Option<T>,
        load: fn(&NetworkState, TopicId) -> Result<T>,
    ) -> Result<T> {
        match slot(&mut self.shared.cache.get(topic)).take() {
            Some(known) => Ok(known),
            None => self.with_store(move |shared| load(shared, topic)).await,
        }
    }

    /// Runs `work`, which can access the store, on a blocking thread.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&NetworkState) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        blocking(move || work(&shared)).await
    }
}

impl NetworkState {
    fn open(store: Store, clock: Clock, options: &InferenceOptions) -> Result<Self> {
        // All services of a shared database use the database's clock and block time.
        let shared_at = store.versions()?.map(|versions| versions.at);
        let now = shared_at.filter(|_| !clock.is_manual()).unwrap_or_else(|| clock.now());
        let starting = Blocks::starting(now, options.block_time);
        let is_read_only = store.is_read_only();
        let stored = match store.blocks()? {
            Some(blocks) if is_read_only => blocks,
            Some(blocks) if shared_at.is_none() => blocks.paced(now, options.block_time),
            _ => store.begin(starting)?,
        };
        if stored.block_time != starting.block_time {
            let (kept, asked) = (stored.block_time, starting.block_time);
            warn!(
                "the block time of the chain in the database remains {kept:?}, and {asked:?} is not used"
            );
        }
        let blocks = stored.at_least(now, store.newest_nonce()?.unwrap_or_default());
        if blocks != stored {
            let height = blocks.height(now);
            warn!(height, "the clock is behind the latest epoch: heights continue from {height}");
        }
        if !is_read_only {
            store.put_blocks(blocks)?;
            TopicList::put(&store, &options.topics)?;
        }
        let topics = TopicList::read(&store)?;
        topics.warn_of_horizons(blocks.block_time);
        let topics = RwLock::new(topics);
        let date = SteadyDate::after_start(clock.clone()).into();
        let chain = Chain::new(clock, blocks);
        if let Some(at) = shared_at {
            chain.follow(at, blocks);
        }
        Ok(Self {
            store,
            chain,
            retention: options.retention,
            date,
            topics,
            reading_list: Mutex::default(),
            cache: Cache::default(),
            conditions: Conditions::default(),
            news: watch::Sender::new(News::default()),
            metrics: metrics::new(),
            changing: Arc::default(),
        })
    }

    /// Returns the state that `topic` has learned, from the cache if it has not changed since.
    fn load_learned(&self, topic: TopicId) -> Result<StoredLearned> {
        let before = self.cache.get(topic);
        let read = || Ok(self.store.learned(topic, before.last_known())?);
        self.cache.load(topic, |entry| &mut entry.known, read)
    }

    /// Returns the options for ending an epoch of `topic` now.
    fn end_options(&self, topic: &Topic) -> EndOptions {
        let (at, retention) = (self.chain.now(), self.retention_of(topic));
        let date = self.date.lock().read().min(at);
        EndOptions { at, date, retention, known: self.cache.get(topic.id).last_known().cloned() }
    }

    /// Returns the retention of `topic`'s epochs.
    fn retention_of(&self, topic: &Topic) -> Retention {
        let Keep { bytes, days } = topic.keep;
        Retention {
            bytes: bytes.unwrap_or(self.retention.bytes),
            age: days.map(|days| DAY * days).or(self.retention.age),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(InferenceError::Stopped),
    }
}

#[cfg(test)]
mod tests;
