//! A process that an earlier run of this program left running. It is not a child of this process, so its
//! lock shows whether it runs, and it is terminated by its process id.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use task::group::Group;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::{DRAIN_MAX, Ended, Facts, terminate};
use crate::data_dir::is_locked;

/// Interval at which the lock is checked. The system notifies only of the exit of child processes.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Interval at which the lock is checked while waiting for the exit.
const WAIT_EVERY: Duration = Duration::from_millis(20);

/// A process that was left running.
pub(super) struct Adopted {
    pub(super) pid: u32,
    /// Directory that the process has locked.
    pub(super) folder: PathBuf,
    /// Group whose stop ends the watch, but not the process.
    pub(super) group: Group,
    /// Notified to stop the process.
    pub(super) request: Arc<Notify>,
}

impl Adopted {
    /// Watches the process until it exits or the group stops. Terminates the process on request.
    pub(super) async fn watch(self, tell: watch::Sender<Facts>) {
        let is_requested = loop {
            tokio::select! {
                () = self.group.stopped() => return,
                () = self.request.notified() => break true,
                () = sleep(CHECK_EVERY) => if !is_locked(&self.folder) { break false },
            }
        };
        let mut code = None;
        if is_requested {
            terminate(Some(self.pid));
            if timeout(DRAIN_MAX, wait_for_unlock(&self.folder)).await.is_ok() {
                code = Some(0);
            } else {
                kill(self.pid);
            }
        }
        let text = "it was no child of this process".to_owned();
        tell.send_modify(|facts| facts.ended = Some(Ended { code, text }));
    }
}

async fn wait_for_unlock(folder: &Path) {
    while is_locked(folder) {
        sleep(WAIT_EVERY).await;
    }
}

#[cfg(unix)]
fn kill(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, Signal::KILL)) {
        tracing::warn!(%error, "could not kill a process");
    }
}

/// Has no effect: without signals, only the user can terminate the process.
#[cfg(not(unix))]
fn kill(_: u32) {}
