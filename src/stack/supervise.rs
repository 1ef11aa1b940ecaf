//! Restarts processes that end unexpectedly, with exponential backoff.

use std::time::Duration;

use task::{backoff::Backoff, group::Group};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use crate::process::{Ended, Line, Running};

/// The first pause: long enough that sockets of the process are free again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause: a process that cannot run costs two starts a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Pauses start over for a process that ran this long.
const STEADY_AFTER: Duration = Duration::from_mins(2);

/// What happens to a supervised process.
#[derive(Debug)]
pub enum Supervised {
    /// It ended, and is restarted after the pause.
    Ended {
        /// How it ended.
        ended: Ended,
        /// The pause before the restart.
        restart_in: Duration,
    },
    /// It was restarted.
    Restarted(Running),
    /// It could not be restarted, and is tried again after the pause.
    Failed {
        /// Why it did not start.
        error: anyhow::Error,
        /// The pause before the restart.
        restart_in: Duration,
    },
}

/// Restarts `process` on the same ports each time it ends unexpectedly, and calls `report` for what
/// happens to it. Lines of a restarted process go to `lines`.
///
/// Returns how it ended on request; `None` where it was waiting for its restart then.
pub async fn supervise<F: Future<Output = ()> + Send>(
    mut process: Running,
    group: Group,
    lines: mpsc::Sender<Line>,
    report: impl Fn(Supervised) -> F + Send + Sync,
) -> Option<Ended> {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let since = Instant::now();
        let ended = process.wait_for_end().await;
        if process.is_end_requested() {
            return Some(ended);
        }
        if since.elapsed() >= STEADY_AFTER {
            backoff.reset();
        }
        let mut restart_in = backoff.next_wait();
        report(Supervised::Ended { ended, restart_in }).await;
        process = loop {
            sleep(restart_in).await;
            if process.is_end_requested() {
                return None;
            }
            match process.restart_command().run(&group, &lines) {
                Ok(restarted) => break restarted,
                Err(error) => {
                    restart_in = backoff.next_wait();
                    report(Supervised::Failed { error, restart_in }).await;
                }
            }
        };
        report(Supervised::Restarted(process.clone())).await;
    }
}
