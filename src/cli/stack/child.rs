//! One process of the local stack: started, listened to, stopped.

mod adopted;

pub(in crate::cli) use adopted::is_held;

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
use serde_json::Value;
use task::group::Group;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncSeekExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    sync::{Notify, mpsc, watch},
    time::{sleep, timeout},
};

use crate::cli::stop::STAY;

/// How long a process may take to drain before it is killed. The screen promises its user a prompt
/// within 2 seconds of quitting.
const DRAIN_MAX: Duration = Duration::from_millis(1500);

/// The longest log line taken from a process, in bytes; the rest of a longer one is dropped.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// How often the log of a process that is kept is looked at, for it is a file.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// One log line of a process, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Which process.
    pub(crate) process: Arc<str>,
    /// The line without its line feed: a JSON object, or whatever else the process wrote.
    pub(crate) text: String,
}

/// What a process has told of itself so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// A node's id.
    pub(crate) peer_id: Option<String>,
    /// A node's multiaddresses.
    pub(crate) multiaddresses: Vec<String>,
    /// The address a service answers on, such as `127.0.0.1:41233`.
    pub(crate) address: Option<String>,
    /// The last line that said something failed.
    pub(crate) trouble: Option<String>,
    /// How it ended, if it did.
    pub(crate) ended: Option<Ended>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its exit code; none where a signal ended it.
    pub(crate) code: Option<i32>,
    /// The same for people: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub(crate) text: String,
}

/// What starts a process.
#[derive(Clone)]
pub(crate) struct Start {
    /// What people call it.
    pub(crate) process: Arc<str>,
    /// The executable: this program.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Secrets, which belong in the environment: arguments can be read by everyone.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// The file of its log, if it may outlive this process.
    pub(crate) log: Option<PathBuf>,
    /// Whether it outlives this process from the start, however that ends; it needs a log.
    pub(crate) is_kept: bool,
}

/// A process that runs, or ran.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// What people call it.
    pub(crate) process: Arc<str>,
    /// Its process id.
    pub(crate) pid: u32,
    facts: watch::Receiver<Facts>,
    start: Arc<Start>,
    /// Whether it outlives this process.
    is_kept: Arc<AtomicBool>,
    /// Somebody wants it to end.
    is_asked: Arc<Notify>,
    /// Whether somebody ever wanted that.
    was_asked: Arc<AtomicBool>,
}

impl Start {
    /// Starts the process. It ends with `group`, and with this process however that ends: it reads
    /// a pipe that closes then. One that is kept goes on, and one that has a log of its own may be
    /// kept at any time; see [`Running::keep`].
    ///
    /// Lines that find `lines` full are dropped: a reader that stalls must not stall a service.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub(crate) fn run(self, group: &Group, lines: &mpsc::Sender<Line>) -> anyhow::Result<Running> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        let mut logged = 0;
        if let Some(path) = &self.log {
            let open = || File::options().create(true).append(true).open(path);
            let log = open().and_then(|log| Ok((log.metadata()?.len(), log.try_clone()?, log)));
            let (n_bytes, out, err) = log.with_context(|| format!("open {}", path.display()))?;
            logged = n_bytes;
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
        let start = Arc::new(self);
        let name = || Arc::clone(&start.process);
        if let Some(stdout) = child.stdout.take() {
            let reader = read(name(), stdout, tell.clone(), lines.clone());
            group.spawn_to_end("process output", reader);
        }
        if let Some(stderr) = child.stderr.take() {
            let reader = read(name(), stderr, tell.clone(), lines.clone());
            group.spawn_to_end("process errors", reader);
        }
        if let Some(path) = start.log.clone() {
            let reader = read_file(name(), (path, logged), tell.clone(), lines.clone());
            group.spawn("process log", reader);
        }
        let is_asked = Arc::new(Notify::new());
        let is_kept = Arc::new(AtomicBool::new(start.is_kept));
        let ends = Ends {
            group: group.clone(),
            is_asked: Arc::clone(&is_asked),
            is_kept: Arc::clone(&is_kept),
        };
        group.spawn_to_end("process", supervise(child, tell, ends));
        let was_asked = Arc::default();
        Ok(Running { process: name(), pid, facts, start, is_kept, is_asked, was_asked })
    }

    /// Takes charge of process `pid`, which an earlier run of this program started so and left
    /// running, and which had told `facts`. It holds the lock of `folder` as long as it runs.
    pub(crate) fn adopt(
        self,
        (pid, folder, facts): (u32, PathBuf, Facts),
        group: &Group,
        lines: &mpsc::Sender<Line>,
    ) -> Running {
        let (tell, facts) = watch::channel(facts);
        let start = Arc::new(self);
        if let Some(path) = start.log.clone() {
            let logged = std::fs::metadata(&path).map_or(0, |log| log.len());
            let process = Arc::clone(&start.process);
            let reader = read_file(process, (path, logged), tell.clone(), lines.clone());
            group.spawn("process log", reader);
        }
        let is_asked = Arc::new(Notify::new());
        let ends = adopted::Ends { group: group.clone(), is_asked: Arc::clone(&is_asked) };
        group.spawn("adopted process", adopted::supervise((pid, folder), tell, ends));
        let is_kept = Arc::new(AtomicBool::new(true));
        let (process, was_asked) = (Arc::clone(&start.process), Arc::default());
        Running { process, pid, facts, start, is_kept, is_asked, was_asked }
    }
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the environment, which holds secrets.
        f.debug_struct("Start").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Running {
    /// Waits until the process has told what `look` looks for.
    ///
    /// # Errors
    /// If the process ends first: with what it said last.
    pub(crate) async fn told<T>(
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

    /// Has the process end, and waits until it has.
    pub(crate) async fn end(&self) -> Ended {
        self.was_asked.store(true, Ordering::Release);
        self.is_asked.notify_one();
        self.ended().await
    }

    /// Whether somebody asked it to end.
    pub(crate) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Acquire)
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.facts.borrow().ended.is_some()
    }

