//! Orders: the function to execute and the nodes to run it, parsed from a request.

use std::num::NonZeroUsize;
use std::time::Duration;

use model::function::{FunctionId, Method};
use model::node::{GENERAL_TOPIC, Subgroup};
use model::parse::ParseError;
use model::selector::Selector;
use wire::functions::{EnvVar, ExecuteConfig, ExecuteRequest, Parameter, RuntimeConfig};

use super::slots::SlotRequest;
use crate::attributes::Requirements;
use crate::message::WorkOrder;

/// Maximum time that a request can wait for workers to report or for a free slot.
pub const ROLL_CALL_WITHIN_MAX: Duration = Duration::from_mins(1);

/// Maximum number of permissions or attributes in a request. They are sent to every node.
const NAMES_MAX: usize = 256;

/// A function to execute and the nodes to run it.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// Function to run.
    pub function: FunctionId,
    /// Work order for each worker. Its request id, time, client and span are set when it is sent.
    pub work: WorkOrder,
    /// Number of nodes to run the function.
    pub nodes: NodeCount,
    /// Group that the nodes must belong to; `None` for the whole cluster.
    pub subgroup: Option<Subgroup>,
    /// Time for nodes to report.
    pub roll_call_within: Duration,
    /// Time to wait for busy nodes.
    pub wait_within: Duration,
    /// Share of the nodes that must return a result, above 0 and at most 1.
    pub threshold: f64,
    /// Number of equal results to complete the execution early; `None` to wait for all.
    pub quorum: Option<NonZeroUsize>,
    /// Attributes that the nodes must declare.
    pub requirements: Requirements,
    /// Tag by which workers of this program recognize orders of the same client, without revealing the
    /// client. Empty until the request is admitted.
    pub(super) client_tag: String,
}

/// Number of nodes to run a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeCount {
    /// Exactly this number of workers.
    Exactly(NonZeroUsize),
    /// All workers that report in time, at least one.
    #[default]
    Everyone,
}

impl NodeCount {
    /// Returns the number as written in a request, where −1 means all workers.
    pub fn number(self) -> i64 {
        match self {
            Self::Exactly(n) => i64::try_from(n.get()).unwrap_or(i64::MAX),
            Self::Everyone => -1,
        }
    }
}

impl Order {
    /// Parses a request. The function's id can be any name: as in b7s, only workers know the names
    /// under which they installed functions.
    ///
    /// # Errors
    /// Returns all errors in the request, each as a text for the client.
    pub fn read(request: ExecuteRequest) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        let function = FunctionId::parse_any(&request.function_id)
            .ok()
            .or_else(|| parsed::<FunctionId>(&request.function_id, "function ID", &mut errors));
        let method = parsed::<Method>(&request.method, "method", &mut errors);
        let subgroup = subgroup(request.group(), &mut errors);
        let ExecuteRequest { parameters, mut config, .. } = request;
        let nodes = nodes(config.number_of_nodes, &mut errors);
        check_config(&config, &mut errors);
        let quorum = quorum(config.quorum, nodes, &mut errors);
        let selector = config.selector.as_deref().filter(|text| !text.is_empty());
        let selector = selector.and_then(|text| parsed::<Selector>(text, "selector", &mut errors));
        let requirements = Requirements { attributes: config.attributes.take(), selector };
        let timeout = (config.timeout > 0)
            .then(|| Duration::from_secs(config.timeout).min(ROLL_CALL_WITHIN_MAX));
        let threshold = config.threshold.filter(|share| *share > 0.0 && *share <= 1.0);
        let mut work = work_order(parameters, config);
        check_texts(&work, &mut errors);
        let (Some(function), Some(method), Some(nodes), []) =
            (function, method, nodes, errors.as_slice())
        else {
            return Err(errors);
        };
        work.function_id = function.to_string();
        work.method = method.to_string();
        work.config.number_of_nodes = nodes.number();
        Ok(Self {
            function,
            work,
            nodes,
            subgroup,
            // Default time for workers to report, as in b7s.
            roll_call_within: timeout.unwrap_or(Duration::from_secs(5)),
            // Default time for which a request waits for busy workers. It is longer than workers let
            // functions run.
            wait_within: timeout.unwrap_or(Duration::from_secs(30)),
            // Default share of nodes that must return a result, as in b7s.
            threshold: threshold.unwrap_or(0.6),
            quorum,
            requirements,
            client_tag: String::new(),
        })
    }

    /// Returns a request for slots of `n` workers.
    pub(super) fn slot_request(&self, n: usize) -> SlotRequest {
        let subgroup = self.subgroup.as_ref().map(ToString::to_string);
        let requirements = self.requirements.clone();
        SlotRequest { function: self.function, subgroup, requirements, n, can_fetch: false }
    }
}

