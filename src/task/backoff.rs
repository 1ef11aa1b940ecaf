//! Exponential backoff with jitter.

use std::time::Duration;

/// Waits that double from a first to a longest one, each shortened at random by up to a half, so
/// that many who lost the same peer do not return at once.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    n_tries: u32,
}

impl Backoff {
    /// Starts with `first` and never waits longer than `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, n_tries: 0 }
    }

    /// Returns the next wait: between half of and the whole of the doubled one.
    pub fn next_wait(&mut self) -> Duration {
        let whole = self.ceiling();
        self.n_tries = self.n_tries.saturating_add(1);
        whole.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.n_tries = 0;
    }

    /// Tries since the last success.
    #[must_use]
    pub const fn n_tries(&self) -> u32 {
        self.n_tries
    }

    fn ceiling(&self) -> Duration {
        let factor = 2_u32.saturating_pow(self.n_tries);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_over_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));
        for whole in [1, 2, 4, 8, 8, 8] {
            let wait = backoff.next_wait();
            assert!(wait >= Duration::from_secs(whole) / 2 && wait <= Duration::from_secs(whole));
        }
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_secs(1));
    }

    #[test]
    fn a_thousand_tries_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        for _ in 0..1000 {
            assert!(backoff.next_wait() <= Duration::from_mins(1));
        }
    }
}
