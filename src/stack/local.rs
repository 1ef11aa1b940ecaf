//! Local processes as the screen sees them: what it requests, and the events it receives.
//!
//! [`Processes`](crate::processes::Processes) implements [`LocalStack`]; tests of the screen have
//! implementations of their own. Nothing here starts a process.

mod fields;

use std::time::Duration;

use async_trait::async_trait;
use client::transport::Token;
use model::{key::ApiKey, timestamp::Timestamp};
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantArray};
use tokio::sync::mpsc;

pub use self::fields::Fields;

/// Where the three services are, and the key that opens two of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// The heads of a cluster, such as `http://127.0.0.1:8080`; most have one.
    pub heads: Vec<String>,
    /// The dataset service, such as `http://127.0.0.1:8081/api`.
    pub datasets: Option<String>,
    /// The inference service, such as `http://127.0.0.1:8082`.
    pub inference: Option<String>,
    /// The key for the dataset and the inference service.
    pub api_key: Option<ApiKey>,
    /// The token for the head.
    pub head_token: Option<Token>,
}

/// A head, workers and services that live as long as the screen.
#[async_trait]
pub trait LocalStack: Send + Sync {
    /// Attaches to the stack that another process of this user runs, and returns once
    /// [`LocalEvent::Attached`] was sent. If none runs, starts everything, and returns once
    /// [`LocalEvent::Ready`] was sent.
    ///
    /// Sends what happens to `events`, also after it returned, until [`Self::stop`]. The queue is
    /// bounded: where it is full, lines of logs may be dropped, and nothing else. The call may be
    /// dropped half way, when the screen is closed that soon; [`Self::stop`] follows then, too.
    ///
    /// # Errors
    /// [`LocalError`] if something does not start. What did start goes with [`Self::stop`].
    async fn start(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError>;

    /// Starts a node beside the stack, and returns once its process runs. Sends
    /// [`LocalEvent::Node`], then its log lines, to `events`.
    ///
    /// # Errors
    /// [`LocalError`] if it does not start, or ends at once.
    async fn add(&self, wish: NodeWish, events: mpsc::Sender<LocalEvent>)
    -> Result<(), LocalError>;

    /// Stops the process called `name`; [`LocalEvent::Exited`] follows.
    ///
    /// # Errors
    /// [`LocalError`] if there is none.
    async fn end(&self, name: &str) -> Result<(), LocalError>;

    /// Stops the process called `name`, if it runs, and starts it as it was, on the same ports.
    ///
    /// # Errors
    /// [`LocalError`] if there is none, or it does not start.
    async fn restart(&self, name: &str, events: mpsc::Sender<LocalEvent>)
    -> Result<(), LocalError>;

    /// Looks for nodes that an earlier run of the program left running, and sends
    /// [`LocalEvent::Found`] for each.
    ///
    /// # Errors
    /// [`LocalError`] if they cannot be looked for.
    async fn find_kept(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError>;

    /// Lets added nodes go on when everything else is stopped.
    fn keep(&self);

    /// Measures what each process uses, by name; those that the system does not report are left out.
    fn usage(&self) -> Vec<(String, Usage)>;

    /// Reads the module or folder at `path` as a function.
    ///
    /// # Errors
    /// [`LocalError`] if it is none.
    async fn pack(&self, path: &str) -> Result<Packed, LocalError>;

    /// Stops everything that was started, but for nodes that are to be kept, and waits until it is
    /// gone, at most about 2 s.
    ///
    /// May be called while [`Self::start`] runs, and when nothing was started.
    async fn stop(&self);
}

/// A node to be started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeWish {
    /// `head` or `worker`.
    pub role: String,
    /// The port it listens on for other nodes, 0 for any free one.
    pub port: u16,
    /// The port of a head's REST API, 0 for any free one.
    pub rest_port: u16,
    /// Multiaddresses of nodes to stay connected to.
    pub boot_nodes: Vec<String>,
    /// Groups to join beside the general one.
    pub subgroups: Vec<String>,
    /// How many functions a worker runs at once; 0 for as many as a node does by itself.
    pub n_slots: u32,
    /// What a worker declares of itself, each `NAME=VALUE`.
    pub attributes: Vec<String>,
    /// The folder of a runtime to call, as bls-runtime is; none for the one built in.
    pub runtime: Option<String>,
    /// Whether it goes on when the screen is closed.
    pub is_kept: bool,
}

/// What a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Processor time since the last look, in percent of one processor; none at the first look.
    pub cpu_percent: Option<f64>,
    /// Memory in use.
    pub memory_bytes: u64,
}

