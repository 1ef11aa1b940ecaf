//! The current date and elapsed time, both of which tests can control.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::timestamp::Timestamp;
use tokio::time::Instant;

/// Source of the current date, and of a [`Stopwatch`] that measures elapsed time.
///
/// The system can correct the date at any time. This does not affect stopwatches.
#[derive(Debug, Clone)]
pub struct Clock(TimeSource);

/// Measures elapsed time, which does not depend on the date.
#[derive(Debug, Clone)]
pub struct Stopwatch(Start);

#[derive(Debug, Clone)]
enum TimeSource {
    System,
    Manual(Arc<ManualTime>),
}

#[derive(Debug, Clone)]
enum Start {
    System(Instant),
    Manual { time: Arc<ManualTime>, started_micros: i64 },
}

/// Date and elapsed time of a manual clock, in microseconds.
#[derive(Debug)]
struct ManualTime {
    date: AtomicI64,
    elapsed: AtomicI64,
}

impl Clock {
    /// Returns the system's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(TimeSource::System)
    }

    /// Returns a clock for tests, which changes only by [`Self::advance`] and [`Self::set`]. Clones
    /// share the state of the clock.
    #[must_use]
    pub fn manual(date: Timestamp) -> Self {
        let date = AtomicI64::new(date.micros());
        Self(TimeSource::Manual(Arc::new(ManualTime { date, elapsed: AtomicI64::new(0) })))
    }

    /// Returns true if this is a manual clock.
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        matches!(self.0, TimeSource::Manual(_))
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            TimeSource::System => {
                let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::default() + elapsed
            }
            TimeSource::Manual(time) => Timestamp::from_micros(time.date.load(Ordering::SeqCst)),
        }
    }

    /// Starts a stopwatch.
    #[must_use]
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch(match &self.0 {
            TimeSource::System => Start::System(Instant::now()),
            TimeSource::Manual(time) => {
                let started_micros = time.elapsed.load(Ordering::SeqCst);
                Start::Manual { time: Arc::clone(time), started_micros }
            }
        })
    }

    /// Advances the date and the elapsed time of a manual clock. The system's clock is not
    /// affected.
    pub fn advance(&self, by: Duration) {
        if let TimeSource::Manual(time) = &self.0 {
            let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
            time.elapsed.fetch_add(by, Ordering::SeqCst);
            time.date.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Sets the date of a manual clock, but not its elapsed time. The system's clock is not
    /// affected.
    pub fn set(&self, date: Timestamp) {
        if let TimeSource::Manual(time) = &self.0 {
            time.date.store(date.micros(), Ordering::SeqCst);
        }
    }
}

impl Stopwatch {
    /// Returns the time since the stopwatch was started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Start::System(started) => started.elapsed(),
            Start::Manual { time, started_micros } => {
                let elapsed = time.elapsed.load(Ordering::SeqCst).saturating_sub(*started_micros);
                Duration::from_micros(u64::try_from(elapsed).unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_show_the_same_time() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let other = clock.clone();
        clock.advance(Duration::from_secs(5));
        assert_eq!(other.now(), Timestamp::from_seconds(105));
    }

    #[test]
    fn correcting_the_date_does_not_change_elapsed_time() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let stopwatch = clock.stopwatch();
        clock.advance(Duration::from_secs(5));
        clock.set(Timestamp::from_seconds(10));
        assert_eq!(stopwatch.elapsed(), Duration::from_secs(5));
        assert_eq!(clock.now(), Timestamp::from_seconds(10));
    }
}
