//! Waiting that says so: one plain line now and then, fit for a log and for a screen reader.

use std::time::Duration;

use tokio::time::{Instant, interval_at};

use crate::cli::output::tell;

/// How long work may take before anything is said: what is shorter needs no explanation.
const SILENT: Duration = Duration::from_secs(2);

/// How often it is said again.
const AGAIN_EVERY: Duration = Duration::from_secs(10);

/// Awaits `work`. Where that takes long, says on standard error that it is `doing`.
pub(crate) async fn with_progress<T>(doing: &str, work: impl Future<Output = T>) -> T {
    report_progress(doing, work, |line| tell(&line)).await
}

async fn report_progress<T>(
    doing: &str,
    work: impl Future<Output = T>,
    mut tell: impl FnMut(String),
) -> T {
    let began = Instant::now();
    let mut again = interval_at(began + SILENT, AGAIN_EVERY);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = again.tick() => {
                tell(format!("{doing}, for {} s so far", began.elapsed().as_secs()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// Does work of `seconds` and checks what is said meanwhile.
    async fn check(seconds: u64, want: &[&str]) {
        let mut lines = Vec::new();
        let work = async {
            sleep(Duration::from_secs(seconds)).await;
            seconds
        };
        assert_eq!(report_progress("working", work, |line| lines.push(line)).await, seconds);
        assert_eq!(lines, want);
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_is_reported_and_short_work_is_not() {
        check(1, &[]).await;
        let want = ["working, for 2 s so far", "working, for 12 s so far"];
        check(20, &want).await;
    }
}
