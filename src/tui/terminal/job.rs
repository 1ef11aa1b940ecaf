//! Job control: stops this program and its job as `^Z` stops a program without a screen.

use std::{io, process::Command};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

/// Stops this process alone; returns once it is continued.
pub(super) fn stop_this() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// Stops all processes of the job, this one last; returns once it is continued, or at once where
/// no shell could continue it.
///
/// Leave the terminal before: the shell takes it as soon as the job has stopped.
pub(super) fn stop() -> io::Result<()> {
    // The shell waits for all processes of the job, `cargo run` among them. Every shell has a
    // builtin `kill`; not every machine has a program of that name. We handle this signal ourselves,
    // so the child shows whether the system stops processes that get it: not in a job without a
    // shell.
    let mut child = Command::new("sh").args(["-c", "kill -TSTP 0"]).spawn()?;
    let pid = Pid::from_child(&child);
    let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), states))?;
    if status.is_some_and(|status| status.stopped()) {
        kill_process(getpid(), Signal::STOP)?;
        // A signal to this process alone did not reach the child.
        kill_process(pid, Signal::CONT)?;
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("kill failed to stop the job")) }
}
