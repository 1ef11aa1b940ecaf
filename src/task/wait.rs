//! Waiting for a condition, with a deadline.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Maximum pause between two checks.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// A condition did not become true before the deadline.
#[derive(Debug, Clone, thiserror::Error)]
#[error("timed out after {within:?}, last state: {last_seen}")]
pub struct TimedOut {
    /// The time limit.
    pub within: Duration,
    /// Last error of the check, formatted by `Debug`, or `nothing` if no check completed.
    pub last_seen: String,
}

/// Calls `check` repeatedly until it returns `Ok`, at most for `within`.
///
/// # Errors
/// [`TimedOut`] with the last error of `check`.
pub async fn until<T, S, F>(within: Duration, mut check: impl FnMut() -> F) -> Result<T, TimedOut>
where
    F: Future<Output = Result<T, S>>,
    S: fmt::Debug,
{
    let deadline = Instant::now() + within;
    let mut pause = Duration::from_millis(1);
    let mut last_seen = String::from("nothing");
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match timeout(left, check()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(seen)) => last_seen = format!("{seen:?}"),
            Err(_) => return Err(TimedOut { within, last_seen }),
        }
        if deadline <= Instant::now() {
            return Err(TimedOut { within, last_seen });
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn check_is_repeated_until_it_succeeds() {
        let mut n_checks = 0;
        let check = || {
            n_checks += 1;
            let result = if n_checks < 5 { Err(n_checks) } else { Ok(n_checks) };
            async move { result }
        };
        assert_eq!(until(Duration::from_secs(5), check).await.unwrap(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_error_contains_the_last_error_of_the_check() {
        let error = until(Duration::from_secs(1), || async { Err::<(), _>("still dark") });
        assert!(error.await.unwrap_err().last_seen.contains("still dark"));
    }
}
