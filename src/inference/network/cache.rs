//! What is read often of each topic, kept in memory until it changes.
//!
//! What was read while a topic changed is not kept. All that is kept takes [`BYTES_MAX`] at most;
//! past it, what was asked for longest ago goes first.

use std::{collections::BTreeMap, sync::Arc};

use model::topic::TopicId;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    network::{epoch::Progress, overview::TopicActors},
    store::{Bundles, StoredLearned},
};

/// The most bytes that learned regrets and newest bundles take together: some twenty topics of a
/// thousand inferers and fifty forecasters, or thousands of a dozen actors.
const BYTES_MAX: usize = 64 << 20;

/// What is kept of one topic. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    /// Grows with every change of the topic.
    n_changes: u64,
    /// When it was asked for last, counted in requests.
    used: u64,
    /// About how many bytes it takes.
    n_bytes: usize,
    /// Where its epochs stand.
    pub progress: Option<Arc<Progress>>,
    /// Its newest bundle.
    pub bundles: Option<Arc<Bundles>>,
    /// Who took part in it.
    pub actors: Option<Arc<TopicActors>>,
    /// What it has learned.
    pub known: Option<StoredLearned>,
}

/// Entries by topic.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: Mutex<Entries>,
    loading: Mutex<()>,
}

#[derive(Debug, Default)]
struct Entries {
    by_topic: BTreeMap<TopicId, Entry>,
    n_requests: u64,
    /// The bytes of all entries.
    n_bytes: usize,
}

impl Entry {
    /// Forgets what changes when an epoch closes; `known` is what is learned then, if it did close.
    pub(crate) fn close(&mut self, known: Option<StoredLearned>) {
        self.bundles = None;
        self.learn(known);
    }

    /// Forgets what changes when an epoch is learned from; `known` is what is learned then, if it was.
    pub(crate) fn learn(&mut self, known: Option<StoredLearned>) {
        (self.progress, self.actors, self.known) = (None, None, known);
    }

    fn weigh(&mut self) {
        let known = self.known.as_ref().map_or(0, |known| known.learned.n_bytes());
        self.n_bytes = known + self.bundles.as_ref().map_or(0, |bundles| bundles.n_bytes());
    }
}

impl Cache {
    /// What is kept of `topic`.
    pub(crate) fn get(&self, topic: TopicId) -> Entry {
        let mut entries = self.entries.lock();
        entries.n_requests += 1;
        let used = entries.n_requests;
        let entry = entries.by_topic.entry(topic).or_default();
        entry.used = used;
        entry.clone()
    }

    /// Lets one caller read from the file for the cache at a time, so that many who ask for the same
    /// at once read it once.
    pub(crate) fn load(&self) -> MutexGuard<'_, ()> {
        self.loading.lock()
    }

    /// Keeps what `put` adds to the entry of `topic`, unless the topic changed since `read` was got.
    pub(crate) fn keep(&self, topic: TopicId, read: &Entry, put: impl FnOnce(&mut Entry)) {
        let mut entries = self.entries.lock();
        let entry = entries.by_topic.entry(topic).or_default();
        if entry.n_changes == read.n_changes {
            put(entry);
            entries.shrink(topic);
        }
    }

    /// Has `change` bring the entry of `topic` to what it is now.
    pub(crate) fn change(&self, topic: TopicId, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.entries.lock();
        let entry = entries.by_topic.entry(topic).or_default();
        entry.n_changes += 1;
        change(entry);
        entries.shrink(topic);
    }

    /// Forgets `topic`, which is no more.
    pub(crate) fn forget(&self, topic: TopicId) {
        let mut entries = self.entries.lock();
        let gone = entries.by_topic.remove(&topic);
        entries.n_bytes -= gone.map_or(0, |entry| entry.n_bytes);
    }
}

impl Entries {
    /// Weighs the entry of `newest` again, and makes room, but not at its cost.
    fn shrink(&mut self, newest: TopicId) {
        if let Some(entry) = self.by_topic.get_mut(&newest) {
            self.n_bytes -= entry.n_bytes;
            entry.weigh();
            self.n_bytes += entry.n_bytes;
        }
        while self.n_bytes > BYTES_MAX {
            let others = self.by_topic.iter_mut().filter(|(topic, _)| **topic != newest);
            let large = others.map(|(_, entry)| entry).filter(|entry| entry.n_bytes > 0);
            let Some(oldest) = large.min_by_key(|entry| entry.used) else { return };
            self.n_bytes -= oldest.n_bytes;
            *oldest = Entry { known: None, bundles: None, n_bytes: 0, ..oldest.clone() };
        }
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
        let read = cache.get(topic);
        cache.change(topic, |entry| entry.known = Some(stored(2)));
        cache.keep(topic, &read, |entry| entry.known = Some(stored(1)));
        assert_eq!(cache.get(topic).known.map(|known| known.stamp), Some(2));
    }
}
