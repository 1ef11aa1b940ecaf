//! What services on one database have leased of a consumer's limits: plain values, without a clock.
//!
//! A service takes requests out of the budget before it lets them in, and may let them in for a while
//! after that, [`hold`]. What it may let in late is less than what it may let in at once by the burst:
//! so all services together let in no more than one would. What a service that is gone had taken is
//! not let in by another: of a day's requests, these are lost.

use std::time::Duration;

use super::limits::{DAY_SECONDS, Exceeded, Limits, NearestLimit};

/// How long requests that were taken may be let in, at most: longer would lose more where a service is
/// gone, shorter would ask the database more often.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// The share of the burst that may be let in late, which is not let in at once.
const HELD_OF_BURST: f64 = 0.25;

/// Microseconds in a second.
const MICROS: f64 = 1e6;

/// What all services together took of the limits of a consumer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The day that is counted, in days since 1970.
    pub(crate) day: i64,
    /// Requests of that day.
    pub(crate) n_requests: i64,
    /// Bytes of that day.
    pub(crate) n_bytes: i64,
    /// When the burst is free again, in microseconds since 1970.
    pub(crate) full_at: i64,
}

/// What a service asks of a budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) limits: Limits,
    /// Requests that it could let in now or soon.
    pub(crate) n_wanted: u64,
    /// Requests that it took earlier under the same limits, and did not let in.
    pub(crate) n_unused: u64,
    /// The day in which it took them.
    pub(crate) unused_day: i64,
    /// Bytes that went in and out since it last asked.
    pub(crate) n_bytes: u64,
}

/// What a service got.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    /// Requests that it may let in, within [`Self::hold`]; 0 only if none was wanted or [`Self::refusal`]
    /// says why.
    pub(crate) n_requests: u64,
    /// How long after it asked.
    pub(crate) hold: Duration,
    /// The day in which they count.
    pub(crate) day: i64,
    /// Until the end of that day.
    pub(crate) left_of_day: Duration,
    /// Bytes of the day, of all services.
    pub(crate) n_bytes: u64,
    /// The limit of which least is left in the budget, if there is any.
    pub(super) nearest: Option<NearestLimit>,
    pub(crate) refusal: Option<Exceeded>,
}

/// How long requests may be let in after they were taken.
fn hold(limits: Limits) -> Duration {
    let (rate, burst) = (f64::from(limits.rate), f64::from(limits.burst()));
    if limits.rate == 0 {
        return HOLD_MAX;
    }
    // One request is left that may be let in at once.
    let seconds = (burst * HELD_OF_BURST).min(burst - 1.0) / rate;
    HOLD_MAX.min(Duration::from_secs_f64(seconds.max(0.0)))
}

impl Budget {
    /// Takes out of the budget at `now`, in microseconds since 1970, what `ask` wants, as far as there is
    /// any.
    pub(crate) fn take(&mut self, ask: Ask, now: i64) -> Grant {
        let Ask { limits, n_wanted, .. } = ask;
        let day_micros = DAY_SECONDS * 1_000_000;
        let day = now.div_euclid(day_micros);
        if day > self.day {
            *self = Self { day, full_at: self.full_at, ..Self::default() };
        }
        let left_of_day = micros(day_micros - now.rem_euclid(day_micros));
        // A clock that went back, or a lower limit, does not keep anybody out for longer than the burst.
        let full_at_most = now.saturating_add(rate_micros(limits, limits.burst().into()));
        self.full_at = self.full_at.min(full_at_most);
        self.give_back(ask, now);
        self.n_bytes = self.n_bytes.saturating_add(i64::try_from(ask.n_bytes).unwrap_or(i64::MAX));
        let n_bytes = self.n_bytes.unsigned_abs();
        let (of_rate, rate_wait) = self.rate_left(limits, now);
        let of_day = match limits.requests_per_day {
            0 => u64::MAX,
            limit => limit.saturating_sub(self.n_requests.unsigned_abs()),
        };
        let refusal = if limits.bytes_per_day > 0 && n_bytes >= limits.bytes_per_day {
            Some(Exceeded::by_bytes_per_day(limits.bytes_per_day, left_of_day))
        } else if of_day == 0 {
            Some(Exceeded::by_requests_per_day(limits.requests_per_day, left_of_day))
        } else if of_rate == 0 {
            Some(Exceeded::by_rate(limits, rate_wait))
        } else {
            None
        };
        let n_requests = match refusal {
            Some(_) => 0,
            None => n_wanted.min(of_rate).min(of_day),
        };
        self.spend(limits, n_requests, now);
        let nearest = self.nearest(limits, now, left_of_day);
        let hold = hold(limits).min(left_of_day);
        Grant { n_requests, hold, day: self.day, left_of_day, n_bytes, nearest, refusal }
    }

