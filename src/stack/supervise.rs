//! Restarts processes that exit unexpectedly, with exponential backoff.

use std::time::Duration;

use task::backoff::Backoff;
use task::group::Group;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::process::{Line, ProcessExit, Running};

/// First pause before a restart. In this time, the ports of the process become free.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Maximum pause before a restart. A process that cannot run is started twice a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Time for which a process must run before its next exit is followed by [`FIRST_PAUSE`] again.
const STEADY_AFTER: Duration = Duration::from_mins(2);

/// An event of a supervised process.
#[derive(Debug)]
pub enum Supervised {
    /// The process has exited. It will be restarted after the pause.
    Exited {
        /// Exit status of the process.
        exit: ProcessExit,
        /// Pause before the restart.
        restart_in: Duration,
    },
    /// The process was restarted.
    Restarted(Running),
    /// The restart has failed. The next attempt follows after the pause.
    Failed {
        /// Reason why the process cannot be restarted.
        error: anyhow::Error,
        /// Pause before the next attempt.
        restart_in: Duration,
    },
}

/// Restarts `process` on the same ports whenever it exits unexpectedly. Calls `report` for each
/// event. Log lines of restarted processes are sent to `lines`.
///
/// Returns the latest exit status when the process has stopped on request, or its stop was requested
/// during a pause before a restart.
pub async fn supervise<F: Future<Output = ()> + Send>(
    mut process: Running,
    group: Group,
    lines: mpsc::Sender<Line>,
    report: impl Fn(Supervised) -> F + Send + Sync,
) -> ProcessExit {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let since = Instant::now();
        let exit = process.wait_for_exit().await;
        if process.is_stop_requested() {
            return exit;
        }
        if since.elapsed() >= STEADY_AFTER {
            backoff.reset();
        }
        let mut restart_in = backoff.next_wait();
        report(Supervised::Exited { exit: exit.clone(), restart_in }).await;
        process = loop {
            tokio::select! {
                () = sleep(restart_in) => {}
                () = process.stop_requested() => return exit,
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
