//! What nodes say to one another: the b7s messages of work, and our own of offers and functions.
//!
//! A message is one JSON object whose `type` names it, published as gossip or told on a stream of
//! [`WORK_PROTOCOL`]. Fields that are not known are ignored, so that both versions of b7s can
//! add some. Of the two, version 1 has one pair of messages, `MsgExecute` and `MsgExecuteResponse`,
//! for what clients ask of heads and heads of workers, and writes `from` into what it sends;
//! version 2 has work orders for the second. Between nodes of ours, work orders and their answers
//! travel as frames of [`LINE_PROTOCOL`], where the kind of the frame says what its JSON is. Ours
//! that b7s does not have are marked. Absent on purpose: how messages travel.

mod signature;

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use task::traces::Carrier;
use wire::{
    executions::Usage,
    functions::{AttributesBody, ClusterBody, ExecuteConfig, Outcome, Parameter},
};

pub use self::signature::{CallDigest, Signed, SignedCall, call_signed_bytes, signed_bytes};

/// The protocol of direct messages between b7s nodes.
pub const WORK_PROTOCOL: &str = "/b7s/work/1.0.0";

/// The protocol of a line between a head and a worker: one stream that stays open, with frames of
/// the kinds in [`frame`]. Ours.
pub const LINE_PROTOCOL: &str = "/triptych/work/1.0.0";

/// The kinds of frames on a line. Frames of other kinds are ignored.
pub mod frame {
    /// From a head: the JSON of a [`WorkOrder`](super::WorkOrder).
    pub const ORDER: u8 = 1;
    /// From a worker: the JSON of a [`WorkOrderResponse`](super::WorkOrderResponse).
    pub const ANSWER: u8 = 2;
    /// From a head: the id of a request whose run is to end unanswered.
    pub const CANCEL: u8 = 3;
    /// From a head: whether the worker is there. Empty.
    pub const PING: u8 = 4;
    /// From a worker: that it is. Empty.
    pub const PONG: u8 = 5;
    // 6 and 7 shared slots out among heads in earlier versions.
    /// From a worker: the JSON of an [`OrderState`](super::OrderState).
    pub const STATE: u8 = 8;
}

/// The protocol on which a node tells what it is and has: an [`Offer`]. Ours.
pub const OFFER_PROTOCOL: &str = "/triptych/offer/1.0.0";

/// The longest id of a function or a request that is taken, in bytes. All that there are have a
/// quarter of it; they are logged, remembered and sent back.
const ID_BYTES_MAX: usize = 256;

/// An HTTP-like code, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// It went well.
    pub const OK: Self = Self(Cow::Borrowed("200"));
    /// A worker fetches the function, and will be ready then. Ours.
    pub const PROCESSING: Self = Self(Cow::Borrowed("102"));
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
    /// The request makes no sense.
    pub const INVALID: Self = Self(Cow::Borrowed("400"));
    /// The client is not accepted.
    pub const FORBIDDEN: Self = Self(Cow::Borrowed("403"));
    /// The client canceled it.
    pub const CANCELED: Self = Self(Cow::Borrowed("499"));
    /// The node takes no more work for now.
    pub const UNAVAILABLE: Self = Self(Cow::Borrowed("503"));
    /// Anything else that went wrong.
    pub const ERROR: Self = Self(Cow::Borrowed("500"));

    /// The code as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One message, without its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "type")]
#[strum(prefix = "Msg")]
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
    /// A client has a head execute a function; in b7s version 1, also a head a worker.
    #[serde(rename = "MsgExecute")]
    Execute(Execute),
    /// The answer to it.
    #[serde(rename = "MsgExecuteResponse")]
    ExecuteResponse(ExecuteReply),
    /// A head has the nodes of a topic install a function.
    #[serde(rename = "MsgInstallFunction")]
    InstallFunction(InstallFunction),
    /// A worker has.
    #[serde(rename = "MsgInstallFunctionResponse")]
    InstallFunctionResponse(InstallFunctionResponse),
    /// A head has a worker remove functions. Ours.
    #[serde(rename = "MsgEvictFunctions")]
    EvictFunctions(EvictFunctions),
    /// A worker has. Ours.
    #[serde(rename = "MsgEvictFunctionsResponse")]
    EvictFunctionsResponse(EvictFunctionsResponse),
    /// Any other, which is not read.
    #[serde(other)]
    Unknown,
}

