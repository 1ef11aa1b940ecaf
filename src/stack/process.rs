//! A single process of the local stack: how it is started, how its log is read and how it is stopped.

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

use crate::data_dir::is_locked;

/// Line that a parent writes to the standard input of a child before the parent exits, so that the child
/// keeps running.
pub const STAY: &[u8] = b"stay\n";

/// Environment variable with the address of a shared database. It is not passed on, since a local stack
/// stores its state in its own directory.
const STORE_VARIABLE: &str = "TRIPTYCH_STORE";

/// Maximum time to drain before a process is killed. The screen promises a prompt within 2 seconds of
/// quitting.
const DRAIN_MAX: Duration = Duration::from_millis(1500);

/// Maximum time to read the remaining output of an exited process, since its children can hold its pipes
/// open. The sum with [`DRAIN_MAX`] is less than 2 seconds.
const LAST_LINES_MAX: Duration = Duration::from_millis(400);

/// Maximum length of a log line in bytes.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// Interval for reading the log file of a detached process.
const READ_EVERY: Duration = Duration::from_millis(250);

/// Interval at which the lock of an adopted process is checked. The system notifies only of the exit of child processes.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Interval at which the lock of an adopted process is checked while waiting for its exit.
const WAIT_EVERY: Duration = Duration::from_millis(20);

/// A log line of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Name of the process.
    pub process: Arc<str>,
    /// The line without its line feed: a JSON object, or any other output.
    pub text: String,
    /// Members of the JSON object. `None` for other output.
    pub(crate) members: Option<Map<String, Value>>,
}

impl Line {
    /// Parses the line `text` of `process`.
    #[must_use]
    pub fn new(process: Arc<str>, text: String) -> Self {
        let members = serde_json::from_str(&text).ok();
        Self { process, text, members }
    }
}

/// Facts that are learned from the log of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Peer id, if the process is a node.
    #[serde(skip)]
    pub peer_id: Option<String>,
    /// Multiaddresses, if the process is a node.
    pub multiaddresses: Vec<String>,
    /// Address such as `127.0.0.1:41233`, if the process is a service.
    pub address: Option<String>,
    /// Latest log line about a failure.
    #[serde(skip)]
    pub trouble: Option<String>,
    /// Exit status, once the process has exited.
    #[serde(skip)]
    pub exit: Option<ProcessExit>,
}

/// Exit status of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// Exit code. `None` if the process was killed by a signal.
    pub code: Option<i32>,
    /// Human-readable form: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub text: String,
}

/// Command line and environment of a process.
#[derive(Clone)]
pub struct Command {
    /// Human-readable name.
    pub process: Arc<str>,
    /// The executable, usually this program.
    pub program: PathBuf,
    /// Arguments. `--stop-with-stdin` is added unless the process is detached from the start.
    pub arguments: Vec<String>,
    /// Secrets. They are passed in the environment because arguments are visible to every user.
    pub environment: Vec<(&'static str, String)>,
    /// Log file. A process with a log file can be detached.
    pub log: Option<PathBuf>,
    /// True if the process is detached from the start. Requires `log`.
    pub is_detached: bool,
}

/// Handle of a process, which may have exited.
#[derive(Debug, Clone)]
pub struct Running {
    /// Human-readable name.
    pub process: Arc<str>,
    /// Process id.
    pub pid: u32,
    facts: watch::Receiver<Facts>,
    command: Arc<Command>,
    /// True if the process is detached.
    is_detached: Arc<AtomicBool>,
    /// Notified to stop the process.
    stop_request: Arc<Notify>,
    /// True after [`Self::stop`] was called.
    is_stop_requested: Arc<AtomicBool>,
}

impl Command {
    /// Starts the process. It exits with `group`, or if this process is killed, because the pipe to its
    /// standard input is then closed. A detached process keeps running. A process with a log file can be
    /// detached at any time with [`Running::detach`].
    ///
    /// Log lines are dropped while `lines` is full, so that a slow reader does not block the process.
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
        // In its own process group, so that ^C in the terminal reaches only this process, which then
        // stops its children in the right order.
        command.process_group(0);
        let mut child =
            command.spawn().with_context(|| format!("cannot start the {}", self.process))?;
        let pid = child.id().unwrap_or_default();
        let (tell, facts) = watch::channel(Facts::default());
        let reader = LineReader::new(&self, &tell, lines);
        // Each reader of an output drops its sender at the end of the output.
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

    /// Adopts the process `pid` that an earlier run of this program started with this command and left
    /// running. It has locked `folder`. `facts` were learned from its log so far.
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
        // The environment is omitted, since it contains secrets.
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

    /// Waits until `look` returns a value for the facts in the log.
    ///
    /// # Errors
    /// If the process exits first. The error contains its last logged failure.
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

    /// Stops the process and waits until it has exited.
    pub async fn stop(&self) -> ProcessExit {
        self.is_stop_requested.store(true, Ordering::Release);
        self.stop_request.notify_one();
        self.wait_for_exit().await
    }

    /// Returns true if [`Self::stop`] was called.
    pub fn is_stop_requested(&self) -> bool {
        self.is_stop_requested.load(Ordering::Acquire)
    }

