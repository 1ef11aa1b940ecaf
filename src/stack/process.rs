//! A process of the local stack: starts it, reads its log and stops it.

use std::fs::File;
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use task::group::Group;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _,
    BufReader,
};
use tokio::process::{Child, Command as OsCommand};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::data_dir::is_locked;

/// Line that tells a child to keep running. A parent that exits writes it to the standard input of
/// the child.
pub const STAY: &[u8] = b"stay\n";

/// Environment variable with the address of a shared database. The variable is removed from the
/// environment of processes, since a local stack stores its state in its own directory.
const STORE_VARIABLE: &str = "TRIPTYCH_STORE";

/// Maximum time for a process to exit on request. After this time, the process must exit without
/// finishing its work. The screen promises to return to the shell within 2 seconds.
const DRAIN_MAX: Duration = Duration::from_millis(1200);

/// Maximum time for a process to exit without finishing its work: a worker kills the programs that
/// execute functions. After this time, the process is killed.
const ABORT_MAX: Duration = Duration::from_millis(300);

/// Maximum time to read the remaining output of a process that has exited. Its children can hold
/// the pipes open. Together with [`DRAIN_MAX`] and [`ABORT_MAX`], this is less than 2 seconds.
const LAST_LINES_MAX: Duration = Duration::from_millis(400);

/// Maximum length of a log line in bytes.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// Interval at which the log file of a process is read.
const READ_EVERY: Duration = Duration::from_millis(250);

/// Interval at which the lock of an adopted process is checked. The system reports the exit of a
/// process only to its parent.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Interval at which the lock is checked while an adopted process is being stopped.
const WAIT_EVERY: Duration = Duration::from_millis(20);

/// A line of output of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Name of the process.
    pub process: Arc<str>,
    /// Text without the line feed: a JSON object or any other output.
    pub text: String,
    /// Members of the JSON object. `None` if the text is not a JSON object.
    pub(crate) members: Option<Map<String, Value>>,
}

impl Line {
    /// Parses the line `text` that the process `process` has printed.
    #[must_use]
    pub fn new(process: Arc<str>, text: String) -> Self {
        let members = serde_json::from_str(&text).ok();
        Self { process, text, members }
    }

    /// Returns the level of the log line. `None` if the line has no level.
    #[must_use]
    pub fn level(&self) -> Option<Level> {
        self.members.as_ref()?.get("level")?.as_str()?.parse().ok()
    }
}

/// Facts that are learned from the log of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Peer id. `None` until a node logs it.
    #[serde(skip)]
    pub peer_id: Option<String>,
    /// Multiaddresses. Empty until a node logs them.
    pub multiaddresses: Vec<String>,
    /// Address at which the process serves HTTP, such as `127.0.0.1:41233`. `None` until the
    /// process logs it.
    pub address: Option<String>,
    /// Text of the latest log line that reports a failure.
    #[serde(skip)]
    pub trouble: Option<String>,
    /// Exit status. `None` while the process is running.
    #[serde(skip)]
    pub exit: Option<ProcessExit>,
}

/// Exit status of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// Exit code. `None` if a signal has killed the process.
    pub code: Option<i32>,
    /// Description, such as `exit status: 1` or `signal: 9 (SIGKILL)`.
    pub text: String,
}