impl Message {
    /// The name of its type.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// The content of `MsgRollCall`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RollCall {
    /// The function to be run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function_id: String,
    /// The request it belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// 0 for none, which is all that is supported here; 1 Raft, 2 PBFT.
    pub consensus: u32,
    /// What a node must declare to be meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<AttributesBody>,
    /// The head, to which b7s nodes of version 1 reply. Those of ours reply to the author of
    /// the gossip message, whose signature proves it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// The span of the request, where it is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier: Option<Carrier>,
}

/// The content of `MsgRollCallResponse`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RollCallResponse {
    /// [`Code::ACCEPTED`], or why not.
    pub code: Code,
    /// The function asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function_id: String,
    /// The request asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Why the node refuses. Ours.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The node, as b7s nodes of version 1 write, which are recognized by it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
}

/// The content of `MsgWorkOrder`: an execution request, for one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkOrder {
    /// The function to run.
    pub function_id: String,
    /// The file in it to run.
    pub method: String,
    /// The guest's parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Parameter>>,
    /// Environment and standard input.
    pub config: ExecuteConfig,
    /// The request it belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// When the request came, RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timestamp: String,
    /// Whose request it is, as digits that mean nothing outside the head. Ours.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// The span of the request, where it is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier: Option<Carrier>,
}

/// The content of `MsgWorkOrderResponse`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkOrderResponse {
    /// The request it answers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// [`Code::OK`], or what went wrong.
    pub code: Code,
    /// What the run left behind.
    pub result: NodeResult,
    /// Why there was no run; empty where there was one. b7s knows the field and leaves it empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_message: String,
    /// Whether every node would refuse alike, so that it is of no use to ask another. Ours.
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

/// The step at which a worker is with an order that it has not answered yet. Ours.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderState {
    /// The request that the order belongs to.
    pub request_id: String,
    /// [`Self::COMPILING`] or [`Self::RUNNING`]. Others are ignored.
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

/// What a run left behind on one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeResult {
    /// As in the message around it.
    pub code: Code,
    /// Output and exit code.
    pub result: Outcome,
    /// What it cost.
    pub usage: Usage,
    /// The node's signature of the result, in hexadecimal digits: see [`signed_bytes`]. b7s signs
    /// nothing outside of its consensus.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// The node's signature of the result, the call and the head: see [`call_signed_bytes`]. Ours.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub call_signature: String,
}

impl NodeResult {
    /// The result of a function that did not run, for `reason`: heads of b7s read nothing but the
    /// result, and would take one that is empty for a success.
    pub fn not_run(code: Code, reason: &str) -> Self {
        let result = Outcome {
            stdout: String::new(),
            stderr: format!("runtime: failed to run the function: {reason}\n"),
            // The exit code of bls-runtime for a module that it cannot start.
            exit_code: 255,
        };
        Self { code, result, ..Self::default() }
    }
}

/// The content of `MsgExecute`: an execution request, of a client or of a head.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Execute {
    /// The function to run, and how. The request's id is a head's, for its worker.
    #[serde(flatten)]
    pub order: WorkOrder,
    /// Who sends it, as b7s nodes of version 1 write.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// The group whose nodes are to run it; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub topic: String,
    /// What b7s version 1 calls `topic`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subgroup: String,
}

/// The content of `MsgExecuteResponse`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecuteReply {
    /// The request it answers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Who sends it, as b7s nodes of version 1 write.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// [`Code::OK`], or what went wrong.
    pub code: Code,
    /// What each node left behind; of a worker, itself alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<String, NodeResult>,
    /// The peers that answered.
    pub cluster: ClusterBody,
    /// What went wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The content of `MsgInstallFunction`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InstallFunction {
    /// Where its manifest is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest_url: String,
    /// Id of the function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cid: String,
    /// True if the head's operator requests it: workers that the head was named to pin the function.
    /// Ours.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

