//! A cache of valid keys, emptied when another process changes the file.

use std::{collections::HashSet, num::NonZeroUsize, time::Duration};

use lru::LruCache;
use model::key::KeyId;
use tokio::time::Instant;

use crate::key::{KeyHash, Verified};

/// Keys cached at a time; a key takes some 150 bytes.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// How long an answer from memory may differ from the file. Short enough that revoking feels
/// immediate, long enough that a busy client costs ten looks at the file a second.
const FRESH_FOR: Duration = Duration::from_millis(100);

/// Good keys by their hash, and when the file was last seen unchanged.
#[derive(Debug)]
pub(crate) struct Cache {
    keys: LruCache<KeyHash, Verified>,
    checked: Option<(i64, Instant)>,
    /// Keys that were used since [`Self::take_used`] was last called.
    used: HashSet<KeyId>,
}

impl Default for Cache {
    fn default() -> Self {
        Self { keys: LruCache::new(CAPACITY), checked: None, used: HashSet::new() }
    }
}

impl Cache {
    /// The key, if the file was checked less than [`FRESH_FOR`] ago.
    pub(crate) fn get_fresh(&mut self, hash: &KeyHash, now: Instant) -> Option<Verified> {
        let (_, checked) = self.checked?;
        if now.saturating_duration_since(checked) < FRESH_FOR { self.get(hash) } else { None }
    }

    /// The key, as it was when the file was last checked.
    pub(crate) fn get(&mut self, hash: &KeyHash) -> Option<Verified> {
        let key = *self.keys.get(hash)?;
        self.used.insert(key.id);
        Some(key)
    }

    /// Whether the key was good recently.
    pub(crate) fn contains(&self, hash: &KeyHash) -> bool {
        self.keys.contains(hash)
    }

    /// Notes that the file was at `version` at `now`. After another version, all keys are forgotten:
    /// another process changed the file.
    pub(crate) fn note_version(&mut self, version: i64, now: Instant) {
        if self.checked.is_some_and(|(known, _)| known != version) {
            self.clear();
        }
        self.checked = Some((version, now));
    }

    pub(crate) fn insert(&mut self, hash: KeyHash, key: Verified) {
        self.used.insert(key.id);
        self.keys.put(hash, key);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
    }

    /// The keys that were used since this was last called.
    pub(crate) fn take_used(&mut self) -> HashSet<KeyId> {
        std::mem::take(&mut self.used)
    }
}
