//! The interface between the screen and local processes: requests of the screen, and events that the
//! screen receives.
//!
//! [`Processes`](crate::processes::Processes) implements [`LocalStack`]. Tests of the screen
//! implement it, too.

use std::time::Duration;

use async_trait::async_trait;
use client::transport::Token;
use model::key::ApiKey;
use model::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantArray};
use tokio::sync::mpsc;

/// Addresses of the three services, and the credentials for them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// Heads of a cluster, such as `http://127.0.0.1:8080`. Most clusters have one head.
    pub heads: Vec<String>,
    /// Dataset service, such as `http://127.0.0.1:8081/api`.
    pub datasets: Option<String>,
    /// Inference service, such as `http://127.0.0.1:8082`.
    pub inference: Option<String>,
    /// API key for the dataset service and the inference service.
    pub api_key: Option<ApiKey>,
    /// Token for the heads.
    pub head_token: Option<Token>,
}

/// The local processes that the screen controls: added nodes, and a stack, if no other process
/// runs one.
#[async_trait]
pub trait LocalStack: Send + Sync {
    /// If another process of this user runs a stack, sends [`LocalEvent::Attached`] and returns.
    /// Otherwise starts a stack, sends [`LocalEvent::Ready`] and returns.
    ///
    /// Further `events` are sent until [`Self::stop`]. If the channel is full, log lines and
    /// [`LocalEvent::Starting`] are dropped, but no other events. If the screen is closed early,
    /// this call is cancelled before [`Self::stop`] is called.
    ///
    /// # Errors
    /// [`LocalError`] if a process does not start. [`Self::stop`] stops the processes that have started.
    async fn start(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError>;

    /// If another process of this user runs a stack, sends [`LocalEvent::Attached`].
    async fn attach(&self, events: mpsc::Sender<LocalEvent>);

    /// Adds a node to the stack. Returns as soon as its process runs and [`LocalEvent::Node`] is
    /// sent. The node's log lines follow.
    ///
    /// # Errors
    /// [`LocalError`] if the node does not start or exits immediately.
    async fn add(
        &self,
        options: NodeOptions,
        events: mpsc::Sender<LocalEvent>,
    ) -> Result<(), LocalError>;

    /// Stops the process `name`. [`LocalEvent::Exited`] follows.
    ///
    /// # Errors
    /// [`LocalError`] if there is no such process.
    async fn stop_process(&self, name: &str) -> Result<(), LocalError>;

    /// Restarts the process `name` on the same ports.
    ///
    /// # Errors
    /// [`LocalError`] if there is no such process, or the process does not start.
    async fn restart(&self, name: &str, events: mpsc::Sender<LocalEvent>)
    -> Result<(), LocalError>;

    /// Finds nodes that an earlier run of the program left running. Sends [`LocalEvent::Found`] for each
    /// such node.
    ///
    /// # Errors
    /// [`LocalError`] if the records cannot be read.
    async fn find_detached(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError>;

    /// Detaches all added nodes, which then keep running after [`Self::stop`].
    fn detach(&self);

    /// Returns the names of all processes with their resource usage. Processes that the system
    /// cannot measure are omitted.
    fn usage(&self) -> Vec<(String, Usage)>;

    /// Packs the module or directory at `path` as a function.
    ///
    /// # Errors
    /// [`LocalError`] if the path does not contain a function.
    async fn pack(&self, path: &str) -> Result<Packed, LocalError>;

    /// Stops all processes that were started, except for detached nodes. Waits for their exit, at
    /// most about 2 s.
    ///
    /// Can be called during [`Self::start`], and also without any start.
    async fn stop(&self);
}

/// Options of a node to be added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeOptions {
    /// `head` or `worker`.
    pub role: String,
    /// Port at which other nodes connect. 0 stands for any free port.
    pub port: u16,
    /// Port of the REST API, if the node is a head. 0 stands for any free port.
    pub rest_port: u16,
    /// Multiaddresses of nodes with which the new node stays connected.
    pub boot_nodes: Vec<String>,
    /// Groups that the node joins in addition to the general group.
    pub subgroups: Vec<String>,
    /// Number of functions that a worker executes concurrently. 0 stands for the node's default.
    pub n_slots: u32,
    /// Attributes of a worker, as `NAME=VALUE`.
    pub attributes: Vec<String>,
    /// Directory of an external runtime, such as bls-runtime. `None` for the built-in runtime.
    pub runtime: Option<String>,
    /// True if the node keeps running when the screen is closed.
    pub is_detached: bool,
}

/// Resource usage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Processor time since the previous measurement, as a percentage of one processor. `None` in
    /// the first measurement.
    pub cpu_percent: Option<f64>,
    /// Memory in use, in bytes.
    pub memory_bytes: u64,
    /// True if a signal such as SIGSTOP has suspended the process.
    pub is_suspended: bool,
}

