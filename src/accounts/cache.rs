//! Cache of valid keys. It is cleared when another process changes the stored keys.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use model::key::KeyId;
use model::timestamp::Timestamp;
use tokio::time::Instant;

use crate::key::{KeyHash, Verified};

/// Maximum number of cached keys. Each key needs about 150 bytes.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Time after which cached keys are checked against the store again. This time is so short that revoking
/// a key seems immediate, but so long that a busy service queries its store at most ten times per
/// second.
const FRESH_FOR: Duration = Duration::from_millis(100);

/// Valid keys, keyed by their hashes.
#[derive(Debug)]
pub(crate) struct Cache {
    keys: LruCache<KeyHash, Verified>,
    /// State of the store when it was last queried.
    checked: Option<Snapshot>,
    /// Time at which this process last changed keys. Results of queries that started before this time
    /// are not cached.
    cleared: Option<Instant>,
    /// Time of the latest query that failed in the store.
    failed: Option<Instant>,
    /// Time of the last use of each key that was used since the last call of [`Self::take_used`].
    used: HashMap<KeyId, Timestamp>,
}

/// State of the store at the time of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    /// Version of the stored keys, which differs after another process changed a key.
    pub(crate) version: i64,
    /// Time at which the query started.
    pub(crate) started: Instant,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            keys: LruCache::new(CAPACITY),
            checked: None,
            cleared: None,
            failed: None,
            used: HashMap::new(),
        }
    }
}

impl Cache {
    /// Returns the cached key if the cache was compared with the store less than [`FRESH_FOR`] before
    /// `arrived`, the time at which the request arrived. `now` is the time of this use of the key.
    pub(crate) fn get_fresh(
        &mut self,
        hash: &KeyHash,
        arrived: Instant,
        now: Timestamp,
    ) -> Option<Verified> {
        let started = self.checked?.started;
        if arrived.saturating_duration_since(started) >= FRESH_FOR {
            return None;
        }
        let key = *self.keys.get(hash)?;
        self.used.insert(key.id, now);
        Some(key)
    }

    /// Returns true if the key is cached, which means that it was valid recently.
    pub(crate) fn contains(&self, hash: &KeyHash) -> bool {
        self.keys.contains(hash)
    }

    /// Caches a key that was found in the store at `snapshot`. If `snapshot` has another version than
    /// the cached keys, removes these keys, since they might have been revoked. Ignores a `snapshot`
    /// that is older than the latest change by this process, or than cached keys with another version.
    /// `now` is the time of this use of the key.
    pub(crate) fn insert(
        &mut self,
        hash: KeyHash,
        key: Verified,
        snapshot: Snapshot,
        now: Timestamp,
    ) {
        self.used.insert(key.id, now);
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

    pub(crate) fn remove(&mut self, hash: &KeyHash) {
        self.keys.pop(hash);
    }

    /// Removes all keys. Must be called immediately after this process changed a stored key. `now` is
    /// the current time.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.keys.clear();
        self.cleared = Some(now);
    }

    /// Records that a query of the store failed. `now` is the current time.
    pub(crate) fn note_failure(&mut self, now: Instant) {
        self.failed = Some(now);
    }

    /// Returns true if a query of the store has failed since `arrived`.
    pub(crate) fn has_failed_since(&self, arrived: Instant) -> bool {
        self.failed.is_some_and(|failed| failed >= arrived)
    }

    /// Returns the time of the last use of the key `id`, or `None` if it was not used since the last call
    /// of [`Self::take_used`].
    pub(crate) fn last_use(&self, id: KeyId) -> Option<Timestamp> {
        self.used.get(&id).copied()
    }

    /// Returns the keys that were used since the previous call, with the times of their last uses.
    pub(crate) fn take_used(&mut self) -> HashMap<KeyId, Timestamp> {
        std::mem::take(&mut self.used)
    }
}
