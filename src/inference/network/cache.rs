//! Cache of frequently read data of each topic.
//!
//! An entry has the number of changes of its topic as part of its key. Data that was read while the
//! topic changed is stored under an outdated number and evicted.
//!
//! Before cached data of a database is returned, it is checked for changes by other services. For streams
//! and runners, the database is polled. A file is used by a single service and is not checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::topic::{BlockHeight, TopicId};
use parking_lot::{Mutex, ReentrantMutex};
use task::cache::{self, Capacity};
use task::causes::chain;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::network::epoch::EpochProgress;
use crate::network::queries::TopicActors;
use crate::network::topic::Topic;
use crate::network::topics::{TOPICS_MAX, TopicList};
use crate::store::{Bundles, StoredLearned};
use crate::{Inference, InferenceError, NetworkState, Result};

/// Cached data of a topic. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedTopic {
    /// Number of changes of the topic when the data was read.
    n_changes: u64,
    /// Progress of its epochs.
    pub progress: Option<Arc<EpochProgress>>,
    /// Latest bundle.
    pub bundles: Option<Arc<Bundles>>,
    /// Actors of the latest bundle.
    pub actors: Option<Arc<TopicActors>>,
    /// Learned state.
    pub known: Option<StoredLearned>,
    /// Learned state before the last change by another service, which might still be current.
    pub known_before: Option<StoredLearned>,
}

/// Entries by topic.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Change counter of each topic. The lock is held while an entry is replaced.
    changes: Mutex<BTreeMap<TopicId, Changes>>,
    entries: cache::Cache<(TopicId, u64), CachedTopic>,
    loading: ReentrantMutex<()>,
}

/// Change counter of a topic.
#[derive(Debug, Clone, Copy, Default)]
struct Changes {
    /// Number of changes.
    n: u64,
    /// Version of the topic in a shared store when it was last checked.
    version: i64,
}

impl Default for Cache {
    fn default() -> Self {
        // Each topic has space for an outdated entry in addition to the current one. The size is that
        // of learned regrets and latest bundles: some
        // twenty topics of a thousand inferers and fifty forecasters, or thousands with a dozen
        // actors.
        let entries =
            cache::Cache::new(Capacity { n_values_max: 2 * TOPICS_MAX, bytes_max: 64 << 20 });
        Self { changes: Mutex::default(), entries, loading: ReentrantMutex::default() }
    }
}

impl CachedTopic {
    /// Removes data that changes when an epoch closes. `known` is the new learned state, if the
    /// epoch closed.
    pub(crate) fn close(&mut self, known: Option<StoredLearned>) {
        self.bundles = None;
        self.learn(known);
    }

    /// Removes data that changes with learning. `known` is the new learned state, if any.
    pub(crate) fn learn(&mut self, known: Option<StoredLearned>) {
        (self.progress, self.actors) = (None, None);
        (self.known, self.known_before) = (known, None);
    }

    /// Returns the last known learned state. Callers must check its stamp.
    pub(crate) fn last_known(&self) -> Option<&StoredLearned> {
        self.known.as_ref().or(self.known_before.as_ref())
    }
}

impl Cache {
    /// Returns the entry of `topic`.
    pub(crate) fn get(&self, topic: TopicId) -> CachedTopic {
        let changes = self.changes.lock().get(&topic).copied().unwrap_or_default();
        self.entry(topic, changes.n)
    }

    /// Returns the data in `slot` of `topic`, or loads it with `read`. Only one caller reads at a time,
    /// so that concurrent requests read it once. `read` can load another slot. The result is not cached
    /// if the topic changed in the meantime.
    pub(crate) fn load<T: Clone, E>(
        &self,
        topic: TopicId,
        slot: fn(&mut CachedTopic) -> &mut Option<T>,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(known) = slot(&mut self.get(topic)).take() {
            return Ok(known);
        }
        let _turn = self.loading.lock();
        let mut entry = self.get(topic);
        if let Some(known) = slot(&mut entry).take() {
            return Ok(known);
        }
        let value = read()?;
        let _alone = self.changes.lock();
        let mut entry = self.entry(topic, entry.n_changes);
        *slot(&mut entry) = Some(value.clone());
        self.put(topic, entry);
        Ok(value)
    }

    /// Updates the entry of `topic` with `change`.
    pub(crate) fn change(&self, topic: TopicId, change: impl FnOnce(&mut CachedTopic)) {
        self.replace(topic, self.changes.lock().entry(topic).or_default(), change);
    }

    /// Removes cached data of `topic` unless its version is still `version`. Returns true if it was
    /// removed.
    pub(crate) fn follow(&self, topic: TopicId, version: i64) -> bool {
        let mut changes = self.changes.lock();
        let changes = changes.entry(topic).or_default();
        if changes.version == version {
            return false;
        }
        changes.version = version;
        self.replace(topic, changes, |entry| {
            let known_before = entry.last_known().cloned();
            *entry =
                CachedTopic { n_changes: entry.n_changes, known_before, ..CachedTopic::default() };
        });
        true
    }

    fn replace(
        &self,
        topic: TopicId,
        changes: &mut Changes,
        change: impl FnOnce(&mut CachedTopic),
    ) {
        let mut entry = self.entry(topic, changes.n);
        // The outdated entry is emptied to free memory.
        self.put(topic, CachedTopic { n_changes: changes.n, ..CachedTopic::default() });
        changes.n += 1;
        entry.n_changes = changes.n;
        change(&mut entry);
        self.put(topic, entry);
    }

