//! Rate limits: the rule as a plain function, and a limiter that applies it to many callers.
//!
//! A rate allows `burst` events immediately, then one event per interval. The only state per caller is
//! the time at which the whole burst will be available again (GCRA).

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of callers that are remembered, which needs some megabytes. The least recently active
/// caller is forgotten first, and then has a whole burst again.
pub const CALLERS_MAX: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();

/// Period to which the maximum number of lines of a [`LogLimit`] applies.
pub const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Maximum frequency of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Interval between events after the burst is used up.
    pub every: Duration,
    /// Number of events that are allowed immediately. 0 has the same effect as 1.
    pub burst: u32,
}

impl Rate {
    /// Returns a rate of `n` events per second with a burst of `burst` events. `n` must not be 0.
    #[must_use]
    pub const fn per_second(n: u32, burst: u32) -> Self {
        // This is a cast because `From` is not const. The cast is lossless.
        Self { every: Duration::from_nanos(1_000_000_000 / n as u64), burst }
    }
}

/// State after an event that was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Time at which the whole burst will be available again. It must be passed to the next [`take`].
    pub full_at: Instant,
    /// Number of further events that are allowed now.
    pub n_left: u32,
    /// Time until the whole burst will be available again.
    pub full_in: Duration,
}

/// Consumes one event of `rate` at `now`. `full_at` is [`Taken::full_at`] of the previous event, if any.
///
/// # Errors
/// If no event is available now, the time until one is.
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
    /// Creates a limiter with a whole burst of `rate`.
    #[must_use]
    pub const fn full(rate: Rate) -> Self {
        Self { rate, full_at: None }
    }

    /// Consumes one event. Returns false if none was available.
    pub fn take(&mut self, now: Instant) -> bool {
        self.take_n(1, now)
    }

    /// Consumes `n` events. If fewer are available, consumes none and returns false.
    pub fn take_n(&mut self, n: u32, now: Instant) -> bool {
        let taken = take_n(self.full_at, now, self.rate, n);
        self.full_at = taken.map_or(self.full_at, |taken| Some(taken.full_at));
        taken.is_ok()
    }
}

/// Logs only the first few events in each [`LOGGED_EVERY`] and counts the other events.
#[derive(Debug, Default)]
pub struct LogLimit {
    began: Option<Instant>,
    n_events: u64,
}

impl LogLimit {
    /// Returns true if an event at `now` should be logged, given a maximum of `n_max` per period. At the
    /// start of a period, also returns the number of events that were not logged in the previous period.
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

/// Applies a rate to each of many keys, in bounded memory.
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

    /// Consumes one event of `key`.
    ///
    /// # Errors
    /// If no event is available now, the time until one is.
    pub fn take(&self, key: K) -> Result<Taken, Duration> {
        let mut full_at = self.full_at.lock();
        let taken = take(full_at.get(&key).copied(), Instant::now(), self.rate)?;
        full_at.put(key, taken.full_at);
        Ok(taken)
    }

    /// Gives back an event that `key` consumed, as if it had not happened.
    pub fn give_back(&self, key: &K) {
        if let Some(full_at) = self.full_at.lock().get_mut(key) {
            *full_at = full_at.checked_sub(self.rate.every).unwrap_or(*full_at);
        }
    }

    /// Returns the time until an event of `key` is available, or `None` if one is available now.
    pub fn wait(&self, key: &K) -> Option<Duration> {
        let full_at = self.full_at.lock().peek(key).copied();
        take(full_at, Instant::now(), self.rate).err()
    }

    /// Forgets the events of `key`, so that it has a whole burst again.
    pub fn reset(&self, key: &K) {
        self.full_at.lock().pop(key);
    }
}

/// Returns `wait` in whole seconds, rounded up and at least one, as used in `Retry-After`.
#[must_use]
pub fn retry_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0 || wait.is_zero())
}

#[cfg(test)]
mod tests;
