//! A process of the program in the background: its output line by line, signals to it, and its exit.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use crate::support::process::{self, Signal};
use crate::support::{CACHE, TRIPTYCH, wait};

/// Maximum time until a process writes a line or exits. Tests share the processors with one another and
/// with a compiler.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);

/// A running process of the program. When dropped, a command is killed and a service is stopped.
pub(crate) struct Running {
    child: Child,
    /// Standard input of a service, which exits when its input is closed. `None` for a command.
    stdin: Option<ChildStdin>,
    output: Arc<Output>,
}

#[derive(Default)]
struct Output {
    lines: Mutex<Lines>,
    changed: Condvar,
}

/// Lines that were written so far, and the number of outputs that have been closed.
#[derive(Default)]
struct Lines {
    stdout: Vec<String>,
    stderr: Vec<String>,
    n_closed: usize,
}

impl Running {
    /// Starts a service with `arguments`.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// Starts a service with `arguments` and additional environment variables.
    pub(crate) fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::spawn_service(Command::new(TRIPTYCH), arguments, environment)
    }

    /// Starts a service with `arguments` from a shell that first runs `setup`, such as `ulimit -n 64`.
    pub(crate) fn start_after(setup: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{setup}; exec \"$0\" \"$@\""), TRIPTYCH]);
        Self::spawn_service(shell, arguments, &[])
    }

    /// Starts a service that does not ignore SIGHUP, even if the tests themselves are run with `nohup`.
    pub(crate) fn start_with_hangup(arguments: &[&str]) -> Self {
        let mut env = Command::new("env");
        if cfg!(target_os = "linux") {
            env.arg("--default-signal=HUP");
        }
        env.arg(TRIPTYCH);
        Self::spawn_service(env, arguments, &[])
    }

    fn spawn_service(
        mut program: Command,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        program
            .args(arguments)
            .arg("--stop-with-stdin")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("XDG_CACHE_HOME", CACHE)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let stdin = child.stdin.take();
        let mut running = Self::from_command(child);
        running.stdin = stdin;
        running
    }

    /// Wraps a command with pipes for its output.
    pub(super) fn from_command(mut child: Child) -> Self {
        let output = Arc::new(Output::default());
        output.read(child.stdout.take().unwrap(), |lines| &mut lines.stdout);
        output.read(child.stderr.take().unwrap(), |lines| &mut lines.stderr);
        Self { child, stdin: None, output }
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the lines of standard output that were written so far.
    pub(crate) fn stdout(&self) -> Vec<String> {
        self.output.lines.lock().stdout.clone()
    }

    /// Returns the lines of standard output that were written so far, if there are at least `n_lines`.
    pub(crate) fn try_lines(&self, n_lines: usize) -> Option<Vec<String>> {
        Some(self.stdout()).filter(|lines| lines.len() >= n_lines)
    }

    /// Waits for `n_lines` lines of standard output and returns all lines.
    #[track_caller]
    pub(crate) fn wait_lines(&self, n_lines: usize) -> Vec<String> {
        self.output.wait(&format!("{n_lines} lines"), |lines| {
            Some(&lines.stdout).filter(|lines| lines.len() >= n_lines).cloned()
        })
    }

    /// Waits for a line of standard error that contains `text`.
    #[track_caller]
    pub(crate) fn wait_stderr(&self, text: &str) {
        self.output
            .wait(text, |lines| lines.stderr.iter().any(|line| line.contains(text)).then_some(()));
    }

    /// Waits for a log line with the message `message`, on either output. Returns the line.
    #[track_caller]
    pub(crate) fn wait_log(&self, message: &str) -> Value {
        self.output.wait(message, |lines| lines.log(message).next())
    }

    /// Waits for a log line that has the message `message` and a string called `field`. Returns the
    /// string.
    #[track_caller]
    pub(crate) fn wait_log_field(&self, message: &str, field: &str) -> String {
        self.output.wait(&format!("`{field}` of {message}"), |lines| {
            lines.log(message).find_map(|line| line.get(field)?.as_str().map(str::to_owned))
        })
    }

    /// Sends SIGHUP repeatedly until a log line has `message`, since the process may not handle signals
    /// yet.
    #[track_caller]
    pub(crate) fn hang_up_until(&self, message: &str) {
        wait::until(message, WITHIN, || {
            process::signal(self.pid(), Signal::HangUp);
            self.output.lines.lock().log(message).next().map(drop).ok_or("no such line")
        });
    }

    /// Kills the process and waits for its exit.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Interrupts a command as a terminal does and returns its exit code.
    #[track_caller]
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        process::signal(self.pid(), Signal::Interrupt);
        self.wait_exit()
    }

    /// Waits for the exit of a command and returns its exit code.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self) -> Option<i32> {
        wait_child(&mut self.child).code()
    }

    /// Asks a service to stop and waits for its exit. Returns true if it exits with success.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> bool {
        self.stdin.take();
        wait_child(&mut self.child).success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if self.stdin.is_some() && !thread::panicking() {
            self.stop();
        } else {
            // Errors are ignored: after a panic, a second panic would hide the first. Processes that a
            // service has started exit when their pipes are closed.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

impl Lines {
    /// Returns the log lines with the message `message`.
    fn log(&self, message: &str) -> impl Iterator<Item = Value> {
        let lines = self.stdout.iter().chain(&self.stderr);
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(move |line| line["message"] == message)
    }
}

impl Output {
    /// Reads `pipe` in a thread. Adds the lines to the list that `select` returns.
    fn read(
        self: &Arc<Self>,
        pipe: impl Read + Send + 'static,
        select: impl Fn(&mut Lines) -> &mut Vec<String> + Send + 'static,
    ) {
        let output = Arc::clone(self);
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                select(&mut output.lines.lock()).push(line);
                output.changed.notify_all();
            }
            output.lines.lock().n_closed += 1;
            output.changed.notify_all();
        });
    }

    /// Waits until `find` returns a value. Panics with the output if this takes too long, or if the
    /// process closes both outputs first.
    #[track_caller]
    fn wait<T>(&self, wanted: &str, find: impl Fn(&Lines) -> Option<T>) -> T {
        let mut lines = self.lines.lock();
        let is_pending = |lines: &mut Lines| find(lines).is_none() && lines.n_closed < 2;
        self.changed.wait_while_for(&mut lines, is_pending, WITHIN);
        find(&lines).unwrap_or_else(|| {
            let (stdout, stderr) = (lines.stdout.join("\n"), lines.stderr.join("\n"));
            panic!("no `{wanted}` within {WITHIN:?}; output:\n{stdout}\n{stderr}")
        })
    }
}

/// Waits for the exit of `child`. Panics if this takes too long.
#[track_caller]
pub(super) fn wait_child(child: &mut Child) -> ExitStatus {
    wait::until("exit of the process", WITHIN, || {
        child.try_wait().map_err(|error| error.to_string())?.ok_or("still running".to_owned())
    })
}
