//! Orders: what is to be executed, by whom, read from a request.

use std::{num::NonZeroUsize, time::Duration};

use model::{
    function::{FunctionId, Method},
    node::{GENERAL_TOPIC, Subgroup},
    parse::ParseError,
    selector::Selector,
};
use wire::functions::{EnvVar, ExecuteConfig, ExecuteRequest, Parameter, RuntimeConfig};

use super::slots::SlotRequest;
use crate::{attributes::Requirements, message::WorkOrder};

/// How long a head waits for workers to report unless the request says otherwise, as b7s does.
pub const ROLL_CALL_WITHIN: Duration = Duration::from_secs(5);

/// How long a request waits for workers that are busy unless it says otherwise: longer than workers
/// let functions run.
pub const WAIT_WITHIN: Duration = Duration::from_secs(30);

/// The longest a request may have a head wait for workers to report or to have a free slot.
pub const ROLL_CALL_WITHIN_MAX: Duration = Duration::from_mins(1);

/// The share of nodes that must answer unless the request says otherwise, as in b7s.
pub const THRESHOLD_DEFAULT: f64 = 0.6;

/// The most permissions and attributes in one request, each. They travel to every node.
const NAMES_MAX: usize = 256;

/// What is to be executed, by whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The function to run.
    pub function: FunctionId,
    /// The work order for each worker. Its request, time, client and span are set when it is sent.
    pub work: WorkOrder,
    /// How many nodes are to run it.
    pub nodes: NodeCount,
    /// The group they must belong to; none for the whole cluster.
    pub subgroup: Option<Subgroup>,
    /// How long to wait for them to report.
    pub roll_call_within: Duration,
    /// How long to wait for those that are busy.
    pub wait_within: Duration,
    /// The share of them that must answer, above 0 and at most 1.
    pub threshold: f64,
    /// How many equal results are enough; none to wait for all.
    pub quorum: Option<NonZeroUsize>,
    /// What they must declare.
    pub requirements: Requirements,
    /// Tells workers of ours which orders are of one client, and nothing else of it. Empty until the
    /// head has let the request in.
    pub(super) client_tag: String,
}

/// How many nodes are to run a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeCount {
    /// Exactly this many workers.
    Exactly(NonZeroUsize),
    /// All that report before the wait is over, one at least.
    #[default]
    Everyone,
}

impl NodeCount {
    /// The number in a request: −1 for everyone.
    pub fn number(self) -> i64 {
        match self {
            Self::Exactly(n) => i64::try_from(n.get()).unwrap_or(i64::MAX),
            Self::Everyone => -1,
        }
    }
}

impl Order {
    /// Checks a request, and returns the order in it. The function's id can be any name: as in b7s,
    /// only the workers know under which names they installed functions.
    ///
    /// # Errors
    /// All that is wrong with it, each as a text for its sender.
    pub fn read(request: &ExecuteRequest) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        let function = FunctionId::parse_any(&request.function_id)
            .ok()
            .or_else(|| parsed::<FunctionId>(&request.function_id, "function ID", &mut wrong));
        let method = parsed::<Method>(&request.method, "method", &mut wrong);
        let config = &request.config;
        let nodes = nodes(config.number_of_nodes, &mut wrong);
        let subgroup = subgroup(request.group(), &mut wrong);
        check_config(config, &mut wrong);
        check_texts(request, &mut wrong);
        let quorum = quorum(config.quorum, nodes, &mut wrong);
        let selector = config.selector.as_deref().filter(|text| !text.is_empty());
        let selector = selector.and_then(|text| parsed::<Selector>(text, "selector", &mut wrong));
        let asked_within = (config.timeout > 0)
            .then(|| Duration::from_secs(config.timeout).min(ROLL_CALL_WITHIN_MAX));
        let threshold = config.threshold.filter(|share| *share > 0.0 && *share <= 1.0);
        match (function, method, nodes) {
            (Some(function), Some(method), Some(nodes)) if wrong.is_empty() => Ok(Self {
                function,
                work: work_order(function, &method, nodes, request),
                nodes,
                subgroup,
                roll_call_within: asked_within.unwrap_or(ROLL_CALL_WITHIN),
                wait_within: asked_within.unwrap_or(WAIT_WITHIN),
                threshold: threshold.unwrap_or(THRESHOLD_DEFAULT),
                quorum,
                requirements: Requirements { attributes: config.attributes.clone(), selector },
                client_tag: String::new(),
            }),
            _ => Err(wrong),
        }
    }

    /// The order as a wish for `n` slots.
    pub(super) fn slot_request(&self, n: usize) -> SlotRequest {
        let subgroup = self.subgroup.as_ref().map(ToString::to_string);
        let requirements = self.requirements.clone();
        SlotRequest { function: self.function, subgroup, requirements, n, can_fetch: false }
    }
}

