//! Records the screen to a file in the format asciicast v2, which `asciinema play` and web players
//! show.
//!
//! Only the output of frames is recorded, no input and no clipboard. A thread writes the file, so that a
//! slow disk does not delay frames.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use model::timestamp::Timestamp;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// Maximum size of a recording: some hours of a live chart. At this size, the recording ends.
const BYTES_MAX: usize = 100_000_000;

/// Maximum number of frames that wait to be written. If there are more, the disk is too slow for the
/// recording, which then ends.
const WAITING_MAX: usize = 64;

/// Maximum time to wait for the last frames to be written when the screen closes.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// A recording in progress.
pub(crate) struct Recording {
    lines: SyncSender<String>,
    /// Result of the thread that writes.
    written: oneshot::Receiver<io::Result<()>>,
    started_at: Instant,
    /// Number of columns and rows in the latest event.
    size: (u16, u16),
    n_bytes: usize,
    bytes_max: usize,
}

impl Recording {
    /// Creates the file at `path`, readable only by the user, for a terminal of this size.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the file exists, or another error if it cannot be created.
    pub(crate) fn create(path: &Path, size: (u16, u16), now: Timestamp) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Self::start(file, size, now, BYTES_MAX)
    }

    fn start(
        mut file: impl Write + Send + 'static,
        size: (u16, u16),
        now: Timestamp,
        bytes_max: usize,
    ) -> io::Result<Self> {
        let (lines, waiting) = sync_channel::<String>(WAITING_MAX);
        let (done, written) = oneshot::channel();
        thread::Builder::new().name("recording".to_owned()).spawn(move || {
            let result = waiting.iter().try_for_each(|line| file.write_all(line.as_bytes()));
            // If sending fails, the screen is closed already.
            done.send(result).ok();
        })?;
        let started_at = Instant::now();
        let mut recording = Self { lines, written, started_at, size, n_bytes: 0, bytes_max };
        let (width, height) = size;
        let timestamp = now.seconds();
        recording.write(&json!({
            "version": 2, "width": width, "height": height, "timestamp": timestamp
        }))?;
        recording.event("o", "\x1b[?25l")?;
        Ok(recording)
    }

    /// Records the output of a frame on a terminal of this size.
    ///
    /// # Errors
    /// The reason why the recording ends: a failed write, a slow disk or the maximum size.
    pub(crate) fn add(&mut self, size: (u16, u16), output: &[u8]) -> io::Result<()> {
        if self.size != size {
            self.size = size;
            self.event("r", &format!("{}x{}", size.0, size.1))?;
        }
        if self.n_bytes + output.len() > self.bytes_max {
            let why = format!("recording reached its maximum of {} MB", self.bytes_max / 1_000_000);
            self.event("o", &format!("\x1b[0m\x1b[2J\x1b[H{why} and ends here\r\n"))?;
            return Err(io::Error::other(why));
        }
        self.event("o", &String::from_utf8_lossy(output))
    }

    fn event(&mut self, code: &str, text: &str) -> io::Result<()> {
        self.write(&json!([self.started_at.elapsed().as_secs_f64(), code, text]))
    }

    fn write(&mut self, line: &Value) -> io::Result<()> {
        let line = format!("{line}\n");
        self.n_bytes += line.len();
        self.lines.try_send(line).map_err(|error| match error {
            TrySendError::Full(_) => io::Error::other("disk is too slow"),
            TrySendError::Disconnected(_) => match self.written.try_recv() {
                Ok(Err(error)) => error,
                _ => io::Error::other("file is closed"),
            },
        })
    }

    /// Waits until all frames are written, at most for [`WRITTEN_WITHIN`].
    pub(crate) async fn finish(self) {
        drop(self.lines);
        if !matches!(timeout(WRITTEN_WITHIN, self.written).await, Ok(Ok(Ok(())))) {
            tracing::warn!("failed to write the end of the recording");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// A file in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn start(file: impl Write + Send + 'static, bytes_max: usize) -> io::Result<Recording> {
        let now = Timestamp::from_seconds(1_700_000_000);
        Recording::start(file, (80, 24), now, bytes_max)
    }

    fn lines(file: &Memory) -> Vec<Value> {
        let text = String::from_utf8(file.0.lock().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn recording_has_a_header_and_events_of_output_and_size() {
        let file = Memory::default();
        let mut recording = start(file.clone(), 10_000).unwrap();
        recording.add((80, 24), "\x1b[1mé".as_bytes()).unwrap();
        recording.add((100, 30), b"wide").unwrap();
        recording.finish().await;
        let lines = lines(&file);
        let header = json!({"version": 2, "width": 80, "height": 24, "timestamp": 1_700_000_000});
        assert_eq!(lines[0], header);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let events: Vec<_> = lines[1..].iter().map(|it| (text(&it[1]), text(&it[2]))).collect();
        let want = [("o", "\x1b[?25l"), ("o", "\x1b[1mé"), ("r", "100x30"), ("o", "wide")];
        assert_eq!(events, want.map(|(code, text)| (code.to_owned(), text.to_owned())));
        assert!(lines[1..].is_sorted_by_key(|line| line[0].as_f64()), "{lines:?}");
    }

    #[tokio::test]
    async fn recording_ends_with_a_notice_at_its_maximum_size() {
        let file = Memory::default();
        let mut recording = start(file.clone(), 1_000).unwrap();
        recording.add((80, 24), &[b'x'; 500]).unwrap();
        let error = recording.add((80, 24), &[b'x'; 500]).unwrap_err();
        assert!(error.to_string().contains("maximum"), "{error}");
        recording.finish().await;
        let last = lines(&file).pop().unwrap();
        assert!(last[2].as_str().unwrap().contains("ends here"), "{last}");
        assert!(file.0.lock().len() < 1_200);
    }

    #[tokio::test]
    async fn failed_write_is_reported_with_its_reason() {
        // The first write can already have failed when the recording is started.
        let mut recorded = start(Full, 10_000);
        let error = loop {
            match recorded.and_then(|mut it| it.add((80, 24), b"x").map(|()| it)) {
                Ok(recording) => recorded = Ok(recording),
                Err(error) => break error,
            }
            tokio::task::yield_now().await;
        };
        assert!(
            error.kind() == io::ErrorKind::StorageFull || error.to_string() == "disk is too slow",
            "{error}"
        );
    }
}