    /// Whether it outlives this process.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }

    /// Has it outlive this process, if it has a log of its own.
    pub(crate) fn keep(&self) {
        if self.start.log.is_some() {
            self.is_kept.store(true, Ordering::Release);
        }
    }

    /// What it has told so far.
    pub(crate) fn facts(&self) -> Facts {
        self.facts.borrow().clone()
    }

    /// What starts it again as it was, on the same ports.
    pub(crate) fn again(&self) -> Start {
        let mut start = (*self.start).clone();
        start.is_kept = self.is_kept();
        let facts = self.facts.borrow();
        if let Some(address) = &facts.address {
            for flag in ["--rest-api", "--listen"] {
                set_value(&mut start.arguments, flag, address);
            }
        }
        let port = facts.multiaddresses.iter().find_map(|address| {
            let mut parts = address.split('/').skip_while(|part| *part != "tcp");
            parts.nth(1)
        });
        if let Some(port) = port {
            set_value(&mut start.arguments, "--port", port);
        }
        start
    }

    /// Waits until the process has ended, and tells how.
    pub(crate) async fn ended(&self) -> Ended {
        let ended = self.told(|facts| facts.ended.clone()).await;
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

/// Reads what a process writes to its log after so many bytes, until the group stops.
async fn read_file(
    process: Arc<str>,
    (path, logged): (PathBuf, u64),
    tell: watch::Sender<Facts>,
    lines: mpsc::Sender<Line>,
) {
    let Ok(mut file) = tokio::fs::File::open(&path).await else { return };
    if file.seek(SeekFrom::Start(logged)).await.is_err() {
        return;
    }
    let mut log = BufReader::new(file);
    let mut text = String::new();
    loop {
        // A line that is not whole yet is read on.
        match log.read_line(&mut text).await {
            Ok(1..) if text.ends_with('\n') => {
                take(&process, text.trim_end(), &tell, &lines);
                text.clear();
            }
            Ok(_) => sleep(LOOK_EVERY).await,
            Err(_) => return,
        }
    }
}

/// Reads the lines of `output` to its end.
async fn read(
    process: Arc<str>,
    output: impl AsyncRead + Unpin,
    tell: watch::Sender<Facts>,
    lines: mpsc::Sender<Line>,
) {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match output.read_until(b'\n', &mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        bytes.truncate(LINE_BYTES_MAX);
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if text.is_empty() {
            continue;
        }
        take(&process, &text, &tell, &lines);
    }
}

/// Learns from a line, and passes it on.
fn take(process: &Arc<str>, text: &str, tell: &watch::Sender<Facts>, lines: &mpsc::Sender<Line>) {
    tell.send_if_modified(|facts| learn(facts, text));
    // Full: the line is dropped, as promised above. Closed: nobody listens any more.
    drop(lines.try_send(Line { process: Arc::clone(process), text: text.to_owned() }));
}

/// Takes from a log line what tells of the process. Returns whether it told anything new.
fn learn(facts: &mut Facts, text: &str) -> bool {
    let Ok(Value::Object(line)) = serde_json::from_str(text) else {
        facts.trouble = Some(text.to_owned());
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

/// Asks a process to end, as one that is not held by a pipe can be asked.
#[cfg(unix)]
fn ask(pid: Option<u32>) {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(pid) = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) else { return };
    if let Err(error) = kill_process(pid, Signal::TERM) {
        tracing::warn!(%error, "could not ask a process to end");
    }
}

/// Without signals, it is killed after the wait.
#[cfg(not(unix))]
fn ask(_: Option<u32>) {}

/// What ends a process.
struct Ends {
    group: Group,
    is_asked: Arc<Notify>,
    is_kept: Arc<AtomicBool>,
}

/// Waits for the process to end by itself, or ends it with the group or when asked to.
async fn supervise(mut child: Child, tell: watch::Sender<Facts>, ends: Ends) {
    // Taken out of the child, which would close it before waiting.
    let mut stdin = child.stdin.take();
    let is_kept = || ends.is_kept.load(Ordering::Acquire);
    let is_over = tokio::select! {
        status = child.wait() => Some(status),
        () = ends.is_asked.notified() => None,
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
            ask(child.id());
        }
        if let Ok(status) = timeout(DRAIN_MAX, child.wait()).await {
            status
        } else {
            // It may have ended in between; either way it is waited for next.
            drop(child.start_kill());
            child.wait().await
        }
    };
    let ended = match status {
        Ok(status) => Ended { code: status.code(), text: status.to_string() },
        Err(error) => Ended { code: None, text: error.to_string() },
    };
    tell.send_modify(|facts| facts.ended = Some(ended));
}

#[cfg(test)]
mod tests;
