//! Standard streams of a guest, with one limit for standard output and error together.

use std::io::{self, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, duplex};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// Maximum number of bytes that a guest is offered to write at a time. It only affects copying, since
/// all bytes are counted.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Source and targets of a guest's standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Uses the input of the run and collects the output.
    Kept,
    /// The streams of this process.
    Process,
}

/// The standard output and error of a guest. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) streams: Streams,
    written: Arc<Mutex<Written>>,
}

/// Output of a guest as far as it was collected.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Bytes written to standard output.
    pub(crate) stdout: Vec<u8>,
    /// Bytes written to standard error.
    pub(crate) stderr: Vec<u8>,
    /// True if the output exceeded the limit.
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

/// The output exceeds its limit.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("output exceeds its limit")]
struct Full;

impl Output {
    /// Creates an output of at most `bytes_max` bytes in total.
    pub(crate) fn new(streams: Streams, bytes_max: usize) -> Self {
        let written = Written { bytes_left: bytes_max, ..Written::default() };
        Self { streams, written: Arc::new(Mutex::new(written)) }
    }

    /// Returns the standard output.
    pub(crate) fn stdout(&self) -> Sink {
        Sink { output: self.clone(), stream: Stream::Out }
    }

    /// Returns the standard error.
    pub(crate) fn stderr(&self) -> Sink {
        Sink { output: self.clone(), stream: Stream::Error }
    }

    /// Removes and returns the collected output.
    pub(crate) fn take(&self) -> Written {
        std::mem::take(&mut self.written.lock())
    }
}

impl Sink {
    /// Writes `bytes` up to the limit.
    ///
    /// # Errors
    /// [`Full`] if the limit is exceeded, or a stream of this process is closed.
    fn take(&self, bytes: &[u8]) -> Result<(), Full> {
        let mut written = self.output.written.lock();
        let n_taken = bytes.len().min(written.bytes_left);
        let taken = bytes.get(..n_taken).unwrap_or_default();
        written.bytes_left -= n_taken;
        let is_taken = match (self.output.streams, self.stream) {
            (Streams::Kept, Stream::Out) => {
                written.stdout.extend_from_slice(taken);
                true
            }
            (Streams::Kept, Stream::Error) => {
                written.stderr.extend_from_slice(taken);
                true
            }
            (Streams::Process, Stream::Out) => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(taken).and_then(|()| stdout.flush()).is_ok()
            }
            (Streams::Process, Stream::Error) => io::stderr().lock().write_all(taken).is_ok(),
        };
        if is_taken && n_taken == bytes.len() {
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
    /// Returns a pipe without a reader. Only preview 3 uses the pipe, and preview 3 is not offered.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(duplex(1).0)
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Sink {
    /// Traps when the limit is reached, which stops the guest.
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes).map_err(|full| StreamError::Trap(full.into()))
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
