//! How many of something each holder has: counted until it is dropped, and bounded by the caller.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;

/// Counts by holder. Cheap to clone; all clones share them. A holder of none takes no memory.
#[derive(Debug)]
pub struct Tally<K>(Arc<Mutex<Counts<K>>>);

#[derive(Debug)]
struct Counts<K> {
    by_holder: HashMap<K, usize>,
    total: usize,
}

/// Things that count for their holder until this is dropped.
#[derive(Debug)]
pub struct Counted<K: Eq + Hash> {
    holder: K,
    n: usize,
    tally: Tally<K>,
}

impl<K> Clone for Tally<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Counts { by_holder: HashMap::new(), total: 0 })))
    }
}

impl<K: Clone + Eq + Hash> Tally<K> {
    /// Counts one more for `holder`, if `has_room` says so of how many it has and how many others have.
    pub fn add(
        &self,
        holder: &K,
        has_room: impl FnOnce(usize, usize) -> bool,
    ) -> Option<Counted<K>> {
        let mut counted = self.none(holder.clone());
        counted.grow_to(1, has_room).then_some(counted)
    }

    /// Nothing yet of `holder`.
    pub fn none(&self, holder: K) -> Counted<K> {
        Counted { holder, n: 0, tally: self.clone() }
    }

    /// How many `holder` has.
    pub fn count(&self, holder: &K) -> usize {
        self.0.lock().by_holder.get(holder).copied().unwrap_or_default()
    }

    /// How many all have.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.lock().total
    }
}

impl<K: Clone + Eq + Hash> Counted<K> {
    /// Counts `n`, if they are more than before and `has_room` says so of how many the holder has and how
    /// many others have. Returns whether at least `n` count.
    pub fn grow_to(&mut self, n: usize, has_room: impl FnOnce(usize, usize) -> bool) -> bool {
        let Some(n_more @ 1..) = n.checked_sub(self.n) else { return true };
        let mut counts = self.tally.0.lock();
        let n_own = counts.by_holder.get(&self.holder).copied().unwrap_or_default();
        if !has_room(n_own, counts.total - n_own) {
            return false;
        }
        counts.by_holder.insert(self.holder.clone(), n_own + n_more);
        counts.total += n_more;
        self.n = n;
        true
    }
}

impl<K: Eq + Hash> Counted<K> {
    /// Whose they are.
    #[must_use]
    pub const fn holder(&self) -> &K {
        &self.holder
    }

    /// How many they are.
    #[must_use]
    pub const fn n(&self) -> usize {
        self.n
    }

    /// Counts no more than `n` from now on.
    pub fn shrink_to(&mut self, n: usize) {
        let Some(n_less @ 1..) = self.n.checked_sub(n) else { return };
        self.n = n;
        let mut counts = self.tally.0.lock();
        counts.total -= n_less;
        if let Some(n_held) = counts.by_holder.get_mut(&self.holder) {
            *n_held -= n_less;
            if *n_held == 0 {
                counts.by_holder.remove(&self.holder);
            }
        }
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        self.shrink_to(0);
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
        assert!(tally.0.lock().by_holder.is_empty());
    }

    #[test]
    fn what_is_counted_grows_as_far_as_there_is_room_and_shrinks() {
        let tally = Tally::default();
        let mut held = tally.none("a");
        let other = tally.add(&"a", |_, _| true).unwrap();
        assert!(held.grow_to(5, |n_own, n_others| (n_own, n_others) == (1, 0)));
        assert!(held.grow_to(3, |_, _| false), "as many count already");
        assert!(!held.grow_to(6, |_, _| false));
        assert_eq!((held.n(), tally.total()), (5, 6));
        held.shrink_to(2);
        held.shrink_to(4);
        assert_eq!((held.n(), tally.count(&"a")), (2, 3));
        drop((held, other));
        assert!(tally.0.lock().by_holder.is_empty());
    }
}
