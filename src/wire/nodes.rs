//! The bodies of one node of a cluster, and of what the operator decides of it. Ours.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::functions::{NodeApproval, NodeBody};

/// The path of one node; `{…}` marks a part that the request fills in.
pub mod paths {
    /// One node that a head knows; changing it cordons, drains, approves or refuses it.
    pub const NODE: &str = "/api/v1/nodes/{id}";
}

/// The body of `PATCH /api/v1/nodes/{id}`. What is left out stays unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodePatch {
    /// Whether the head gives it no new work. What it runs goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned: Option<bool>,
    /// Whether it may work for the head at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<NodeApproval>,
}

/// The answer to `GET` and `PATCH /api/v1/nodes/{id}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodeDetail {
    /// What it is, and how it is.
    #[serde(flatten)]
    pub node: NodeBody,
    /// The work orders of this head that it runs, the oldest first.
    #[serde(default)]
    pub orders: Vec<NodeOrderBody>,
}

/// One work order that a node runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodeOrderBody {
    /// The id of the execution it belongs to.
    pub request_id: String,
    /// The content id of the function.
    pub function_id: String,
    /// For how long it has had it, in milliseconds.
    pub elapsed_ms: f64,
}

impl NodeBody {
    /// Why the head gives the node no new work, in a word; none where it does. `draining` is a cordoned
    /// one that still runs something.
    #[must_use]
    pub fn withheld_by(&self) -> Option<&'static str> {
        match self.approval {
            Some(NodeApproval::Refused) => Some("refused"),
            Some(NodeApproval::Pending) => Some("pending"),
            _ if self.cordoned && self.running > 0 => Some("draining"),
            _ if self.cordoned => Some("cordoned"),
            _ => None,
        }
    }
}