/// Returns what workers are told of a request. Of the runtime's settings, those that name files of its
/// host are left out.
fn work_order(
    function: FunctionId,
    method: &Method,
    nodes: NodeCount,
    request: &ExecuteRequest,
) -> WorkOrder {
    let config = &request.config;
    let runtime = config.runtime.clone().map(|runtime| RuntimeConfig {
        runtime_logger: String::new(),
        drivers_root_path: String::new(),
        ..runtime
    });
    let parameters = request.arguments().into_iter().map(|value| Parameter { name: None, value });
    let variables = config.environment().into_iter().map(|(name, value)| EnvVar { name, value });
    WorkOrder {
        function_id: function.to_string(),
        method: method.to_string(),
        parameters: Some(parameters.collect()),
        config: ExecuteConfig {
            number_of_nodes: nodes.number(),
            stdin: config.stdin.clone(),
            env_vars: Some(variables.collect()),
            permissions: config.permissions.clone().filter(|urls| !urls.is_empty()),
            runtime: runtime.filter(|runtime| *runtime != RuntimeConfig::default()),
            ..ExecuteConfig::default()
        },
        ..WorkOrder::default()
    }
}

/// The group that is meant; none for the general one.
pub(super) fn subgroup(name: Option<&str>, wrong: &mut Vec<String>) -> Option<Subgroup> {
    let name = name.filter(|name| *name != GENERAL_TOPIC)?;
    name.parse().map_err(|error: ParseError| wrong.push(error.to_string())).ok()
}

fn nodes(number: i64, wrong: &mut Vec<String>) -> Option<NodeCount> {
    let nodes = match number {
        -1 => Some(NodeCount::Everyone),
        n => usize::try_from(n)
            .ok()
            .map(|n| NodeCount::Exactly(NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN))),
    };
    if nodes.is_none() {
        wrong.push("number of nodes must be 1 or more, or -1 for all that report".to_owned());
    }
    nodes
}

fn quorum(
    asked: Option<u32>,
    nodes: Option<NodeCount>,
    wrong: &mut Vec<String>,
) -> Option<NonZeroUsize> {
    let asked = usize::try_from(asked.filter(|n| *n > 0)?).ok()?;
    if let Some(NodeCount::Exactly(n)) = nodes
        && asked > n.get()
    {
        wrong.push(format!("quorum must be at most the number of nodes, which is {n}"));
    }
    NonZeroUsize::new(asked)
}

fn check_config(config: &ExecuteConfig, wrong: &mut Vec<String>) {
    let consensus = config.consensus_algorithm.as_deref().unwrap_or_default();
    if !consensus.is_empty() {
        wrong.push(format!(
            "consensus algorithm {} is not supported: leave it out, and compare the result groups \
             or ask for a quorum",
            consensus.chars().take(40).collect::<String>()
        ));
    }
    let values = config.attributes.as_ref().and_then(|attributes| attributes.values.as_ref());
    let n_permissions = config.permissions.as_ref().map_or(0, Vec::len);
    if n_permissions > NAMES_MAX || values.map_or(0, Vec::len) > NAMES_MAX {
        wrong.push(format!("permissions and attributes must be at most {NAMES_MAX} each"));
    }
}

/// Refuses what a function would get cut short or misread: programs are started with texts that end
/// at the first NUL, and with variables as `name=value`.
fn check_texts(request: &ExecuteRequest, wrong: &mut Vec<String>) {
    if request.arguments().iter().any(|argument| argument.contains('\0')) {
        wrong.push("parameters must not hold NUL".to_owned());
    }
    let is_fit = |(name, value): (&String, &String)| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
    };
    if !request.config.environment().iter().all(is_fit) {
        wrong.push("env_vars must have names without = and NUL, and values without NUL".to_owned());
    }
}

/// What `text` says, unless it is wrong; `what` names it.
pub(super) fn parsed<T>(text: &str, what: &str, wrong: &mut Vec<String>) -> Option<T>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    if text.is_empty() {
        wrong.push(format!("{what} is required"));
        return None;
    }
    text.parse().map_err(|error| wrong.push(format!("{what}: {error}"))).ok()
}

#[cfg(test)]
mod tests;