/// Command line and environment with which a process is started.
#[derive(Clone)]
pub struct Command {
    /// Name of the process for people.
    pub process: Arc<str>,
    /// Path of the executable, usually this program.
    pub program: PathBuf,
    /// Arguments. `--stop-with-stdin` is added if `is_detached` is false.
    pub arguments: Vec<String>,
    /// Environment variables with secrets. Arguments would be visible to every user of the
    /// machine.
    pub environment: Vec<(&'static str, String)>,
    /// Path of the log file. A process can only be detached if it has a log file.
    pub log: Option<PathBuf>,
    /// True if the process is detached from the start. Requires `log`.
    pub is_detached: bool,
}

/// Handle of a process, which may have exited already.
#[derive(Debug, Clone)]
pub struct Running {
    /// Name of the process for people.
    pub process: Arc<str>,
    /// Process id of the current run.
    pub pid: u32,
    facts: watch::Receiver<Facts>,
    command: Arc<Command>,
    /// True if the process was detached.
    is_detached: Arc<AtomicBool>,
    /// Notified when the process must stop.
    stop_request: Arc<Notify>,
    /// True after a call of [`Self::stop`].
    is_stop_requested: Arc<AtomicBool>,
}

impl Command {
    /// Starts the process. The process exits when `group` stops. It also exits if this program is
    /// killed, since the pipe to its standard input is closed then. A detached process keeps running in
    /// both cases. A process with a log file can be detached later by [`Running::detach`].
    ///
    /// If `lines` is full, log lines are dropped, so that a slow reader does not block the
    /// process.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn run(self, group: &Group, lines: &mpsc::Sender<Line>) -> anyhow::Result<Running> {
        let mut command = OsCommand::new(&self.program);
        command
            .args(&self.arguments)
            .env_remove(STORE_VARIABLE)
            .envs(self.environment.iter().cloned());
        let mut n_logged = 0;
        if let Some(path) = &self.log {
            let open = || File::options().create(true).append(true).open(path);
            let log = open().and_then(|log| Ok((log.metadata()?.len(), log.try_clone()?, log)));
            let (n_bytes, out, err) =
                log.with_context(|| format!("cannot open {}", path.display()))?;
            n_logged = n_bytes;
            command.stdout(out).stderr(err);
        } else {
            command.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        if self.is_detached {
            command.stdin(Stdio::null());
        } else {
            command.arg("--stop-with-stdin").stdin(Stdio::piped());
        }
        // The child gets its own process group, so that ^C in the terminal does not reach the child.
        // This process stops its children in the right order.
        command.process_group(0);
        let mut child =
            command.spawn().with_context(|| format!("cannot start the {}", self.process))?;
        let pid = child.id().unwrap_or_default();
        let (tell, facts) = watch::channel(Facts::default());
        let reader = LineReader::new(&self, &tell, lines);
        // The channel is closed when both readers have reached the end of the output.
        let (reading, readers) = mpsc::channel::<()>(1);
        if let Some(stdout) = child.stdout.take() {
            let read = reader.clone().read_output(stdout, reading.clone());
            group.spawn_to_end("process output", read);
        }
        if let Some(stderr) = child.stderr.take() {
            let read = reader.clone().read_output(stderr, reading);
            group.spawn_to_end("process errors", read);
        }
        if let Some(path) = self.log.clone() {
            group.spawn("process log", reader.follow(path, n_logged));
        }
        let started = Arc::new(self);
        let is_detached = started.is_detached;
        let running = Running::new(pid, facts, started, is_detached);
        let stop = StopConditions {
            group: group.clone(),
            request: Arc::clone(&running.stop_request),
            is_detached: Arc::clone(&running.is_detached),
            readers,
        };
        group.spawn_to_end("process", wait_or_stop(child, tell, stop));
        Ok(running)
    }

