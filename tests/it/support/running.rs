//! A command that goes on by itself: read line by line, interrupted, killed.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, ChildStdout},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::support::{
    process::{self, Signal},
    wait,
};

/// How long anything may take where other tests and a compiler share two processors.
const WITHIN: Duration = Duration::from_mins(1);

/// A command that runs. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    out: Arc<Lines>,
    err: Arc<Lines>,
}

/// Lines that came so far.
#[derive(Default)]
struct Lines {
    lines: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

impl Lines {
    fn read(output: impl Read + Send + 'static) -> Arc<Self> {
        let lines = Arc::new(Self::default());
        let read = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                read.lines.lock().0.push(line);
                read.more.notify_all();
            }
            read.lines.lock().1 = true;
            read.more.notify_all();
        });
        lines
    }

    fn wait(&self, is_enough: impl Fn(&[String]) -> bool) -> Option<Vec<String>> {
        let mut lines = self.lines.lock();
        self.more.wait_while_for(&mut lines, |lines| !is_enough(&lines.0) && !lines.1, WITHIN);
        is_enough(&lines.0).then(|| lines.0.clone())
    }

    fn so_far(&self) -> Vec<String> {
        self.lines.lock().0.clone()
    }
}

impl Running {
    pub(super) fn of(mut child: Child) -> Self {
        let out = Lines::read(child.stdout.take().unwrap());
        let err = Lines::read(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// Waits for `n_lines` of standard output, and returns all there are.
    #[track_caller]
    pub(crate) fn lines(&self, n_lines: usize) -> Vec<String> {
        self.out.wait(|lines| lines.len() >= n_lines).unwrap_or_else(|| {
            let (out, err) = (self.out.so_far(), self.err.so_far());
            panic!("{n_lines} lines: not within {WITHIN:?}; there are {}: {err:?}", out.len())
        })
    }

    /// The standard output so far, if that is `n_lines` or more.
    pub(crate) fn so_far(&self, n_lines: usize) -> Option<Vec<String>> {
        Some(self.out.so_far()).filter(|lines| lines.len() >= n_lines)
    }

    /// Waits for a line of standard error that contains `text`.
    #[track_caller]
    pub(crate) fn tells(&self, text: &str) {
        let is_told = |lines: &[String]| lines.iter().any(|line| line.contains(text));
        let told = self.err.wait(is_told);
        assert!(told.is_some(), "`{text}`: not within {WITHIN:?}: {:?}", self.err.so_far());
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Interrupts it as a terminal does, and returns its exit code.
    #[track_caller]
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        process::signal(self.child.id(), Signal::Interrupt);
        self.ended()
    }

    /// Waits for its end, and returns its exit code.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let status = wait::until("the command ends", WITHIN, || {
            self.child.try_wait().map_err(|error| error.to_string())?.ok_or("it runs".to_owned())
        });
        status.code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is none to complain about.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reads the first line of a command's output, and lets go of the rest.
pub(crate) fn first_line_only(mut child: Child) -> (String, Option<i32>) {
    let mut out: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    let status = wait::until("the command ends", WITHIN, || {
        child.try_wait().map_err(|error| error.to_string())?.ok_or("it runs".to_owned())
    });
    (line, status.code())
}
