//! Compiled modules, kept while there is room and compiled once however many ask.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;

/// How much a cache keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    /// How many values.
    pub(crate) n_values_max: usize,
    /// How many bytes they may take together.
    pub(crate) bytes_max: usize,
}

/// A bounded map whose values are made on demand. When full, it forgets what was asked for least
/// recently.
#[derive(Debug)]
pub(crate) struct Cache<K, V, E> {
    capacity: Capacity,
    state: Mutex<State<K, V, E>>,
}

type Slot<V, E> = Arc<OnceLock<Result<V, E>>>;

#[derive(Debug)]
struct State<K, V, E> {
    entries: HashMap<K, Entry<V, E>>,
    n_uses: u64,
}

#[derive(Debug)]
struct Entry<V, E> {
    slot: Slot<V, E>,
    /// 0 while the value is being made.
    bytes: usize,
    last_use: u64,
}

impl<K: Eq + Hash + Copy, V: Clone, E: Clone> Cache<K, V, E> {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { capacity, state: Mutex::new(State { entries: HashMap::new(), n_uses: 0 }) }
    }

    /// Returns the value of `key`, made by `make` if there is none yet. Blocks while it is made,
    /// by this caller or by another.
    ///
    /// `weigh` tells the bytes a value takes. One too heavy to be kept is returned all the same.
    ///
    /// # Errors
    /// What `make` failed with, to all who waited for it. A failure is not kept.
    pub(crate) fn get_or_make(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, E>,
        weigh: impl FnOnce(&V) -> usize,
    ) -> Result<V, E> {
        let slot = self.slot(key);
        let made = slot.get_or_init(make).clone();
        let mut state = self.state.lock();
        match &made {
            Ok(value) => {
                if let Some(entry) = state.entry_of(key, &slot)
                    && entry.bytes == 0
                {
                    entry.bytes = weigh(value).max(1);
                    state.shrink_to(self.capacity);
                }
            }
            Err(_) => {
                if state.entry_of(key, &slot).is_some() {
                    state.entries.remove(&key);
                }
            }
        }
        made
    }

    /// Returns the value of `key` if it is there.
    pub(crate) fn get(&self, key: K) -> Option<V> {
        let mut state = self.state.lock();
        state.n_uses += 1;
        let last_use = state.n_uses;
        let entry = state.entries.get_mut(&key)?;
        entry.last_use = last_use;
        entry.slot.get()?.as_ref().ok().cloned()
    }

    fn slot(&self, key: K) -> Slot<V, E> {
        let mut state = self.state.lock();
        state.n_uses += 1;
        let last_use = state.n_uses;
        let entry = state.entries.entry(key).or_insert_with(|| Entry {
            slot: Arc::default(),
            bytes: 0,
            last_use,
        });
        entry.last_use = last_use;
        Arc::clone(&entry.slot)
    }
}

impl<K: Eq + Hash + Copy, V, E> State<K, V, E> {
    /// The entry of `key`, unless another slot took its place meanwhile.
    fn entry_of(&mut self, key: K, slot: &Slot<V, E>) -> Option<&mut Entry<V, E>> {
        self.entries.get_mut(&key).filter(|entry| Arc::ptr_eq(&entry.slot, slot))
    }

    /// Forgets the values asked for least recently until the others fit.
    ///
    /// One that is being made stays: its makers, who are few, wait for it.
    fn shrink_to(&mut self, capacity: Capacity) {
        loop {
            let made = || self.entries.iter().filter(|(_, entry)| entry.bytes > 0);
            let bytes: usize = made().map(|(_, entry)| entry.bytes).sum();
            if made().count() <= capacity.n_values_max && bytes <= capacity.bytes_max {
                return;
            }
            let Some(oldest) = made().min_by_key(|(_, entry)| entry.last_use).map(|(key, _)| *key)
            else {
                return;
            };
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
