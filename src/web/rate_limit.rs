//! Rate limits: the rule as a plain function, and a limiter that applies it to each of many keys.
//!
//! A rate lets `burst` events happen at once, and then one in each interval. The only
//! state per caller is the time at which the whole burst is free again (GCRA).

use std::{hash::Hash, num::NonZeroUsize, time::Duration};

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Callers remembered at a time; the least recently used is forgotten first, and starts with a whole
/// burst. Some megabytes of addresses.
pub const CALLERS_MAX: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();

/// The period that a [`LogLimit`] bounds.
pub const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// How often something may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// From one event to the next, once the burst is used up.
    pub every: Duration,
    /// How many may happen at once; at least one.
    pub burst: u32,
}

impl Rate {
    /// `n` events a second, at least one, and `burst` at once.
    #[must_use]
    pub const fn per_second(n: u32, burst: u32) -> Self {
        // Widening alone; `From` is not const.
        Self { every: Duration::from_nanos(1_000_000_000 / n as u64), burst }
    }
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
    take_n(full_at, now, rate, 1)
}

fn take_n(full_at: Option<Instant>, now: Instant, rate: Rate, n: u32) -> Result<Taken, Duration> {
    let used = full_at.map(|full_at| full_at.saturating_duration_since(now)).unwrap_or_default();
    let whole = rate.every.saturating_mul(rate.burst.max(1));
    let full_in = used.saturating_add(rate.every.saturating_mul(n));
    if let Some(wait) = full_in.checked_sub(whole).filter(|wait| !wait.is_zero()) {
        return Err(wait);
    }
    let every = rate.every.as_nanos().max(1);
    let n_left =
        u32::try_from(whole.saturating_sub(full_in).as_nanos() / every).unwrap_or(u32::MAX);
    Ok(Taken { full_at: now + full_in, n_left, full_in })
}

/// Applies one rate to one caller.
#[derive(Debug)]
pub struct Bucket {
    rate: Rate,
    full_at: Option<Instant>,
}

impl Bucket {
    /// A whole burst of `rate`.
    #[must_use]
    pub const fn full(rate: Rate) -> Self {
        Self { rate, full_at: None }
    }

    /// Takes one event, and returns whether one was left.
    pub fn take(&mut self, now: Instant) -> bool {
        self.take_n(1, now)
    }

    /// Takes `n` events, and returns whether as many were left.
    pub fn take_n(&mut self, n: u32, now: Instant) -> bool {
        let taken = take_n(self.full_at, now, self.rate, n);
        self.full_at = taken.map_or(self.full_at, |taken| Some(taken.full_at));
        taken.is_ok()
    }
}

/// Which of many like events are in the log: the first in each [`LOGGED_EVERY`]. The rest are counted.
#[derive(Debug, Default)]
pub struct LogLimit {
    began: Option<Instant>,
    n_events: u64,
}

impl LogLimit {
    /// Whether one more event is logged at `now`, of which `n_max` are in a period. Where a period
    /// begins, also returns how many were left out in the last.
    pub fn admit(&mut self, now: Instant, n_max: u64) -> (bool, u64) {
        let mut n_left_out = 0;
        if self.began.is_none_or(|began| now - began >= LOGGED_EVERY) {
            n_left_out = self.n_events.saturating_sub(n_max);
            *self = Self { began: Some(now), n_events: 0 };
        }
        self.n_events += 1;
        (self.n_events <= n_max, n_left_out)
    }
}

/// Applies one rate to each of many keys, in bounded memory.
#[derive(Debug)]
pub struct RateLimiter<K: Eq + Hash> {
    rate: Rate,
    full_at: Mutex<LruCache<K, Instant>>,
}

impl<K: Eq + Hash> RateLimiter<K> {
    /// Allows `rate` for each key.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { rate, full_at: Mutex::new(LruCache::new(CALLERS_MAX)) }
    }

    /// Takes one event of `key`.
    ///
    /// # Errors
    /// How long to wait, where none is left.
    pub fn take(&self, key: K) -> Result<Taken, Duration> {
        let mut full_at = self.full_at.lock();
        let taken = take(full_at.get(&key).copied(), Instant::now(), self.rate)?;
        full_at.put(key, taken.full_at);
        Ok(taken)
    }

    /// Returns one event that `key` took: it does not count.
    pub fn give_back(&self, key: &K) {
        if let Some(full_at) = self.full_at.lock().get_mut(key) {
            *full_at = full_at.checked_sub(self.rate.every).unwrap_or(*full_at);
        }
    }

    /// How long `key` has to wait for its next event; none if not at all.
    pub fn wait(&self, key: &K) -> Option<Duration> {
        let full_at = self.full_at.lock().peek(key).copied();
        take(full_at, Instant::now(), self.rate).err()
    }

    /// Forgets what `key` took.
    pub fn reset(&self, key: &K) {
        self.full_at.lock().pop(key);
    }
}

/// `wait` in whole seconds, at least one, as `Retry-After` gives it.
#[must_use]
pub fn retry_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0 || wait.is_zero())
}

#[cfg(test)]
mod tests;