    fn entry(&self, topic: TopicId, n_changes: u64) -> CachedTopic {
        let entry = self.entries.get(&(topic, n_changes));
        entry.unwrap_or_else(|| CachedTopic { n_changes, ..CachedTopic::default() })
    }

    fn put(&self, topic: TopicId, entry: CachedTopic) {
        let known = entry.last_known().map_or(0, |known| known.learned.n_bytes());
        let n_bytes = known + entry.bundles.as_ref().map_or(0, |bundles| bundles.n_bytes());
        self.entries.put((topic, entry.n_changes), entry, n_bytes);
    }
}

/// Polling interval, which is the maximum delay for streams and runners. Each poll needs two round
/// trips.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Inference {
    /// Reloads the list of topics if another service changed it.
    ///
    /// # Errors
    /// [`InferenceError`] if the database fails.
    pub async fn catch_up(&self) -> Result<()> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(|shared| shared.catch_up_list(shared.store.version(None)?).map(drop)).await
    }

    /// Reloads everything that another service changed.
    pub(crate) async fn catch_up_all(&self) -> Result<()> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(|shared| shared.catch_up_all().map(drop)).await
    }

    /// Reserves running the workers of `topic` for the epoch `nonce`. Returns false if another service
    /// runs them or has run them. The reservation lasts for half of the window.
    pub(crate) async fn reserve_run(&self, topic: &Topic, nonce: BlockHeight) -> Result<bool> {
        if !self.shared.store.is_shared() {
            return Ok(true);
        }
        let (id, n_blocks) = (topic.id, topic.timing.worker_submission_window / 2);
        let n_blocks = u32::try_from(n_blocks).unwrap_or(u32::MAX).max(1);
        self.with_store(move |shared| {
            let now = shared.chain.now();
            let until = now + shared.chain.block_time().saturating_mul(n_blocks);
            Ok(shared.store.reserve_run(id, nonce, now, until)?)
        })
        .await
    }

    /// Records that the workers have run, or releases the reservation.
    pub(crate) async fn end_run(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        is_done: bool,
    ) -> Result<()> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(move |shared| Ok(shared.store.end_run(topic, nonce, is_done)?)).await
    }

    /// Polls for changes by other services until it is dropped and notifies streams and runners.
    pub(crate) async fn follow_services(self) {
        let mut is_lost = false;
        while self.shared.store.is_shared() {
            match self.with_store(NetworkState::catch_up_all).await {
                Ok(has_changed) => {
                    // Steps that failed meanwhile are due again.
                    if has_changed || is_lost {
                        self.shared.news.send_modify(|news| news.n_bundles += 1);
                    }
                    if is_lost {
                        info!("the database of the network can be used again");
                        is_lost = false;
                    }
                }
                Err(InferenceError::Stopped) => return,
                Err(error) if !is_lost => {
                    warn!(cause = chain(&error), "the database of the network cannot be used now");
                    is_lost = true;
                }
                Err(_) => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl NetworkState {
    /// Removes cached data of `topic` if another service changed it.
    pub(crate) fn catch_up(&self, topic: TopicId) -> Result<()> {
        if let Some(version) = self.store.version(Some(topic))? {
            self.cache.follow(topic, version);
        }
        Ok(())
    }

    /// Follows all changes and the clock of the database. Returns true if anything changed.
    fn catch_up_all(&self) -> Result<bool> {
        let Some(versions) = self.store.versions()? else { return Ok(false) };
        if let Some(blocks) = versions.blocks
            && let Some(moved) = self.chain.follow(versions.at, blocks)
        {
            let height = self.chain.height();
            warn!(
                height,
                "the clock of the database was moved back: heights continue from {height}"
            );
            self.store.put_blocks(moved)?;
        }
        let mut has_changed = self.catch_up_list(Some(versions.list))?;
        for (topic, version) in versions.topics {
            has_changed |= self.cache.follow(topic, version);
        }
        Ok(has_changed)
    }

    /// Reloads the list of topics unless it has `version`. Returns true if it was reloaded.
    fn catch_up_list(&self, version: Option<i64>) -> Result<bool> {
        if self.topics.read().version == version {
            return Ok(false);
        }
        let _alone = self.reading_list.lock();
        let list = TopicList::read(&self.store)?;
        if list.version == self.topics.read().version {
            return Ok(false);
        }
        *self.topics.write() = list;
        self.news.send_modify(|news| news.n_changes += 1);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::learned::Learned;

    fn stored(stamp: i64) -> StoredLearned {
        StoredLearned { stamp, learned: Arc::new(Learned::default()) }
    }

    #[test]
    fn data_read_before_a_change_does_not_replace_newer_data() {
        let (cache, topic) = (Cache::default(), TopicId::FIRST);
        let read = cache.load(
            topic,
            |entry| &mut entry.known,
            || {
                cache.change(topic, |entry| entry.known = Some(stored(2)));
                Ok::<_, ()>(stored(1))
            },
        );
        assert_eq!(read.map(|known| known.stamp), Ok(1));
        assert_eq!(cache.get(topic).known.map(|known| known.stamp), Some(2));
    }
}
