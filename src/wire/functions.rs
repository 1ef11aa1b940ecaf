//! The bodies of document 1: executing functions on a cluster, and looking at the cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The paths of functions and nodes; `{…}` marks a part that the request fills in.
pub mod paths {
    /// Runs a function on nodes of the cluster (document 1).
    pub const FUNCTIONS_EXECUTE: &str = "/api/v1/functions/execute";
    /// Has the nodes of a group install a function.
    pub const FUNCTIONS_INSTALL: &str = "/api/v1/functions/install";
    /// Has workers remove functions from their stores.
    pub const FUNCTIONS_EVICT: &str = "/api/v1/functions/evict";
    /// The answer to an earlier execution.
    pub const FUNCTIONS_RESULT: &str = "/api/v1/functions/requests/result";
    /// Describes a head's REST API, as `OpenAPI`.
    pub const HEAD_OPENAPI: &str = "/api/v1/openapi.json";
    /// Lists the nodes a head knows, itself first.
    pub const NODES: &str = "/api/v1/nodes";
    /// Lists the functions a head holds; gives it one more.
    pub const FUNCTIONS: &str = "/api/v1/functions";
    /// One function that a head holds; deleting it has the head forget it.
    pub const FUNCTION: &str = "/api/v1/functions/{id}";
    /// Says that a head serves.
    pub const HEAD_HEALTH: &str = "/api/v1/health";
}

/// The body of `POST /api/v1/functions/execute`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteRequest {
    /// The content id of the function.
    #[serde(default)]
    #[schema(required = true, min_length = 1)]
    pub function_id: String,
    /// The name of the file inside the function to run.
    #[serde(default)]
    #[schema(required = true, min_length = 1)]
    pub method: String,
    /// Arguments. Existing clients may send null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Parameter>>,
    /// How to run it. May be left out.
    #[serde(default)]
    pub config: ExecuteConfig,
    /// Restricts execution to nodes of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup: Option<String>,
    /// What later b7s clients call `subgroup`, which wins where both are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

/// The answer to `GET /api/v1/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeadHealth {
    /// Always 200, as a number.
    pub code: u16,
    /// `MsgHealthCheck`, as existing heads answer.
    #[serde(rename = "type")]
    pub kind: String,
}

/// One argument. Only the value is passed on, and only if it is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Parameter {
    /// For people; ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text passed to the function.
    #[serde(default)]
    pub value: String,
}

/// How to run a function. Everything may be left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteConfig {
    /// How many nodes run it: 1 where it is left out or 0, everyone who answers where it is −1.
    #[serde(default)]
    pub number_of_nodes: i64,
    /// Seconds to wait for nodes to report; 0 for the head's own choice.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout: u64,
    /// What the function reads from its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The function's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<Vec<EnvVar>>,
    /// `raft` and `pbft` are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consensus_algorithm: Option<String>,
    /// The share of the nodes that must answer, above 0 and at most 1; the head's own choice where
    /// it is anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// What a node must declare to be eligible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<AttributesBody>,
    /// Ours: which nodes are eligible, by what they declare, as `kubectl` selects by labels:
    /// `zone=a,gpu!=none`, `zone in (a,b)`, `zone notin (a,b)`, `zone`, `!zone`. Empty is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What the function may reach beyond its own folder: `file://…`, `http://…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<String>>,
    /// Limits and switches of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeConfig>,
    /// Known to b7s, which never used it; results are always grouped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_aggregation: Option<serde_json::Value>,
    /// Ours: the answer comes as soon as so many nodes returned one and the same result, and what
    /// the others still run is canceled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// Ours: the answer is `202` and the request's id at once, and the execution goes on. As the
    /// header `Prefer: respond-async`.
    #[serde(default, rename = "async", skip_serializing_if = "Option::is_none")]
    pub is_async: Option<bool>,
}

