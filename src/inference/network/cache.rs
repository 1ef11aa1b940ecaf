//! Cache of the frequently read data of each topic.
//!
//! The key of an entry contains the number of changes of the topic. Data that was read while the topic
//! changed is stored under an outdated number, so it is never returned.
//!
//! Several services can change a shared database. Therefore a request first checks whether another
//! service changed the topic, and the database is polled to notify streams and the runner. A file needs
//! no such checks, since only one service uses it.

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
    /// Number of the topic's changes when this data was read.
    n_changes: u64,
    /// Progress of the topic's epochs.
    pub progress: Option<Arc<EpochProgress>>,
    /// Bundles of the latest epoch that has any.
    pub bundles: Option<Arc<Bundles>>,
    /// Actors of the latest bundle.
    pub actors: Option<Arc<TopicActors>>,
    /// Learned state as read from the store.
    pub known: Option<StoredLearned>,
    /// Learned state before the latest change by another service. It can still be current if that
    /// change was unrelated.
    pub known_before: Option<StoredLearned>,
}

/// Entries by topic.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Change counter of each topic. The lock is held while an entry is replaced.
    changes: Mutex<BTreeMap<TopicId, Changes>>,
    entries: cache::Cache<(TopicId, u64), CachedTopic>,
}

/// Change counters of a topic.
#[derive(Debug, Default)]
struct Changes {
    /// Number of changes known to this service.
    n: u64,
    /// Version of the topic in a shared database when it was last checked.
    version: i64,
    /// Held while data of the topic is read.
    loading: Arc<ReentrantMutex<()>>,
}

impl Default for Cache {
    fn default() -> Self {
        // A topic can have an outdated entry in addition to the current entry. The size includes only
        // learned regrets and latest bundles. This size is enough for some twenty topics with a thousand
        // inferers and fifty forecasters, or for thousands of topics with a dozen actors.
        let entries =
            cache::Cache::new(Capacity { n_values_max: 2 * TOPICS_MAX, bytes_max: 64 << 20 });
        Self { changes: Mutex::default(), entries }
    }
}

impl CachedTopic {
    /// Removes the data that changes when an epoch closes or the topic is deleted. `known` is the
    /// learned state after that, or `None` if the topic is deleted, or if the epoch was not open, such as
    /// if another service has closed it.
    pub(crate) fn close(&mut self, known: Option<StoredLearned>) {
        self.bundles = None;
        self.learn(known);
    }

    /// Removes the data that changes with learning. `known` is the new learned state, or `None` if it
    /// must be read again.
    pub(crate) fn learn(&mut self, known: Option<StoredLearned>) {
        (self.progress, self.actors) = (None, None);
        (self.known, self.known_before) = (known, None);
    }

    /// Returns the latest known learned state. It can be outdated, so callers must compare its stamp.
    pub(crate) fn last_known(&self) -> Option<&StoredLearned> {
        self.known.as_ref().or(self.known_before.as_ref())
    }
}

impl Cache {
    /// Returns the entry of `topic`.
    pub(crate) fn get(&self, topic: TopicId) -> CachedTopic {
        let n_changes = self.changes.lock().get(&topic).map_or(0, |changes| changes.n);
        self.entry(topic, n_changes)
    }

    /// Returns the cached data in `slot` of `topic`, or reads and caches it. Only one caller reads data of
    /// a topic at a time, so that concurrent requests for the same data read it once. `read` can itself
    /// load another slot of the topic. If the topic changes during the read, the data is returned but not
    /// cached.
    pub(crate) fn load<T: Clone, E>(
        &self,
        topic: TopicId,
        slot: fn(&mut CachedTopic) -> &mut Option<T>,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(known) = slot(&mut self.get(topic)).take() {
            return Ok(known);
        }
        let loading = Arc::clone(&self.changes.lock().entry(topic).or_default().loading);
        let _turn = loading.lock();
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

    /// Counts a change of `topic` and applies `change` to the cached data.
    pub(crate) fn change(&self, topic: TopicId, change: impl FnOnce(&mut CachedTopic)) {
        self.replace(topic, self.changes.lock().entry(topic).or_default(), change);
    }

    /// Sets the version of `topic` to the database's `version`. If it changed, removes the cached data
    /// and returns true.
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
        // Empties the outdated entry to free memory.
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

/// Interval at which the database is polled: the maximum delay until streams and the runner notice a
/// change by another service. Each poll needs two round trips.
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

    /// Applies all changes by other services: reloads the list of topics and removes outdated cached
    /// data.
    pub(crate) async fn catch_up_all(&self) -> Result<()> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(|shared| shared.catch_up_all().map(drop)).await
    }

    /// Reserves the run of the workers of `topic` for the epoch `nonce`, so that only one service
    /// starts it. Returns false if another service has the reservation or has finished the run. The
    /// reservation expires after half of the window.
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

    /// Records that the run of the workers succeeded, or, if `is_done` is false, releases the
    /// reservation.
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

    /// Polls a shared database for changes by other services and notifies streams and the runner. Runs
    /// until the program stops.
    pub(crate) async fn follow_services(self) {
        let mut is_lost = false;
        while self.shared.store.is_shared() {
            match self.with_store(NetworkState::catch_up_all).await {
                Ok(has_changed) => {
                    // Also wakes the runner after an outage, since the steps that failed during the
                    // outage are still due.
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
    /// Removes the cached data of `topic` if another service changed the topic.
    pub(crate) fn catch_up(&self, topic: TopicId) -> Result<()> {
        if let Some(version) = self.store.version(Some(topic))? {
            self.cache.follow(topic, version);
        }
        Ok(())
    }

    /// Applies all changes by other services and adopts the database's clock. Returns true if another
    /// service changed anything.
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

    /// Reloads the list of topics if its version differs from `version`. Returns true if the list
    /// changed.
    fn catch_up_list(&self, version: Option<i64>) -> Result<bool> {
        if self.topics.read().version == version {
            return Ok(false);
        }
        let _alone = self.reading_list.lock();
        let before = self.topics.read().version;
        let list = TopicList::read(&self.store)?;
        let mut topics = self.topics.write();
        // A change by this service during the read can be missing in the list that was read. In this
        // case, changes by others are read at the next check.
        if topics.version != before || topics.version == list.version {
            return Ok(false);
        }
        *topics = list;
        drop(topics);
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
    fn data_read_before_a_change_does_not_replace_newer_cached_data() {
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
