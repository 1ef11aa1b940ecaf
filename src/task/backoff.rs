//! Exponential backoff with jitter.

use std::time::Duration;

/// Pauses between attempts. Each pause is twice as long as the previous pause, up to a maximum.
///
/// Each pause is shortened at random by up to half. Otherwise, clients that have lost the same
/// server would all reconnect at the same time.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    n_tries: u32,
}

impl Backoff {
    /// Creates pauses that start with `first` and never exceed `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, n_tries: 0 }
    }

    /// Returns the next pause, which the caller has to wait.
    pub fn next_wait(&mut self) -> Duration {
        let whole = self.ceiling();
        self.n_tries = self.n_tries.saturating_add(1);
        whole.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// Resets the pauses after a success. The next pause is again the first.
    pub fn reset(&mut self) {
        self.n_tries = 0;
    }

    /// Returns the number of pauses since the last [`Self::reset`].
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
    fn waits_double_up_to_the_maximum_and_restart_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));
        for whole in [1, 2, 4, 8, 8, 8] {
            let wait = backoff.next_wait();
            assert!(wait >= Duration::from_secs(whole) / 2 && wait <= Duration::from_secs(whole));
        }
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_secs(1));
    }

    #[test]
    fn wait_does_not_overflow_after_a_thousand_tries() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        for _ in 0..1000 {
            assert!(backoff.next_wait() <= Duration::from_mins(1));
        }
    }
}