    /// Returns a handle of the process `pid`. An earlier run of this program started the process with
    /// this command and left it running. The process has locked `folder`. `facts` were already learned
    /// from its log.
    pub fn adopt(
        self,
        pid: u32,
        folder: PathBuf,
        facts: Facts,
        group: &Group,
        lines: &mpsc::Sender<Line>,
    ) -> Running {
        let (tell, facts) = watch::channel(facts);
        if let Some(path) = self.log.clone() {
            let n_logged = std::fs::metadata(&path).map_or(0, |log| log.len());
            let reader = LineReader::new(&self, &tell, lines);
            group.spawn("process log", reader.follow(path, n_logged));
        }
        let running = Running::new(pid, facts, Arc::new(self), true);
        let request = Arc::clone(&running.stop_request);
        let adopted = Adopted { pid, folder, group: group.clone(), request };
        group.spawn("adopted process", adopted.watch(tell));
        running
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The environment contains secrets, so it is omitted.
        f.debug_struct("Command").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Running {
    fn new(
        pid: u32,
        facts: watch::Receiver<Facts>,
        command: Arc<Command>,
        is_detached: bool,
    ) -> Self {
        Self {
            process: Arc::clone(&command.process),
            pid,
            facts,
            command,
            is_detached: Arc::new(AtomicBool::new(is_detached)),
            stop_request: Arc::default(),
            is_stop_requested: Arc::default(),
        }
    }

    /// Waits until `look` returns a value for the facts that were learned from the log.
    ///
    /// # Errors
    /// If the process exits before that. The error contains the last failure in its log.
    pub async fn wait_for<T>(
        &self,
        look: impl Fn(&Facts) -> Option<T> + Send + Sync,
    ) -> anyhow::Result<T> {
        let mut facts = self.facts.clone();
        let seen = facts.wait_for(|facts| facts.exit.is_some() || look(facts).is_some()).await;
        let facts =
            seen.with_context(|| format!("the {} is no longer watched", self.process))?.clone();
        look(&facts).with_context(|| {
            let exit = facts.exit.map(|exit| exit.text).unwrap_or_default();
            let trouble = facts.trouble.map(|text| format!(": {text}")).unwrap_or_default();
            format!("the {} exited ({exit}){trouble}", self.process)
        })
    }

    /// Stops the process and waits for its exit.
    pub async fn stop(&self) -> ProcessExit {
        self.is_stop_requested.store(true, Ordering::Release);
        self.stop_request.notify_one();
        self.wait_for_exit().await
    }

    /// Waits for a call of [`Self::stop`] after the process has exited.
    pub(crate) async fn stop_requested(&self) {
        self.stop_request.notified().await;
    }

    /// Returns the directory with the log file. `None` if the process has no log file.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.command.log.as_deref()?.parent()
    }

    /// Returns true if [`Self::stop`] was called.
    pub fn is_stop_requested(&self) -> bool {
        self.is_stop_requested.load(Ordering::Acquire)
    }

    /// Returns true if the process has exited.
    pub fn has_exited(&self) -> bool {
        self.facts.borrow().exit.is_some()
    }

    /// Returns true if the process was detached.
    pub fn is_detached(&self) -> bool {
        self.is_detached.load(Ordering::Acquire)
    }

    /// Detaches the process, if it has a log file.
    pub fn detach(&self) {
        if self.command.log.is_some() {
            self.is_detached.store(true, Ordering::Release);
        }
    }

    /// Returns the facts that were learned from the log so far.
    pub fn facts(&self) -> Facts {
        self.facts.borrow().clone()
    }

    /// Returns a command that starts the process again on the same ports.
    pub fn restart_command(&self) -> Command {
        let mut command = (*self.command).clone();
        command.is_detached = self.is_detached();
        let facts = self.facts.borrow();
        if let Some(address) = &facts.address {
            for flag in ["--rest-api", "--listen"] {
                set_value(&mut command.arguments, flag, address);
            }
        }
        let port = facts.multiaddresses.iter().find_map(|address| {
            let mut parts = address.split('/').skip_while(|part| *part != "tcp");
            parts.nth(1)
        });
        if let Some(port) = port {
            set_value(&mut command.arguments, "--port", port);
        }
        command
    }

    /// Waits for the exit of the process.
    pub async fn wait_for_exit(&self) -> ProcessExit {
        let exit = self.wait_for(|facts| facts.exit.clone()).await;
        exit.unwrap_or_else(|error| ProcessExit { code: None, text: error.to_string() })
    }
}

/// Replaces the value after `flag` in `arguments`, if the flag is present.
fn set_value(arguments: &mut [String], flag: &str, value: &str) {
    let place = arguments.iter().position(|argument| argument == flag);
    if let Some(place) = place.and_then(|idx| arguments.get_mut(idx + 1)) {
        value.clone_into(place);
    }
}

/// Handles the log lines of a process: updates its facts and forwards the lines.
#[derive(Clone)]
struct LineReader {
    process: Arc<str>,
    tell: watch::Sender<Facts>,
    lines: mpsc::Sender<Line>,
}

impl LineReader {
    fn new(command: &Command, tell: &watch::Sender<Facts>, lines: &mpsc::Sender<Line>) -> Self {
        let process = Arc::clone(&command.process);
        Self { process, tell: tell.clone(), lines: lines.clone() }
    }

