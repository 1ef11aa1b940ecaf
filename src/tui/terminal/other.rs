//! Signals and job control on systems other than Unix: only interrupts.

use std::{future, io};

use super::Signal;

/// Receives the interrupts of this process.
pub(crate) struct Signals;

impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "same signature as on Unix")]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the next interrupt. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => future::pending().await,
        }
    }
}

pub(super) fn stop_process() -> io::Result<()> {
    stop_job()
}

pub(super) fn stop_job() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "no shell can continue a stopped program"))
}
