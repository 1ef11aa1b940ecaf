//! What nodes say to one another: the b7s messages of work, and our own of offers and functions.
//!
//! A message is one JSON object whose `type` names it, published as gossip or told on a stream of
//! [`WORK_PROTOCOL`]. Fields that are not known are ignored, so that both generations of nodes can
//! add some. Ours that b7s does not have are marked. Absent on purpose: how messages travel.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use wire::functions::{ExecuteConfig, OutcomeBody, Parameter};

/// The protocol of direct messages between b7s nodes.
pub const WORK_PROTOCOL: &str = "/b7s/work/1.0.0";

/// The protocol on which a node tells what it is and has: an [`Offer`]. Ours.
pub const OFFER_PROTOCOL: &str = "/triptych/offer/1.0.0";

/// The protocol on which a node asks for a function's content: the content id as a line, answered
/// by a [`FunctionHead`] as a line and the content. Ours.
pub const FUNCTION_PROTOCOL: &str = "/triptych/function/1.0.0";

/// An HTTP-like code, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// It went well.
    pub const OK: Self = Self(Cow::Borrowed("200"));
    /// A worker is ready for the work order.
    pub const ACCEPTED: Self = Self(Cow::Borrowed("202"));
    /// Nobody answered a work order.
    pub const NO_CONTENT: Self = Self(Cow::Borrowed("204"));
    /// Too few answered a work order.
    pub const PARTIAL_CONTENT: Self = Self(Cow::Borrowed("206"));
    /// The function is not there.
    pub const NOT_FOUND: Self = Self(Cow::Borrowed("404"));
    /// Too few nodes reported for a roll call.
    pub const TIMEOUT: Self = Self(Cow::Borrowed("408"));
    /// Anything else that went wrong.
    pub const ERROR: Self = Self(Cow::Borrowed("500"));

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One message, without its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Message {
    /// A head looks for nodes that can run a function.
    #[serde(rename = "MsgRollCall")]
    RollCall(RollCall),
    /// A worker can, or says why not.
    #[serde(rename = "MsgRollCallResponse")]
    RollCallResponse(RollCallResponse),
    /// A head has a worker run a function.
    #[serde(rename = "MsgWorkOrder")]
    WorkOrder(WorkOrder),
    /// A worker has run it, or says why not.
    #[serde(rename = "MsgWorkOrderResponse")]
    WorkOrderResponse(WorkOrderResponse),
}

/// The content of `MsgRollCall`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RollCall {
    /// The function to be run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function_id: String,
    /// The request it belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// 0 for none, which is all that is supported here; 1 Raft, 2 PBFT.
    #[serde(default)]
    pub consensus: u32,
    /// What a node must declare to be meant. Nodes here declare nothing, so they stay silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<serde_json::Value>,
}

/// The content of `MsgRollCallResponse`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RollCallResponse {
    /// [`Code::ACCEPTED`], or why not.
    #[serde(default)]
    pub code: Code,
    /// The function asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function_id: String,
    /// The request asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Why the node refuses. Ours.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The content of `MsgWorkOrder`: an execution request, for one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WorkOrder {
    /// The function to run.
    #[serde(default)]
    pub function_id: String,
    /// The file in it to run.
    #[serde(default)]
    pub method: String,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Parameter>>,
    /// Environment and standard input.
    #[serde(default)]
    pub config: ExecuteConfig,
    /// The request it belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// When the request came, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timestamp: String,
}

/// The content of `MsgWorkOrderResponse`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WorkOrderResponse {
    /// The request it answers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// [`Code::OK`], or what went wrong.
    #[serde(default)]
    pub code: Code,
    /// What the run left behind.
    #[serde(default)]
    pub result: NodeResult,
    /// Why there was no run. b7s knows the field and leaves it empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_message: String,
}

/// What a run left behind on one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NodeResult {
    /// As in the message around it.
    #[serde(default)]
    pub code: Code,
    /// Output and exit code.
    #[serde(default)]
    pub result: OutcomeBody,
    /// What it cost.
    #[serde(default)]
    pub usage: Usage,
}

/// What a run cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// How long it took, in nanoseconds.
    #[serde(default, rename = "wall_clock_time", skip_serializing_if = "is_zero")]
    pub wall_clock_ns: u64,
    /// The largest size of its memory, in KiB.
    #[serde(default, rename = "memory_max_kb", skip_serializing_if = "is_zero")]
    pub memory_max_kib: u64,
}

/// What a node is and has. Ours, told to peers that speak [`OFFER_PROTOCOL`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offer {
    /// `head` or `worker`.
    #[serde(default)]
    pub role: String,
    /// Groups beside the general one.
    #[serde(default)]
    pub subgroups: Vec<String>,
    /// Content ids of the functions it holds.
    #[serde(default)]
    pub functions: Vec<String>,
    /// How many functions it runs at once.
    #[serde(default)]
    pub slots: usize,
    /// How many more it could run now.
    #[serde(default)]
    pub slots_free: usize,
}

/// The line before a function's content. Ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionHead {
    /// The content follows.
    Here {
        /// The name of the file.
        method: String,
        /// How many bytes follow.
        bytes: u64,
    },
    /// It is not here, or cannot be sent now.
    Missing,
}

/// Why a message was dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Its type is none that is handled here.
    #[error("handle a message of type `{kind}`")]
    Unknown {
        /// The type, shortened.
        kind: String,
    },
    /// It is no message.
    #[error("read a message")]
    Malformed(#[source] serde_json::Error),
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// [`MessageError::Unknown`] for other types, [`MessageError::Malformed`] for anything else.
    pub fn read(bytes: &[u8]) -> Result<Self, MessageError> {
        serde_json::from_slice(bytes).map_err(|error| match serde_json::from_slice(bytes) {
            Ok(Kind { kind }) if !KINDS.contains(&kind.as_ref()) => {
                MessageError::Unknown { kind: kind.chars().take(80).collect() }
            }
            _ => MessageError::Malformed(error),
        })
    }
}

/// Returns the JSON of a message or an offer.
#[expect(clippy::expect_used, reason = "these shapes hold no map with keys that are not text")]
pub fn json(shape: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(shape).expect("a message is JSON")
}

/// The types that [`Message`] reads.
const KINDS: [&str; 4] =
    ["MsgRollCall", "MsgRollCallResponse", "MsgWorkOrder", "MsgWorkOrderResponse"];

/// The type of any message.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
