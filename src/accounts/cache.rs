//! A cache of valid keys, emptied when another process changes what is stored of them.

use std::{collections::HashSet, num::NonZeroUsize, time::Duration};

use lru::LruCache;
use model::key::KeyId;
use tokio::time::Instant;

use crate::key::{KeyHash, Verified};

/// Keys cached at a time; a key takes some 150 bytes.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// How long an answer from memory may differ from the store. Short enough that revoking feels
/// immediate, long enough that a busy service asks its store ten times a second.
const FRESH_FOR: Duration = Duration::from_millis(100);

/// Good keys by their hash, and when they were last known to be what is stored.
#[derive(Debug)]
pub(crate) struct Cache {
    keys: LruCache<KeyHash, Verified>,
    checked: Option<Snapshot>,
    /// When this process last changed keys. What was read before that is not remembered.
    cleared: Option<Instant>,
    /// When the store last did not answer.
    failed: Option<Instant>,
    /// Keys that were used since [`Self::take_used`] was last called.
    used: HashSet<KeyId>,
}

/// The state of the store that an answer shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    /// Another number after any change of keys.
    pub(crate) version: i64,
    /// When the store was asked: it is no older than that.
    pub(crate) started: Instant,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            keys: LruCache::new(CAPACITY),
            checked: None,
            cleared: None,
            failed: None,
            used: HashSet::new(),
        }
    }
}

impl Cache {
    /// The key for a request that arrived at `arrived`, if the store was asked less than
    /// [`FRESH_FOR`] before, or after.
    pub(crate) fn get_fresh(&mut self, hash: &KeyHash, arrived: Instant) -> Option<Verified> {
        let started = self.checked?.started;
        if arrived.saturating_duration_since(started) >= FRESH_FOR {
            return None;
        }
        let key = *self.keys.get(hash)?;
        self.used.insert(key.id);
        Some(key)
    }

    /// Whether the key was good recently.
    pub(crate) fn contains(&self, hash: &KeyHash) -> bool {
        self.keys.contains(hash)
    }

    /// Adds a key as `snapshot` shows it. Where that has another version than the last one, all others
    /// are forgotten; what may be older than the last one is not added.
    pub(crate) fn insert(&mut self, hash: KeyHash, key: Verified, snapshot: Snapshot) {
        self.used.insert(key.id);
        let Snapshot { version, mut started } = snapshot;
        if self.cleared.is_some_and(|cleared| started < cleared) {
            return;
        }
        if let Some(last) = self.checked {
            if last.version == version {
                started = started.max(last.started);
            } else if started < last.started {
                return;
            } else {
                self.keys.clear();
            }
        }
        self.checked = Some(Snapshot { version, started });
        self.keys.put(hash, key);
    }

    /// Forgets a key that is not good any more.
    pub(crate) fn remove(&mut self, hash: &KeyHash) {
        self.keys.pop(hash);
    }

    /// Forgets all keys, since this process changed some by `now`.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.keys.clear();
        self.cleared = Some(now);
    }

    /// Notes that the store did not answer by `now`.
    pub(crate) fn note_failure(&mut self, now: Instant) {
        self.failed = Some(now);
    }

    /// Whether the store failed to answer at `arrived` or later.
    pub(crate) fn has_failed_since(&self, arrived: Instant) -> bool {
        self.failed.is_some_and(|failed| failed >= arrived)
    }

    /// The keys that were used since this was last called.
    pub(crate) fn take_used(&mut self) -> HashSet<KeyId> {
        std::mem::take(&mut self.used)
    }
}
