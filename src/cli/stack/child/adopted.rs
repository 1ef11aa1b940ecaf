//! A process that an earlier run of this program left running: watched by its lock, ended by its
//! number.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use task::group::Group;
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::{DRAIN_MAX, Ended, Facts, ask};
use crate::cli::place;

/// How often it is looked after: it is no child, so that nothing tells of its end.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often it is looked after while it is waited for.
const WAIT_EVERY: Duration = Duration::from_millis(20);

/// What ends it, or the watch over it.
pub(super) struct Ends {
    pub(super) group: Group,
    pub(super) is_asked: Arc<Notify>,
}

/// Whether a process holds the lock of `folder`.
pub(in crate::cli) fn is_held(folder: &Path) -> bool {
    folder.is_dir() && place::locked(folder).is_ok_and(|lock| lock.is_none())
}

/// Watches the process until it ends, or the group stops; ends it when asked to.
pub(super) async fn supervise(
    (pid, folder): (u32, PathBuf),
    tell: watch::Sender<Facts>,
    ends: Ends,
) {
    let is_asked = loop {
        tokio::select! {
            () = ends.group.stopped() => return,
            () = ends.is_asked.notified() => break true,
            () = sleep(LOOK_EVERY) => if !is_held(&folder) { break false },
        }
    };
    let mut code = None;
    if is_asked {
        ask(Some(pid));
        if timeout(DRAIN_MAX, freed(&folder)).await.is_ok() {
            code = Some(0);
        } else {
            kill(pid);
        }
    }
    let text = "it was no child of this process".to_owned();
    tell.send_modify(|facts| facts.ended = Some(Ended { code, text }));
}

async fn freed(folder: &Path) {
    while is_held(folder) {
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

/// Without signals it stays until whoever runs it ends it.
#[cfg(not(unix))]
fn kill(_: u32) {}
