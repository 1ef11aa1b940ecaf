//! Records the screen to a file in the format asciicast v2, which `asciinema play` and web players
//! show.
//!
//! Only the output of frames is recorded, no input and no clipboard.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use model::timestamp::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Maximum size of a recording: some hours of a live chart. At this size, the recording ends.
const BYTES_MAX: usize = 100_000_000;

/// A recording in progress.
pub(crate) struct Recording {
    file: File,
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

    fn start(file: File, size: (u16, u16), now: Timestamp, bytes_max: usize) -> io::Result<Self> {
        let started_at = Instant::now();
        let mut recording =
            Self { file, started_at, size, n_bytes: 0, bytes_max, is_behind: false };
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
    /// The reason why the recording ends: a failed write or the maximum size.
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
        self.file.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Starts a recording to a new file. Returns it and the path of the file.
    fn start(bytes_max: usize) -> (Recording, PathBuf) {
        let name = format!("triptych-recording-{}-{bytes_max}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let now = Timestamp::from_seconds(1_700_000_000);
        let file = File::create(&path).unwrap();
        (Recording::start(file, (80, 24), now, bytes_max).unwrap(), path)
    }

    /// Returns the lines of the file at `path`, and removes the file.
    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::remove_file(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn recording_has_a_header_and_events_of_output_and_size() {
        let (mut recording, path) = start(10_000);
        recording.add((80, 24), "\x1b[1mé".as_bytes()).unwrap();
        recording.add((100, 30), b"wide").unwrap();
        let lines = lines(&path);
        let header = json!({"version": 2, "width": 80, "height": 24, "timestamp": 1_700_000_000});
        assert_eq!(lines[0], header);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let events: Vec<_> = lines[1..].iter().map(|it| (text(&it[1]), text(&it[2]))).collect();
        let want = [("o", "\x1b[?25l"), ("o", "\x1b[1mé"), ("r", "100x30"), ("o", "wide")];
        assert_eq!(events, want.map(|(code, text)| (code.to_owned(), text.to_owned())));
        assert!(lines[1..].is_sorted_by_key(|line| line[0].as_f64()), "{lines:?}");
    }

    #[test]
    fn recording_ends_with_a_notice_at_its_maximum_size() {
        let (mut recording, path) = start(1_000);
        recording.add((80, 24), &[b'x'; 500]).unwrap();
        let error = recording.add((80, 24), &[b'x'; 500]).unwrap_err();
        assert!(error.to_string().contains("maximum"), "{error}");
        let last = lines(&path).pop().unwrap();
        assert!(last[2].as_str().unwrap().contains("ends here"), "{last}");
    }
}
