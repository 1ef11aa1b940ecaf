//! Whether the store is fast, as far as its last reads tell.

use std::time::Duration;

use tokio::time::Instant;

/// A read of a short page that takes longer waited for the disk: out of memory it takes some tenths
/// of this.
const FAST_WITHIN: Duration = Duration::from_millis(1);

/// For how many times as long as a read waited the next ones are taken to wait, too: so threads that
/// serve others are held up by the disk for a seventeenth of the time at most, and a single slow
/// read costs little.
const SLOW_TIMES: u32 = 16;

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
        let took = ended.saturating_duration_since(began);
        if took > FAST_WITHIN {
            self.slow_until = ended.checked_add(took.saturating_mul(SLOW_TIMES));
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
        let took = FAST_WITHIN * 2;
        let ended = began + took;
        pace.took(began, ended);
        assert!(!pace.is_fast(ended));
        pace.took(ended, ended + FAST_WITHIN);
        assert!(!pace.is_fast(ended + took * (SLOW_TIMES - 1)));
        assert!(pace.is_fast(ended + took * SLOW_TIMES));
    }
}
