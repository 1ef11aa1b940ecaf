//! Local processes as the screen sees them: its requests and the events it receives.
//!
//! [`Processes`](crate::processes::Processes) implements [`LocalStack`]. Tests of the screen have their
//! own implementations.

use std::time::Duration;

use async_trait::async_trait;
use client::transport::Token;
use model::key::ApiKey;
use model::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantArray};
use tokio::sync::mpsc;

/// Addresses of the three services, with the credentials for them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// Heads of a cluster, such as `http://127.0.0.1:8080`. Most clusters have one.
    pub heads: Vec<String>,
    /// The dataset service, such as `http://127.0.0.1:8081/api`.
    pub datasets: Option<String>,
    /// The inference service, such as `http://127.0.0.1:8082`.
    pub inference: Option<String>,
    /// Key for the dataset service and the inference service.
    pub api_key: Option<ApiKey>,
    /// Token for the heads.
    pub head_token: Option<Token>,
}

/// The local processes that the screen controls: its own stack or that of another process, and
/// added nodes.
#[async_trait]
pub trait LocalStack: Send + Sync {
    /// Attaches to a stack if another process of this user runs one, sends [`LocalEvent::Attached`] and
    /// returns. Otherwise starts a stack, sends [`LocalEvent::Ready`] and returns.
    ///
    /// Afterwards continues to send `events` until [`Self::stop`]. If the queue is full, only log lines
    /// are dropped. If the screen is closed early, the call is cancelled and [`Self::stop`] is called,
    /// too.
    ///
    /// # Errors
    /// [`LocalError`] if a process does not start. [`Self::stop`] then stops the others.
    async fn start(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError>;

    /// Adds a node to the stack and returns when its process runs. Sends [`LocalEvent::Node`], followed
    /// by the node's log lines.
    ///
    /// # Errors
    /// [`LocalError`] if the node does not start or exits immediately.
    async fn add(
        &self,
        options: NodeOptions,
        events: mpsc::Sender<LocalEvent>,
    ) -> Result<(), LocalError>;

    /// Stops the process called `name`. [`LocalEvent::Exited`] follows.
    ///
    /// # Errors
    /// [`LocalError`] if there is no such process.
    async fn stop_process(&self, name: &str) -> Result<(), LocalError>;

    /// Restarts the process called `name` on the same ports.
    ///
    /// # Errors
    /// [`LocalError`] if there is no such process or it does not start.
    async fn restart(&self, name: &str, events: mpsc::Sender<LocalEvent>)
    -> Result<(), LocalError>;

    /// Finds nodes that earlier runs of the program left running. Sends [`LocalEvent::Found`] for each.
    ///
    /// # Errors
    /// [`LocalError`] if the records cannot be read.
    async fn find_detached(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError>;

    /// Detaches added nodes, so that they keep running after [`Self::stop`].
    fn detach(&self);

    /// Returns the name and resource usage of each process. Omits processes for which the system has no
    /// data.
    fn usage(&self) -> Vec<(String, Usage)>;

    /// Packs the module or directory at `path` as a function.
    ///
    /// # Errors
    /// [`LocalError`] if it is not a function.
    async fn pack(&self, path: &str) -> Result<Packed, LocalError>;

    /// Stops all started processes except detached nodes and waits until they have exited, for at most
    /// about 2 s.
    ///
    /// Can be called while [`Self::start`] runs, and without a start.
    async fn stop(&self);
}

/// Options of a node to be added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeOptions {
    /// `head` or `worker`.
    pub role: String,
    /// Port for other nodes. 0 for any free port.
    pub port: u16,
    /// Port of a head's REST API. 0 for any free port.
    pub rest_port: u16,
    /// Multiaddresses of nodes to which the new node stays connected.
    pub boot_nodes: Vec<String>,
    /// Groups that the node joins in addition to the general one.
    pub subgroups: Vec<String>,
    /// Number of functions that a worker runs at the same time. 0 for the node's default.
    pub n_slots: u32,
    /// Attributes of a worker, as `NAME=VALUE`.
    pub attributes: Vec<String>,
    /// Directory of an external runtime such as bls-runtime. `None` for the built-in one.
    pub runtime: Option<String>,
    /// True if the node keeps running when the screen is closed.
    pub is_detached: bool,
}

/// Resource usage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Processor time since the previous measurement, in percent of one processor. `None` in the first
    /// measurement.
    pub cpu_percent: Option<f64>,
    /// Memory in use, in bytes.
    pub memory_bytes: u64,
}

/// A function in the form that is installed at a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Human-readable name.
    pub name: String,
    /// Content id.
    pub function_id: String,
    /// Module that is run by default.
    pub method: String,
    /// Blocks of the function, as a CAR with one root.
    pub car: Vec<u8>,
}

