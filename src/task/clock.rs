//! The date, which tests own.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use model::timestamp::Timestamp;

/// Tells the date. Intervals are measured with `tokio::time` instead.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `moment` until it is moved with [`Self::advance`]. Clones share it.
    #[must_use]
    pub fn manual(moment: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(moment.micros()))))
    }

    /// The date now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::default() + elapsed
            }
            Source::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock forward. The machine's clock is not ours to move: nothing happens.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(micros) = &self.0 {
            let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
            micros.fetch_add(by, Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Clock(system)",
            Source::Manual(_) => "Clock(manual)",
        })
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
}
