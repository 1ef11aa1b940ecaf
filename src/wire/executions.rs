//! The bodies of executions that are under way or ended, and the events of a cluster. Ours.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::functions::{ResultGroupBody, is_default};

/// The paths of executions and events; `{…}` marks a part that the request fills in.
pub mod paths {
    /// Lists the executions a head remembers, the newest first; `?limit=` of them.
    pub const EXECUTIONS: &str = "/api/v1/executions";
    /// One execution; deleting it cancels it.
    pub const EXECUTION: &str = "/api/v1/executions/{id}";
    /// Follows what happens in a cluster, as server-sent events.
    pub const EVENTS: &str = "/api/v1/events";
}

/// The answer to `GET /api/v1/executions`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecutionsResponse {
    /// Those remembered, the newest first, without their results.
    pub executions: Vec<ExecutionBody>,
}

/// One execution, under way or ended: the answer to `GET /api/v1/executions/{id}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecutionBody {
    /// The request's id.
    pub request_id: String,
    /// `waiting` for workers, `compiling` while no worker runs the function since all must compile it
    /// first, `running`, `done` or `canceled`.
    pub state: String,
    /// The function's content id.
    pub function_id: String,
    /// The file in it that is run.
    pub method: String,
    /// The group asked for, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup: Option<String>,
    /// How many nodes were asked for, or −1.
    pub number_of_nodes: i64,
    /// Whether the workers were known to be ready, so that no roll call was held.
    #[serde(default)]
    pub warm: bool,
    /// When the request came, RFC 3339.
    pub started_at: String,
    /// How long it took, or has taken until now, in milliseconds.
    pub elapsed_ms: f64,
    /// The outcome's code, once it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Who was given work, in that order.
    #[serde(default)]
    pub peers: Vec<ExecutionPeerBody>,
    /// The distinct results, the most frequent first. Left out of lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultGroupBody>,
}

/// One worker's part in an execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecutionPeerBody {
    /// The id of the worker's node.
    pub peer_id: String,
    /// `compiling`, `running`, `answered`, `failed`, `replaced` by a spare, or `canceled`.
    pub state: String,
    /// When it was given the work, in milliseconds after the request came.
    pub dispatched_ms: f64,
    /// When it began to wait until the function is compiled, likewise. Left out if it was compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiling_ms: Option<f64>,
    /// When the function was compiled, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled_ms: Option<f64>,
    /// When it answered or failed, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ms: Option<f64>,
    /// The exit code of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What its run cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether it signed its result, and the signature is its own.
    #[serde(default)]
    pub signed: bool,
    /// Why it gave no result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl ExecutionPeerBody {
    /// Returns true while the worker has neither answered nor failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "compiling" | "running")
    }
}

/// What a run cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// How long it took, in nanoseconds.
    #[serde(default, rename = "wall_clock_time", skip_serializing_if = "is_default")]
    pub wall_clock_ns: u64,
    /// Processor time of its own, in nanoseconds.
    #[serde(default, rename = "cpu_user_time", skip_serializing_if = "is_default")]
    pub cpu_user_ns: u64,
    /// Processor time of the system on its behalf, in nanoseconds.
    #[serde(default, rename = "cpu_sys_time", skip_serializing_if = "is_default")]
    pub cpu_sys_ns: u64,
    /// The largest size of its memory, in KiB.
    #[serde(default, rename = "memory_max_kb", skip_serializing_if = "is_default")]
    pub memory_max_kib: u64,
}

/// One event of `GET /api/v1/events`: the `data` of a server-sent event whose name is its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterEvent {
    /// When, RFC 3339.
    pub time: String,
    /// What happened, with its details inline.
    #[serde(flatten)]
    pub kind: ClusterEventKind,
}

/// What happened in a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ClusterEventKind {
    /// The first event of a stream: what happens from now on follows.
    Connected,
    /// Nothing happened for a while.
    Heartbeat,
    /// Workers are being looked for.
    RollCall {
        /// The id of the execution.
        request_id: String,
        /// The id of the function to run.
        function_id: String,
        /// The topic it is published on.
        topic: String,
        /// How many are wanted, or −1.
        number_of_nodes: i64,
    },
    /// A worker is ready for the request.
    Reported {
        /// The id of the execution.
        request_id: String,
        /// The id of the worker's node.
        peer_id: String,
    },
    /// A worker was given the work.
    Dispatched {
        /// The id of the execution.
        request_id: String,
        /// The id of the worker's node.
        peer_id: String,
    },
    /// A worker compiles the function before it runs it.
    Compiling {
        /// The id of the execution.
        request_id: String,
        /// The id of the worker's node.
        peer_id: String,
    },
    /// A worker has compiled the function and runs it.
    Compiled {
        /// The id of the execution.
        request_id: String,
        /// The id of the worker's node.
        peer_id: String,
    },
    /// A worker returned a result.
    Result {
        /// The id of the execution.
        request_id: String,
        /// The id of the worker's node.
        peer_id: String,
        /// The exit code of its run.
        exit_code: i32,
        /// How long after the request came, in milliseconds.
        elapsed_ms: f64,
    },
    /// A worker returned none.
    Failed {
        /// The id of the execution.
        request_id: String,
        /// The id of the worker's node.
        peer_id: String,
        /// Why it failed, for people.
        reason: String,
        /// Whether another takes its place.
        replaced: bool,
    },
    /// The request is answered.
    Done {
        /// The id of the execution.
        request_id: String,
        /// The outcome's code.
        code: String,
        /// What went wrong.
        message: String,
        /// How long it took, in milliseconds.
        elapsed_ms: f64,
    },
    /// The request was canceled, or its sender disconnected.
    Canceled {
        /// The id of the execution.
        request_id: String,
    },
    /// A peer connected.
    PeerJoined {
        /// The id of the worker's node.
        peer_id: String,
    },
    /// A peer's last connection ended.
    PeerLeft {
        /// The id of the worker's node.
        peer_id: String,
    },
}

impl ClusterEventKind {
    /// The execution it is about, if it is about one.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::RollCall { request_id, .. }
            | Self::Reported { request_id, .. }
            | Self::Dispatched { request_id, .. }
            | Self::Compiling { request_id, .. }
            | Self::Compiled { request_id, .. }
            | Self::Result { request_id, .. }
            | Self::Failed { request_id, .. }
            | Self::Done { request_id, .. }
            | Self::Canceled { request_id } => Some(request_id),
            Self::Connected | Self::Heartbeat | Self::PeerJoined { .. } | Self::PeerLeft { .. } => {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_an_event_names_its_kind() {
        let kind = ClusterEventKind::RollCall {
            request_id: "r".to_owned(),
            function_id: "f".to_owned(),
            topic: "t".to_owned(),
            number_of_nodes: 1,
        };
        let event = ClusterEvent { time: "2026-07-30T21:57:00Z".to_owned(), kind };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["event"], "roll_call");
        assert_eq!(json["request_id"], "r");
        assert_eq!(serde_json::from_value::<ClusterEvent>(json).unwrap(), event);
    }

    #[test]
    fn usage_is_that_of_b7s() {
        let sent = serde_json::json!({
            "wall_clock_time": 1_500, "cpu_user_time": 7, "cpu_sys_time": 8, "memory_max_kb": 64
        });
        let usage: Usage = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!((usage.wall_clock_ns, usage.memory_max_kib), (1_500, 64));
        assert_eq!(serde_json::to_value(usage).unwrap(), sent);
    }
}
