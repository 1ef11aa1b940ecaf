//! Requests that this service may let in without asking again: leased from the budget of its database.
//!
//! One request asks for all of its consumer that wait, and for those expected soon.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lru::LruCache;
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use web::rate_limit::CALLERS_MAX;

use super::{
    Consumer, Refusal,
    budget::{Ask, Grant},
    limits::{Allowance, Exceeded, Limits, NearestLimit, Usage},
};
use crate::{Accounts, AccountsError};

/// How long a refusal holds at most before the budget is asked again.
const REFUSED_FOR: Duration = Duration::from_millis(100);

/// How late a grant may come. One that this service got hold of later, such as when it was stopped for a
/// while, lets in nothing.
const GRANTED_WITHIN: Duration = Duration::from_secs(2);

/// Requests that are leased at a time, where the limits are far from that.
const LEASED_MIN: u64 = 8;

/// The part of the burst that a service leases before there are requests for it.
const BURST_SHARE: u64 = 4;

/// The part of a day's requests that it so leases.
const DAY_SHARE: u64 = 100;

/// The part of the rate that each service lets in by itself while the database takes no leases and
/// standbys serve reads: so many services keep the limit together.
const ALONE_SHARE: u32 = 4;

/// The leases of all consumers.
#[derive(Debug)]
pub(super) struct Leases {
    accounts: Accounts,
    /// The service whose replicas share them.
    service: &'static str,
    consumers: Mutex<LruCache<Consumer, Arc<Leased>>>,
    /// What consumers use while the database takes no leases.
    alone: Mutex<LruCache<Consumer, Usage>>,
}

/// What one consumer has here.
#[derive(Debug, Default)]
struct Leased {
    /// Requests that wait for the lease.
    n_waiting: AtomicU64,
    /// Bytes that the budget does not know of.
    n_bytes: Arc<AtomicU64>,
    lease: tokio::sync::Mutex<Lease>,
}

/// A lease, used up or not.
#[derive(Debug, Default)]
struct Lease {
    limits: Option<Limits>,
    n_left: u64,
    n_used: u64,
    /// When it came, and until when requests that came later are let in.
    valid: Option<(Instant, Instant)>,
    day: i64,
    left_of_day: Duration,
    /// Bytes of the day that the budget knows of.
    n_bytes: u64,
    nearest: Option<NearestLimit>,
    /// Why nothing was leased, and until when that holds.
    refused: Option<(Exceeded, Instant)>,
    /// When the database last did not answer.
    failed: Option<Instant>,
}

/// Counts a request among those that wait, until it is dropped.
struct Waiting<'l>(&'l AtomicU64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Leases {
    pub(super) fn new(accounts: Accounts, service: &'static str) -> Self {
        let consumers = Mutex::new(LruCache::new(CALLERS_MAX));
        Self { accounts, service, consumers, alone: Mutex::new(LruCache::new(CALLERS_MAX)) }
    }

    /// Counts a request as [`Self::admit`] does; by itself while standbys stand in for the database.
    pub(super) async fn admit_or_count(
        &self,
        consumer: Consumer,
        limits: Limits,
        n_bytes: u64,
        date: Timestamp,
    ) -> Result<Allowance, Refusal> {
        if !self.accounts.is_read_only() {
            match self.admit(consumer, limits, n_bytes).await {
                Err(Refusal::Failed(_)) if self.accounts.is_read_only() => {}
                answer => return answer,
            }
        }
        if limits.requests_per_day > 0 || limits.bytes_per_day > 0 {
            // What is left of the day is in the database.
            let error = "it cannot tell what is left of the day's requests".into();
            return Err(Refusal::Failed(AccountsError::Unreachable(error)));
        }
        let share = |limit: u32| limit.div_ceil(ALONE_SHARE);
        let limits = Limits { rate: share(limits.rate), burst: share(limits.burst), ..limits };
        let mut alone = self.alone.lock();
        let usage = alone.get_or_insert_mut(consumer, Usage::default);
        usage.admit(limits, Instant::now(), date, n_bytes).map_err(Refusal::Limited)
    }