/// Limits and switches of the runtime, with the names of b7s. What is left out or 0 is the worker's
/// own choice; none can exceed that.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct RuntimeConfig {
    /// The exported function to start at.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entry: String,
    /// The longest run, in milliseconds.
    #[serde(default, rename = "run_time", skip_serializing_if = "is_default")]
    pub run_time_ms: u64,
    /// Whether to keep debug information.
    #[serde(default, skip_serializing_if = "is_default")]
    pub debug_info: bool,
    /// The most fuel used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limited_fuel: u64,
    /// The most memory, in pages of 64 KiB.
    #[serde(default, rename = "limited_memory", skip_serializing_if = "is_default")]
    pub limited_memory_pages: u64,
    /// A file for the runtime's log. Not passed on: it would name a file of the worker's host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runtime_logger: String,
    /// Not passed on: workers have their own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub drivers_root_path: String,
}

/// What a node must declare to be eligible.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct AttributesBody {
    /// All must be declared, with these very values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<EnvVar>>,
    /// Whether somebody must have attested them.
    #[serde(default)]
    pub attestation_required: bool,
    /// Who must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestors: Option<serde_json::Value>,
}

/// Whether a member is left out, since its absence says the same.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A variable of a function's environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EnvVar {
    /// The variable's name, without `=`.
    pub name: String,
    /// The variable's value; may be empty.
    #[serde(default)]
    pub value: String,
}

/// The answer to `POST /api/v1/functions/execute`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteResponse {
    /// `"200"` on success; otherwise what went wrong, as an HTTP-like code.
    #[serde(default)]
    pub code: String,
    /// A UUID made for the request.
    #[serde(default)]
    pub request_id: String,
    /// Why it failed. Left out on success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The distinct results, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultGroupBody>,
    /// The workers that executed it.
    #[serde(default)]
    pub cluster: ClusterBody,
}

/// One distinct result and who returned it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResultGroupBody {
    /// The outcome these peers share.
    pub result: Outcome,
    /// Ids of the peers that returned it.
    pub peers: Vec<String>,
    /// Their share of the results received, 0 to 100.
    pub frequency: f64,
}

/// What an execution left behind.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ToSchema,
)]
pub struct Outcome {
    /// What the function wrote to standard output.
    #[serde(default)]
    pub stdout: String,
    /// What the function wrote to standard error.
    #[serde(default)]
    pub stderr: String,
    /// The function's exit code, 0 on success.
    #[serde(default)]
    pub exit_code: i32,
}

/// The peers that answered in an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ClusterBody {
    /// The ids of the workers' nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
}

/// The answer to `GET /api/v1/nodes`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodesResponse {
    /// The head itself, then its peers by id.
    pub nodes: Vec<NodeBody>,
}

/// One node, as a head knows it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodeBody {
    /// The id of the node.
    pub peer_id: String,
    /// `head` or `worker`; left out where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Groups beside the general one.
    #[serde(default)]
    pub subgroups: Vec<String>,
    /// Multiaddresses, each ending in the peer id.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Whether a connection stands now.
    pub connected: bool,
    /// The id of the relay that the connection goes through, to a node behind NAT; left out where it is
    /// direct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// Round trip of the last ping, in milliseconds; left out where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// When it was last heard, RFC 3339; left out for the head itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// Work orders it answered.
    #[serde(default)]
    pub runs: u64,
    /// Of those, answers that stood in the largest result group, or in one as large.
    #[serde(default)]
    pub agreed: u64,
    /// The share of its runs that agreed, 0 to 100; left out before its first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement_percent: Option<f64>,
    /// How many functions it runs at once; left out where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<usize>,
    /// How many more it could run, as the head reckons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_free: Option<usize>,
    /// Whether the operator cordoned it at this head, which then gives it no new work.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cordoned: bool,
    /// Whether it may work for this head; left out where nobody has to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<NodeApproval>,
    /// Work orders of this head that it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub running: usize,
    /// What it declares of itself, by name. Nobody attests it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Content ids of the functions it says are installed.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Of these, the functions it says are ready: compiled, so that a run starts immediately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<String>,
}

