//! The date, and elapsed time. Tests own both.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use model::timestamp::Timestamp;
use tokio::time::Instant;

/// Tells the date, which may be corrected at any time, and measures time that passes with a
/// [`Stopwatch`], which no correction changes.
#[derive(Debug, Clone)]
pub struct Clock(Source);

/// Measures how much time passed since it was started, whatever became of the date.
#[derive(Debug, Clone)]
pub struct Stopwatch(Start);

#[derive(Debug, Clone)]
enum Source {
    System,
    Manual(Arc<ManualTime>),
}

#[derive(Debug, Clone)]
enum Start {
    System(Instant),
    Manual { time: Arc<ManualTime>, started_micros: i64 },
}

/// The time of a manual clock, in microseconds.
#[derive(Debug)]
struct ManualTime {
    date: AtomicI64,
    passed: AtomicI64,
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `date` until it is moved with [`Self::advance`]. Clones share it.
    #[must_use]
    pub fn manual(date: Timestamp) -> Self {
        let date = AtomicI64::new(date.micros());
        Self(Source::Manual(Arc::new(ManualTime { date, passed: AtomicI64::new(0) })))
    }

    /// Whether it stands until it is moved.
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(_))
    }

    /// The date now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::default() + elapsed
            }
            Source::Manual(time) => Timestamp::from_micros(time.date.load(Ordering::SeqCst)),
        }
    }

    /// Starts a stopwatch.
    #[must_use]
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch(match &self.0 {
            Source::System => Start::System(Instant::now()),
            Source::Manual(time) => {
                let started_micros = time.passed.load(Ordering::SeqCst);
                Start::Manual { time: Arc::clone(time), started_micros }
            }
        })
    }

    /// Lets time pass on a manual clock. The machine's clock is not ours to move: nothing happens.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(time) = &self.0 {
            let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
            time.passed.fetch_add(by, Ordering::SeqCst);
            time.date.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Corrects the date of a manual clock, while no time passes. Nothing happens to the machine's.
    pub fn set(&self, date: Timestamp) {
        if let Source::Manual(time) = &self.0 {
            time.date.store(date.micros(), Ordering::SeqCst);
        }
    }
}

impl Stopwatch {
    /// The time that passed since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Start::System(started) => started.elapsed(),
            Start::Manual { time, started_micros } => {
                let passed = time.passed.load(Ordering::SeqCst).saturating_sub(*started_micros);
                Duration::from_micros(u64::try_from(passed).unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_for_all_its_clones() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let other = clock.clone();
        clock.advance(Duration::from_secs(5));
        assert_eq!(other.now(), Timestamp::from_seconds(105));
    }

    #[test]
    fn a_correction_of_the_date_is_no_time_that_passed() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let stopwatch = clock.stopwatch();
        clock.advance(Duration::from_secs(5));
        clock.set(Timestamp::from_seconds(10));
        assert_eq!(stopwatch.elapsed(), Duration::from_secs(5));
        assert_eq!(clock.now(), Timestamp::from_seconds(10));
    }
}