    /// Returns true if the process has exited.
    pub fn has_exited(&self) -> bool {
        self.facts.borrow().exit.is_some()
    }

    /// Returns true if the process is detached.
    pub fn is_detached(&self) -> bool {
        self.is_detached.load(Ordering::Acquire)
    }

    /// Detaches the process if it has a log file.
    pub fn detach(&self) {
        if self.command.log.is_some() {
            self.is_detached.store(true, Ordering::Release);
        }
    }

    /// Returns the facts learned from the log so far.
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

    /// Waits until the process has exited.
    pub async fn wait_for_exit(&self) -> ProcessExit {
        let exit = self.wait_for(|facts| facts.exit.clone()).await;
        exit.unwrap_or_else(|error| ProcessExit { code: None, text: error.to_string() })
    }
}

/// Replaces the value of `flag`, if it is among the arguments.
fn set_value(arguments: &mut [String], flag: &str, value: &str) {
    let place = arguments.iter().position(|argument| argument == flag);
    if let Some(place) = place.and_then(|idx| arguments.get_mut(idx + 1)) {
        value.clone_into(place);
    }
}

/// Handles the log lines of a process: updates its facts, then forwards the line.
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

    /// Reads lines as they are appended to the log file at `path`, until the group stops. Lines of
    /// earlier runs precede the offset `n_logged`.
    async fn follow(self, path: PathBuf, n_logged: u64) {
        let Ok(mut file) = tokio::fs::File::open(&path).await else { return };
        if file.seek(SeekFrom::Start(n_logged)).await.is_err() {
            return;
        }
        let mut log = BufReader::new(file);
        let mut text = String::new();
        loop {
            // The rest of a partial line is appended by a later read.
            match log.read_line(&mut text).await {
                Ok(1..) if text.ends_with('\n') => {
                    self.take(text.trim_end());
                    text.clear();
                }
                Ok(_) => sleep(READ_EVERY).await,
                Err(_) => return,
            }
        }
    }

    /// Reads the lines of `output` until it ends. Dropping `_reading` then notifies the caller.
    async fn read_output(self, output: impl AsyncRead + Unpin, _reading: mpsc::Sender<()>) {
        read_lines(output, LINE_BYTES_MAX, |line| self.take(line)).await;
    }

    fn take(&self, text: &str) {
        let line = Line::new(Arc::clone(&self.process), text.to_owned());
        self.tell.send_if_modified(|facts| learn(facts, &line));
        // Fails if the queue is full, so the line is dropped, or closed, so there is no reader.
        drop(self.lines.try_send(line));
    }
}

/// Reads `output` to its end and passes each line that is not blank to `take`. Lines longer than
/// `bytes_max` are split.
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

/// Updates the facts from a log line. Returns true if they changed.
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

/// Sends a signal to a process, to which there may be no pipe.
fn send_signal(pid: Option<u32>, signal: Signal) {
    let Some(pid) = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) else { return };
    if let Err(error) = kill_process(pid, signal) {
        tracing::warn!(%error, "could not send {signal:?} to a process");
    }
}

/// Conditions under which a process is stopped.
struct StopConditions {
    group: Group,
    /// Notified to stop the process.
    request: Arc<Notify>,
    is_detached: Arc<AtomicBool>,
    /// Closed when all output was read.
    readers: mpsc::Receiver<()>,
}

/// Waits for the process to exit. Stops it when the group stops or on request.
async fn wait_or_stop(mut child: Child, tell: watch::Sender<Facts>, mut stop: StopConditions) {
    // Taken out of the child, since `wait` would close it.
    let mut stdin = child.stdin.take();
    let is_detached = || stop.is_detached.load(Ordering::Acquire);
    let is_over = tokio::select! {
        status = child.wait() => Some(status),
        () = stop.request.notified() => None,
        () = stop.group.stopped() => {
            if is_detached() {
                if let Some(stdin) = &mut stdin {
                    // A write fails only if the process is already exiting.
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
        if let Ok(status) = timeout(DRAIN_MAX, child.wait()).await {
            status
        } else {
            // Fails if the process exited in the meantime. The next line waits for it in any case.
            drop(child.start_kill());
            child.wait().await
        }
    };
    // The last lines contain the reason for the exit.
    drop(timeout(LAST_LINES_MAX, stop.readers.recv()).await);
    let exit = match status {
        Ok(status) => ProcessExit { code: status.code(), text: status.to_string() },
        Err(error) => ProcessExit { code: None, text: error.to_string() },
    };
    tell.send_modify(|facts| facts.exit = Some(exit));
}

/// A process that an earlier run of this program left running. It is not a child of this process,
/// so its exit is detected by its lock.
struct Adopted {
    pid: u32,
    /// Directory that the process has locked.
    folder: PathBuf,
    /// Group that stops the watch, but not the process.
    group: Group,
    /// Notified to stop the process.
    request: Arc<Notify>,
}

impl Adopted {
    /// Watches the process until it exits or the group stops. Terminates the process on request.
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
            send_signal(Some(self.pid), Signal::TERM);
            if timeout(DRAIN_MAX, wait_for_unlock(&self.folder)).await.is_ok() {
                code = Some(0);
            } else {
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
