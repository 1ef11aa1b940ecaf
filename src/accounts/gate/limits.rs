//! Rate limits and daily quotas of an account or key. All functions take the current time as an
//! argument instead of reading a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::timestamp::Timestamp;
use tokio::time::Instant;
use web::rate_limit::{Rate, retry_seconds, take};
use wire::accounts::KeyLimits;

/// Seconds per day.
pub(super) const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Limits of an account or a key. 0 means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Sustained rate in requests per second.
    pub rate: u32,
    /// Maximum number of requests in a burst. 0 allows the requests of one second.
    pub burst: u32,
    /// Maximum number of requests per UTC day.
    pub requests_per_day: u64,
    /// Maximum number of bytes of request and response bodies per UTC day. A response in progress is
    /// not cut off.
    pub bytes_per_day: u64,
}

/// Recent usage of an account or a key.
#[derive(Debug, Default)]
pub(super) struct ConsumerUsage {
    /// Time at which the whole burst will be available again.
    full_at: Option<Instant>,
    /// Day to which the counters apply, in days since 1970.
    day: i64,
    n_requests: u64,
    n_bytes: Arc<AtomicU64>,
}

/// Remaining limits after an admitted request.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Limit of requests with the fewest remaining requests, or `None` if the number of requests is not
    /// limited.
    pub(super) nearest: Option<NearestLimit>,
    /// Counter to which the bytes of the response are added, or `None` if bytes are not limited.
    pub(super) bytes: Option<Arc<AtomicU64>>,
}

/// Limit with its remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NearestLimit {
    pub(super) limit: u64,
    pub(super) n_left: u64,
    pub(super) full_in: Duration,
}

/// Exceeded limit. The text is safe to show to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; retry in {} s", retry_seconds(*.wait))]
pub struct Exceeded {
    /// Time until the next request is allowed.
    pub(super) wait: Duration,
    /// Exceeded limit of requests for the `RateLimit` headers. `None` for a limit that these headers
    /// never describe: a quota of bytes, or the limit of a network.
    pub(super) limit: Option<u64>,
    reason: String,
}

impl Limits {
    /// Limits that allow everything.
    pub const NONE: Self = Self { rate: 0, burst: 0, requests_per_day: 0, bytes_per_day: 0 };

    /// Returns these limits of the service, except that each limit that `key` contains replaces the
    /// service's limit.
    pub(super) fn overridden(self, key: KeyLimits) -> Self {
        Self {
            rate: key.rate.unwrap_or(self.rate),
            burst: key.burst.unwrap_or(self.burst),
            requests_per_day: key.requests_per_day.unwrap_or(self.requests_per_day),
            bytes_per_day: key.bytes_per_day.unwrap_or(self.bytes_per_day),
        }
    }

    pub(super) fn burst(self) -> u32 {
        if self.burst == 0 { self.rate } else { self.burst }
    }
}

impl ConsumerUsage {
    /// Counts a request with a body of `n_bytes`, if the limits allow it.
    pub(super) fn admit(
        &mut self,
        limits: Limits,
        now: Instant,
        date: Timestamp,
        n_bytes: u64,
    ) -> Result<Allowance, Exceeded> {
        let day = date.seconds().div_euclid(DAY_SECONDS);
        if day > self.day {
            // Creates new counters. A response in progress continues to count its bytes in the old
            // counter, toward the day on which it began.
            *self = Self { full_at: self.full_at, day, ..Self::default() };
        }
        // If the clock was set back, the day changes, but the counters remain. Otherwise the quota
        // would be granted twice.
        self.day = day;
        let left_of_day = DAY_SECONDS - date.seconds().rem_euclid(DAY_SECONDS);
        let wait = Duration::from_secs(left_of_day.unsigned_abs());
        let Limits { rate, requests_per_day, bytes_per_day, .. } = limits;
        if requests_per_day > 0 && self.n_requests >= requests_per_day {
            return Err(Exceeded::by_requests_per_day(requests_per_day, wait));
        }
        if bytes_per_day > 0 && self.n_bytes.load(Ordering::Relaxed) >= bytes_per_day {
            return Err(Exceeded::by_bytes_per_day(bytes_per_day, wait));
        }
        let of_rate = if rate == 0 { None } else { Some(self.take(limits, now)?) };
        self.n_requests += 1;
        let of_day = (requests_per_day > 0).then(|| NearestLimit {
            limit: requests_per_day,
            n_left: requests_per_day - self.n_requests,
            full_in: wait,
        });
        let bytes = (bytes_per_day > 0).then(|| {
            self.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
            Arc::clone(&self.n_bytes)
        });
        let nearest = of_rate.into_iter().chain(of_day).min_by_key(|limit| limit.n_left);
        Ok(Allowance { nearest, bytes })
    }

    fn take(&mut self, limits: Limits, now: Instant) -> Result<NearestLimit, Exceeded> {
        let (rate, burst) = (limits.rate, limits.burst());
        let every = Duration::from_secs(1) / rate;
        let taken = take(self.full_at, now, Rate { every, burst })
            .map_err(|wait| Exceeded::by_rate(limits, wait))?;
        self.full_at = Some(taken.full_at);
        let (limit, n_left) = (burst.into(), taken.n_left.into());
        Ok(NearestLimit { limit, n_left, full_in: taken.full_in })
    }
}

impl Exceeded {
    pub(super) fn by_rate(limits: Limits, wait: Duration) -> Self {
        let (rate, burst) = (limits.rate, limits.burst());
        let reason =
            format!("rate limit exceeded: at most {rate} requests per second and {burst} at once");
        Self { wait, limit: Some(burst.into()), reason }
    }

    pub(super) fn by_requests_per_day(limit: u64, wait: Duration) -> Self {
        let reason = format!("daily quota exceeded: at most {limit} requests per day");
        Self { wait, limit: Some(limit), reason }
    }

    pub(super) fn by_bytes_per_day(limit: u64, wait: Duration) -> Self {
        let reason = format!("daily quota exceeded: at most {limit} bytes per day");
        Self { wait, limit: None, reason }
    }

    /// Error for a network that sent too many requests without a valid key.
    pub(super) fn by_strangers(wait: Duration) -> Self {
        let reason = "too many requests without a valid API key".to_owned();
        Self { wait, limit: None, reason }
    }
}
