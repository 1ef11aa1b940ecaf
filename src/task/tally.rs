//! Counts items for each holder, within limits that the caller defines.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts for each holder. Clones share the counts. A holder with a count of zero takes no memory.
#[derive(Debug)]
pub struct Tally<K>(Arc<Mutex<Counts<K>>>);

#[derive(Debug)]
struct Counts<K> {
    by_holder: HashMap<K, usize>,
    total: usize,
}

/// A part of a holder's count. When the part is dropped, it is subtracted from the count.
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
    /// Adds one to the count of `holder`. `is_allowed` is called with the count of the holder and the
    /// sum of all other counts. If `is_allowed` returns false, adds nothing and returns `None`.
    pub fn add(
        &self,
        holder: &K,
        is_allowed: impl FnOnce(usize, usize) -> bool,
    ) -> Option<Counted<K>> {
        let mut counted = self.zero(holder.clone());
        counted.grow_to(1, is_allowed).then_some(counted)
    }

    /// Returns a part of the count of `holder`. The part is zero and can grow.
    pub fn zero(&self, holder: K) -> Counted<K> {
        Counted { holder, n: 0, tally: self.clone() }
    }

    /// Returns the count of `holder`.
    pub fn count(&self, holder: &K) -> usize {
        self.0.lock().by_holder.get(holder).copied().unwrap_or_default()
    }

    /// Returns the sum of all counts.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.lock().total
    }
}

impl<K: Clone + Eq + Hash> Counted<K> {
    /// Raises this part to `n` if the part is lower. `is_allowed` is called with the count of the holder
    /// and the sum of all other counts. Returns false if the part remains lower than `n`.
    pub fn grow_to(&mut self, n: usize, is_allowed: impl FnOnce(usize, usize) -> bool) -> bool {
        let Some(n_more @ 1..) = n.checked_sub(self.n) else { return true };
        let mut counts = self.tally.0.lock();
        let n_own = counts.by_holder.get(&self.holder).copied().unwrap_or_default();
        if !is_allowed(n_own, counts.total - n_own) {
            return false;
        }
        counts.by_holder.insert(self.holder.clone(), n_own + n_more);
        counts.total += n_more;
        self.n = n;
        true
    }
}

impl<K: Eq + Hash> Counted<K> {
    /// Returns the holder.
    #[must_use]
    pub const fn holder(&self) -> &K {
        &self.holder
    }

    /// Returns the size of this part.
    #[must_use]
    pub const fn n(&self) -> usize {
        self.n
    }

    /// Lowers this part to `n` if the part is higher.
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
    fn dropping_a_count_subtracts_it_from_the_tally() {
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
    fn count_grows_only_if_allowed_and_can_shrink() {
        let tally = Tally::default();
        let mut held = tally.zero("a");
        let other = tally.add(&"a", |_, _| true).unwrap();
        assert!(held.grow_to(5, |n_own, n_others| (n_own, n_others) == (1, 0)));
        assert!(held.grow_to(3, |_, _| false), "the count is already higher");
        assert!(!held.grow_to(6, |_, _| false));
        assert_eq!((held.n(), tally.total()), (5, 6));
        held.shrink_to(2);
        held.shrink_to(4);
        assert_eq!((held.n(), tally.count(&"a")), (2, 3));
        drop((held, other));
        assert!(tally.0.lock().by_holder.is_empty());
    }
}
