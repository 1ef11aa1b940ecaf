//! Keys known to be good, for as long as nobody can have revoked them.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use model::key::KeyId;
use tokio::time::Instant;

use crate::key::{KeyHash, Verified};

/// Keys remembered at a time. One more empties the cache, which fills again from the file; a key
/// takes some 150 bytes.
const CAPACITY: usize = 10_000;

/// How long an answer from memory may differ from the file. Short enough that revoking feels
/// immediate, long enough that a busy client costs ten looks at the file a second.
const FRESH_FOR: Duration = Duration::from_millis(100);

/// Good keys by their hash, and when the file was last seen unchanged.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    keys: HashMap<KeyHash, Entry>,
    checked: Option<(i64, Instant)>,
    /// Keys that were used since this was last asked, and are no longer among `keys`.
    used: HashSet<KeyId>,
}

#[derive(Debug)]
struct Entry {
    key: Verified,
    is_used: bool,
}

impl Cache {
    /// The key, if the file was checked less than [`FRESH_FOR`] ago.
    pub(crate) fn get_fresh(&mut self, hash: &KeyHash, now: Instant) -> Option<Verified> {
        let (_, looked) = self.checked?;
        if now.saturating_duration_since(looked) < FRESH_FOR { self.get(hash) } else { None }
    }

    /// The key, as it was when the file was last looked at.
    pub(crate) fn get(&mut self, hash: &KeyHash) -> Option<Verified> {
        let entry = self.keys.get_mut(hash)?;
        entry.is_used = true;
        Some(entry.key)
    }

    /// Whether the key was good a short while ago.
    pub(crate) fn contains(&self, hash: &KeyHash) -> bool {
        self.keys.contains_key(hash)
    }

    /// Takes note that the file was at `version` at `now`. If it was at another before, another
    /// process changed it, and all is forgotten.
    pub(crate) fn note_version(&mut self, version: i64, now: Instant) {
        if self.checked.is_some_and(|(known, _)| known != version) {
            self.clear();
        }
        self.checked = Some((version, now));
    }

    pub(crate) fn insert(&mut self, hash: KeyHash, key: Verified) {
        if self.keys.len() >= CAPACITY {
            self.clear();
        }
        self.keys.insert(hash, Entry { key, is_used: true });
    }

    pub(crate) fn clear(&mut self) {
        let used = self.keys.drain().filter(|(_, entry)| entry.is_used);
        self.used.extend(used.map(|(_, entry)| entry.key.id));
    }

    /// The keys that were used since this was last asked.
    pub(crate) fn take_used(&mut self) -> HashSet<KeyId> {
        let mut used = std::mem::take(&mut self.used);
        for entry in self.keys.values_mut().filter(|entry| entry.is_used) {
            entry.is_used = false;
            used.insert(entry.key.id);
        }
        used
    }
}
