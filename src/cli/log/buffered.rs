//! Buffers log lines and writes them on a thread of its own, so that logging does not wait for the
//! output. Urgent lines are written before the caller goes on.

use std::{io::Write, mem, sync::Arc, thread, time::Duration};

use anyhow::Context as _;
use parking_lot::{Condvar, Mutex};

/// How long a line waits for others. What waits is lost where the process is killed.
const WAIT: Duration = Duration::from_millis(20);

/// Bytes of lines that wait at most, while nobody reads the output. Further ones are counted.
const BYTES_MAX: usize = 1024 * 1024;

/// A buffer of lines.
pub(super) struct BufferedLines {
    shared: Arc<Shared>,
}

/// Flushes the buffer when it is dropped.
#[must_use]
pub(crate) struct FlushGuard(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    writer: Mutex<Box<dyn Write + Send>>,
    /// A line that says how many were lost.
    lost: fn(u64) -> Vec<u8>,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    n_lost: u64,
    is_over: bool,
}

impl BufferedLines {
    /// Starts the thread, which writes to `writer`, and in place of lines that were lost what `lost`
    /// says of so many.
    pub(super) fn start(
        writer: Box<dyn Write + Send>,
        lost: fn(u64) -> Vec<u8>,
    ) -> anyhow::Result<(Self, FlushGuard)> {
        let (waiting, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { waiting, changed, writer: Mutex::new(writer), lost });
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("log".to_owned());
        // It ends with the process.
        thread.spawn(move || work.run()).context("start the thread that writes the log")?;
        Ok((Self { shared: Arc::clone(&shared) }, FlushGuard(shared)))
    }

    /// Buffers what `put` writes.
    pub(super) fn push(&self, is_urgent: bool, put: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.shared.waiting.lock();
        if waiting.lines.len() >= BYTES_MAX {
            waiting.n_lost += 1;
        } else {
            let was_empty = waiting.lines.is_empty();
            put(&mut waiting.lines);
            if was_empty {
                self.shared.changed.notify_one();
            }
        }
        let is_now = is_urgent || waiting.is_over;
        drop(waiting);
        if is_now {
            self.shared.write();
        }
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        self.0.waiting.lock().is_over = true;
        // Waits for the thread, if that is writing.
        self.0.write();
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut waiting = self.waiting.lock();
            self.changed.wait_while(&mut waiting, |waiting| waiting.lines.is_empty());
            // Nothing is notified while lines wait.
            self.changed.wait_for(&mut waiting, WAIT);
            drop(waiting);
            self.write();
        }
    }

    /// Writes what waits.
    fn write(&self) {
        // Held before the lines are taken, so that those taken first are written first.
        let mut writer = self.writer.lock();
        let mut waiting = self.waiting.lock();
        let mut lines = mem::take(&mut waiting.lines);
        let n_lost = mem::take(&mut waiting.n_lost);
        drop(waiting);
        if n_lost > 0 {
            lines.extend_from_slice(&(self.lost)(n_lost));
        }
        // Where the log cannot be written there is nowhere left to say so.
        drop(writer.write_all(&lines).and_then(|()| writer.flush()));
    }
}

#[cfg(test)]
mod tests;
