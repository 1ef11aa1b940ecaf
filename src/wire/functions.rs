//! Bodies of a head's REST API, as in b7s: requests to execute functions on a cluster and to inspect
//! the cluster.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Paths of a head's REST API for functions and nodes. `{…}` marks a path parameter.
pub mod paths {
    /// Executes a function on nodes of the cluster.
    pub const FUNCTIONS_EXECUTE: &str = "/api/v1/functions/execute";
    /// Installs a function on the nodes of a group.
    pub const FUNCTIONS_INSTALL: &str = "/api/v1/functions/install";
    /// Removes functions from the workers' stores.
    pub const FUNCTIONS_EVICT: &str = "/api/v1/functions/evict";
    /// Returns the result of an execution that was requested earlier.
    pub const FUNCTIONS_RESULT: &str = "/api/v1/functions/requests/result";
    /// `OpenAPI` description of a head's REST API.
    pub const HEAD_OPENAPI: &str = "/api/v1/openapi.json";
    /// Lists the nodes that a head knows. The first is the head itself.
    pub const NODES: &str = "/api/v1/nodes";
    /// Lists the functions that a head has. A `POST` adds a function.
    pub const FUNCTIONS: &str = "/api/v1/functions";
    /// One function of a head. A `DELETE` removes the function from the head, but not from workers.
    pub const FUNCTION: &str = "/api/v1/functions/{id}";
    /// Health of a head.
    pub const HEAD_HEALTH: &str = "/api/v1/health";
}

/// Body of `POST /api/v1/functions/execute`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteRequest {
    /// Content id of the function.
    #[serde(default)]
    #[schema(required = true, min_length = 1)]
    pub function_id: String,
    /// Name of the file to run inside the function.
    #[serde(default)]
    #[schema(required = true, min_length = 1)]
    pub method: String,
    /// Arguments of the function. Null is accepted, since existing clients send null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Parameter>>,
    /// Options of the execution.
    #[serde(default)]
    pub config: ExecuteConfig,
    /// Group whose nodes execute the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup: Option<String>,
    /// Alternative name of `subgroup`, which later b7s clients use. If both are set, `subgroup` is
    /// used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

/// Response to `GET /api/v1/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeadHealth {
    /// Always the number 200.
    pub code: u16,
    /// `MsgHealthCheck`, as in existing heads.
    #[serde(rename = "type")]
    pub kind: String,
}

/// An argument of a function. The function receives only the value, not the name. An argument with an
/// empty value is omitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Parameter {
    /// Name of the parameter, which is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Text that is passed to the function.
    #[serde(default)]
    pub value: String,
}

/// Options of an execution. All fields can be omitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteConfig {
    /// Number of nodes. 1 if omitted or 0. −1 means all nodes that report.
    #[serde(default)]
    pub number_of_nodes: i64,
    /// Maximum time to wait for nodes to report, in seconds; 0 for the head's default. Values above 60
    /// count as 60.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout: u64,
    /// Standard input of the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Environment variables of the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<Vec<EnvVar>>,
    /// Consensus algorithm. `raft` and `pbft` are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consensus_algorithm: Option<String>,
    /// Fraction of the nodes that must respond, above 0 and at most 1. Other values select the
    /// head's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Attributes that a node must declare to be eligible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<AttributesBody>,
    /// Extension: selector that limits eligible nodes by their declared attributes, in the syntax of
    /// `kubectl`: `zone=a,gpu!=none`, `zone in (a,b)`, `zone notin (a,b)`, `zone`, `!zone`. An empty
    /// selector does not limit the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Permissions beyond the function's own directory: `file://…`, `http://…`. Workers pass them to an
    /// external runtime. The built-in runtime ignores them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<String>>,
    /// Limits and options of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeConfig>,
    /// Accepted but ignored, as in b7s. Results are always grouped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_aggregation: Option<serde_json::Value>,
    /// Extension: number of equal results after which the response is sent. Remaining runs are
    /// canceled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// Extension: true to respond immediately with `202` and the request's id while the execution
    /// continues, like the header `Prefer: respond-async`.
    #[serde(default, rename = "async", skip_serializing_if = "Option::is_none")]
    pub is_async: Option<bool>,
}

