//! Compiled modules, kept while there is room.

use std::{collections::HashMap, hash::Hash};

use parking_lot::Mutex;

/// How much a cache keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    /// How many values.
    pub(crate) n_values_max: usize,
    /// How many bytes they may take together.
    pub(crate) bytes_max: usize,
}

/// A bounded map. When full, it evicts what was asked for least recently.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    capacity: Capacity,
    state: Mutex<State<K, V>>,
}

#[derive(Debug)]
struct State<K, V> {
    entries: HashMap<K, Entry<V>>,
    n_uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    last_use: u64,
}

impl<K: Eq + Hash + Copy, V: Clone> Cache<K, V> {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { capacity, state: Mutex::new(State { entries: HashMap::new(), n_uses: 0 }) }
    }

    /// Returns the value of `key` if it is there.
    pub(crate) fn get(&self, key: K) -> Option<V> {
        let mut state = self.state.lock();
        let last_use = state.next_use();
        let entry = state.entries.get_mut(&key)?;
        entry.last_use = last_use;
        Some(entry.value.clone())
    }

    /// Keeps a value that takes `bytes`, which then may be evicted at once.
    pub(crate) fn put(&self, key: K, value: V, bytes: usize) {
        let mut state = self.state.lock();
        let last_use = state.next_use();
        state.entries.insert(key, Entry { value, bytes, last_use });
        state.shrink_to(self.capacity);
    }
}

impl<K: Eq + Hash + Copy, V> State<K, V> {
    fn next_use(&mut self) -> u64 {
        self.n_uses += 1;
        self.n_uses
    }

    /// Evicts the values asked for least recently until the others fit.
    fn shrink_to(&mut self, capacity: Capacity) {
        loop {
            let bytes: usize = self.entries.values().map(|entry| entry.bytes).sum();
            if self.entries.len() <= capacity.n_values_max && bytes <= capacity.bytes_max {
                return;
            }
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_use);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { return };
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
