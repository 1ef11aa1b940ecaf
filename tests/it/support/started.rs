//! A process of the program that is listened to: a stack, or one service alone.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use crate::support::{
    CACHE, TRIPTYCH,
    process::{self, Signal},
    wait,
};

/// How long a process may take to end when asked: the drain of its own processes, and some.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A process of the program. Dropped, it is asked to end, by closing its standard input.
pub(crate) struct Started {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Arc<Said>,
}

/// The lines of a process's output so far, and whether it has ended.
#[derive(Default)]
struct Said {
    lines: Mutex<Lines>,
    more: Condvar,
}

#[derive(Default)]
struct Lines {
    out: Vec<String>,
    err: Vec<String>,
    n_closed: usize,
}

impl Started {
    /// Starts the program with `arguments`.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::with_environment(arguments, &[])
    }

    /// Starts the program with `arguments`, and lets it open at most `n_files` files.
    pub(crate) fn with_open_files(n_files: usize, arguments: &[&str]) -> Self {
        Self::after(&format!("ulimit -n {n_files}"), arguments)
    }

    /// Starts the program with `arguments` in a shell that has run `limits`.
    pub(crate) fn after(limits: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{limits}; exec \"$0\" \"$@\""), TRIPTYCH]);
        Self::spawn(shell, arguments, &[])
    }

    /// Starts the program with `arguments` as `nohup` does: the signal of a lost terminal is ignored.
    pub(crate) fn without_hangup(arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", TRIPTYCH]);
        Self::spawn(shell, arguments, &[])
    }

    /// Starts the program with `arguments` as a terminal does, also where the tests run by `nohup`.
    pub(crate) fn with_hangup(arguments: &[&str]) -> Self {
        let mut env = Command::new("env");
        if cfg!(target_os = "linux") {
            env.arg("--default-signal=HUP");
        }
        env.arg(TRIPTYCH);
        Self::spawn(env, arguments, &[])
    }

    /// Starts the program with `arguments` and more in its environment.
    pub(crate) fn with_environment(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::spawn(Command::new(TRIPTYCH), arguments, environment)
    }

    fn spawn(mut program: Command, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = program
            .args(arguments)
            .arg("--stop-with-stdin")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("XDG_CACHE_HOME", CACHE)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Said::default());
        said.listen(child.stdout.take().unwrap(), |lines| &mut lines.out);
        said.listen(child.stderr.take().unwrap(), |lines| &mut lines.err);
        let stdin = child.stdin.take();
        Self { child, stdin, said }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output.
    pub(crate) fn out(&self) -> Vec<String> {
        self.said.lines.lock().out.clone()
    }

    /// Waits for the first line of standard output.
    #[track_caller]
    pub(crate) fn first_line(&self, within: Duration) -> String {
        self.said.wait("the first line", within, |lines| lines.out.first().cloned())
    }

    /// Waits for a log line with `message`, on either output, and returns its member `name`.
    #[track_caller]
    pub(crate) fn logged(&self, message: &str, name: &str, within: Duration) -> String {
        let member = |line: Value| line.get(name)?.as_str().map(str::to_owned);
        self.said.wait(&format!("`{message}` with `{name}`"), within, |lines| {
            lines.with(message).find_map(member)
        })
    }

    /// Waits for a log line with `message`, on either output.
    #[track_caller]
    pub(crate) fn line(&self, message: &str, within: Duration) -> Value {
        self.said.wait(&format!("`{message}`"), within, |lines| lines.with(message).next())
    }

    /// Sends SIGHUP until a log line has `message`: the process may not listen to signals yet.
    #[track_caller]
    pub(crate) fn hang_up_until(&self, message: &str, within: Duration) {
        wait::until(&format!("`{message}`"), within, || {
            process::signal(self.pid(), Signal::HangUp);
            self.said.lines.lock().with(message).next().map(drop).ok_or("no such line")
        });
    }

    /// Ends it without asking, and waits for the end.
    pub(crate) fn kill(mut self) {
        process::signal(self.pid(), Signal::Kill);
        self.child.wait().unwrap();
    }

    /// Asks it to end, waits for the end, and returns whether it ended well.
    pub(crate) fn stop(&mut self) -> bool {
        self.stdin.take();
        let status = wait::until("the process ends", ENDS_WITHIN, || {
            self.child.try_wait().map_err(|error| error.to_string())?.ok_or("it runs".to_owned())
        });
        status.success()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        self.stdin.take();
        if thread::panicking() {
            // A second panic would hide the first. What it started ends when its pipes close.
            drop(self.child.kill());
            drop(self.child.wait());
        } else {
            self.stop();
        }
    }
}

impl Lines {
    /// The log lines with `message`.
    fn with(&self, message: &str) -> impl Iterator<Item = Value> {
        let lines = self.out.iter().chain(&self.err);
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(move |line| line["message"] == message)
    }
}

impl Said {
    fn listen(
        self: &Arc<Self>,
        output: impl Read + Send + 'static,
        which: impl Fn(&mut Lines) -> &mut Vec<String> + Send + 'static,
    ) {
        let said = Arc::clone(self);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                which(&mut said.lines.lock()).push(line);
                said.more.notify_all();
            }
            said.lines.lock().n_closed += 1;
            said.more.notify_all();
        });
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, within: Duration, look: impl Fn(&Lines) -> Option<T>) -> T {
        let mut lines = self.lines.lock();
        let is_in_vain = |lines: &mut Lines| look(lines).is_none() && lines.n_closed < 2;
        self.more.wait_while_for(&mut lines, is_in_vain, within);
        look(&lines).unwrap_or_else(|| {
            let Lines { out, err, .. } = &*lines;
            panic!(
                "{what}: not within {within:?}; it said:\n{}\n{}",
                out.join("\n"),
                err.join("\n")
            )
        })
    }
}
