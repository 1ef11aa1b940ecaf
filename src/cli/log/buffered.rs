//! Buffers log lines and writes them on a separate thread, so that callers do not wait for the output.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use std::{mem, thread};

use anyhow::Context as _;
use parking_lot::{Condvar, Mutex};

/// Time for which a line stays in the buffer, so that later lines are written with it. It is short,
/// since buffered lines are lost if the process is killed.
const WAIT: Duration = Duration::from_millis(20);

/// Size of the buffer from which on lines are dropped and counted. It is reached only if the output is
/// blocked.
const BYTES_MAX: usize = 1024 * 1024;

/// Handle with which lines are added to the buffer.
pub(super) struct BufferedLines {
    shared: Arc<LogBuffer>,
}

/// Guard that flushes the buffer when it is dropped. Lines that are logged afterwards are written
/// immediately.
#[must_use]
pub(crate) struct FlushGuard(Arc<LogBuffer>);

struct LogBuffer {
    buffer: Mutex<LineBuffer>,
    changed: Condvar,
    writer: Mutex<Box<dyn Write + Send>>,
    /// Function that formats a line about a number of dropped lines.
    lost: fn(u64) -> Vec<u8>,
}

#[derive(Default)]
struct LineBuffer {
    lines: Vec<u8>,
    n_lost: u64,
    is_closed: bool,
}

impl BufferedLines {
    /// Starts a thread that writes the buffered lines to `writer`. `lost` formats a line about a number
    /// of dropped lines.
    pub(super) fn start(
        writer: Box<dyn Write + Send>,
        lost: fn(u64) -> Vec<u8>,
    ) -> anyhow::Result<(Self, FlushGuard)> {
        let (buffer, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(LogBuffer { buffer, changed, writer: Mutex::new(writer), lost });
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("log".to_owned());
        // The thread is not joined: it runs until the process exits, and the guard writes the last
        // lines.
        thread.spawn(move || work.run()).context("cannot start the thread that writes the log")?;
        Ok((Self { shared: Arc::clone(&shared) }, FlushGuard(shared)))
    }

    /// Appends a line to the buffer with `put`. If the guard was dropped, also flushes the buffer.
    pub(super) fn push(&self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = self.shared.buffer.lock();
        if buffer.lines.len() >= BYTES_MAX {
            buffer.n_lost += 1;
        } else {
            let was_empty = buffer.lines.is_empty();
            put(&mut buffer.lines);
            if was_empty {
                self.shared.changed.notify_one();
            }
        }
        if buffer.is_closed {
            drop(buffer);
            self.shared.write();
        }
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        self.0.buffer.lock().is_closed = true;
        // If the thread is writing, this first waits for it.
        self.0.write();
    }
}

impl LogBuffer {
    fn run(&self) {
        loop {
            let mut buffer = self.buffer.lock();
            self.changed.wait_while(&mut buffer, |buffer| buffer.lines.is_empty());
            // A notification is sent only for the first line in the buffer, so this wait lasts for the
            // full time.
            self.changed.wait_for(&mut buffer, WAIT);
            drop(buffer);
            self.write();
        }
    }

    /// Flushes the buffer.
    fn write(&self) {
        // The writer is locked before lines are taken from the buffer, so that threads write them in
        // the order in which they were added.
        let mut writer = self.writer.lock();
        let mut buffer = self.buffer.lock();
        let mut lines = mem::take(&mut buffer.lines);
        let n_lost = mem::take(&mut buffer.n_lost);
        drop(buffer);
        if n_lost > 0 {
            lines.extend_from_slice(&(self.lost)(n_lost));
        }
        // Errors are ignored, since a failure of the log cannot be logged.
        drop(writer.write_all(&lines).and_then(|()| writer.flush()));
    }
}

#[cfg(test)]
mod tests;