    /// Counts a request with a body of `n_bytes`, if there may be another one.
    pub(super) async fn admit(
        &self,
        consumer: Consumer,
        limits: Limits,
        n_bytes: u64,
    ) -> Result<Allowance, Refusal> {
        if (Limits { burst: 0, ..limits }) == Limits::NONE {
            return Ok(Allowance { nearest: None, bytes: None });
        }
        let arrived = Instant::now();
        let leased = Arc::clone(self.consumers.lock().get_or_insert_mut(consumer, Arc::default));
        leased.n_waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&leased.n_waiting);
        let mut lease = leased.lease.lock().await;
        if !lease.lets_in(limits, arrived) {
            if let Some((exceeded, until)) = &lease.refused
                && lease.limits == Some(limits)
                && arrived < *until
            {
                return Err(Refusal::Limited(exceeded.clone()));
            }
            if lease.failed.is_some_and(|failed| failed >= arrived) {
                let error = "it did not answer another request".into();
                return Err(Refusal::Failed(AccountsError::Unreachable(error)));
            }
            let n_waiting = leased.n_waiting.load(Ordering::Relaxed);
            let n_wanted = lease.expected(limits).max(n_waiting);
            self.renew(consumer, &leased, &mut lease, limits, n_wanted).await?;
        }
        drop(waiting);
        lease.take(&leased.n_bytes, n_bytes)
    }

    /// Asks the budget for `n_wanted` requests, and gives back what the last lease left.
    async fn renew(
        &self,
        consumer: Consumer,
        leased: &Leased,
        lease: &mut Lease,
        limits: Limits,
        n_wanted: u64,
    ) -> Result<(), Refusal> {
        // Never given back twice, also if this is dropped in mid-wait; bytes may count twice.
        let n_unused = std::mem::take(&mut lease.n_left);
        let n_unused = if lease.limits == Some(limits) { n_unused } else { 0 };
        let n_bytes = leased.n_bytes.load(Ordering::Relaxed);
        let ask = Ask { limits, n_wanted, n_unused, unused_day: lease.day, n_bytes };
        let started = Instant::now();
        // What is leased after all is lost.
        let granting = self.accounts.lease(format!("{} {consumer}", self.service), ask);
        let grant = timeout(GRANTED_WITHIN, granting).await;
        let obtained = Instant::now();
        let grant = match grant {
            Ok(Ok(grant)) if obtained.duration_since(started) <= GRANTED_WITHIN => grant,
            late => {
                lease.failed = Some(obtained);
                let late = late.ok().and_then(Result::err).unwrap_or_else(|| {
                    AccountsError::Unreachable("it did not answer in time".into())
                });
                return Err(Refusal::Failed(late));
            }
        };
        leased.n_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
        let Grant { n_requests, hold, day, left_of_day, n_bytes, nearest, refusal } = grant;
        let refused = refusal.map(|exceeded| {
            let until = obtained + exceeded.wait.min(REFUSED_FOR);
            (exceeded, until)
        });
        *lease = Lease {
            limits: Some(limits),
            n_left: n_requests,
            n_used: 0,
            valid: Some((obtained, started + hold)),
            day,
            left_of_day,
            n_bytes,
            nearest,
            refused,
            failed: None,
        };
        Ok(())
    }

    /// Tells the budget of bytes, and gives back what expired leases left: once for each consumer.
    ///
    /// # Errors
    /// If the database fails.
    pub(super) async fn settle(&self) -> Result<(), AccountsError> {
        let consumers: Vec<_> = {
            let consumers = self.consumers.lock();
            consumers.iter().map(|(consumer, leased)| (*consumer, Arc::clone(leased))).collect()
        };
        for (consumer, leased) in consumers {
            let Ok(mut lease) = leased.lease.try_lock() else { continue };
            let is_valid = lease.valid.is_some_and(|(_, until)| Instant::now() < until);
            let has_some = lease.n_left > 0 || leased.n_bytes.load(Ordering::Relaxed) > 0;
            let Some(limits) = lease.limits.filter(|_| has_some && !is_valid) else { continue };
            let renewed = self.renew(consumer, &leased, &mut lease, limits, 0).await;
            if let Err(Refusal::Failed(error)) = renewed {
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Leases {
    /// When the newest lease of a consumer came.
    pub(super) fn newest(&self, consumer: Consumer) -> Option<Instant> {
        let leased = Arc::clone(self.consumers.lock().get(&consumer)?);
        leased.lease.try_lock().ok()?.valid.map(|(obtained, _)| obtained)
    }
}

impl Lease {
    /// Whether a request that came at `arrived` may be let in by this lease.
    fn lets_in(&self, limits: Limits, arrived: Instant) -> bool {
        let is_valid = self.valid.is_some_and(|(obtained, until)| {
            // Those that waited for it are let in even where it does not last.
            arrived <= obtained || Instant::now() < until
        });
        self.limits == Some(limits) && self.n_left > 0 && is_valid
    }

    /// Requests expected soon: as many as by the last lease, or more if it was too small. Not so many
    /// that other services have too few.
    fn expected(&self, limits: Limits) -> u64 {
        let n_lately = match self.n_left {
            0 => self.n_used.saturating_mul(2).max(LEASED_MIN),
            _ => self.n_used,
        };
        let of = |limit: u64, share| if limit == 0 { u64::MAX } else { limit / share };
        let of_burst = of(limits.burst().into(), BURST_SHARE);
        n_lately.min(of_burst).min(of(limits.requests_per_day, DAY_SHARE))
    }

    fn take(&mut self, bytes: &Arc<AtomicU64>, n_bytes: u64) -> Result<Allowance, Refusal> {
        if let Some((exceeded, _)) = &self.refused {
            return Err(Refusal::Limited(exceeded.clone()));
        }
        let limit = self.limits.map_or(0, |limits| limits.bytes_per_day);
        if limit > 0 && self.n_bytes.saturating_add(bytes.load(Ordering::Relaxed)) >= limit {
            let exceeded = Exceeded::by_bytes_per_day(limit, self.left_of_day);
            return Err(Refusal::Limited(exceeded));
        }
        self.n_left = self.n_left.saturating_sub(1);
        self.n_used += 1;
        let nearest = self.nearest.map(|nearest| {
            let n_left = nearest.n_left.saturating_add(self.n_left).min(nearest.limit);
            NearestLimit { n_left, ..nearest }
        });
        let bytes = (limit > 0).then(|| {
            bytes.fetch_add(n_bytes, Ordering::Relaxed);
            Arc::clone(bytes)
        });
        Ok(Allowance { nearest, bytes })
    }
}
