//! Cache of frequently read data of each topic.
//!
//! An entry has the number of changes of its topic as part of its key. Data that was read while the
//! topic changed is stored under an outdated number and evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::topic::TopicId;
use parking_lot::{Mutex, ReentrantMutex};
use task::cache::{self, Capacity};

use crate::network::epoch::EpochProgress;
use crate::network::queries::TopicActors;
use crate::network::topics::TOPICS_MAX;
use crate::store::{Bundles, StoredLearned};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::learned::Learned;

    fn stored(stamp: i64) -> StoredLearned {
        StoredLearned { stamp, learned: Arc::new(Learned::default()) }
    }

    #[test]
    fn data_read_before_a_change_is_not_cached_after_it() {
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
