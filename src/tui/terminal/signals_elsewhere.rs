//! What the event loop handles where there are no signals: an interrupt.

use std::{future, io};

use super::Signal;

/// Receives the interrupts of this process.
pub(crate) struct Signals;

impl Signals {
    /// Listens from now on.
    #[expect(clippy::unnecessary_wraps, reason = "as where there are signals")]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => future::pending().await,
        }
    }
}
