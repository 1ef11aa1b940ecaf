//! One process of the local stack: started, listened to, stopped.

mod adopted;

use std::{
    fs::File,
    io::SeekFrom,
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use task::group::Group;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _,
        BufReader,
    },
    process::{Child, Command as OsCommand},
    sync::{Notify, mpsc, watch},
    time::{sleep, timeout},
};

/// What a process writes to the standard input of one that it started, for that one to go on without it.
pub const STAY: &[u8] = b"stay\n";

/// The variable that names the database of services on several machines. Those of a local stack have
/// files in its folder, with the key that its screen shows.
const STORE_VARIABLE: &str = "TRIPTYCH_STORE";

/// How long a process may take to drain before it is killed. The screen promises its user a prompt
/// within 2 seconds of quitting.
const DRAIN_MAX: Duration = Duration::from_millis(1500);

/// How long the output of a process that has ended is still read: a process that it started may hold
/// its pipes open. With [`DRAIN_MAX`] it stays within those 2 seconds.
const LAST_LINES_MAX: Duration = Duration::from_millis(400);

/// The longest log line taken from a process, in bytes.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// How often the log file of a detached process is read.
const READ_EVERY: Duration = Duration::from_millis(250);

/// One log line of a process, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The name of the process.
    pub process: Arc<str>,
    /// The line without its line feed: a JSON object, or whatever else the process wrote.
    pub text: String,
    /// The members of the object; `None` of any other line.
    pub(crate) members: Option<Map<String, Value>>,
}

impl Line {
    /// The line `text` of `process`.
    #[must_use]
    pub fn new(process: Arc<str>, text: String) -> Self {
        let members = serde_json::from_str(&text).ok();
        Self { process, text, members }
    }
}

/// What a process has logged about itself so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The peer id of a node.
    #[serde(skip)]
    pub peer_id: Option<String>,
    /// A node's multiaddresses.
    pub multiaddresses: Vec<String>,
    /// The address a service answers on, such as `127.0.0.1:41233`.
    pub address: Option<String>,
    /// The last line that said something failed.
    #[serde(skip)]
    pub trouble: Option<String>,
    /// How it ended, if it did.
    #[serde(skip)]
    pub ended: Option<Ended>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// The same for people: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub text: String,
}

/// What starts a process.
#[derive(Clone)]
pub struct Command {
    /// What people call it.
    pub process: Arc<str>,
    /// The executable: this program.
    pub program: PathBuf,
    /// The arguments; `--stop-with-stdin` is added where the process does not outlive this one.
    pub arguments: Vec<String>,
    /// Secrets, which belong in the environment: arguments can be read by everyone.
    pub environment: Vec<(&'static str, String)>,
    /// The file of its log, if it may outlive this process.
    pub log: Option<PathBuf>,
    /// Whether it outlives this process from the start, however that ends; it needs a log.
    pub is_kept: bool,
}

/// A process that runs, or ran.
#[derive(Debug, Clone)]
pub struct Running {
    /// What people call it.
    pub process: Arc<str>,
    /// Its process id.
    pub pid: u32,
    facts: watch::Receiver<Facts>,
    command: Arc<Command>,
    /// Whether it outlives this process.
    is_kept: Arc<AtomicBool>,
    /// Notified when it is to end.
    end_request: Arc<Notify>,
    /// Whether its end was ever requested.
    is_end_requested: Arc<AtomicBool>,
}

impl Command {
    /// Starts the process. It ends with `group`, and with this process however that ends: it reads
    /// a pipe that closes then. One that is kept goes on, and one that has a log of its own may be
    /// kept at any time; see [`Running::keep`].
    ///
    /// Lines that find `lines` full are dropped: a reader that stalls must not stall a service.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn run(self, group: &Group, lines: &mpsc::Sender<Line>) -> anyhow::Result<Running> {
        let mut command = OsCommand::new(&self.program);
        command
            .args(&self.arguments)
            .env_remove(STORE_VARIABLE)
            .envs(self.environment.iter().cloned());
        let mut n_read = 0;
        if let Some(path) = &self.log {
            let open = || File::options().create(true).append(true).open(path);
            let log = open().and_then(|log| Ok((log.metadata()?.len(), log.try_clone()?, log)));
            let (n_bytes, out, err) = log.with_context(|| format!("open {}", path.display()))?;
            n_read = n_bytes;
            command.stdout(out).stderr(err);
        } else {
            command.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        if self.is_kept {
            command.stdin(Stdio::null());
        } else {
            command.arg("--stop-with-stdin").stdin(Stdio::piped());
        }
        // A group of its own, so that ^C in the terminal reaches this process alone, which then
        // stops the others in order.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().with_context(|| format!("start the {}", self.process))?;
        let pid = child.id().unwrap_or_default();
        let (tell, facts) = watch::channel(Facts::default());
        let started = Arc::new(self);
        let name = || Arc::clone(&started.process);
        // Each reader drops its sender at the end of its output.
        let (reading, readers) = mpsc::channel::<()>(1);
        if let Some(stdout) = child.stdout.take() {
            let reader = take_lines(name(), stdout, tell.clone(), lines.clone(), reading.clone());
            group.spawn_to_end("process output", reader);
        }
        if let Some(stderr) = child.stderr.take() {
            let reader = take_lines(name(), stderr, tell.clone(), lines.clone(), reading);
            group.spawn_to_end("process errors", reader);
        }
        if let Some(path) = started.log.clone() {
            let log = LogFile { path, n_read };
            group.spawn("process log", log.follow(name(), tell.clone(), lines.clone()));
        }
        let is_kept = started.is_kept;
        let running = Running::new(pid, facts, started, is_kept);
        let ends = Ends {
            group: group.clone(),
            request: Arc::clone(&running.end_request),
            is_kept: Arc::clone(&running.is_kept),
            readers,
        };
        group.spawn_to_end("process", wait_or_end(child, tell, ends));
        Ok(running)
    }