/// What the operator decided of whether a node may work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeApproval {
    /// It may, as those that `--accept` names.
    Approved,
    /// It may not.
    Refused,
    /// Nothing: where a head requires approval, it waits.
    #[default]
    Pending,
}

/// The answer to `GET /api/v1/functions`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct FunctionsResponse {
    /// Every known function, sorted by name.
    pub functions: Vec<FunctionBody>,
}

/// One function that a head holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct FunctionBody {
    /// What people call it: its file name without the ending.
    pub name: String,
    /// Its content id.
    pub function_id: String,
    /// The file to run.
    pub method: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Ids it was installed under by a manifest; unlike the content id, they prove nothing of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_manifest: Vec<String>,
}

/// The body of `POST /api/v1/functions/requests/result`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ResultRequest {
    /// The request's id.
    #[serde(default)]
    #[schema(required = true, min_length = 1)]
    pub id: String,
}

/// The body of `POST /api/v1/functions/install`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct InstallRequest {
    /// The content id of the function.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cid: String,
    /// Where its manifest is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uri: String,
    /// The group whose nodes are to install it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup: Option<String>,
    /// What later b7s clients call `subgroup`, which wins where both are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

/// The answer to `POST /api/v1/functions/install`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct InstallResponse {
    /// `"200"` once a node has the function; otherwise what went wrong, as an HTTP-like code.
    #[serde(default)]
    pub code: String,
    /// What went wrong, in words. Left out on success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The body of `POST /api/v1/functions/evict`: `cid` or `all`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EvictRequest {
    /// The function to remove, also if an operator added or installed it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cid: String,
    /// True to remove all functions that no operator added or installed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// The response to `POST /api/v1/functions/evict`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EvictResponse {
    /// What each worker did, by id.
    pub nodes: Vec<EvictedBody>,
}

/// What one worker removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EvictedBody {
    /// Id of the worker.
    pub peer_id: String,
    /// Number of functions that it removed.
    #[serde(default)]
    pub functions: usize,
    /// Size of their files, in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Number of functions that it still has.
    #[serde(default)]
    pub left: usize,
    /// Why it removed nothing, as a sentence about the worker. Empty if it did what was requested.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl EvictedBody {
    /// A worker that removed nothing.
    #[must_use]
    pub fn failed(message: &str) -> Self {
        Self { message: message.to_owned(), ..Self::default() }
    }
}

/// The answer to `GET /api/v1/functions/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionDetail {
    /// What it is.
    #[serde(flatten)]
    pub function: FunctionBody,
    /// What it consists of.
    #[serde(default)]
    pub files: Vec<FileBody>,
}

/// One file of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileBody {
    /// Its path, with `/` between the parts.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it can be run.
    pub runs: bool,
}

impl InstallRequest {
    /// The group asked for: `subgroup`, else `topic`, else none; an empty text is none.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        group(self.subgroup.as_deref(), self.topic.as_deref())
    }
}

impl ExecuteRequest {
    /// The group asked for: `subgroup`, else `topic`, else none; an empty text is none.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        group(self.subgroup.as_deref(), self.topic.as_deref())
    }

    /// The arguments: the values that are not empty.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let parameters = self.parameters.as_deref().unwrap_or_default();
        parameters.iter().map(|p| p.value.clone()).filter(|value| !value.is_empty()).collect()
    }
}

fn group<'a>(subgroup: Option<&'a str>, topic: Option<&'a str>) -> Option<&'a str> {
    [subgroup, topic].into_iter().flatten().find(|text| !text.is_empty())
}

impl ExecuteConfig {
    /// The environment; of two variables with one name, the later.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let variables = self.env_vars.as_deref().unwrap_or_default();
        variables.iter().map(|v| (v.name.clone(), v.value.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
