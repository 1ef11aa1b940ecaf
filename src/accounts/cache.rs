//! Keys known to be good, for as long as nobody can have revoked them.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::key::{KeyHash, KeyId};

/// Keys remembered at a time. One more empties the cache, which fills again from the file; a key
/// takes some 60 bytes.
const CAPACITY: usize = 10_000;

/// How long an answer from memory may differ from the file. Short enough that revoking feels
/// immediate, long enough that a busy client costs ten looks at the file a second.
const FRESH_FOR: Duration = Duration::from_millis(100);

/// Good keys by their hash, and when the file was last seen unchanged.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    ids: HashMap<KeyHash, KeyId>,
    checked: Option<(i64, Instant)>,
}

impl Cache {
    /// The key's number, if the file was looked at a moment ago.
    pub(crate) fn get_fresh(&self, hash: &KeyHash, now: Instant) -> Option<KeyId> {
        let (_, looked) = self.checked?;
        if now.saturating_duration_since(looked) < FRESH_FOR { self.get(hash) } else { None }
    }

    pub(crate) fn get(&self, hash: &KeyHash) -> Option<KeyId> {
        self.ids.get(hash).copied()
    }

    /// Takes note that the file was at `version` at `now`. If it was at another before, another
    /// process changed it, and all is forgotten.
    pub(crate) fn checked(&mut self, version: i64, now: Instant) {
        if self.checked.is_some_and(|(known, _)| known != version) {
            self.ids.clear();
        }
        self.checked = Some((version, now));
    }

    pub(crate) fn insert(&mut self, hash: KeyHash, id: KeyId) {
        if self.ids.len() >= CAPACITY {
            self.ids.clear();
        }
        self.ids.insert(hash, id);
    }

    pub(crate) fn clear(&mut self) {
        self.ids.clear();
    }
}
