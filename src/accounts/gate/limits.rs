//! Rate limits and quotas of an account or key, and its usage: plain values, without a clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use model::timestamp::Timestamp;
use tokio::time::Instant;
use web::rate_limit::{Rate, retry_seconds, take};
use wire::accounts::KeyLimits;

/// Seconds in a day of UTC.
pub(super) const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What an account or a key may do. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests in a second, over time.
    pub rate: u32,
    /// Requests at once, before the rate holds; 0 for a second's worth.
    pub burst: u32,
    /// Requests in a day of UTC.
    pub requests_per_day: u64,
    /// Bytes in a day of UTC, of requests' and answers' bodies. An answer under way is not cut off.
    pub bytes_per_day: u64,
}

/// What an account or a key did recently.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// When its whole burst is free again.
    full_at: Option<Instant>,
    /// The day that is counted, in days since 1970.
    day: i64,
    n_requests: u64,
    n_bytes: Arc<AtomicU64>,
}

/// What is left after a request that was let in.
#[derive(Debug)]
pub(super) struct Allowance {
    /// The limit of which least is left, if there is any.
    pub(super) nearest: Option<NearestLimit>,
    /// Where the answer's bytes are to be added, if they are limited.
    pub(super) bytes: Option<Arc<AtomicU64>>,
}

/// A limit on requests, and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NearestLimit {
    pub(super) limit: u64,
    pub(super) n_left: u64,
    pub(super) full_in: Duration,
}

/// Why there may not be another request now. The text may be shown to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; retry in {} s", retry_seconds(*.wait))]
pub struct Exceeded {
    /// How long until there may be another.
    pub(super) wait: Duration,
    /// The limit on requests that was hit, for the `RateLimit` headers; none for other limits.
    pub(super) limit: Option<u64>,
    reason: String,
}

impl Limits {
    /// No limits at all.
    pub const NONE: Self = Self { rate: 0, burst: 0, requests_per_day: 0, bytes_per_day: 0 };

    /// These limits, but where the key has its own.
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

impl Usage {
    /// Counts a request with a body of `n_bytes`, if there may be another one.
    pub(super) fn admit(
        &mut self,
        limits: Limits,
        now: Instant,
        date: Timestamp,
        n_bytes: u64,
    ) -> Result<Allowance, Exceeded> {
        let day = date.seconds().div_euclid(DAY_SECONDS);
        if day > self.day {
            // Answers still under way are counted to the day they began in.
            *self = Self { full_at: self.full_at, day, ..Self::default() };
        }
        // A date that goes back, as when a clock is corrected, gives no second quota.
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

    /// The caller's network sent too much without a good key.
    pub(super) fn by_strangers(wait: Duration) -> Self {
        let reason = "too many requests without a valid API key".to_owned();
        Self { wait, limit: None, reason }
    }
}
