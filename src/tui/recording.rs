//! Records the screen to a file in the format asciicast v2, which `asciinema play` and web players
//! show.
//!
//! Only the output of frames is recorded, no input and no clipboard. A thread writes the file, so that a
//! slow disk does not delay frames.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
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
    /// True if the recording lacks the last frame, because the frame shows a secret.
    pub(crate) is_behind: bool,
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
        mut file: File,
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
        let mut recording =
            Self { lines, written, started_at, size, n_bytes: 0, bytes_max, is_behind: false };
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
        match timeout(WRITTEN_WITHIN, self.written).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "failed to write the end of the recording");
            }
            _ => tracing::warn!("the disk is too slow for the end of the recording"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, PipeReader, Read as _, pipe};
    use std::iter;
    use std::os::fd::OwnedFd;

    use super::*;

    /// Starts a recording to a pipe. Returns the pipe's reader.
    fn start(bytes_max: usize) -> (Recording, PipeReader) {
        let (reader, writer) = pipe().unwrap();
        let (file, now) = (OwnedFd::from(writer).into(), Timestamp::from_seconds(1_700_000_000));
        (Recording::start(file, (80, 24), now, bytes_max).unwrap(), reader)
    }

    /// Finishes a recording. Returns its lines.
    async fn lines(recording: Recording, mut reader: PipeReader) -> Vec<Value> {
        recording.finish().await;
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn recording_has_a_header_and_events_of_output_and_size() {
        let (mut recording, reader) = start(10_000);
        recording.add((80, 24), "\x1b[1mé".as_bytes()).unwrap();
        recording.add((100, 30), b"wide").unwrap();
        let lines = lines(recording, reader).await;
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
        let (mut recording, reader) = start(1_000);
        recording.add((80, 24), &[b'x'; 500]).unwrap();
        let error = recording.add((80, 24), &[b'x'; 500]).unwrap_err();
        assert!(error.to_string().contains("maximum"), "{error}");
        let last = lines(recording, reader).await.pop().unwrap();
        assert!(last[2].as_str().unwrap().contains("ends here"), "{last}");
    }

    #[test]
    fn slow_disk_ends_the_recording_without_a_delay_of_frames() {
        let (mut recording, _reader) = start(BYTES_MAX);
        let mut results = iter::repeat_with(|| recording.add((80, 24), &[b'x'; 10_000]));
        let error = results.find_map(Result::err).unwrap();
        assert_eq!(error.to_string(), "disk is too slow");
    }

    #[test]
    fn failed_write_is_reported_with_its_reason() {
        let (mut recording, reader) = start(BYTES_MAX);
        drop(reader);
        // The queue can be full before the thread has failed.
        let mut results = iter::repeat_with(|| recording.add((80, 24), b"x"));
        let error =
            results.find(|it| it.as_ref().is_err_and(|error| error.kind() != ErrorKind::Other));
        assert_eq!(error.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
