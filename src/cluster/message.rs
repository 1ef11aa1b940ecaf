//! Messages between nodes: the messages of b7s for work, and extensions for offers and functions.
//!
//! A message is a JSON object with a `type`, published as gossip or sent on a stream of
//! [`WORK_PROTOCOL`]. Unknown fields are ignored, so that both versions of b7s can add fields. Version 1
//! has one pair of messages, `MsgExecute` and `MsgExecuteResponse`, for requests of clients as well as
//! orders to workers. Version 1 sets `from` in its messages. Version 2 has work orders for workers.
//! Between nodes of this program, work orders and their responses are frames of [`LINE_PROTOCOL`] with a
//! kind that determines the JSON. Extensions that b7s does not have are marked.

mod signature;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use task::traces::Carrier;
use wire::executions::Usage;
use wire::functions::{AttributesBody, ClusterBody, ExecuteConfig, Outcome, Parameter};

pub use self::signature::{CallDigest, Signed, SignedCall, signed_bytes};

/// Protocol of direct messages between b7s nodes. Each message has its own stream.
pub const WORK_PROTOCOL: &str = "/b7s/work/1.0.0";

/// Protocol of a line between a head and a worker: one stream that stays open, with frames of the
/// kinds in [`frame`]. Extension.
pub const LINE_PROTOCOL: &str = "/triptych/work/1.0.0";

/// Kinds of frames on a line. Other kinds are ignored.
pub mod frame {
    /// From a head: the JSON of a [`WorkOrder`](super::WorkOrder).
    pub const ORDER: u8 = 1;
    /// From a worker: the JSON of a [`WorkOrderResponse`](super::WorkOrderResponse).
    pub const ANSWER: u8 = 2;
    /// From a head: the id of a request. The run of this request is canceled without a response.
    pub const CANCEL: u8 = 3;
    /// From a head: a ping. Empty.
    pub const PING: u8 = 4;
    /// From a worker: the answer to a ping. Empty.
    pub const PONG: u8 = 5;
    // 6 and 7 were used by earlier versions.
    /// From a worker: the JSON of an [`OrderState`](super::OrderState).
    pub const STATE: u8 = 8;
}

/// Protocol on which a node sends an [`Offer`]. Extension.
pub const OFFER_PROTOCOL: &str = "/triptych/offer/1.0.0";

/// Maximum length of the id of a function or request, in bytes. Valid ids have at most a quarter of
/// this. Ids are logged, stored and sent back.
const ID_BYTES_MAX: usize = 256;

/// Maximum size of a message that is parsed again by [`read_lenient`], which needs much memory.
const LENIENT_BYTES_MAX: usize = 64 * 1024;

/// Code similar to an HTTP status, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// The request succeeded.
    pub const OK: Self = Self(Cow::Borrowed("200"));
    /// The worker fetches the function and is ready afterwards. Extension.
    pub const PROCESSING: Self = Self(Cow::Borrowed("102"));
    /// The worker is ready for the work order.
    pub const ACCEPTED: Self = Self(Cow::Borrowed("202"));
    /// No worker responded to a work order.
    pub const NO_CONTENT: Self = Self(Cow::Borrowed("204"));
    /// Too few workers responded to a work order.
    pub const PARTIAL_CONTENT: Self = Self(Cow::Borrowed("206"));
    /// The function is missing.
    pub const NOT_FOUND: Self = Self(Cow::Borrowed("404"));
    /// Too few nodes reported for a roll call.
    pub const TIMEOUT: Self = Self(Cow::Borrowed("408"));
    /// The request is invalid.
    pub const INVALID: Self = Self(Cow::Borrowed("400"));
    /// The client is not allowed.
    pub const FORBIDDEN: Self = Self(Cow::Borrowed("403"));
    /// The client canceled the execution.
    pub const CANCELED: Self = Self(Cow::Borrowed("499"));
    /// The node accepts no more work for now.
    pub const UNAVAILABLE: Self = Self(Cow::Borrowed("503"));
    /// Any other failure.
    pub const ERROR: Self = Self(Cow::Borrowed("500"));

    /// Returns the code as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A message between two nodes, in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "type")]
#[strum(prefix = "Msg")]
pub enum Message {
    /// Sent by a head to find nodes that can run a function.
    #[serde(rename = "MsgRollCall")]
    RollCall(RollCall),
    /// Response of a worker to a roll call.
    #[serde(rename = "MsgRollCallResponse")]
    RollCallResponse(RollCallResponse),
    /// Sent by a head to have a worker run a function.
    #[serde(rename = "MsgWorkOrder")]
    WorkOrder(WorkOrder),
    /// Response of a worker to a work order.
    #[serde(rename = "MsgWorkOrderResponse")]
    WorkOrderResponse(WorkOrderResponse),
    /// Sent by a client to have a head execute a function. Also sent by b7s version 1 heads to workers.
    #[serde(rename = "MsgExecute")]
    Execute(Execute),
    /// Response to [`Self::Execute`].
    #[serde(rename = "MsgExecuteResponse")]
    ExecuteResponse(ExecuteReply),
    /// Sent by a head to have the nodes of a topic install a function.
    #[serde(rename = "MsgInstallFunction")]
    InstallFunction(InstallFunction),
    /// Response of a worker to an installation.
    #[serde(rename = "MsgInstallFunctionResponse")]
    InstallFunctionResponse(InstallFunctionResponse),
    /// Sent by a head to have a worker remove functions. Extension.
    #[serde(rename = "MsgEvictFunctions")]
    EvictFunctions(EvictFunctions),
    /// Response of a worker to an eviction. Extension.
    #[serde(rename = "MsgEvictFunctionsResponse")]
    EvictFunctionsResponse(EvictFunctionsResponse),
    /// Any other message.
    #[serde(other)]
    Unknown,
}

