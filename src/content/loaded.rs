//! Content in memory: what was read and checked lately, so that each run need not do it again.

use std::collections::BTreeMap;

/// The most content held in memory, in bytes: the demo functions many times over, one largest one.
/// What was used longest ago goes first.
const LOADED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Content by what names it, in whatever form its user needs, with the order of its last use.
#[derive(Debug)]
pub struct Loaded<K, C> {
    contents: BTreeMap<K, Entry<C>>,
    n_uses: u64,
    n_bytes: usize,
}

#[derive(Debug)]
struct Entry<C> {
    content: C,
    n_bytes: usize,
    used: u64,
}

impl<K, C> Default for Loaded<K, C> {
    fn default() -> Self {
        Self { contents: BTreeMap::new(), n_uses: 0, n_bytes: 0 }
    }
}

impl<K: Ord + Clone, C: Clone> Loaded<K, C> {
    /// Returns the content that `key` names if it is held.
    pub fn get(&mut self, key: &K) -> Option<C> {
        let entry = self.contents.get_mut(key)?;
        self.n_uses += 1;
        entry.used = self.n_uses;
        Some(entry.content.clone())
    }

    /// Holds the content that `key` names, `n_bytes` long, letting go of others where there is no
    /// room.
    pub fn put(&mut self, key: K, content: C, n_bytes: usize) {
        self.forget(&key);
        if n_bytes > LOADED_BYTES_MAX {
            return;
        }
        while self.n_bytes + n_bytes > LOADED_BYTES_MAX {
            let oldest = self.contents.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.forget(&oldest);
        }
        self.n_uses += 1;
        self.n_bytes += n_bytes;
        self.contents.insert(key, Entry { content, n_bytes, used: self.n_uses });
    }

    /// Lets go of the content that `key` names.
    pub fn forget(&mut self, key: &K) {
        if let Some(entry) = self.contents.remove(key) {
            self.n_bytes -= entry.n_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use model::function::FunctionId;

    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let third = LOADED_BYTES_MAX / 3;
        let ids: Vec<FunctionId> = (0..4_u8).map(|n| FunctionId::from_module(&[n])).collect();
        let mut loaded = Loaded::default();
        for id in &ids[..3] {
            loaded.put(*id, (), third);
        }
        assert!(loaded.get(&ids[0]).is_some());
        loaded.put(ids[3], (), third);
        let held: Vec<bool> = ids.iter().map(|id| loaded.get(id).is_some()).collect();
        assert_eq!(held, [true, false, true, true]);
    }
}