/// Limits and options of the runtime, with the names of b7s. If a limit is omitted or 0, the worker's
/// own limit applies. No value can exceed the worker's limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct RuntimeConfig {
    /// Name of the exported function that is called first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entry: String,
    /// Maximum duration of the run, in milliseconds.
    #[serde(default, rename = "run_time", skip_serializing_if = "is_default")]
    pub run_time_ms: u64,
    /// True to keep debug information.
    #[serde(default, skip_serializing_if = "is_default")]
    pub debug_info: bool,
    /// Maximum fuel of a run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limited_fuel: u64,
    /// Maximum memory, in pages of 64 KiB.
    #[serde(default, rename = "limited_memory", skip_serializing_if = "is_default")]
    pub limited_memory_pages: u64,
    /// Log file of the runtime. Not passed to workers, since it would be a path on the worker's
    /// machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runtime_logger: String,
    /// Directory of drivers. Not passed to workers, since each worker has its own directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub drivers_root_path: String,
}

/// Attributes that a node must declare to be eligible.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct AttributesBody {
    /// Required attributes with their exact values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<EnvVar>>,
    /// True if the attributes must be attested.
    #[serde(default)]
    pub attestation_required: bool,
    /// Attestors that must have signed the attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestors: Option<serde_json::Value>,
}

/// Returns true for a default value, which is omitted from the JSON.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A variable of a function's environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EnvVar {
    /// Name of the variable, without `=`.
    pub name: String,
    /// Value of the variable, possibly empty.
    #[serde(default)]
    pub value: String,
}

/// Response to `POST /api/v1/functions/execute`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteResponse {
    /// `"200"` on success; otherwise the code of the failure, similar to an HTTP status.
    #[serde(default)]
    pub code: String,
    /// UUID of the request.
    #[serde(default)]
    pub request_id: String,
    /// Reason for a failure. If the code is `"200"`, names the nodes that failed. Omitted otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Distinct results, most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultGroupBody>,
    /// Workers that returned a result, or failed and were not replaced.
    #[serde(default)]
    pub cluster: ClusterBody,
}

/// A result group: a result and the peers that returned it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResultGroupBody {
    /// Result that these peers returned.
    pub result: Outcome,
    /// Ids of the peers that returned this result.
    pub peers: Vec<String>,
    /// Share of these peers among all peers that returned a result, 0 to 100.
    pub frequency: f64,
}

/// Returns true if the first result group is larger than all others. `n_peers` contains the number of
/// peers of each group, the largest first. Without such a group, the nodes have not agreed.
pub fn has_largest(mut n_peers: impl Iterator<Item = usize>) -> bool {
    n_peers.next() != n_peers.next()
}

/// Output of an execution.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ToSchema,
)]
pub struct Outcome {
    /// Standard output of the function.
    #[serde(default)]
    pub stdout: String,
    /// Standard error of the function.
    #[serde(default)]
    pub stderr: String,
    /// Exit code of the function, 0 on success.
    #[serde(default, deserialize_with = "exit_code")]
    pub exit_code: i32,
    /// Extension: SHA-256 of the bytes of standard output in hexadecimal. Omitted if the bytes are UTF-8.
    /// Otherwise `stdout` is not exact, since U+FFFD replaces the invalid bytes. Nodes of b7s do not send
    /// it, so their output is not grouped with the same bytes of other nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout_sha256: String,
    /// Extension: the same for standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_sha256: String,
}

/// Reads an exit code. On Windows, nodes of b7s send the 32 bits as a positive number.
fn exit_code<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let code = i64::deserialize(from)?;
    let unsigned = |_| u32::try_from(code).map(u32::cast_signed);
    i32::try_from(code).or_else(unsigned).map_err(D::Error::custom)
}

/// Workers of an execution that returned a result, or failed and were not replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ClusterBody {
    /// Ids of the workers' nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
}

/// Response to `GET /api/v1/nodes`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodesResponse {
    /// The head itself, then its peers sorted by id.
    pub nodes: Vec<NodeBody>,
}

/// A node that a head knows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NodeBody {
    /// Id of the node.
    pub peer_id: String,
    /// `head` or `worker`; omitted if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Subgroups of the node, without the general group.
    #[serde(default)]
    pub subgroups: Vec<String>,
    /// Multiaddresses of the node. Each ends with the peer id.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// True if the head has a connection to the node.
    pub connected: bool,
    /// Round-trip time of the last ping, in milliseconds; omitted before the first ping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// Time of the last message from the node, RFC 3339; omitted for the head itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// Number of work orders to which the node responded.
    #[serde(default)]
    pub runs: u64,
    /// Number of these work orders with a result in the largest result group. If two groups have the
    /// same size, neither is the largest.
    #[serde(default)]
    pub agreed: u64,
    /// Share of `agreed` in `runs`, 0 to 100; omitted before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement_percent: Option<f64>,
    /// Number of slots of the node; omitted if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<usize>,
    /// Number of free slots, as estimated by the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_free: Option<usize>,
    /// True if the node is cordoned at this head, so it gets no new work.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cordoned: bool,
    /// Permission of the node to work for this head; omitted if the head requires no approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<NodeApproval>,
    /// Number of work orders of this head that the node is running.
    #[serde(default, skip_serializing_if = "is_default")]
    pub running: usize,
    /// Attributes that the node declares, by name. The attributes are not attested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Content ids of the functions that the node reports as installed.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Content ids of those functions that the node reports as compiled. A run of such a function
    /// starts immediately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<String>,
}