    fn give_back(&mut self, ask: Ask, now: i64) {
        let n_unused = i64::try_from(ask.n_unused).unwrap_or(i64::MAX);
        if ask.limits.requests_per_day > 0 && ask.unused_day == self.day {
            self.n_requests = (self.n_requests - n_unused).max(0);
        }
        if ask.limits.rate > 0 {
            self.full_at = (self.full_at - rate_micros(ask.limits, ask.n_unused)).max(now);
        }
    }

    fn spend(&mut self, limits: Limits, n_requests: u64, now: i64) {
        if limits.requests_per_day > 0 {
            let n_requests = i64::try_from(n_requests).unwrap_or(i64::MAX);
            self.n_requests = self.n_requests.saturating_add(n_requests);
        }
        if limits.rate > 0 {
            self.full_at = self.full_at.max(now).saturating_add(rate_micros(limits, n_requests));
        }
    }

    /// Requests that the rate leaves at `now`, and how long until there is one.
    fn rate_left(&self, limits: Limits, now: i64) -> (u64, Duration) {
        if limits.rate == 0 {
            return (u64::MAX, Duration::ZERO);
        }
        let rate = f64::from(limits.rate);
        let at_once = f64::from(limits.burst()) - rate * hold(limits).as_secs_f64();
        let taken = to_float((self.full_at - now).max(0)) * rate / MICROS;
        // What is rounded off is less than a request.
        let n_left = (at_once - taken + 1e-6).floor().max(0.0);
        let wait = Duration::from_secs_f64(((taken + 1.0 - at_once) / rate).clamp(0.0, 86_400.0));
        (to_whole(n_left), wait)
    }

    fn nearest(&self, limits: Limits, now: i64, left_of_day: Duration) -> Option<NearestLimit> {
        let of_rate = (limits.rate > 0).then(|| NearestLimit {
            limit: limits.burst().into(),
            n_left: self.rate_left(limits, now).0,
            full_in: micros(self.full_at - now),
        });
        let limit = limits.requests_per_day;
        let of_day = (limit > 0).then(|| NearestLimit {
            limit,
            n_left: limit.saturating_sub(self.n_requests.unsigned_abs()),
            full_in: left_of_day,
        });
        of_rate.into_iter().chain(of_day).min_by_key(|nearest| nearest.n_left)
    }
}

/// The time in which the rate makes up for so many requests, rounded up.
fn rate_micros(limits: Limits, n_requests: u64) -> i64 {
    let every = u64::from(limits.rate);
    let micros = (u128::from(n_requests) * 1_000_000).div_ceil(every.max(1).into());
    i64::try_from(micros).unwrap_or(i64::MAX)
}

fn micros(n: i64) -> Duration {
    Duration::from_micros(n.max(0).unsigned_abs())
}

