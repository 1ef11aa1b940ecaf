//! Bodies about a single node, including operators' decisions about it. An extension of b7s's API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::functions::{NodeApproval, NodeBody};

/// Path of a single node. `{…}` marks a path parameter.
pub mod paths {
    /// A node that a head knows. A `PATCH` cordons, drains, approves or refuses the node.
    pub const NODE: &str = "/api/v1/nodes/{id}";
}

/// Body of `PATCH /api/v1/nodes/{id}`. Omitted fields are not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodePatch {
    /// True to give the node no new work. Its running executions continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned: Option<bool>,
    /// Permission of the node to work for the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<NodeApproval>,
}

/// Response to `GET` and `PATCH /api/v1/nodes/{id}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodeDetail {
    /// Description and state of the node.
    #[serde(flatten)]
    pub node: NodeBody,
    /// Work orders of this head that the node is running, oldest first.
    #[serde(default)]
    pub orders: Vec<NodeOrderBody>,
}

/// A work order that a node is running.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodeOrderBody {
    /// Id of the execution.
    pub request_id: String,
    /// Content id of the function.
    pub function_id: String,
    /// Time since the work order was dispatched, in milliseconds.
    pub elapsed_ms: f64,
}

impl NodeBody {
    /// Returns the reason why the node gets no new work, or `None` if it gets work. The reason
    /// `draining` means that the node is cordoned but still running work orders.
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
