//! Lets concurrent callers share the outcome of a check, so that frequent requests do not repeat
//! the check.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time for which an outcome is valid. It is shorter than the interval at which load balancers check.
const HOLDS_FOR: Duration = Duration::from_millis(500);

/// Outcome of the latest check, in a lock that is held while the check runs again.
#[derive(Debug)]
pub struct SharedCheck<T>(Mutex<Option<(T, Instant)>>);

impl<T> Default for SharedCheck<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> SharedCheck<T> {
    /// Returns the outcome of the latest check, or runs `check` if that outcome is too old. Concurrent
    /// callers wait for the same check. Cancel-safe if `check` is.
    pub async fn get(&self, check: impl Future<Output = T>) -> T {
        let mut last = self.0.lock().await;
        match &*last {
            Some((outcome, ended)) if ended.elapsed() < HOLDS_FOR => outcome.clone(),
            _ => {
                let outcome = check.await;
                *last = Some((outcome.clone(), Instant::now()));
                outcome
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_result_of_a_check() {
        let n_checks = AtomicU32::new(0);
        let check = async || {
            sleep(Duration::from_secs(5)).await;
            n_checks.fetch_add(1, Ordering::Relaxed) + 1
        };
        let shared = SharedCheck::default();
        let many = async || join_all((0..9).map(|_| shared.get(check()))).await;
        assert_eq!(many().await, [1; 9]);
        advance(Duration::from_millis(499)).await;
        assert_eq!(many().await, [1; 9]);
        advance(Duration::from_millis(1)).await;
        assert_eq!(many().await, [2; 9]);
    }
}