impl Message {
    /// Returns the name of the message type.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// Content of `MsgRollCall`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RollCall {
    /// Function to run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function_id: String,
    /// Id of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// 0 for no consensus, which is the only supported value, 1 for Raft, 2 for PBFT.
    pub consensus: u32,
    /// Attributes that a node must declare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<AttributesBody>,
    /// Id of the head, to which b7s nodes of version 1 reply. Nodes of this program reply to the author
    /// of the gossip message, which is signed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// Span of the request, if it is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier: Option<Carrier>,
}

/// Content of `MsgRollCallResponse`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RollCallResponse {
    /// [`Code::ACCEPTED`], or the reason to refuse.
    pub code: Code,
    /// Function that the head looks for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function_id: String,
    /// Id of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Reason to refuse, in words. Extension.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Id of the sender. Only b7s nodes of version 1 set it, which identifies them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
}

/// Content of `MsgWorkOrder`: an execution request for one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkOrder {
    /// Function to run.
    pub function_id: String,
    /// Module of the function to run.
    pub method: String,
    /// Arguments of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Parameter>>,
    /// Environment and standard input.
    pub config: ExecuteConfig,
    /// Id of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Time of the request, in RFC 3339 format.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timestamp: String,
    /// Tag of the client, meaningless outside the head. Extension.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// Span of the request, if it is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier: Option<Carrier>,
}

/// Content of `MsgWorkOrderResponse`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkOrderResponse {
    /// Id of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// [`Code::OK`], or the kind of failure.
    pub code: Code,
    /// Result of the run.
    pub result: NodeResult,
    /// Reason why there was no run; empty if there was one. b7s has the field and leaves it empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_message: String,
    /// True if every other node would refuse, too, so the head need not try another node. Extension.
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

/// State of an order before its response. Extension.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderState {
    /// Id of the request.
    pub request_id: String,
    /// [`Self::WAITING`], [`Self::COMPILING`] or [`Self::RUNNING`]. Other values are ignored.
    pub state: String,
}

impl OrderState {
    /// The order waits for a slot.
    pub const WAITING: &str = "waiting";
    /// The order waits until its function is compiled.
    pub const COMPILING: &str = "compiling";
    /// The function runs, after the order has waited.
    pub const RUNNING: &str = "running";
}

/// Result of a run on one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeResult {
    /// The same code as in the surrounding message.
    pub code: Code,
    /// Output and exit code.
    pub result: Outcome,
    /// Time and memory that the run used.
    pub usage: Usage,
    /// Hexadecimal signature by which the node confirms the result, the call and the head: see
    /// [`signed_bytes`]. Extension.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub call_signature: String,
}

impl NodeResult {
    /// Returns the result of a function that did not run, for `reason`. b7s heads read only the result
    /// and would treat an empty one as a success.
    pub fn not_run(code: Code, reason: &str) -> Self {
        let result = Outcome {
            stderr: format!("runtime: failed to run the function: {reason}\n"),
            // Exit code of bls-runtime for a module that it cannot start.
            exit_code: 255,
            ..Outcome::default()
        };
        Self { code, result, ..Self::default() }
    }
}

/// Content of `MsgExecute`: an execution request of a client or of a head.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Execute {
    /// Function to run. The request id is set only by heads (in messages to workers), not by clients.
    #[serde(flatten)]
    pub order: WorkOrder,
    /// Id of the sender. Only b7s nodes of version 1 set it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Group of the nodes that run the function; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub topic: String,
    /// Name of `topic` in b7s version 1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subgroup: String,
}

/// Content of `MsgExecuteResponse`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecuteReply {
    /// Id of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Id of the sender. Only b7s nodes of version 1 set it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// [`Code::OK`], or the kind of failure.
    pub code: Code,
    /// Result of each node. A worker sends only its own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<String, NodeResult>,
    /// Peers that returned a result.
    pub cluster: ClusterBody,
    /// Description of the failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Content of `MsgInstallFunction`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InstallFunction {
    /// Address of the manifest.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest_url: String,
    /// Id of the function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cid: String,
    /// True if the head's operator requests the installation. Workers pin the function if their
    /// operator named the head. Extension.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

/// Content of `MsgEvictFunctions`. Extension.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EvictFunctions {
    /// Id of the request, which the response repeats.
    pub request_id: String,
    /// Id of the function to remove, even if it is pinned. Empty for all functions that are not pinned.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cid: String,
    /// Content id of a function to remove as well, for workers that do not know it as `cid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
}