    /// Reads lines that are appended to the log file at `path`, until the group stops. `n_logged`
    /// is the length of the file when the process was started.
    async fn follow(self, path: PathBuf, n_logged: u64) {
        let Ok(mut file) = tokio::fs::File::open(&path).await else { return };
        if file.seek(SeekFrom::Start(n_logged)).await.is_err() {
            return;
        }
        let mut log = BufReader::new(file);
        let mut bytes = Vec::new();
        loop {
            // A line without a line feed is incomplete. Later reads append the rest.
            let bytes_max = LINE_BYTES_MAX.saturating_sub(bytes.len() as u64);
            match (&mut log).take(bytes_max).read_until(b'\n', &mut bytes).await {
                Ok(1..) if bytes.ends_with(b"\n") || bytes.len() as u64 == LINE_BYTES_MAX => {
                    self.take(String::from_utf8_lossy(&bytes).trim_end());
                    bytes.clear();
                }
                Ok(_) => sleep(READ_EVERY).await,
                Err(_) => return,
            }
        }
    }

    /// Reads the lines of `output` to its end. Then drops `_reading`, so that the receiver notices
    /// the end.
    async fn read_output(self, output: impl AsyncRead + Unpin, _reading: mpsc::Sender<()>) {
        read_lines(output, LINE_BYTES_MAX, |line| self.take(line)).await;
    }

