//! What is read often of each topic, kept in memory until it changes.
//!
//! A topic's entry is kept under the number of its changes: what was read while the topic changed is
//! kept under a number that nobody asks for, and is evicted.

use std::{collections::BTreeMap, sync::Arc};

use model::topic::TopicId;
use parking_lot::{Mutex, ReentrantMutex};
use task::cache::{self, Capacity};

use crate::{
    network::{epoch::Progress, queries::TopicActors, topics::TOPICS_MAX},
    store::{Bundles, StoredLearned},
};

/// Entries of all topics, each with one of an earlier change. The bytes are those of learned regrets
/// and newest bundles together: some twenty topics of a thousand inferers and fifty forecasters, or
/// thousands of a dozen actors.
const CAPACITY: Capacity = Capacity { n_values_max: 2 * TOPICS_MAX, bytes_max: 64 << 20 };

/// What is kept of one topic. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    /// How often the topic had changed.
    n_changes: u64,
    /// Where its epochs stand.
    pub progress: Option<Arc<Progress>>,
    /// Its newest bundle.
    pub bundles: Option<Arc<Bundles>>,
    /// Who took part in it.
    pub actors: Option<Arc<TopicActors>>,
    /// What it has learned.
    pub known: Option<StoredLearned>,
    /// What it had learned when another service changed something, which may have been this.
    pub known_before: Option<StoredLearned>,
}

/// Entries by topic.
#[derive(Debug)]
pub(crate) struct Cache {
    /// How often each topic has changed; held while an entry is replaced.
    changes: Mutex<BTreeMap<TopicId, Changes>>,
    entries: cache::Cache<(TopicId, u64), Entry>,
    loading: ReentrantMutex<()>,
}

/// The changes of a topic.
#[derive(Debug, Clone, Copy, Default)]
struct Changes {
    /// How many there were.
    n: u64,
    /// The number that the store had for the topic at the last look, where several services change it.
    version: i64,
}

impl Default for Cache {
    fn default() -> Self {
        let entries = cache::Cache::new(CAPACITY);
        Self { changes: Mutex::default(), entries, loading: ReentrantMutex::default() }
    }
}

impl Entry {
    /// Forgets what changes when an epoch closes; `known` is what is learned then, if it did close.
    pub(crate) fn close(&mut self, known: Option<StoredLearned>) {
        self.bundles = None;
        self.learn(known);
    }

    /// Forgets what changes when an epoch is learned from; `known` is what is learned then, if it was.
    pub(crate) fn learn(&mut self, known: Option<StoredLearned>) {
        (self.progress, self.actors) = (None, None);
        (self.known, self.known_before) = (known, None);
    }

    /// What was learned, or had been: to be checked by its stamp.
    pub(crate) fn last_known(&self) -> Option<&StoredLearned> {
        self.known.as_ref().or(self.known_before.as_ref())
    }
}

impl Cache {
    /// What is kept of `topic`.
    pub(crate) fn get(&self, topic: TopicId) -> Entry {
        let changes = self.changes.lock().get(&topic).copied().unwrap_or_default();
        self.entry(topic, changes.n)
    }

    /// What is kept of `topic` in `slot`, read by `read` where it is missing. Only one caller reads at a
    /// time, so that many who ask for the same at once read it once; `read` may load another slot.
    /// What was read is not kept if the topic changed meanwhile.
    pub(crate) fn load<T: Clone, E>(
        &self,
        topic: TopicId,
        slot: fn(&mut Entry) -> &mut Option<T>,
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

    /// Has `change` bring the entry of `topic` to what it is now.
    pub(crate) fn change(&self, topic: TopicId, change: impl FnOnce(&mut Entry)) {
        self.replace(topic, self.changes.lock().entry(topic).or_default(), change);
    }

    /// Has `topic` be read again, unless `version` is what the store had for it at the last look; whether
    /// it was not.
    pub(crate) fn follow(&self, topic: TopicId, version: i64) -> bool {
        let mut changes = self.changes.lock();
        let changes = changes.entry(topic).or_default();
        if changes.version == version {
            return false;
        }
        changes.version = version;
        self.replace(topic, changes, |entry| {
            let known_before = entry.last_known().cloned();
            *entry = Entry { n_changes: entry.n_changes, known_before, ..Entry::default() };
        });
        true
    }

    fn replace(&self, topic: TopicId, changes: &mut Changes, change: impl FnOnce(&mut Entry)) {
        let mut entry = self.entry(topic, changes.n);
        // It takes no more room.
        self.put(topic, Entry { n_changes: changes.n, ..Entry::default() });
        changes.n += 1;
        entry.n_changes = changes.n;
        change(&mut entry);
        self.put(topic, entry);
    }

    fn entry(&self, topic: TopicId, n_changes: u64) -> Entry {
        let entry = self.entries.get(&(topic, n_changes));
        entry.unwrap_or_else(|| Entry { n_changes, ..Entry::default() })
    }

    fn put(&self, topic: TopicId, entry: Entry) {
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
    fn what_was_read_before_a_change_is_not_kept_after_it() {
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
