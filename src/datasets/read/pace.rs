//! Whether the store is fast, as far as its last reads tell.

use std::time::Duration;

use tokio::time::Instant;

/// A read of a short page that takes longer waited for the disk: out of memory it takes some tenths
/// of this.
const FAST_WITHIN: Duration = Duration::from_millis(1);

/// How long a read that waited is taken for a sign that the next ones will. A thread that serves
/// others is held up by the disk once in this time, and not more.
const SLOW_FOR: Duration = Duration::from_secs(1);

/// How fast short reads were.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    slow_until: Option<Instant>,
}

impl Pace {
    /// Whether a read is likely to end soon.
    pub(super) fn is_fast(&self, now: Instant) -> bool {
        self.slow_until.is_none_or(|until| now >= until)
    }

    /// Takes note of a read.
    pub(super) fn took(&mut self, began: Instant, ended: Instant) {
        if ended.saturating_duration_since(began) > FAST_WITHIN {
            self.slow_until = ended.checked_add(SLOW_FOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_read_makes_the_next_ones_slow_for_a_while() {
        let mut pace = Pace::default();
        let began = Instant::now();
        assert!(pace.is_fast(began));
        pace.took(began, began + FAST_WITHIN);
        assert!(pace.is_fast(began));
        let ended = began + FAST_WITHIN * 2;
        pace.took(began, ended);
        assert!(!pace.is_fast(ended));
        pace.took(ended, ended + FAST_WITHIN);
        assert!(!pace.is_fast(ended + SLOW_FOR / 2));
        assert!(pace.is_fast(ended + SLOW_FOR));
    }
}
