//! Buffers log lines and writes them on a separate thread, so that logging does not wait for the
//! output. Urgent lines are written before the caller continues.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use std::{mem, thread};

use anyhow::Context as _;
use parking_lot::{Condvar, Mutex};

/// Time for which a line waits for others. Waiting lines are lost if the process is killed.
const WAIT: Duration = Duration::from_millis(20);

/// Maximum size of waiting lines while the output is blocked. Further lines are counted and
/// dropped.
const BYTES_MAX: usize = 1024 * 1024;

/// Handle to the buffer.
pub(super) struct BufferedLines {
    shared: Arc<LogBuffer>,
}

/// Flushes the buffer when it is dropped.
#[must_use]
pub(crate) struct FlushGuard(Arc<LogBuffer>);

struct LogBuffer {
    buffer: Mutex<LineBuffer>,
    changed: Condvar,
    writer: Mutex<Box<dyn Write + Send>>,
    /// Formats a line about a number of lost lines.
    lost: fn(u64) -> Vec<u8>,
}

#[derive(Default)]
struct LineBuffer {
    lines: Vec<u8>,
    n_lost: u64,
    is_closed: bool,
}

impl BufferedLines {
    /// Starts the thread, which writes to `writer`. `lost` formats a line about lost lines.
    pub(super) fn start(
        writer: Box<dyn Write + Send>,
        lost: fn(u64) -> Vec<u8>,
    ) -> anyhow::Result<(Self, FlushGuard)> {
        let (buffer, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(LogBuffer { buffer, changed, writer: Mutex::new(writer), lost });
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("log".to_owned());
        // The thread exits with the process.
        thread.spawn(move || work.run()).context("cannot start the thread that writes the log")?;
        Ok((Self { shared: Arc::clone(&shared) }, FlushGuard(shared)))
    }

    /// Appends the line that `put` writes.
    pub(super) fn push(&self, is_urgent: bool, put: impl FnOnce(&mut Vec<u8>)) {
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
        let is_now = is_urgent || buffer.is_closed;
        drop(buffer);
        if is_now {
            self.shared.write();
        }
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        self.0.buffer.lock().is_closed = true;
        // Waits for the thread, if it is writing.
        self.0.write();
    }
}

impl LogBuffer {
    fn run(&self) {
        loop {
            let mut buffer = self.buffer.lock();
            self.changed.wait_while(&mut buffer, |buffer| buffer.lines.is_empty());
            // No notification is sent while lines wait.
            self.changed.wait_for(&mut buffer, WAIT);
            drop(buffer);
            self.write();
        }
    }

    /// Flushes the buffer.
    fn write(&self) {
        // Locked before the lines are removed from the buffer, so that they are written in their order.
        let mut writer = self.writer.lock();
        let mut buffer = self.buffer.lock();
        let mut lines = mem::take(&mut buffer.lines);
        let n_lost = mem::take(&mut buffer.n_lost);
        drop(buffer);
        if n_lost > 0 {
            lines.extend_from_slice(&(self.lost)(n_lost));
        }
        // If the log cannot be written, there is no place to report it.
        drop(writer.write_all(&lines).and_then(|()| writer.flush()));
    }
}

#[cfg(test)]
mod tests;
