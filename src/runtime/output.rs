//! What a guest writes: both of its streams, under one limit.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamError, StreamResult},
};

/// How much a guest may hand over at once. What it has written is counted on arrival, so this is
/// about copying alone.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// The standard output and error of one guest. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Output(Arc<Mutex<Written>>);

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// To standard output.
    pub(crate) stdout: Vec<u8>,
    /// To standard error.
    pub(crate) stderr: Vec<u8>,
    /// Whether there was more than the limit lets through.
    pub(crate) is_cut: bool,
    bytes_left: usize,
}

/// One of the two streams.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    output: Output,
    stream: Stream,
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Out,
    Error,
}

/// The guest wrote more than it may.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("write within the output limit")]
struct Full;

impl Output {
    /// Keeps at most `bytes_max` bytes, of both streams together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Written { bytes_left: bytes_max, ..Written::default() })))
    }

    /// The standard output.
    pub(crate) fn stdout(&self) -> Sink {
        Sink { output: self.clone(), stream: Stream::Out }
    }

    /// The standard error.
    pub(crate) fn stderr(&self) -> Sink {
        Sink { output: self.clone(), stream: Stream::Error }
    }

    /// Takes what was written so far, leaving nothing.
    pub(crate) fn take(&self) -> Written {
        std::mem::take(&mut self.0.lock())
    }
}

impl Sink {
    /// Keeps what the limit lets through.
    ///
    /// # Errors
    /// [`Full`] if that is not all.
    fn keep(&self, bytes: &[u8]) -> Result<(), Full> {
        let mut written = self.output.0.lock();
        let n_kept = bytes.len().min(written.bytes_left);
        let kept = bytes.get(..n_kept).unwrap_or_default();
        written.bytes_left -= n_kept;
        match self.stream {
            Stream::Out => written.stdout.extend_from_slice(kept),
            Stream::Error => written.stderr.extend_from_slice(kept),
        }
        if n_kept == bytes.len() {
            return Ok(());
        }
        written.is_cut = true;
        Err(Full)
    }
}

impl IsTerminal for Sink {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Sink {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Sink {
    /// A trap where the limit is reached: it ends the guest.
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.keep(&bytes).map_err(|full| StreamError::Trap(full.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[async_trait]
impl Pollable for Sink {
    async fn ready(&mut self) {}
}

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.keep(bytes).map(|()| bytes.len()).map_err(io::Error::other))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
