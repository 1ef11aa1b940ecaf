use std::{io, sync::mpsc};

use super::*;

/// Hands on what is written, and waits for leave before it takes more.
struct Slow {
    written: mpsc::Sender<String>,
    leave: mpsc::Receiver<()>,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        self.written.send(text).unwrap();
        // Where the other end is gone nothing is held up.
        self.leave.recv().unwrap_or_default();
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
    leave: mpsc::Sender<()>,
}

fn log() -> Log {
    let ((sender, written), (leave, receiver)) = (mpsc::channel(), mpsc::channel());
    let slow = Box::new(Slow { written: sender, leave: receiver });
    let (lines, guard) =
        BufferedLines::start(slow, |n_lost| format!("{n_lost} lost\n").into_bytes()).unwrap();
    Log { lines, guard, written, leave }
}

impl Log {
    fn add(&self, is_urgent: bool, line: &str) {
        self.lines.push(is_urgent, |to| to.extend_from_slice(line.as_bytes()));
    }
}

#[test]
fn lines_are_written_without_anybody_asking_and_together() {
    let log = log();
    log.add(false, "a\n");
    log.add(false, "b\n");
    // While the first ones are written, which takes a while, others come.
    let mut first = log.written.recv().unwrap();
    for line in ["c\n", "d\n", "e\n"] {
        log.add(false, line);
    }
    log.leave.send(()).unwrap();
    let second = log.written.recv().unwrap();
    log.leave.send(()).unwrap();
    drop(log.guard);
    first.push_str(&second);
    first.extend(log.written.try_iter());
    assert_eq!(first, "a\nb\nc\nd\ne\n");
    assert!(second.len() >= 6, "{second:?}");
}

#[test]
fn what_is_urgent_is_written_at_once_behind_what_waits() {
    let log = log();
    log.leave.send(()).unwrap();
    log.leave.send(()).unwrap();
    log.add(false, "a\n");
    log.add(true, "b\n");
    assert_eq!(log.written.try_iter().collect::<String>(), "a\nb\n");
}

#[test]
fn nothing_is_lost_at_the_end_or_after_it() {
    let log = log();
    log.add(false, "a\n");
    let Log { lines, guard, written, leave } = log;
    drop(leave);
    drop(guard);
    lines.push(false, |to| to.extend_from_slice(b"b\n"));
    assert_eq!(written.try_iter().collect::<String>(), "a\nb\n");
}

#[test]
fn an_output_that_nobody_reads_holds_up_nobody_and_what_is_lost_is_counted() {
    let log = log();
    log.add(false, "a\n");
    // The thread is stuck from here on.
    assert_eq!(log.written.recv().unwrap(), "a\n");
    let line = format!("{}\n", "x".repeat(BYTES_MAX / 4 - 1));
    for _ in 0..7 {
        log.add(false, &line);
    }
    drop(log.leave);
    drop(log.guard);
    assert_eq!(log.written.recv().unwrap(), format!("{}3 lost\n", line.repeat(4)));
}
