//! The signals of Unix that the event loop handles.

use std::io;

use tokio::signal::unix::{self, SignalKind, signal};

use super::Signal;

/// Receives the signals of this process.
pub(crate) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hang_up: unix::Signal,
    stop: unix::Signal,
    carry_on: unix::Signal,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        // The numbers of the last two differ between systems.
        let kind = |signal: rustix::process::Signal| SignalKind::from_raw(signal.as_raw());
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stop: signal(kind(rustix::process::Signal::TSTP))?,
            carry_on: signal(kind(rustix::process::Signal::CONT))?,
        })
    }

    /// Waits for the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.hang_up.recv() => Signal::Terminate,
            _ = self.stop.recv() => Signal::Stop,
            _ = self.carry_on.recv() => Signal::Continue,
        }
    }
}