    /// Takes charge of a process that an earlier run of this program started with this command and
    /// left running.
    pub fn adopt(self, left: LeftRunning, group: &Group, lines: &mpsc::Sender<Line>) -> Running {
        let LeftRunning { pid, folder, facts } = left;
        let (tell, facts) = watch::channel(facts);
        let command = Arc::new(self);
        if let Some(path) = command.log.clone() {
            let n_read = std::fs::metadata(&path).map_or(0, |log| log.len());
            let process = Arc::clone(&command.process);
            let log = LogFile { path, n_read };
            group.spawn("process log", log.follow(process, tell.clone(), lines.clone()));
        }
        let running = Running::new(pid, facts, command, true);
        let request = Arc::clone(&running.end_request);
        let adopted = adopted::Adopted { pid, folder, group: group.clone(), request };
        group.spawn("adopted process", adopted.watch(tell));
        running
    }
}

/// A process that an earlier run of this program left running.
#[derive(Debug)]
pub struct LeftRunning {
    /// Its process id.
    pub pid: u32,
    /// The folder whose lock it holds as long as it runs.
    pub folder: PathBuf,
    /// What it had logged about itself.
    pub facts: Facts,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the environment, which holds secrets.
        f.debug_struct("Command").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Running {
    fn new(pid: u32, facts: watch::Receiver<Facts>, command: Arc<Command>, is_kept: bool) -> Self {
        Self {
            process: Arc::clone(&command.process),
            pid,
            facts,
            command,
            is_kept: Arc::new(AtomicBool::new(is_kept)),
            end_request: Arc::default(),
            is_end_requested: Arc::default(),
        }
    }

    /// Waits until the process has logged what `look` looks for.
    ///
    /// # Errors
    /// If the process ends first: with its last error.
    pub async fn wait_for<T>(
        &self,
        look: impl Fn(&Facts) -> Option<T> + Send + Sync,
    ) -> anyhow::Result<T> {
        let mut facts = self.facts.clone();
        let seen = facts.wait_for(|facts| facts.ended.is_some() || look(facts).is_some()).await;
        let facts = seen.with_context(|| format!("follow the {}", self.process))?.clone();
        look(&facts).with_context(|| {
            let ended = facts.ended.map(|ended| ended.text).unwrap_or_default();
            let trouble = facts.trouble.map(|text| format!(": {text}")).unwrap_or_default();
            format!("start the {}: it ended ({ended}){trouble}", self.process)
        })
    }

    /// Ends the process, and waits until it has ended.
    pub async fn end(&self) -> Ended {
        self.is_end_requested.store(true, Ordering::Release);
        self.end_request.notify_one();
        self.wait_for_end().await
    }

    /// Whether [`Self::end`] was called.
    pub fn is_end_requested(&self) -> bool {
        self.is_end_requested.load(Ordering::Acquire)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.facts.borrow().ended.is_some()
    }

    /// Whether it outlives this process.
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }

    /// Lets it outlive this process, if it has a log of its own.
    pub fn keep(&self) {
        if self.command.log.is_some() {
            self.is_kept.store(true, Ordering::Release);
        }
    }

    /// What it has logged about itself so far.
    pub fn facts(&self) -> Facts {
        self.facts.borrow().clone()
    }

