use std::io;
use std::sync::mpsc;

use super::*;

/// Writer that sends each text to the test, and then blocks until the test releases it.
struct BlockingWriter {
    written: mpsc::Sender<String>,
    release: mpsc::Receiver<()>,
}

impl Write for BlockingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        self.written.send(text).unwrap();
        // Once the test has dropped its end of the channel, this returns immediately.
        self.release.recv().unwrap_or_default();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Log {
    lines: BufferedLines,
    guard: FlushGuard,
    written: mpsc::Receiver<String>,
    release: mpsc::Sender<()>,
}

fn log() -> Log {
    let ((sender, written), (release, receiver)) = (mpsc::channel(), mpsc::channel());
    let writer = Box::new(BlockingWriter { written: sender, release: receiver });
    let (lines, guard) =
        BufferedLines::start(writer, |n_lost| format!("{n_lost} lost\n").into_bytes()).unwrap();
    Log { lines, guard, written, release }
}

impl Log {
    fn add(&self, line: &str) {
        self.lines.push(|to| to.extend_from_slice(line.as_bytes()));
    }
}

#[test]
fn log_lines_are_written_in_batches() {
    let log = log();
    log.add("a\n");
    log.add("b\n");
    // The writer is blocked with the first lines, so that the next lines are collected in the buffer.
    let mut first = log.written.recv().unwrap();
    for line in ["c\n", "d\n", "e\n"] {
        log.add(line);
    }
    log.release.send(()).unwrap();
    let second = log.written.recv().unwrap();
    log.release.send(()).unwrap();
    drop(log.guard);
    first.push_str(&second);
    first.extend(log.written.try_iter());
    assert_eq!(first, "a\nb\nc\nd\ne\n");
    assert!(second.len() >= 6, "{second:?}");
}

#[test]
fn dropping_the_guard_writes_buffered_lines_and_later_lines_are_written_immediately() {
    let log = log();
    log.add("a\n");
    let Log { lines, guard, written, release } = log;
    drop(release);
    drop(guard);
    lines.push(|to| to.extend_from_slice(b"b\n"));
    assert_eq!(written.try_iter().collect::<String>(), "a\nb\n");
}

#[test]
fn log_lines_beyond_the_buffer_of_a_blocked_output_are_dropped_and_counted() {
    let log = log();
    log.add("a\n");
    // From here on the writer is blocked, and the buffer fills.
    assert_eq!(log.written.recv().unwrap(), "a\n");
    let line = format!("{}\n", "x".repeat(BYTES_MAX / 4 - 1));
    for _ in 0..7 {
        log.add(&line);
    }
    drop(log.release);
    drop(log.guard);
    assert_eq!(log.written.recv().unwrap(), format!("{}3 lost\n", line.repeat(4)));
}