/// A function that is ready to be uploaded to a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Name of the function for people.
    pub name: String,
    /// Content id of the function.
    pub function_id: String,
    /// Module that is executed by default.
    pub method: String,
    /// Blocks of the function as a CAR with a single root.
    pub car: Vec<u8>,
}

/// Failure of an operation on local processes or files.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct LocalError {
    /// Operation that failed, as an infinitive, such as `start the dataset service`.
    pub what: String,
    /// Reason why the operation failed.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// An event of the local processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalEvent {
    /// Some processes of the stack are being started.
    Starting {
        /// Description of these processes, such as `head`, `worker 2 of 3 (gpu)` or `datasets`.
        what: String,
    },
    /// Another process runs a stack with these addresses, so no processes were started.
    Attached(Addresses),
    /// The stack was started, and all its processes respond.
    Ready(LocalReady),
    /// A node was started or restarted.
    Node(LocalNode),
    /// A node that an earlier run of the program left running was found.
    Found(LocalNode),
    /// A service was restarted.
    Service {
        /// Name of the process, as in [`LocalLog::process`].
        name: String,
        /// Process id of the restarted service.
        pid: u32,
    },
    /// A process logged a line.
    Log(LocalLog),
    /// A process has exited unexpectedly and will be restarted. [`Self::Node`] or
    /// [`Self::Service`] reports the restart.
    Restarting {
        /// Name of the process, as in [`LocalLog::process`].
        process: String,
        /// Exit code. `None` if a signal has killed the process.
        code: Option<i32>,
        /// Wait until the restart.
        restart_in: Duration,
    },
    /// A process has exited and will not be restarted.
    Exited {
        /// Name of the process, as in [`LocalLog::process`].
        process: String,
        /// Exit code. `None` if a signal has killed the process.
        code: Option<i32>,
    },
}

/// A running stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalReady {
    /// Addresses of the services.
    pub addresses: Addresses,
    /// Nodes. The head is first.
    pub nodes: Vec<LocalNode>,
    /// Name and process id of each service.
    pub services: Vec<(String, u32)>,
    /// Functions that are installed at the head.
    pub functions: Vec<LocalFunction>,
}

/// A node that runs as a local process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LocalNode {
    /// Name of the process, as in [`LocalLog::process`], such as `head` or `worker-1`.
    pub name: String,
    /// Peer id of the node's identity.
    pub peer_id: String,
    /// `head` or `worker`.
    pub role: String,
    /// Groups of the node in addition to the general group, joined by `+`.
    pub subgroup: Option<String>,
    /// Process id of the node.
    pub pid: u32,
    /// Address of the REST API, if the node is a head.
    pub rest_api: Option<String>,
    /// True if the node keeps running when the screen is closed.
    #[serde(skip)]
    pub is_detached: bool,
    /// True if the user added the node to the stack.
    #[serde(skip)]
    pub is_added: bool,
}

/// A function that is installed at a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFunction {
    /// Name of the function for people.
    pub name: String,
    /// Content id of the function.
    pub function_id: String,
    /// Module that is executed by default.
    pub method: String,
}

/// A line in the log of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLog {
    /// Name of the process, such as `head`, `worker-1`, `datasets` or `inference`.
    pub process: String,
    /// Severity of the line.
    pub level: Level,
    /// Time at which the line was logged.
    pub time: Timestamp,
    /// Text of the line without its fields.
    pub message: String,
    /// Names and values of all other fields.
    pub fields: Fields,
}

/// Fields of a log line. Names and values alternate in a single text, since the screen stores tens
/// of thousands of lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields {
    text: Box<str>,
    /// Offsets in `text` at which the names and the values end.
    ends: Box<[usize]>,
}

impl Fields {
    /// Returns the names of the fields with their values.
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
    /// Starts, stops, and a line for each request.
    #[default]
    Info,
    /// A fault that does not prevent the process from working.
    #[strum(serialize = "warn", serialize = "warning")]
    Warn,
    /// A fault that an operator must fix.
    #[strum(serialize = "error", serialize = "fatal", serialize = "panic")]
    Error,
}

impl Level {
    /// Returns a three-letter abbreviation for log views.
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

    /// Returns the level called `text`, such as `info` or `WARN`. Returns [`Self::Info`] for any
    /// other text.
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
