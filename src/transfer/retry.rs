//! Retries of requests to a dataset service that fail temporarily.

use std::time::Duration;

use client::error::ClientError;
use task::backoff::Backoff;
use tokio::time::sleep;

/// Maximum number of attempts of a request, which together take about a minute.
const TRIES_MAX: u32 = 8;

/// Minimum and maximum pause before a retry.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Sends a request, and repeats it with exponential backoff while it fails temporarily.
pub(crate) async fn retry_transient<T, A>(mut send: impl FnMut() -> A) -> Result<T, ClientError>
where
    A: Future<Output = Result<T, ClientError>>,
{
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    loop {
        match send().await {
            Err(error) if is_transient(&error) && backoff.n_tries() < TRIES_MAX => {
                let wait = backoff.next_wait();
                sleep(error.retry_after().map_or(wait, |least| least.max(wait))).await;
            }
            done => return done,
        }
    }
}

/// Returns true if the same request can succeed later, for example after an overload.
pub(crate) fn is_transient(error: &ClientError) -> bool {
    match error {
        ClientError::Reach { .. }
        | ClientError::Lost { .. }
        | ClientError::TimedOut { .. }
        | ClientError::Limited { .. } => true,
        error => error.status().is_some_and(|status| status >= 500 || status == 408),
    }
}
