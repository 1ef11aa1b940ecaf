//! Signals and job control on Unix.

use std::io;
use std::process::Command;

use rustix::process::{self, Pid, WaitId, WaitIdOptions, getpid, kill_process, waitid};
use tokio::signal::unix::{self, SignalKind, signal};

use super::Signal;

/// Receives the signals of this process.
pub(crate) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hang_up: unix::Signal,
    stop: unix::Signal,
    resume: unix::Signal,
}

impl Signals {
    /// Installs the signal handlers.
    pub(crate) fn listen() -> io::Result<Self> {
        // The numbers of these two differ between systems.
        let kind = |signal: process::Signal| SignalKind::from_raw(signal.as_raw());
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stop: signal(kind(process::Signal::TSTP))?,
            resume: signal(kind(process::Signal::CONT))?,
        })
    }

    /// Waits for the next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.hang_up.recv() => Signal::Terminate,
            _ = self.stop.recv() => Signal::Stop,
            _ = self.resume.recv() => Signal::Continue,
        }
    }
}

/// Stops only this process. Returns once it is continued.
pub(super) fn stop_process() -> io::Result<()> {
    Ok(kill_process(getpid(), process::Signal::STOP)?)
}

/// Stops all processes of the job, this process last. Returns once it is continued, or immediately if
/// there is no shell to continue it.
///
/// Leave the terminal before the call, because the shell uses it as soon as the job has stopped.
pub(super) fn stop_job() -> io::Result<()> {
    // The shell waits for all processes of the job, including `cargo run`. `kill` is a builtin of every
    // shell, but not a program on every machine. This process handles the signal itself. The child shows
    // if the system stops processes that receive it, which it does not do in a job without a shell.
    let mut child = Command::new("sh").args(["-c", "kill -TSTP 0"]).spawn()?;
    let pid = Pid::from_child(&child);
    let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), states))?;
    if status.is_some_and(|status| status.stopped()) {
        stop_process()?;
        // A signal sent only to this process did not reach the child.
        kill_process(pid, process::Signal::CONT)?;
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("kill failed to stop the job")) }
}