    fn take(&self, text: &str) {
        let line = Line::new(Arc::clone(&self.process), text.to_owned());
        self.tell.send_if_modified(|facts| learn(facts, &line));
        // If the channel is full, the line is dropped. If the channel is closed, nobody reads the lines.
        drop(self.lines.try_send(line));
    }
}

/// Reads `output` to its end and calls `take` for each line that is not blank. Lines of more than
/// `bytes_max` bytes are split.
pub(crate) async fn read_lines(
    output: impl AsyncRead + Unpin,
    bytes_max: u64,
    mut take: impl FnMut(&str),
) {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while let Ok(1..) = (&mut output).take(bytes_max).read_until(b'\n', &mut bytes).await {
        let line = String::from_utf8_lossy(&bytes);
        if !line.trim_end().is_empty() {
            take(line.trim_end());
        }
        bytes.clear();
    }
}

/// Updates `facts` by a line of the log. Returns true if the facts have changed.
fn learn(facts: &mut Facts, line: &Line) -> bool {
    let Some(line) = &line.members else {
        facts.trouble = Some(match (&facts.trouble, line.text.starts_with("hint: ")) {
            (Some(error), true) => format!("{error}\n{}", line.text),
            _ => line.text.trim_start_matches("error: ").to_owned(),
        });
        return true;
    };
    let string = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
    let before = facts.clone();
    match string("message").unwrap_or_default().as_str() {
        "created host" => {
            facts.peer_id = string("id");
            facts.multiaddresses = line
                .get("addresses")
                .and_then(Value::as_array)
                .map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default();
        }
        "Node API starting" | "dataset service listening" | "inference service listening" => {
            facts.address = string("address");
        }
        message if line.get("level").and_then(Value::as_str) == Some("error") => {
            let cause = string("error").map(|cause| format!(": {cause}")).unwrap_or_default();
            facts.trouble = Some(format!("{message}{cause}"));
        }
        _ => {}
    }
    *facts != before
}

/// Sends a signal to a process. Works for processes without a pipe, too.
fn send_signal(pid: Option<u32>, signal: Signal) {
    let Some(pid) = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) else { return };
    if let Err(error) = kill_process(pid, signal) {
        tracing::warn!(%error, "could not send {signal:?} to a process");
    }
}

/// Events that stop a process, and the state that its end depends on.
struct StopConditions {
    group: Group,
    /// Notified when the process must stop.
    request: Arc<Notify>,
    is_detached: Arc<AtomicBool>,
    /// Closed when all output has been read.
    readers: mpsc::Receiver<()>,
}

/// Waits for the exit of the process. Stops the process if the group stops or its stop is
/// requested.
async fn wait_or_stop(mut child: Child, tell: watch::Sender<Facts>, mut stop: StopConditions) {
    // Taken out of the child, since `wait` would close the pipe and so stop the process.
    let mut stdin = child.stdin.take();
    let is_detached = || stop.is_detached.load(Ordering::Acquire);
    let is_over = tokio::select! {
        status = child.wait() => Some(status),
        () = stop.request.notified() => None,
        () = stop.group.stopped() => {
            if is_detached() {
                if let Some(stdin) = &mut stdin {
                    // Fails only if the process is exiting already.
                    stdin.write_all(STAY).await.ok();
                }
                return;
            }
            None
        }
    };
    let status = if let Some(status) = is_over {
        status
    } else {
        if stdin.take().is_none() {
            send_signal(child.id(), Signal::TERM);
        }
        let mut exit = timeout(DRAIN_MAX, child.wait()).await;
        if exit.is_err() {
            send_signal(child.id(), Signal::TERM);
            exit = timeout(ABORT_MAX, child.wait()).await;
        }
        if let Ok(status) = exit {
            status
        } else {
            // Killing fails if the process has exited in the meantime. The following call collects the
            // exit.
            drop(child.start_kill());
            child.wait().await
        }
    };
    // The exit is reported after the last lines of output, which often contain its reason.
    drop(timeout(LAST_LINES_MAX, stop.readers.recv()).await);
    let exit = match status {
        Ok(status) => ProcessExit { code: status.code(), text: status.to_string() },
        Err(error) => ProcessExit { code: None, text: error.to_string() },
    };
    tell.send_modify(|facts| facts.exit = Some(exit));
}

/// A process that an earlier run of this program left running. The process is not a child of this
/// program, so its exit is noticed by its lock, which the system releases.
struct Adopted {
    pid: u32,
    /// Directory that the process has locked.
    folder: PathBuf,
    /// Group of tasks. When it stops, the process is no longer watched, but keeps running.
    group: Group,
    /// Notified when the process must stop.
    request: Arc<Notify>,
}

impl Adopted {
    /// Watches the process until it exits or the group stops. Terminates the process if its stop
    /// is requested.
    async fn watch(self, tell: watch::Sender<Facts>) {
        let is_requested = loop {
            tokio::select! {
                () = self.group.stopped() => return,
                () = self.request.notified() => break true,
                () = sleep(CHECK_EVERY) => if !is_locked(&self.folder) { break false },
            }
        };
        let mut code = None;
        if is_requested {
            for within in [DRAIN_MAX, ABORT_MAX] {
                send_signal(Some(self.pid), Signal::TERM);
                if timeout(within, wait_for_unlock(&self.folder)).await.is_ok() {
                    code = Some(0);
                    break;
                }
            }
            if code.is_none() {
                send_signal(Some(self.pid), Signal::KILL);
            }
        }
        let text = "exit status unknown, since it was not a child of this process".to_owned();
        tell.send_modify(|facts| facts.exit = Some(ProcessExit { code, text }));
    }
}

async fn wait_for_unlock(folder: &Path) {
    while is_locked(folder) {
        sleep(WAIT_EVERY).await;
    }
}

#[cfg(test)]
mod tests;
