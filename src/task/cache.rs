//! An LRU cache with a maximum number of values and a maximum number of bytes.

use std::hash::Hash;

use lru::LruCache;
use parking_lot::Mutex;

/// Limits of a [`Cache`].
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// Maximum number of values.
    pub n_values_max: usize,
    /// Maximum total size of the values, in bytes.
    pub bytes_max: usize,
}

/// A map that evicts the least recently used values to stay within its capacity. The caller states
/// the size of each value.
#[derive(Debug)]
pub struct Cache<K: Eq + Hash, V> {
    capacity: Capacity,
    state: Mutex<CacheState<K, V>>,
}

#[derive(Debug)]
struct CacheState<K: Eq + Hash, V> {
    /// Values, each with its size in bytes.
    entries: LruCache<K, (V, usize)>,
    n_bytes: usize,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        let state = CacheState { entries: LruCache::unbounded(), n_bytes: 0 };
        Self { capacity, state: Mutex::new(state) }
    }

    /// Returns the number of values in the cache.
    pub fn n_values(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// Returns the value of `key`, or `None` if it is not cached.
    pub fn get(&self, key: &K) -> Option<V> {
        self.state.lock().entries.get(key).map(|(value, _)| value.clone())
    }

    /// Caches a value with a size of `n_bytes`. A value that is larger than the cache is dropped.
    pub fn put(&self, key: K, value: V, n_bytes: usize) {
        if n_bytes > self.capacity.bytes_max {
            return self.remove(&key);
        }
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

    /// Removes the value of `key`, if it is cached.
    pub fn remove(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some((_, n_bytes)) = state.entries.pop(key) {
            state.n_bytes -= n_bytes;
        }
    }
}

#[cfg(test)]
mod tests;