/// Returns a work order with the parameters and the configuration of a request, without runtime settings
/// that contain paths on the host.
fn work_order(parameters: Option<Vec<Parameter>>, config: ExecuteConfig) -> WorkOrder {
    let variables = config.environment().into_iter().map(|(name, value)| EnvVar { name, value });
    let env_vars = Some(variables.collect());
    let runtime = config.runtime.map(|runtime| RuntimeConfig {
        runtime_logger: String::new(),
        drivers_root_path: String::new(),
        ..runtime
    });
    let mut parameters = parameters.unwrap_or_default();
    parameters.retain_mut(|parameter| {
        parameter.name = None;
        !parameter.value.is_empty()
    });
    WorkOrder {
        parameters: Some(parameters),
        config: ExecuteConfig {
            stdin: config.stdin,
            env_vars,
            permissions: config.permissions.filter(|urls| !urls.is_empty()),
            runtime: runtime.filter(|runtime| *runtime != RuntimeConfig::default()),
            ..ExecuteConfig::default()
        },
        ..WorkOrder::default()
    }
}

/// Parses the name of a group. Returns `None`, the general group, if there is no name.
pub(super) fn subgroup(name: Option<&str>, errors: &mut Vec<String>) -> Option<Subgroup> {
    let name = name.filter(|name| *name != GENERAL_TOPIC)?;
    name.parse().map_err(|error: ParseError| errors.push(error.to_string())).ok()
}

fn nodes(number: i64, errors: &mut Vec<String>) -> Option<NodeCount> {
    if number == -1 {
        return Some(NodeCount::Everyone);
    }
    let Ok(n) = usize::try_from(number) else {
        errors.push("number of nodes must be 1 or more, or -1 for all that report".to_owned());
        return None;
    };
    Some(NodeCount::Exactly(NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN)))
}

fn quorum(
    requested: Option<u32>,
    nodes: Option<NodeCount>,
    errors: &mut Vec<String>,
) -> Option<NonZeroUsize> {
    let requested = NonZeroUsize::new(usize::try_from(requested?).ok()?)?;
    if let Some(NodeCount::Exactly(n)) = nodes
        && requested > n
    {
        errors.push(format!("quorum must be at most the number of nodes, which is {n}"));
    }
    Some(requested)
}

fn check_config(config: &ExecuteConfig, errors: &mut Vec<String>) {
    let consensus = config.consensus_algorithm.as_deref().unwrap_or_default();
    if !consensus.is_empty() {
        errors.push(format!(
            "consensus algorithm {} is not supported: omit it, and compare the result groups or \
             request a quorum",
            consensus.chars().take(40).collect::<String>()
        ));
    }
    let values = config.attributes.as_ref().and_then(|attributes| attributes.values.as_ref());
    let n_permissions = config.permissions.as_ref().map_or(0, Vec::len);
    if n_permissions > NAMES_MAX || values.map_or(0, Vec::len) > NAMES_MAX {
        errors.push(format!("permissions and attributes must be at most {NAMES_MAX} each"));
    }
}

/// Rejects texts that would be truncated or misread when passed to a process: arguments are cut at the
/// first NUL, and variables are passed as `name=value`.
fn check_texts(work: &WorkOrder, errors: &mut Vec<String>) {
    if work.parameters.iter().flatten().any(|parameter| parameter.value.contains('\0')) {
        errors.push("parameters must not contain NUL".to_owned());
    }
    if work.config.permissions.iter().flatten().any(|url| url.contains('\0')) {
        errors.push("permissions must not contain NUL".to_owned());
    }
    let is_valid = |EnvVar { name, value }: &EnvVar| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
    };
    if !work.config.env_vars.iter().flatten().all(is_valid) {
        let rule =
            "env_vars must have names without = and NUL that are not empty, and values without NUL";
        errors.push(rule.to_owned());
    }
}

/// Parses `text`. On failure, adds an error in which the text is called `name`.
pub(super) fn parsed<T>(text: &str, name: &str, errors: &mut Vec<String>) -> Option<T>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    if text.is_empty() {
        errors.push(format!("{name} is required"));
        return None;
    }
    text.parse().map_err(|error| errors.push(format!("{name}: {error}"))).ok()
}

#[cfg(test)]
mod tests;