/// The content of `MsgEvictFunctions`. Ours.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EvictFunctions {
    /// Id of the request, which the response repeats.
    pub request_id: String,
    /// Id of the function to remove, pinned or not. Empty for all that are not pinned.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cid: String,
}

/// The content of `MsgEvictFunctionsResponse`. Ours.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EvictFunctionsResponse {
    /// Id of the request.
    pub request_id: String,
    /// [`Code::OK`], or what went wrong.
    pub code: Code,
    /// Number of functions that were removed.
    pub functions: usize,
    /// Size of their files, in bytes.
    pub bytes: u64,
    /// Number of functions that the worker still has.
    pub left: usize,
    /// What went wrong, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The content of `MsgInstallFunctionResponse`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InstallFunctionResponse {
    /// [`Code::ACCEPTED`], or what went wrong.
    pub code: Code,
    /// The outcome in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Id of the function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cid: String,
}

/// What a node is and has. Ours, told to peers that speak [`OFFER_PROTOCOL`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    /// `head` or `worker`.
    pub role: String,
    /// Groups beside the general one.
    pub subgroups: Vec<String>,
    /// Content ids of the functions it holds.
    pub functions: Vec<String>,
    /// Of these, the functions that are compiled, so that a run starts immediately. Empty for heads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<String>,
    /// How many functions it runs at once.
    pub slots: usize,
    /// Slots that the receiver may use, including those that run for it.
    pub slots_free: usize,
    /// What it declares of itself. Left out for workers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// Why a message was dropped.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// Its type is none that is handled here.
    #[error("handle a message of another type")]
    Unknown,
    /// It names a function or a request by an id that is too long to be one.
    #[error("read an id of {n_bytes} bytes, more than {ID_BYTES_MAX}")]
    LongId {
        /// The id's length in bytes.
        n_bytes: usize,
    },
    /// It is no message.
    #[error("read a message")]
    Malformed(#[source] serde_json::Error),
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// [`MessageError::Unknown`] for other types, [`MessageError::LongId`] for ids that are none,
    /// [`MessageError::Malformed`] for anything else.
    pub fn read(bytes: &[u8]) -> Result<Self, MessageError> {
        let message: Self = serde_json::from_slice(bytes).map_err(MessageError::Malformed)?;
        if message == Self::Unknown {
            return Err(MessageError::Unknown);
        }
        message.ids().into_iter().try_for_each(check_id)?;
        Ok(message)
    }

    /// The ids in it, which its sender chooses.
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
    /// Returns the arguments that are not empty.
    pub fn arguments(&self) -> Vec<String> {
        let parameters = self.parameters.iter().flatten().map(|parameter| &parameter.value);
        parameters.filter(|value| !value.is_empty()).cloned().collect()
    }

    /// Reads a work order as it travels on a line.
    ///
    /// # Errors
    /// As [`Message::read`], but for other types.
    pub fn read(bytes: &[u8]) -> Result<Self, MessageError> {
        let order: Self = serde_json::from_slice(bytes).map_err(MessageError::Malformed)?;
        order.ids().into_iter().try_for_each(check_id)?;
        Ok(order)
    }

    fn ids(&self) -> [&str; 2] {
        [&self.function_id, &self.request_id]
    }
}

fn check_id(id: &str) -> Result<(), MessageError> {
    let n_bytes = id.len();
    if n_bytes > ID_BYTES_MAX { Err(MessageError::LongId { n_bytes }) } else { Ok(()) }
}

/// Returns the JSON of a message or an offer.
#[expect(clippy::expect_used, reason = "these shapes hold no map with keys that are not text")]
pub fn json(shape: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(shape).expect("a message is JSON")
}

#[cfg(test)]
mod tests;