#[expect(clippy::cast_precision_loss, reason = "microseconds until the burst is free")]
const fn to_float(n: i64) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to the burst, which has 32 bits"
)]
const fn to_whole(n: f64) -> u64 {
    n as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = (20_000 * DAY_SECONDS + DAY_SECONDS / 2) * 1_000_000;

    fn ask(limits: Limits, n_wanted: u64) -> Ask {
        Ask { limits, n_wanted, n_unused: 0, unused_day: 0, n_bytes: 0 }
    }

    /// Whatever services do, what each second and each longer time lets in is what one service would.
    #[test]
    fn held_requests_and_new_ones_are_no_more_than_the_burst_and_the_rate() {
        for (rate, burst) in [(1, 1), (2, 3), (10, 10), (1000, 2000), (5, 100), (100, 1), (7, 0)] {
            let limits = Limits { rate, burst, ..Limits::NONE };
            let (mut budget, mut let_in) = (Budget::default(), Vec::new());
            for step in 0..4000_i64 {
                let now = NOON + step * 3_000;
                let grant = budget.take(ask(limits, u64::from(rate)), now);
                // As late as may be.
                let at = now + i64::try_from(grant.hold.as_micros()).unwrap() * (step % 2);
                let_in.extend((0..grant.n_requests).map(|_| at));
            }
            let_in.sort_unstable();
            assert!(!let_in.is_empty());
            let most =
                |micros: i64| i64::from(limits.burst()) + micros * i64::from(rate) / 1_000_000;
            for (n_before, first) in let_in.iter().enumerate().step_by(7) {
                for (n, at) in let_in.iter().enumerate().skip(n_before).step_by(11) {
                    let n_let_in = i64::try_from(n - n_before + 1).unwrap();
                    assert!(n_let_in <= most(at - first) + 1, "{rate} {burst}: {n_let_in}");
                }
            }
        }
    }

    #[test]
    fn a_days_requests_are_taken_once_and_given_back_within_the_day() {
        let limits = Limits { requests_per_day: 10, ..Limits::NONE };
        let mut budget = Budget::default();
        let first = budget.take(ask(limits, 6), NOON);
        assert_eq!((first.n_requests, first.nearest.unwrap().n_left), (6, 4));
        assert_eq!(budget.take(ask(limits, 6), NOON).n_requests, 4);
        let refused = budget.take(ask(limits, 1), NOON);
        assert_eq!((refused.n_requests, refused.refusal.unwrap().wait), (0, refused.left_of_day));
        let back = Ask { n_unused: 2, unused_day: first.day, ..ask(limits, 5) };
        assert_eq!(budget.take(back, NOON).n_requests, 2);
        let tomorrow = NOON + DAY_SECONDS * 1_000_000;
        assert_eq!(budget.take(back, tomorrow).n_requests, 5, "nothing of yesterday comes back");
        assert_eq!(budget.take(ask(limits, 9), tomorrow).n_requests, 5);
        assert_eq!(budget.take(ask(limits, 1), NOON).n_requests, 0, "a clock that goes back");
    }

    #[test]
    fn a_clock_that_goes_back_takes_no_more_than_the_burst() {
        let limits = Limits { rate: 10, burst: 20, ..Limits::NONE };
        for back in [60, 3_600, 40_000] {
            let mut budget = Budget::default();
            while budget.take(ask(limits, 5), NOON).n_requests > 0 {}
            let now = NOON - back * 1_000_000;
            let wait = budget.take(ask(limits, 1), now).refusal.unwrap().wait;
            assert!(wait <= Duration::from_secs(2), "{back}: {wait:?}");
            assert_eq!(budget.take(ask(limits, 5), now + 2_000_000).n_requests, 5, "{back}");
        }
    }

    #[test]
    fn bytes_of_all_services_count() {
        let limits = Limits { bytes_per_day: 100, ..Limits::NONE };
        let mut budget = Budget::default();
        let used = |n_bytes| Ask { n_bytes, ..ask(limits, 1) };
        assert_eq!(budget.take(used(60), NOON).n_requests, 1);
        assert!(budget.take(used(60), NOON).refusal.is_some());
    }
}