/// A function as it is given to a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// What people call it.
    pub name: String,
    /// Its content id.
    pub function_id: String,
    /// The file to run.
    pub method: String,
    /// Its blocks, as a CAR of one root.
    pub car: Vec<u8>,
}

/// Something could not be done with local processes or files.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct LocalError {
    /// What was tried, such as `start the dataset service`.
    pub what: String,
    /// Why it failed.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// What happens to local processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalEvent {
    /// Something is about to be started.
    Starting {
        /// What, for people: `head`, `worker 2 of 3 (gpu)`, `datasets`.
        what: String,
    },
    /// Another process runs a stack at these addresses, and nothing was started.
    Attached(Addresses),
    /// Everything runs and answers.
    Ready(LocalReady),
    /// A node was started, or started again.
    Node(LocalNode),
    /// A node runs that was left running before.
    Found(LocalNode),
    /// Another service was started again.
    Service {
        /// Its name, as in [`LocalLog::process`].
        name: String,
        /// Its process id.
        pid: u32,
    },
    /// A process wrote a line to its log.
    Log(LocalLog),
    /// A process ended unasked, and is restarted: [`Self::Node`] or [`Self::Service`] follows.
    Restarting {
        /// Its name, as in [`LocalLog::process`].
        process: String,
        /// Its exit code; none where a signal ended it.
        code: Option<i32>,
        /// When it is restarted.
        restart_in: Duration,
    },
    /// A process ended for good.
    Exited {
        /// Its name, as in [`LocalLog::process`].
        process: String,
        /// Its exit code; none where a signal ended it.
        code: Option<i32>,
    },
}

/// A stack that runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalReady {
    /// Where it answers.
    pub addresses: Addresses,
    /// Its nodes, the head first.
    pub nodes: Vec<LocalNode>,
    /// Name and process number of its other services.
    pub services: Vec<(String, u32)>,
    /// The functions its head holds.
    pub functions: Vec<LocalFunction>,
}

/// A node among the local processes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LocalNode {
    /// What the screen calls it, as in [`LocalLog::process`]: `head`, `worker-1`.
    pub name: String,
    /// Its peer id.
    pub peer_id: String,
    /// `head` or `worker`.
    pub role: String,
    /// The group it is in beside the general one.
    pub subgroup: Option<String>,
    /// Its process id.
    pub pid: u32,
    /// Where a head serves its REST API.
    pub rest_api: Option<String>,
    /// Whether it goes on when the screen is closed.
    #[serde(skip)]
    pub is_kept: bool,
    /// Whether it was started by hand, beside the stack.
    #[serde(skip)]
    pub is_added: bool,
}

/// A function that a head holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFunction {
    /// What people call it.
    pub name: String,
    /// Its content id.
    pub function_id: String,
    /// The file to run.
    pub method: String,
}

/// A line of a process's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLog {
    /// Which process: `head`, `worker-1`, `datasets`, `inference`.
    pub process: String,
    /// How serious it is.
    pub level: Level,
    /// When it was written.
    pub time: Timestamp,
    /// What it says.
    pub message: String,
    /// Name and value of each further field.
    pub fields: Fields,
}

/// How serious a line of a log is.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, VariantArray,
)]
#[strum(ascii_case_insensitive)]
pub enum Level {
    /// Each step of the work.
    Trace,
    /// For who works on the program.
    Debug,
    /// Start, stop, one line for each request.
    #[default]
    Info,
    /// Carried on, degraded.
    #[strum(serialize = "warn", serialize = "warning")]
    Warn,
    /// Somebody must act.
    #[strum(serialize = "error", serialize = "fatal", serialize = "panic")]
    Error,
}

impl Level {
    /// Three letters, as a log shows them.
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

    /// The level that `text` names in any case, such as `info` or `WARN`; [`Self::Info`] if none.
    #[must_use]
    pub fn named(text: &str) -> Self {
        text.parse().unwrap_or_default()
    }
}
