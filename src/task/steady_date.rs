//! A date for decisions that cannot be undone, such as deleting old rows.
//!
//! The system clock can jump ahead and be corrected later. This date follows a correction to the
//! past immediately. It follows a jump ahead only if the clock remains ahead for some time.

use std::time::Duration;

use model::timestamp::Timestamp;

use crate::clock::{Clock, Stopwatch};

/// Maximum lead of the clock that does not count as a jump. The drift between the clock and
/// elapsed time is smaller. For data that is deleted after hours or days, such a lead does not
/// matter.
const LEAD_MAX: Duration = Duration::from_secs(10);

/// The date of a clock without brief jumps ahead.
#[derive(Debug)]
pub struct SteadyDate {
    clock: Clock,
    /// Time since the last call of [`Self::read`].
    since_read: Stopwatch,
    date: Timestamp,
    hold: Duration,
    jump: Option<Jump>,
}

/// A jump ahead of the clock that the date does not follow yet.
#[derive(Debug)]
struct Jump {
    since: Stopwatch,
    /// Smallest lead of the clock over the date since the jump.
    lead: Duration,
}

impl SteadyDate {
    /// Creates a date that begins at `start`, or at the date of the clock if the clock is behind
    /// `start`. The date follows a jump ahead after the clock has been ahead for `hold`.
    #[must_use]
    pub fn new(clock: Clock, start: Timestamp, hold: Duration) -> Self {
        let date = start.min(clock.now());
        Self { since_read: clock.stopwatch(), clock, date, hold, jump: None }
    }

    /// Creates a date for deleting old data. At a start, the clock can be ahead, and so can all dates that
    /// were stored since it is. Therefore the date begins in 1970 and follows the clock after an hour, in
    /// which an operator can notice and correct a wrong clock.
    #[must_use]
    pub fn after_start(clock: Clock) -> Self {
        Self::new(clock, Timestamp::default(), Duration::from_hours(1))
    }

    /// Returns the current date. Jumps are only noticed by this call, so it must be called more
    /// often than once per `hold`.
    pub fn read(&mut self) -> Timestamp {
        let now = self.clock.now();
        let expected = self.date + self.since_read.elapsed();
        self.since_read = self.clock.stopwatch();
        // The lead is zero if the clock is behind the date.
        let lead = now.since(expected);
        if lead <= LEAD_MAX {
            self.jump = None;
            self.date = now;
            return now;
        }
        let clock = &self.clock;
        let jump = self.jump.get_or_insert_with(|| Jump { since: clock.stopwatch(), lead });
        jump.lead = jump.lead.min(lead);
        self.date = expected;
        if jump.since.elapsed() >= self.hold {
            // The date follows only the smallest lead. If the clock has jumped again in the
            // meantime, `hold` starts again for the rest of the lead.
            self.date = expected + jump.lead;
            self.jump = None;
        }
        self.date
    }

    /// Returns the lead of the clock over the date, as of the last call of [`Self::read`]. Returns
    /// `None` if no jump was in progress, since the date then follows the clock.
    #[must_use]
    pub fn lead(&self) -> Option<Duration> {
        self.jump.as_ref().map(|jump| jump.lead)
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
    fn steady_date_equals_the_clock_if_the_clock_does_not_jump() {
        let (clock, mut date) = steady();
        assert_eq!(pass(&clock, &mut date, 300), clock.now());
        clock.set(clock.now() + Duration::from_secs(2));
        assert_eq!(date.read(), clock.now());
        clock.advance(LEAP);
        assert_eq!(date.read(), clock.now(), "time passed without a call");
        assert_eq!(date.lead(), None);
    }

    #[test]
    fn steady_date_ignores_a_brief_jump_of_the_clock() {
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
    fn steady_date_follows_a_lasting_jump_after_a_while_and_a_step_back_immediately() {
        let (clock, mut date) = steady();
        clock.set(clock.now() + LEAP);
        assert_eq!(pass(&clock, &mut date, 61), clock.now());
        assert_eq!(date.lead(), None);
        clock.set(START - LEAP);
        assert_eq!(date.read(), clock.now());
    }

    #[test]
    fn second_clock_jump_restarts_the_wait_until_the_steady_date_follows() {
        let (clock, mut date) = steady();
        clock.set(clock.now() + Duration::from_hours(8));
        pass(&clock, &mut date, 50);
        clock.set(clock.now() + LEAP);
        assert_eq!(pass(&clock, &mut date, 11), clock.now() - LEAP);
        assert_eq!(pass(&clock, &mut date, 50), clock.now() - LEAP);
        assert_eq!(pass(&clock, &mut date, 11), clock.now());
    }

    #[test]
    fn steady_date_starts_no_later_than_the_clock() {
        let clock = Clock::manual(START);
        let mut date = SteadyDate::new(clock.clone(), START + LEAP, HOLD);
        assert_eq!(date.read(), START);
        let mut date = SteadyDate::new(clock.clone(), START - LEAP, HOLD);
        assert_eq!(date.read(), START - LEAP);
        assert_eq!(pass(&clock, &mut date, 61), clock.now());
    }
}
