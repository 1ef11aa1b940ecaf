//! How many of something each holder has: counted until it is dropped, and bounded by the caller.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;

/// Counts by holder. Cheap to clone; all clones share them. A holder of none takes no memory.
#[derive(Debug)]
pub struct Tally<K>(Arc<Mutex<HashMap<K, usize>>>);

/// One thing that counts for its holder until this is dropped.
#[derive(Debug)]
pub struct Counted<K: Eq + Hash> {
    holder: K,
    tally: Tally<K>,
}

impl<K> Clone for Tally<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> Tally<K> {
    /// Counts one more for `holder`, if `has_room` says so of how many it has and how many others have.
    pub fn add(
        &self,
        holder: &K,
        has_room: impl FnOnce(usize, usize) -> bool,
    ) -> Option<Counted<K>> {
        let mut counts = self.0.lock();
        let n_own = counts.get(holder).copied().unwrap_or_default();
        if !has_room(n_own, counts.values().sum::<usize>() - n_own) {
            return None;
        }
        counts.insert(holder.clone(), n_own + 1);
        Some(Counted { holder: holder.clone(), tally: self.clone() })
    }

    /// How many `holder` has.
    pub fn count(&self, holder: &K) -> usize {
        self.0.lock().get(holder).copied().unwrap_or_default()
    }

    /// How many all have.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.lock().values().sum()
    }
}

impl<K: Eq + Hash> Counted<K> {
    /// Whose it is.
    #[must_use]
    pub const fn holder(&self) -> &K {
        &self.holder
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        let mut counts = self.tally.0.lock();
        if let Some(n_held) = counts.get_mut(&self.holder) {
            *n_held -= 1;
            if *n_held == 0 {
                counts.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_counted_until_it_drops_what_it_has_and_takes_no_memory_then() {
        let tally = Tally::default();
        let held: Vec<_> = (0..3).map(|_| tally.add(&"a", |_, _| true).unwrap()).collect();
        let other = tally.add(&"b", |n_own, n_others| (n_own, n_others) == (0, 3)).unwrap();
        assert!(tally.add(&"b", |n_own, n_others| (n_own, n_others) != (1, 3)).is_none());
        assert_eq!((tally.count(&"a"), tally.total(), *other.holder()), (3, 4, "b"));
        drop((held, other));
        assert_eq!((tally.count(&"a"), tally.total()), (0, 0));
        assert!(tally.0.lock().is_empty());
    }
}
