use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{error, info};

use super::*;

/// Writer that collects the log lines of a test.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks the log line that results from `log`, at a fixed time.
#[track_caller]
fn check(log: impl FnOnce(), want: &str) {
    check_at("2026-07-30T21:57:00.512345Z", log, want);
}

/// Checks the log line that results from `log` at `time`.
#[track_caller]
fn check_at(time: &str, log: impl FnOnce(), want: &str) {
    let sink = Sink::default();
    let clock = Clock::manual(time.parse().unwrap());
    let (lines, guard) = JsonLines::start(Box::new(sink.clone()), clock).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
    drop(guard);
    assert_eq!(String::from_utf8(sink.0.lock().clone()).unwrap(), format!("{want}\n"));
}

#[test]
fn log_line_begins_with_the_level_and_ends_with_the_message() {
    check(
        || info!(role = "head", concurrency = 10, "starting node main loop"),
        r#"{"level":"info","role":"head","concurrency":10,"time":"2026-07-30T21:57:00.512Z","message":"starting node main loop"}"#,
    );
}

#[test]
fn timestamps_have_three_digits_of_milliseconds() {
    for (time, want) in [
        ("2026-07-30T21:57:00Z", "2026-07-30T21:57:00.000Z"),
        ("2026-07-30T21:57:00.5Z", "2026-07-30T21:57:00.500Z"),
        ("2026-07-30T21:57:59.999999Z", "2026-07-30T21:57:59.999Z"),
        ("1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.250Z"),
    ] {
        let line = format!(r#"{{"level":"info","time":"{want}","message":"x"}}"#);
        check_at(time, || info!("x"), &line);
    }
}

#[test]
fn control_characters_in_log_lines_are_escaped_as_in_json() {
    check(
        || info!(peer = "\u{9b}31m", "a\u{1b}[2J\u{202e}b"),
        r#"{"level":"info","peer":"\u009b31m","time":"2026-07-30T21:57:00.512Z","message":"a\u001b[2J\u202eb"}"#,
    );
}

#[test]
fn log_field_that_contains_json_is_written_without_quotes() {
    check(
        || info!(topics.json = r#"["gpu","general"]"#, "topics"),
        r#"{"level":"info","topics":["gpu","general"],"time":"2026-07-30T21:57:00.512Z","message":"topics"}"#,
    );
}

#[test]
fn quotes_in_a_logged_error_are_escaped() {
    let error = io::Error::other("disk \"full\"");
    check(
        || error!(error = &error as &dyn std::error::Error, "failed"),
        r#"{"level":"error","error":"disk \"full\"","time":"2026-07-30T21:57:00.512Z","message":"failed"}"#,
    );
}

/// Writer that sends each text to the test, and then blocks until the test drops its end of `release`.
struct BlockedWriter {
    written: mpsc::Sender<String>,
    release: mpsc::Receiver<()>,
}

impl Write for BlockedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap();
        self.release.recv().unwrap_or_default();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_a_blocked_output_does_not_take_are_dropped_and_counted() {
    let ((sender, written), (release, receiver)) = (mpsc::channel(), mpsc::channel());
    let writer = Box::new(BlockedWriter { written: sender, release: receiver });
    let (lines, guard) = JsonLines::start(writer, Clock::system()).unwrap();
    let add = |message: &str| {
        let fields = Fields { message: message.to_owned(), ..Fields::default() };
        lines.write(Level::INFO, &fields);
    };
    add("first");
    assert!(written.recv().unwrap().contains("first"));
    // From here on the writer is blocked.
    (0..LINES_MAX + 3).for_each(|_| add("next"));
    drop(release);
    let mut text = String::new();
    while text.matches("next").count() < LINES_MAX {
        text += &written.recv().unwrap();
    }
    add("last");
    drop(guard);
    text.extend(written.try_iter());
    assert_eq!(text.matches(r#""lines":3"#).count(), 1, "they are reported once");
    assert_eq!(text.lines().count(), LINES_MAX + 2);
}

/// Writer that waits before each write, and then fails if `error` is given.
struct SlowWriter {
    sink: Sink,
    wait: Duration,
    error: Option<io::ErrorKind>,
    pause: mpsc::Receiver<()>,
}

impl Write for SlowWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pause.recv_timeout(self.wait).unwrap_or_default();
        match self.error {
            Some(error) => Err(error.into()),
            None => self.sink.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Adds `n_lines` lines for an output that needs `wait` per write. Returns the number of lines that it
/// received until the exit, and the number of dropped lines.
fn write_slowly(n_lines: usize, wait: Duration, error: Option<io::ErrorKind>) -> (usize, usize) {
    let ((_keep, pause), sink) = (mpsc::channel(), Sink::default());
    let writer = SlowWriter { sink: sink.clone(), wait, error, pause };
    let (lines, guard) = JsonLines::start(Box::new(writer), Clock::system()).unwrap();
    for _ in 0..n_lines {
        lines.write(Level::INFO, &Fields { message: "x".repeat(5000), ..Fields::default() });
    }
    drop(guard);
    let n_received = String::from_utf8_lossy(&sink.0.lock()).lines().count();
    let n_dropped = lines.queue.state.lock().n_dropped;
    (n_received, n_dropped)
}

#[test]
fn exit_waits_until_a_slow_output_has_received_all_lines() {
    assert_eq!(write_slowly(20, Duration::from_millis(100), None), (20, 0));
}

#[test]
fn all_lines_for_a_closed_output_count_as_dropped() {
    assert_eq!(write_slowly(300, Duration::ZERO, Some(io::ErrorKind::BrokenPipe)), (0, 300));
}
