//! The date for what cannot be undone, such as deleting what is old.
//!
//! A machine's clock may leap ahead and be set right again. This date follows the clock back at
//! once, but ahead only after the clock has kept its lead for a time.

use std::time::Duration;

use model::timestamp::Timestamp;

use crate::clock::{Clock, Stopwatch};

/// The largest lead of the clock that counts as ordinary time: more than the difference between two
/// ways to measure seconds, and of no importance to what is deleted after hours or days.
const LEAD_MAX: Duration = Duration::from_secs(10);

/// The date of a clock without its leaps ahead.
#[derive(Debug)]
pub struct SteadyDate {
    clock: Clock,
    /// Started at the last call of [`Self::read`].
    since_read: Stopwatch,
    date: Timestamp,
    hold: Duration,
    leap: Option<Leap>,
}

/// A lead of the clock that has not held for long enough.
#[derive(Debug)]
struct Leap {
    since: Stopwatch,
    /// The smallest lead since then.
    lead: Duration,
}

impl SteadyDate {
    /// Starts at `start`, or at the clock's date if that is earlier. The date follows a leap of the
    /// clock once it has held for `hold`.
    #[must_use]
    pub fn new(clock: Clock, start: Timestamp, hold: Duration) -> Self {
        let date = start.min(clock.now());
        Self { since_read: clock.stopwatch(), clock, date, hold, leap: None }
    }

    /// The date now. Leaps are noticed here: call this more often than once in `hold`.
    pub fn read(&mut self) -> Timestamp {
        let now = self.clock.now();
        let expected = self.date + self.since_read.elapsed();
        self.since_read = self.clock.stopwatch();
        // Zero if the clock is behind.
        let lead = now.since(expected);
        if lead <= LEAD_MAX {
            self.leap = None;
            self.date = now;
            return now;
        }
        let clock = &self.clock;
        let leap = self.leap.get_or_insert_with(|| Leap { since: clock.stopwatch(), lead });
        leap.lead = leap.lead.min(lead);
        self.date = expected;
        if leap.since.elapsed() >= self.hold {
            // A further leap since then has to hold for as long.
            self.date = expected + leap.lead;
            self.leap = None;
        }
        self.date
    }

    /// How far the clock was ahead at the last call of [`Self::read`]; `None` if the dates agreed.
    #[must_use]
    pub fn lead(&self) -> Option<Duration> {
        self.leap.as_ref().map(|leap| leap.lead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_mins(1);
    const LEAP: Duration = Duration::from_hours(48);
    const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn steady() -> (Clock, SteadyDate) {
        let clock = Clock::manual(START);
        let date = SteadyDate::new(clock.clone(), START, HOLD);
        (clock, date)
    }

    fn pass(clock: &Clock, date: &mut SteadyDate, seconds: u64) -> Timestamp {
        for _ in 0..seconds {
            clock.advance(Duration::from_secs(1));
            date.read();
        }
        date.read()
    }

    #[test]
    fn a_clock_that_only_runs_is_followed() {
        let (clock, mut date) = steady();
        assert_eq!(pass(&clock, &mut date, 300), clock.now());
        clock.set(clock.now() + Duration::from_secs(2));
        assert_eq!(date.read(), clock.now());
        clock.advance(LEAP);
        assert_eq!(date.read(), clock.now(), "time passed without a look");
        assert_eq!(date.lead(), None);
    }

    #[test]
    fn a_leap_that_does_not_hold_is_not_followed() {
        let (clock, mut date) = steady();
        pass(&clock, &mut date, 5);
        clock.set(clock.now() + LEAP);
        assert_eq!(pass(&clock, &mut date, 50), START + Duration::from_secs(55));
        assert_eq!(date.lead(), Some(LEAP));
        clock.set(clock.now() - LEAP);
        assert_eq!(pass(&clock, &mut date, 50), clock.now());
        assert_eq!(date.lead(), None);
        clock.set(clock.now() + LEAP);
        assert!(pass(&clock, &mut date, 50) < clock.now(), "the hold starts again");
    }

    #[test]
    fn a_leap_that_holds_is_followed_and_a_step_back_at_once() {
        let (clock, mut date) = steady();
        clock.set(clock.now() + LEAP);
        assert_eq!(pass(&clock, &mut date, 61), clock.now());
        assert_eq!(date.lead(), None);
        clock.set(START - LEAP);
        assert_eq!(date.read(), clock.now());
    }

    #[test]
    fn a_leap_within_a_leap_holds_for_as_long() {
        let (clock, mut date) = steady();
        clock.set(clock.now() + Duration::from_hours(8));
        pass(&clock, &mut date, 50);
        clock.set(clock.now() + LEAP);
        assert_eq!(pass(&clock, &mut date, 11), clock.now() - LEAP);
        assert_eq!(pass(&clock, &mut date, 50), clock.now() - LEAP);
        assert_eq!(pass(&clock, &mut date, 11), clock.now());
    }

    #[test]
    fn it_starts_no_later_than_the_clock() {
        let clock = Clock::manual(START);
        let mut date = SteadyDate::new(clock.clone(), START + LEAP, HOLD);
        assert_eq!(date.read(), START);
        let mut date = SteadyDate::new(clock.clone(), START - LEAP, HOLD);
        assert_eq!(date.read(), START - LEAP);
        assert_eq!(pass(&clock, &mut date, 61), clock.now());
    }
}