/// An operator's decision about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeApproval {
    /// The node can work, like the nodes listed with `--accept`.
    Approved,
    /// The node cannot work.
    Refused,
    /// No decision yet. The node waits if the head requires approval.
    #[default]
    Pending,
}

/// Response to `GET /api/v1/functions`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct FunctionsResponse {
    /// Known functions, sorted by name.
    pub functions: Vec<FunctionBody>,
}

/// A function that a head has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct FunctionBody {
    /// Display name: the file name without its extension.
    pub name: String,
    /// Content id of the function.
    pub function_id: String,
    /// File to run inside the function.
    pub method: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Ids of the manifests from which the function was installed. Unlike content ids, ids of manifests
    /// do not identify the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_manifest: Vec<String>,
}

/// Body of `POST /api/v1/functions/requests/result`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ResultRequest {
    /// Id of the request.
    #[serde(default)]
    #[schema(required = true, min_length = 1)]
    pub id: String,
}

/// Body of `POST /api/v1/functions/install`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct InstallRequest {
    /// Content id of the function.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cid: String,
    /// Address of the function's manifest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uri: String,
    /// Group whose nodes install the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup: Option<String>,
    /// Alternative name of `subgroup`, which later b7s clients use. If both are set, `subgroup` is
    /// used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

/// Response to `POST /api/v1/functions/install`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct InstallResponse {
    /// `"200"` once a node has the function; otherwise the code of the failure, similar to an HTTP
    /// status.
    #[serde(default)]
    pub code: String,
    /// Reason for a failure, or that the head has installed the manifest before and did not read it
    /// again. Otherwise omitted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Body of `POST /api/v1/functions/evict`. Either `cid` or `all` must be set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EvictRequest {
    /// Content id of the function to remove, even if an operator added or installed the function.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cid: String,
    /// True to remove all functions except those that an operator added or installed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// The response to `POST /api/v1/functions/evict`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EvictResponse {
    /// Outcome at each worker, sorted by the worker's id.
    pub nodes: Vec<EvictedBody>,
}

/// Outcome of an eviction at one worker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EvictedBody {
    /// Id of the worker.
    pub peer_id: String,
    /// Number of functions that the worker removed.
    #[serde(default)]
    pub functions: usize,
    /// Total size of the removed files, in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Number of functions that the worker still has.
    #[serde(default)]
    pub left: usize,
    /// Reason why the worker removed nothing, as a sentence about the worker. Empty on success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl EvictedBody {
    /// Returns the outcome of an eviction that removed nothing, with `message` as the reason.
    #[must_use]
    pub fn failed(message: &str) -> Self {
        Self { message: message.to_owned(), ..Self::default() }
    }
}

/// Response to `GET /api/v1/functions/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionDetail {
    /// Description of the function.
    #[serde(flatten)]
    pub function: FunctionBody,
    /// Files of the function.
    #[serde(default)]
    pub files: Vec<FileBody>,
}

/// A file of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileBody {
    /// Path with `/` as separator.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// True if the file can be run.
    pub runs: bool,
}

impl InstallRequest {
    /// Returns the requested group: `subgroup`, or `topic` if there is no `subgroup`. An empty text
    /// counts as missing.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        group(self.subgroup.as_deref(), self.topic.as_deref())
    }
}

impl ExecuteRequest {
    /// Returns the requested group: `subgroup`, or `topic` if there is no `subgroup`. An empty text
    /// counts as missing.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        group(self.subgroup.as_deref(), self.topic.as_deref())
    }

    /// Returns the values of the arguments. Omits empty values.
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
    /// Returns the environment. If a name is repeated, its last value is used.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let variables = self.env_vars.as_deref().unwrap_or_default();
        variables.iter().map(|v| (v.name.clone(), v.value.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
