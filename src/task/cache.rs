//! The bounded cache: evicts what was used least recently once there are too many values, or they
//! take too many bytes.

use std::hash::Hash;

use lru::LruCache;
use parking_lot::Mutex;

/// How much a cache holds.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// The most values.
    pub n_values_max: usize,
    /// The most bytes of all values together.
    pub bytes_max: usize,
}

/// A bounded map, which counts the bytes of its values.
#[derive(Debug)]
pub struct Cache<K: Eq + Hash, V> {
    capacity: Capacity,
    state: Mutex<State<K, V>>,
}

#[derive(Debug)]
struct State<K: Eq + Hash, V> {
    /// Each value with its bytes.
    entries: LruCache<K, (V, usize)>,
    n_bytes: usize,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        let state = State { entries: LruCache::unbounded(), n_bytes: 0 };
        Self { capacity, state: Mutex::new(state) }
    }

    /// The number of cached values.
    pub fn n_values(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// Returns the value of `key`, if it is cached.
    pub fn get(&self, key: &K) -> Option<V> {
        self.state.lock().entries.get(key).map(|(value, _)| value.clone())
    }

    /// Caches a value of `n_bytes`. One larger than the cache is evicted at once.
    pub fn put(&self, key: K, value: V, n_bytes: usize) {
        let mut state = self.state.lock();
        state.n_bytes += n_bytes;
        if let Some((_, (_, n_bytes))) = state.entries.push(key, (value, n_bytes)) {
            state.n_bytes -= n_bytes;
        }
        let Capacity { n_values_max, bytes_max } = self.capacity;
        while (state.entries.len() > n_values_max || state.n_bytes > bytes_max)
            && let Some((_, (_, n_bytes))) = state.entries.pop_lru()
        {
            state.n_bytes -= n_bytes;
        }
    }

    /// Forgets a value, if it is kept.
    pub fn remove(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some((_, n_bytes)) = state.entries.pop(key) {
            state.n_bytes -= n_bytes;
        }
    }
}

#[cfg(test)]
mod tests;
