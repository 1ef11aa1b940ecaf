//! One process of the local stack: started, listened to, stopped.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::Context as _;
use serde_json::Value;
use task::group::Group;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
    sync::{mpsc, watch},
    time::timeout,
};

/// How long a process may take to drain before it is killed. The screen promises its user a prompt
/// within 2 seconds of quitting.
const DRAIN_MAX: Duration = Duration::from_millis(1500);

/// The longest log line taken from a process, in bytes; the rest of a longer one is dropped.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// One log line of a process, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Which process.
    pub(crate) process: &'static str,
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
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// What people call it.
    pub(crate) process: &'static str,
    /// The executable: this program.
    pub(crate) program: &'a Path,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Secrets, which belong in the environment: arguments can be read by everyone.
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// A process that runs, or ran.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// What people call it.
    pub(crate) process: &'static str,
    /// Its process id.
    pub(crate) pid: u32,
    facts: watch::Receiver<Facts>,
}

impl Start<'_> {
    /// Starts the process. It ends with `group`, and with this process however that ends: it reads
    /// a pipe that closes then.
    ///
    /// Lines that find `lines` full are dropped: a reader that stalls must not stall a service.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub(crate) fn run(self, group: &Group, lines: &mpsc::Sender<Line>) -> anyhow::Result<Running> {
        let mut command = Command::new(self.program);
        command
            .args(&self.arguments)
            .arg("--stop-with-stdin")
            .envs(self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // A group of its own, so that ^C in the terminal reaches this process alone, which then
        // stops the others in order.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().with_context(|| format!("start the {}", self.process))?;
        let pid = child.id().unwrap_or_default();
        let (tell, facts) = watch::channel(Facts::default());
        if let Some(stdout) = child.stdout.take() {
            let reader = read(self.process, stdout, tell.clone(), lines.clone());
            group.spawn_to_end("process output", reader);
        }
        if let Some(stderr) = child.stderr.take() {
            let reader = read(self.process, stderr, tell.clone(), lines.clone());
            group.spawn_to_end("process errors", reader);
        }
        group.spawn_to_end("process", supervise(child, tell, group.clone()));
        Ok(Running { process: self.process, pid, facts })
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

    /// Waits until the process has ended, and tells how.
    pub(crate) async fn ended(&self) -> Ended {
        let ended = self.told(|facts| facts.ended.clone()).await;
        ended.unwrap_or_else(|error| Ended { code: None, text: error.to_string() })
    }
}

/// Reads the lines of `output` to its end.
async fn read(
    process: &'static str,
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
        tell.send_if_modified(|facts| learn(facts, &text));
        // Full: the line is dropped, as promised above. Closed: nobody listens any more.
        drop(lines.try_send(Line { process, text }));
    }
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

/// Waits for the process to end by itself, or ends it with the group.
async fn supervise(mut child: Child, tell: watch::Sender<Facts>, group: Group) {
    // Taken out of the child, which would close it before waiting.
    let stdin = child.stdin.take();
    let status = tokio::select! {
        status = child.wait() => status,
        () = group.stopped() => {
            drop(stdin);
            if let Ok(status) = timeout(DRAIN_MAX, child.wait()).await {
                status
            } else {
                // It may have ended in between; either way it is waited for next.
                drop(child.start_kill());
                child.wait().await
            }
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