/// A failed operation on local processes or files.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct LocalError {
    /// The operation, such as `start the dataset service`.
    pub what: String,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// An event of the local processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalEvent {
    /// Some processes of the stack are about to be started.
    Starting {
        /// Human-readable name of these processes: `head`, `worker 2 of 3 (gpu)`, `datasets`.
        what: String,
    },
    /// Another process runs a stack at these addresses, so no processes were started.
    Attached(Addresses),
    /// The started stack is ready: all its processes respond.
    Ready(LocalReady),
    /// A node was started or restarted.
    Node(LocalNode),
    /// A node of an earlier run of the program is still running.
    Found(LocalNode),
    /// A service was restarted.
    Service {
        /// Name of the process, as in [`LocalLog::process`].
        name: String,
        /// Process id.
        pid: u32,
    },
    /// A process logged a line.
    Log(LocalLog),
    /// A process exited unexpectedly and will be restarted. [`Self::Node`] or [`Self::Service`] follows.
    Restarting {
        /// Name of the process, as in [`LocalLog::process`].
        process: String,
        /// Exit code. `None` if the process was killed by a signal.
        code: Option<i32>,
        /// Time until the restart.
        restart_in: Duration,
    },
    /// A process exited and will not be restarted.
    Exited {
        /// Name of the process, as in [`LocalLog::process`].
        process: String,
        /// Exit code. `None` if the process was killed by a signal.
        code: Option<i32>,
    },
}

/// A running stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalReady {
    /// Addresses of the services.
    pub addresses: Addresses,
    /// Nodes, starting with the head.
    pub nodes: Vec<LocalNode>,
    /// Name and process id of each of the other services.
    pub services: Vec<(String, u32)>,
    /// Functions installed at the head.
    pub functions: Vec<LocalFunction>,
}

/// A node that runs as a local process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LocalNode {
    /// Name on the screen, as in [`LocalLog::process`]: `head`, `worker-1`.
    pub name: String,
    /// Peer id.
    pub peer_id: String,
    /// `head` or `worker`.
    pub role: String,
    /// Group of the node in addition to the general one.
    pub subgroup: Option<String>,
    /// Process id.
    pub pid: u32,
    /// Address of a head's REST API.
    pub rest_api: Option<String>,
    /// True if the node keeps running when the screen is closed.
    #[serde(skip)]
    pub is_detached: bool,
    /// True if the node was added to the stack by hand.
    #[serde(skip)]
    pub is_added: bool,
}

/// A function that is installed at a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFunction {
    /// Human-readable name.
    pub name: String,
    /// Content id.
    pub function_id: String,
    /// Module that is run by default.
    pub method: String,
}

/// A line of a process's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLog {
    /// Name of the process: `head`, `worker-1`, `datasets`, `inference`.
    pub process: String,
    /// Severity.
    pub level: Level,
    /// Time at which the line was logged.
    pub time: Timestamp,
    /// Message.
    pub message: String,
    /// Names and values of the remaining fields.
    pub fields: Fields,
}

/// Fields of a log line, of which the screen stores tens of thousands. Their names and values alternate
/// and are concatenated in one text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields {
    text: Box<str>,
    /// Offset in `text` at which each name and each value ends.
    ends: Box<[usize]>,
}

impl Fields {
    /// Returns each name with its value.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let mut start = 0;
        self.ends.chunks_exact(2).filter_map(move |ends| {
            let &[middle, end] = ends else { return None };
            let name = self.text.get(start..middle)?;
            start = end;
            Some((name, self.text.get(middle..end)?))
        })
    }

    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Returns true if there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (name, value) in pairs {
            for part in [name.as_ref(), value.as_ref()] {
                text.push_str(part);
                ends.push(text.len());
            }
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

/// Severity of a log line.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, VariantArray,
)]
#[strum(ascii_case_insensitive)]
pub enum Level {
    /// Single steps of an operation.
    Trace,
    /// Details for developers.
    Debug,
    /// Starts, stops, and one line per request.
    #[default]
    Info,
    /// A fault despite which the process continues.
    #[strum(serialize = "warn", serialize = "warning")]
    Warn,
    /// A fault that an operator must fix.
    #[strum(serialize = "error", serialize = "fatal", serialize = "panic")]
    Error,
}

impl Level {
    /// Returns an abbreviation of three letters for a log view.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::Trace => "TRC",
            Self::Debug => "DBG",
            Self::Info => "INF",
            Self::Warn => "WRN",
            Self::Error => "ERR",
        }
    }

    /// Parses a level such as `info` or `WARN`. Any other text is [`Self::Info`].
    #[must_use]
    pub fn named(text: &str) -> Self {
        text.parse().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)]) {
        let fields: Fields = pairs.iter().copied().collect();
        assert_eq!(fields.pairs().collect::<Vec<_>>(), pairs);
        assert_eq!((fields.len(), fields.is_empty()), (pairs.len(), pairs.is_empty()));
    }

    #[test]
    fn fields_of_a_log_line_round_trip() {
        check(&[]);
        check(&[("", "")]);
        check(&[("peer", "12D3"), ("exit", ""), ("größe", "3 µs")]);
    }
}
