//! How often something may happen: a rule, and a map of those it is kept for.
//!
//! A rate lets `burst` events happen at once, and then one in each interval. The only
//! state per caller is the time at which the whole burst is free again (GCRA).

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Entries of a [`Recent`] before the older half is let go: some megabytes of addresses.
const RECENT_MAX: usize = 20_000;

/// How often something may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// From one event to the next, once the burst is used up.
    pub every: Duration,
    /// How many may happen at once; at least one.
    pub burst: u32,
}

/// An event that may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// When the whole burst is free again: what [`take`] wants to know next time.
    pub full_at: Instant,
    /// How many more may happen now.
    pub n_left: u32,
    /// How long until the whole burst is free again.
    pub full_in: Duration,
}

/// Takes one event of `rate` at `now`, where `full_at` is what the last one left, if any.
///
/// # Errors
/// How long to wait, where there is none left.
pub fn take(full_at: Option<Instant>, now: Instant, rate: Rate) -> Result<Taken, Duration> {
    let used = full_at.map(|full_at| full_at.saturating_duration_since(now)).unwrap_or_default();
    let whole = rate.every.saturating_mul(rate.burst.max(1));
    let full_in = used.saturating_add(rate.every);
    if let Some(wait) = full_in.checked_sub(whole).filter(|wait| !wait.is_zero()) {
        return Err(wait);
    }
    let every = rate.every.as_nanos().max(1);
    let n_left =
        u32::try_from(whole.saturating_sub(full_in).as_nanos() / every).unwrap_or(u32::MAX);
    Ok(Taken { full_at: now + full_in, n_left, full_in })
}

/// A map that forgets: those used least lately, once there are too many.
#[derive(Debug)]
pub struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// What is kept for `key`, at first what `make` makes.
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let is_young = self.young.contains_key(&key);
        let kept = if is_young { None } else { self.old.remove(&key) };
        if !is_young && self.young.len() >= RECENT_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(key).or_insert_with(|| kept.unwrap_or_else(make))
    }

    /// What is kept for `key`, if anything. This does not count as a use.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Lets go of what is kept for `key`.
    pub fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// Lets go of everything.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One rate for each of many, kept in bounded memory.
#[derive(Debug)]
pub struct RateLimiter<K> {
    rate: Rate,
    full_at: Mutex<Recent<K, Option<Instant>>>,
}

impl<K: Eq + Hash> RateLimiter<K> {
    /// Lets each key have `rate`.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { rate, full_at: Mutex::default() }
    }

    /// Takes one event of `key`.
    ///
    /// # Errors
    /// How long to wait, where there is none left.
    pub fn take(&self, key: K) -> Result<Taken, Duration> {
        let mut full_at = self.full_at.lock();
        let full_at = full_at.entry(key, || None);
        let taken = take(*full_at, Instant::now(), self.rate)?;
        *full_at = Some(taken.full_at);
        Ok(taken)
    }

    /// Gives back one event that `key` took: it did not count.
    pub fn give_back(&self, key: K) {
        if let Some(full_at) = self.full_at.lock().entry(key, || None) {
            *full_at = full_at.checked_sub(self.rate.every).unwrap_or(*full_at);
        }
    }

    /// How long `key` has to wait for its next event; none if not at all.
    pub fn wait(&self, key: &K) -> Option<Duration> {
        let full_at = self.full_at.lock().peek(key).copied().flatten();
        take(full_at, Instant::now(), self.rate).err()
    }

    /// Forgets what `key` took.
    pub fn reset(&self, key: &K) {
        self.full_at.lock().remove(key);
    }
}

/// Seconds to tell a caller who has to wait: whole ones, and at least one.
#[must_use]
pub fn retry_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0 || wait.is_zero())
}

#[cfg(test)]
mod tests;