    /// Returns the command that starts it as it was, on the same ports.
    pub fn restart_command(&self) -> Command {
        let mut command = (*self.command).clone();
        command.is_kept = self.is_kept();
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

    /// Waits until the process has ended, and returns how.
    pub async fn wait_for_end(&self) -> Ended {
        let ended = self.wait_for(|facts| facts.ended.clone()).await;
        ended.unwrap_or_else(|error| Ended { code: None, text: error.to_string() })
    }
}

/// Gives `flag` another value, where it is among the arguments.
fn set_value(arguments: &mut [String], flag: &str, value: &str) {
    let place = arguments.iter().position(|argument| argument == flag);
    if let Some(place) = place.and_then(|idx| arguments.get_mut(idx + 1)) {
        value.clone_into(place);
    }
}

/// The file that a process logs to.
struct LogFile {
    path: PathBuf,
    /// Bytes of earlier runs, which are skipped.
    n_read: u64,
}

impl LogFile {
    /// Reads what the process writes, until the group stops.
    async fn follow(
        self,
        process: Arc<str>,
        tell: watch::Sender<Facts>,
        lines: mpsc::Sender<Line>,
    ) {
        let Ok(mut file) = tokio::fs::File::open(&self.path).await else { return };
        if file.seek(SeekFrom::Start(self.n_read)).await.is_err() {
            return;
        }
        let mut log = BufReader::new(file);
        let mut text = String::new();
        loop {
            // The rest of a partial line comes with a later read.
            match log.read_line(&mut text).await {
                Ok(1..) if text.ends_with('\n') => {
                    take_line(&process, text.trim_end(), &tell, &lines);
                    text.clear();
                }
                Ok(_) => sleep(READ_EVERY).await,
                Err(_) => return,
            }
        }
    }
}

/// Reads `output` to its end, and hands each line that is not blank to `take`. The rest of a line of
/// more than `bytes_max` counts as another.
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

/// Takes the lines of `output` to its end, which dropping `_reading` reports.
async fn take_lines(
    process: Arc<str>,
    output: impl AsyncRead + Unpin,
    tell: watch::Sender<Facts>,
    lines: mpsc::Sender<Line>,
    _reading: mpsc::Sender<()>,
) {
    read_lines(output, LINE_BYTES_MAX, |line| take_line(&process, line, &tell, &lines)).await;
}

/// Learns from a line, and passes it on.
fn take_line(
    process: &Arc<str>,
    text: &str,
    tell: &watch::Sender<Facts>,
    lines: &mpsc::Sender<Line>,
) {
    let line = Line::new(Arc::clone(process), text.to_owned());
    tell.send_if_modified(|facts| learn(facts, &line));
    // Full: the line is dropped, as promised above. Closed: nobody listens any more.
    drop(lines.try_send(line));
}

/// Reads facts about the process from a log line. Returns whether any is new.
fn learn(facts: &mut Facts, line: &Line) -> bool {
    let Some(line) = &line.members else {
        facts.trouble = Some(line.text.clone());
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

/// Asks a process to end by a signal, which works without a pipe to it.
#[cfg(unix)]
fn terminate(pid: Option<u32>) {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(pid) = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) else { return };
    if let Err(error) = kill_process(pid, Signal::TERM) {
        tracing::warn!(%error, "could not send SIGTERM to a process");
    }
}

/// Without signals, it is killed after the wait.
#[cfg(not(unix))]
fn terminate(_: Option<u32>) {}

/// What ends a process.
struct Ends {
    group: Group,
    /// Notified when the process is to end.
    request: Arc<Notify>,
    is_kept: Arc<AtomicBool>,
    /// Closed once all output was read.
    readers: mpsc::Receiver<()>,
}

/// Waits for the process to end by itself, or ends it with the group or on request.
async fn wait_or_end(mut child: Child, tell: watch::Sender<Facts>, mut ends: Ends) {
    // Taken out of the child, which would close it before waiting.
    let mut stdin = child.stdin.take();
    let is_kept = || ends.is_kept.load(Ordering::Acquire);
    let is_over = tokio::select! {
        status = child.wait() => Some(status),
        () = ends.request.notified() => None,
        () = ends.group.stopped() => {
            if is_kept() {
                if let Some(stdin) = &mut stdin {
                    // Where it is not taken, the process is ending already.
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
            terminate(child.id());
        }
        if let Ok(status) = timeout(DRAIN_MAX, child.wait()).await {
            status
        } else {
            // It may have ended in between; either way it is waited for next.
            drop(child.start_kill());
            child.wait().await
        }
    };
    // Its last line says why it ended.
    drop(timeout(LAST_LINES_MAX, ends.readers.recv()).await);
    let ended = match status {
        Ok(status) => Ended { code: status.code(), text: status.to_string() },
        Err(error) => Ended { code: None, text: error.to_string() },
    };
    tell.send_modify(|facts| facts.ended = Some(ended));
}

#[cfg(test)]
mod tests;