/// Content of `MsgEvictFunctionsResponse`. Extension.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EvictFunctionsResponse {
    /// Id of the request.
    pub request_id: String,
    /// [`Code::OK`], or the kind of failure.
    pub code: Code,
    /// Number of functions that were removed.
    pub functions: usize,
    /// Size of the removed functions' files, in bytes.
    pub bytes: u64,
    /// Number of functions that the worker still has.
    pub left: usize,
    /// Description of the failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Content of `MsgInstallFunctionResponse`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InstallFunctionResponse {
    /// [`Code::ACCEPTED`], or the kind of failure.
    pub code: Code,
    /// Outcome in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Id of the function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cid: String,
}

/// State of a node, sent to peers that speak [`OFFER_PROTOCOL`]. Extension.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    /// `head` or `worker`.
    pub role: String,
    /// Subgroups of the node.
    pub subgroups: Vec<String>,
    /// Content ids of the node's functions.
    pub functions: Vec<String>,
    /// Functions that the node has compiled, so their runs start immediately. Empty in offers of heads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<String>,
    /// Number of functions that the node can run simultaneously.
    pub slots: usize,
    /// Number of slots that the receiver can use, including slots that run its orders.
    pub slots_free: usize,
    /// Declared attributes. Omitted in offers to workers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// Reason for which a message was dropped.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The type of the message is not supported.
    #[error("unknown message type")]
    Unknown,
    /// The id of the message's function or request is too long to be valid.
    #[error("function or request id of {n_bytes} bytes exceeds {ID_BYTES_MAX} bytes")]
    LongId {
        /// Length of the id in bytes.
        n_bytes: usize,
    },
    /// The bytes are not a valid message.
    #[error("malformed message")]
    Malformed(#[source] serde_json::Error),
}

impl Message {
    /// Parses a message.
    ///
    /// # Errors
    /// Returns [`MessageError`] if the type is unknown, an id is too long, or the message is malformed.
    pub fn read(bytes: &[u8]) -> Result<Self, MessageError> {
        let is_short = bytes.len() <= LENIENT_BYTES_MAX;
        let read = if is_short { read_lenient(bytes) } else { serde_json::from_slice(bytes) };
        let message: Self = read.map_err(MessageError::Malformed)?;
        if message == Self::Unknown {
            return Err(MessageError::Unknown);
        }
        message.ids().into_iter().try_for_each(check_id)?;
        Ok(message)
    }

    /// Returns the ids in the message. The sender can choose any text for them.
    fn ids(&self) -> [&str; 2] {
        match self {
            Self::RollCall(call) => [&call.function_id, &call.request_id],
            Self::RollCallResponse(response) => [&response.function_id, &response.request_id],
            Self::WorkOrder(order) | Self::Execute(Execute { order, .. }) => order.ids(),
            Self::WorkOrderResponse(response) => [&response.request_id, ""],
            Self::ExecuteResponse(response) => [&response.request_id, ""],
            Self::InstallFunction(install) => [&install.cid, ""],
            Self::InstallFunctionResponse(response) => [&response.cid, ""],
            Self::EvictFunctions(request) => [&request.cid, &request.request_id],
            Self::EvictFunctionsResponse(response) => [&response.request_id, ""],
            Self::Unknown => ["", ""],
        }
    }
}

impl WorkOrder {
    /// Returns the non-empty arguments.
    pub fn arguments(&self) -> Vec<String> {
        let parameters = self.parameters.iter().flatten().map(|parameter| &parameter.value);
        parameters.filter(|value| !value.is_empty()).cloned().collect()
    }

    /// Parses a work order from a line.
    ///
    /// # Errors
    /// Returns [`MessageError`] as [`Message::read`] does.
    pub fn read(bytes: &[u8]) -> Result<Self, MessageError> {
        let order: Self = serde_json::from_slice(bytes).map_err(MessageError::Malformed)?;
        order.ids().into_iter().try_for_each(check_id)?;
        Ok(order)
    }

    fn ids(&self) -> [&str; 2] {
        [&self.function_id, &self.request_id]
    }
}

/// Parses JSON. As in Go, a field that is null counts as omitted, and the last value of a repeated field
/// is used.
pub(crate) fn read_lenient<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(bytes).or_else(|error| {
        let lenient = serde_json::from_slice(bytes).ok().map(without_nulls);
        lenient.and_then(|value| serde_json::from_value(value).ok()).ok_or(error)
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        // Null elements of a list remain, since only fields can be omitted.
        Value::Array(values) => Value::Array(values.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

fn check_id(id: &str) -> Result<(), MessageError> {
    let n_bytes = id.len();
    if n_bytes > ID_BYTES_MAX { Err(MessageError::LongId { n_bytes }) } else { Ok(()) }
}

/// Returns the JSON of a message or an offer.
#[expect(clippy::expect_used, reason = "these types contain no map with keys other than text")]
pub fn json(shape: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(shape).expect("a message serializes to JSON")
}

#[cfg(test)]
mod tests;
