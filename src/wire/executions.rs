//! Bodies about executions and the events of a cluster. An extension of b7s's API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::functions::{ResultGroupBody, is_default};

/// Paths of executions and events. `{…}` marks a path parameter.
pub mod paths {
    /// Lists the executions that a head remembers, latest first, at most `?limit=`.
    pub const EXECUTIONS: &str = "/api/v1/executions";
    /// One execution. A `DELETE` cancels the execution.
    pub const EXECUTION: &str = "/api/v1/executions/{id}";
    /// Streams the events of a cluster as server-sent events.
    pub const EVENTS: &str = "/api/v1/events";
}

/// Response to `GET /api/v1/executions`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecutionsResponse {
    /// Remembered executions, newest first, without their results.
    pub executions: Vec<ExecutionBody>,
}

/// An execution in progress or finished. The response to `GET /api/v1/executions/{id}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecutionBody {
    /// Id of the request.
    pub request_id: String,
    /// `waiting` for workers, `compiling` until the first worker has compiled the function, `running`,
    /// `done` or `canceled`.
    pub state: String,
    /// Content id of the function.
    pub function_id: String,
    /// File to run inside the function.
    pub method: String,
    /// Requested subgroup; omitted if any worker could be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup: Option<String>,
    /// Requested number of nodes, or −1 for all.
    pub number_of_nodes: i64,
    /// True if no roll call was needed, since recent offers of workers covered the request.
    #[serde(default)]
    pub warm: bool,
    /// Time of the request, RFC 3339.
    pub started_at: String,
    /// Duration until the end, or until now if the execution is in progress, in milliseconds.
    pub elapsed_ms: f64,
    /// Result code; omitted while the execution is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Reason for a failure; empty on success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Workers that received a work order, in order of dispatch.
    #[serde(default)]
    pub peers: Vec<ExecutionPeerBody>,
    /// Distinct results, most frequent first. Omitted from lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultGroupBody>,
}

/// State of one worker's work order in an execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecutionPeerBody {
    /// Id of the worker's node.
    pub peer_id: String,
    /// State of the work order: `compiling`, `running`, `answered`, `failed`, `replaced` (by a spare),
    /// or `canceled`.
    pub state: String,
    /// Time at which the work order was dispatched, in milliseconds after the request.
    pub dispatched_ms: f64,
    /// Time at which compilation started, in milliseconds after the request. Omitted if the
    /// function was already compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiling_ms: Option<f64>,
    /// Time at which compilation finished, in milliseconds after the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled_ms: Option<f64>,
    /// Time at which the worker returned a result or failed, in milliseconds after the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ms: Option<f64>,
    /// Exit code of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Resource usage of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// True if the worker's result has a valid signature of its node.
    #[serde(default)]
    pub signed: bool,
    /// Reason why the worker returned no result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl ExecutionPeerBody {
    /// Returns true while the worker has neither responded nor failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "compiling" | "running")
    }
}

/// Resource usage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Duration, in nanoseconds.
    #[serde(default, rename = "wall_clock_time", skip_serializing_if = "is_default")]
    pub wall_clock_ns: u64,
    /// User CPU time, in nanoseconds.
    #[serde(default, rename = "cpu_user_time", skip_serializing_if = "is_default")]
    pub cpu_user_ns: u64,
    /// System CPU time, in nanoseconds.
    #[serde(default, rename = "cpu_sys_time", skip_serializing_if = "is_default")]
    pub cpu_sys_ns: u64,
    /// Peak memory, in KiB.
    #[serde(default, rename = "memory_max_kb", skip_serializing_if = "is_default")]
    pub memory_max_kib: u64,
}

/// Data of a server-sent event of `GET /api/v1/events`. The name of the server-sent event is the kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterEvent {
    /// Time of the event, RFC 3339.
    pub time: String,
    /// Kind of the event. Its fields are inline.
    #[serde(flatten)]
    pub kind: ClusterEventKind,
}

/// Kind of an event in a cluster, with its details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ClusterEventKind {
    /// First event of a stream.
    Connected,
    /// Event that keeps the connection alive while nothing happens.
    Heartbeat,
    /// A roll call was sent.
    RollCall {
        /// Id of the execution.
        request_id: String,
        /// Id of the function to run.
        function_id: String,
        /// Gossip topic of the roll call.
        topic: String,
        /// Requested number of nodes, or −1 for all.
        number_of_nodes: i64,
    },
    /// A worker reported that it can execute the request.
    Reported {
        /// Id of the execution.
        request_id: String,
        /// Id of the worker's node.
        peer_id: String,
    },
    /// A work order was sent to a worker.
    Dispatched {
        /// Id of the execution.
        request_id: String,
        /// Id of the function to run.
        #[serde(default)]
        function_id: String,
        /// Id of the worker's node.
        peer_id: String,
    },
    /// A worker started to compile the function.
    Compiling {
        /// Id of the execution.
        request_id: String,
        /// Id of the worker's node.
        peer_id: String,
    },
    /// A worker compiled the function and started it.
    Compiled {
        /// Id of the execution.
        request_id: String,
        /// Id of the worker's node.
        peer_id: String,
    },
    /// A worker returned a result.
    Result {
        /// Id of the execution.
        request_id: String,
        /// Id of the worker's node.
        peer_id: String,
        /// Exit code of the run.
        exit_code: i32,
        /// Time since the request, in milliseconds.
        elapsed_ms: f64,
    },
    /// A worker failed.
    Failed {
        /// Id of the execution.
        request_id: String,
        /// Id of the worker's node.
        peer_id: String,
        /// Reason of the failure, for people.
        reason: String,
        /// True if a spare replaces the worker.
        replaced: bool,
    },
    /// The execution finished.
    Done {
        /// Id of the execution.
        request_id: String,
        /// Code of the response, such as `200`.
        code: String,
        /// Reason for a failure; empty on success.
        message: String,
        /// Duration, in milliseconds.
        elapsed_ms: f64,
    },
    /// The request was canceled, or its client disconnected.
    Canceled {
        /// Id of the execution.
        request_id: String,
    },
    /// A peer connected.
    PeerJoined {
        /// Id of the worker's node.
        peer_id: String,
    },
    /// The last connection to a peer closed.
    PeerLeft {
        /// Id of the worker's node.
        peer_id: String,
    },
}

impl ClusterEventKind {
    /// Returns the id of the execution to which the event belongs, or `None` if it belongs to no
    /// execution.
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
    fn json_of_an_event_contains_its_kind() {
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
    fn json_of_usage_has_the_field_names_of_b7s() {
        let sent = serde_json::json!({
            "wall_clock_time": 1_500, "cpu_user_time": 7, "cpu_sys_time": 8, "memory_max_kb": 64
        });
        let usage: Usage = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!((usage.wall_clock_ns, usage.memory_max_kib), (1_500, 64));
        assert_eq!(serde_json::to_value(usage).unwrap(), sent);
    }
}
