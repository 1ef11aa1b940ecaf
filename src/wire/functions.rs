//! The bodies of document 1: executing functions on a cluster, and looking at the cluster.

use std::collections::BTreeMap;

use model::{
    execution::{Outcome, ResultGroup},
    node::{NameError, PeerId},
};
use serde::{Deserialize, Serialize};

/// The body of `POST /api/v1/functions/execute`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExecuteRequest {
    /// The content id of the function.
    #[serde(default)]
    pub function_id: String,
    /// The name of the file inside the function to run.
    #[serde(default)]
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

/// One argument. Only the value is passed on, and only if it is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Parameter {
    /// For people; ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The argument.
    #[serde(default)]
    pub value: String,
}

/// How to run a function. Everything may be left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExecuteConfig {
    /// How many nodes run it: 1 where it is left out or 0, everyone who answers where it is −1.
    #[serde(default)]
    pub number_of_nodes: i64,
    /// Seconds to wait for nodes to report; 0 for the head's own choice.
    #[serde(default, skip_serializing_if = "is_zero")]
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
    /// What a node must declare to be eligible, as the nodes understand it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<serde_json::Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A variable of a function's environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

/// The answer to `POST /api/v1/functions/execute`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Who took part.
    #[serde(default)]
    pub cluster: ClusterBody,
}

/// One distinct result and who returned it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultGroupBody {
    /// The result.
    pub result: OutcomeBody,
    /// Ids of the peers that returned it.
    pub peers: Vec<String>,
    /// Their share of the results received, 0 to 100.
    pub frequency: f64,
}

/// What an execution left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutcomeBody {
    /// Standard output.
    #[serde(default)]
    pub stdout: String,
    /// Standard error.
    #[serde(default)]
    pub stderr: String,
    /// Exit code.
    #[serde(default)]
    pub exit_code: i32,
}

/// The peers that took part in an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClusterBody {
    /// Their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
}

/// The answer to `GET /api/v1/nodes`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NodesResponse {
    /// The head itself, then its peers by id.
    pub nodes: Vec<NodeBody>,
}

/// One node, as a head knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeBody {
    /// Its id.
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
}

/// The answer to `GET /api/v1/functions`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FunctionsResponse {
    /// By name.
    pub functions: Vec<FunctionBody>,
}

/// One function that a head holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FunctionBody {
    /// What people call it: its file name without the ending.
    pub name: String,
    /// Its content id.
    pub function_id: String,
    /// The file to run.
    pub method: String,
    /// Its size in bytes.
    pub bytes: u64,
}

impl ExecuteRequest {
    /// The group asked for: `subgroup`, else `topic`, else none; an empty text is none.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        [&self.subgroup, &self.topic]
            .into_iter()
            .find_map(|group| group.as_deref().filter(|text| !text.is_empty()))
    }

    /// The arguments: the values that are not empty.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let parameters = self.parameters.as_deref().unwrap_or_default();
        parameters.iter().map(|p| p.value.clone()).filter(|value| !value.is_empty()).collect()
    }
}

impl ExecuteConfig {
    /// The environment; of two variables with one name, the later.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let variables = self.env_vars.as_deref().unwrap_or_default();
        variables.iter().map(|v| (v.name.clone(), v.value.clone())).collect()
    }
}

impl From<Outcome> for OutcomeBody {
    fn from(outcome: Outcome) -> Self {
        let Outcome { stdout, stderr, exit_code } = outcome;
        Self { stdout, stderr, exit_code }
    }
}

impl From<OutcomeBody> for Outcome {
    fn from(body: OutcomeBody) -> Self {
        let OutcomeBody { stdout, stderr, exit_code } = body;
        Self { stdout, stderr, exit_code }
    }
}

impl From<ResultGroup> for ResultGroupBody {
    fn from(group: ResultGroup) -> Self {
        Self {
            result: group.outcome.into(),
            peers: group.peers.iter().map(PeerId::to_string).collect(),
            frequency: group.frequency_percent,
        }
    }
}

impl TryFrom<ResultGroupBody> for ResultGroup {
    type Error = NameError;

    fn try_from(body: ResultGroupBody) -> Result<Self, Self::Error> {
        Ok(Self {
            outcome: body.result.into(),
            peers: body.peers.iter().map(|peer| peer.parse()).collect::<Result<_, _>>()?,
            frequency_percent: body.frequency,
        })
    }
}

#[cfg(test)]
mod tests;
