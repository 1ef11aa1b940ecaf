//! Waits for a condition, with a deadline.

use std::{fmt, future::Future, time::Duration};

use tokio::time::{Instant, sleep, timeout};

/// The longest time between two looks at a condition.
const LOOK_EVERY_MAX: Duration = Duration::from_millis(50);

/// What was waited for did not come in time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("see it within {within:?}; last seen: {last_seen}")]
pub struct TimedOut {
    /// How long it was waited for.
    pub within: Duration,
    /// What the last look saw.
    pub last_seen: String,
}

/// Looks again and again until `look` returns `Ok`, at most for `within`.
///
/// # Errors
/// [`TimedOut`] with the last `Err` that `look` returned.
pub async fn until<T, S, F>(within: Duration, mut look: impl FnMut() -> F) -> Result<T, TimedOut>
where
    F: Future<Output = Result<T, S>>,
    S: fmt::Debug,
{
    let deadline = Instant::now() + within;
    let mut pause = Duration::from_millis(1);
    let mut last_seen = String::from("nothing");
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match timeout(left, look()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(seen)) => last_seen = format!("{seen:?}"),
            Err(_) => return Err(TimedOut { within, last_seen }),
        }
        if deadline <= Instant::now() {
            return Err(TimedOut { within, last_seen });
        }
        sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_looks_until_it_sees() {
        let mut n_looks = 0;
        let look = || {
            n_looks += 1;
            let seen = if n_looks < 5 { Err(n_looks) } else { Ok(n_looks) };
            async move { seen }
        };
        assert_eq!(until(Duration::from_secs(5), look).await.unwrap(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn it_times_out_with_what_it_saw_last() {
        let error = until(Duration::from_secs(1), || async { Err::<(), _>("still dark") });
        assert!(error.await.unwrap_err().last_seen.contains("still dark"));
    }
}
