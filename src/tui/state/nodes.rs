//! The nodes: those that the head lists, and further peers named by results.

mod activity;

use std::collections::{BTreeMap, BTreeSet};

use model::{selector::Selector, timestamp::Timestamp};
use strum::IntoStaticStr;
use wire::{
    functions::{ExecuteResponse, NodeBody},
    nodes::NodePatch,
};

pub(crate) use self::activity::{Activity, PERIOD};
use super::{
    loadable::{Failure, Loadable},
    services::is_about,
    stack::{Exit, Stack},
};

/// The maximum of unlisted peers; the least recently seen is evicted.
const SEEN_MAX: usize = 1_000;

/// The origin of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum Origin {
    /// The screen started it.
    Local,
    /// The head at an address that somebody typed.
    Typed,
    /// The head lists it.
    Listed,
    /// A result named it.
    #[default]
    Seen,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Node {
    /// Its peer id.
    pub(crate) peer_id: String,
    /// `head` or `worker`, where that is known.
    pub(crate) role: Option<String>,
    pub(crate) origin: Origin,
    /// Its groups beside the general one; none where that is not known.
    pub(crate) subgroups: Option<Vec<String>>,
    pub(crate) addresses: Vec<String>,
    /// Whether the head has a connection to it, where that is known.
    pub(crate) is_connected: Option<bool>,
    /// The last ping's round trip, in milliseconds.
    pub(crate) latency_ms: Option<f64>,
    /// When it was last heard; none for the head itself.
    pub(crate) last_seen: Option<Timestamp>,
    /// Executions it answered.
    pub(crate) n_runs: u64,
    /// Of those, in the largest result group.
    pub(crate) n_agreed: u64,
    /// How many concurrent executions, and how many more it could run now.
    pub(crate) slots: Option<(usize, Option<usize>)>,
    /// What it declares of itself, by name.
    pub(crate) attributes: BTreeMap<String, String>,
    /// Whether the head's operator cordoned it.
    pub(crate) is_cordoned: bool,
    /// Why the head gives it no work, in a word; none where it does.
    pub(crate) withheld_by: Option<&'static str>,
    /// Work orders of the head that it runs.
    pub(crate) n_running: usize,
    /// How many functions it says it holds.
    pub(crate) n_functions: usize,
    /// Name and process number, if it is a local one.
    pub(crate) process: Option<(String, u32)>,
    /// Its exit code, if its process ended.
    pub(crate) exited: Option<Exit>,
}

/// A change of one node, or of those of a group, that the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NodeChange {
    /// The ids of the nodes.
    pub(crate) peer_ids: Vec<String>,
    /// What is changed of each.
    pub(crate) patch: NodePatch,
    /// The group that was selected, and how many workers it has; none for a node alone.
    pub(crate) group: Option<(String, usize)>,
}

/// Outcome of changing the nodes of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupChange {
    /// What was asked.
    pub(crate) change: NodeChange,
    pub(crate) n_changed: usize,
    /// Why the first one of the others was not changed.
    pub(crate) failure: Option<Failure>,
}

/// All nodes known.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// What the head lists.
    pub(crate) listed: Loadable<Vec<NodeBody>>,
    /// The workers that results named, by peer id.
    seen: BTreeMap<String, Node>,
    /// The recent activity of each listed node.
    activity: BTreeMap<String, Activity>,
    /// Whether a list is under way.
    pub(crate) is_asked: bool,
    /// Times in a row that the head did not list them.
    pub(crate) n_failures: u32,
    /// Whether the head tells what happens as it happens.
    pub(crate) is_live: bool,
}

impl Node {
    /// The share of its answers that stood in the largest group, in percent.
    pub(crate) fn agree_percent(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a percentage needs no more")]
        let percent = 100.0 * self.n_agreed as f64 / self.n_runs as f64;
        (self.n_runs > 0).then_some(percent)
    }

    /// Its groups in a word: `gpu`, `*` for the general one alone, `?` where they are not known.
    pub(crate) fn group_text(&self) -> String {
        match self.subgroups.as_deref() {
            None => "?".to_owned(),
            Some([]) => "*".to_owned(),
            Some(groups) => groups.join("+"),
        }
    }
}

impl Node {
    /// Whether it is a head.
    pub(crate) fn is_head(&self) -> bool {
        self.role.as_deref() == Some("head")
    }

    /// What it declares: `gpu=none,zone=a`.
    pub(crate) fn attribute_text(&self) -> String {
        let texts = self.attributes.iter().map(|(name, value)| format!("{name}={value}"));
        texts.collect::<Vec<_>>().join(",")
    }
}

impl Nodes {
    /// Every node: those that the head lists in its order, then those seen.
    pub(crate) fn all(&self, stack: &Stack) -> Vec<Node> {
        let listed = self.listed.value().map(Vec::as_slice).unwrap_or_default();
        let mut nodes: Vec<Node> = listed.iter().map(|body| of_body(body, stack)).collect();
        if self.listed.value().is_none() {
            nodes.extend(stack.ready.nodes.iter().map(|node| Node {
                role: Some(node.role.clone()),
                origin: Origin::Local,
                subgroups: Some(node.subgroup.clone().into_iter().collect()),
                process: Some((node.name.clone(), node.pid)),
                exited: stack.status(&node.name).exited,
                peer_id: node.peer_id.clone(),
                ..Node::default()
            }));
        }
        for seen in self.seen.values() {
            if nodes.iter().all(|node| node.peer_id != seen.peer_id) {
                nodes.push(seen.clone());
            }
        }
        nodes
    }

    /// Takes the head's list of nodes, or its failure.
    pub(crate) fn settle(&mut self, mut result: Result<Vec<NodeBody>, Failure>, now: Timestamp) {
        if let Ok(bodies) = &mut result {
            self.keep_latencies(bodies);
            // Nodes that are gone leave; the list itself is bounded by its reply's size.
            let mut before = std::mem::take(&mut self.activity);
            for body in bodies.iter() {
                let mut activity = before.remove(&body.peer_id).unwrap_or_default();
                activity.take(body.runs, now);
                self.activity.insert(body.peer_id.clone(), activity);
            }
        }
        self.n_failures = if result.is_ok() { 0 } else { self.n_failures.saturating_add(1) };
        self.listed.settle(result, now);
    }

    /// Has nodes whose round trips take about as long as before tell the time of before.
    fn keep_latencies(&self, bodies: &mut [NodeBody]) {
        let before = self.listed.value().map_or(&[][..], Vec::as_slice);
        for body in bodies {
            let same = before.iter().find(|before| before.peer_id == body.peer_id);
            if let (Some(new), Some(old)) = (body.latency_ms, same.and_then(|same| same.latency_ms))
                && is_about(new, old)
            {
                body.latency_ms = Some(old);
            }
        }
    }

    /// The recent activity of a node, if the head lists it.
    pub(crate) fn activity(&self, peer_id: &str) -> Option<&Activity> {
        self.activity.get(peer_id)
    }

    /// Counts the peers of an execution's results.
    pub(crate) fn saw(&mut self, response: &ExecuteResponse, now: Timestamp) {
        let agreed = response.results.first().map(|group| group.peers.as_slice());
        for peer_id in &response.cluster.peers {
            let seen = self.seen.entry(peer_id.clone()).or_insert_with(|| Node {
                peer_id: peer_id.clone(),
                role: Some("worker".to_owned()),
                ..Node::default()
            });
            seen.last_seen = Some(now);
            seen.n_runs += 1;
            seen.n_agreed += u64::from(agreed.is_some_and(|peers| peers.contains(peer_id)));
        }
        while self.seen.len() > SEEN_MAX {
            let oldest = self.seen.iter().min_by_key(|(_, seen)| seen.last_seen);
            let Some(oldest) = oldest.map(|(peer_id, _)| peer_id.clone()) else { break };
            self.seen.remove(&oldest);
        }
    }

    /// How many workers are known in `subgroup`, the general group if that is empty, that declare what
    /// `selector` asks for.
    pub(crate) fn n_workers_in(
        &self,
        subgroup: &str,
        selector: Option<&Selector>,
        stack: &Stack,
    ) -> usize {
        let is_in = |node: &Node| {
            subgroup.is_empty()
                || node
                    .subgroups
                    .as_deref()
                    .is_some_and(|groups| groups.iter().any(|group| group == subgroup))
        };
        let is_worker = |node: &Node| node.role.as_deref() == Some("worker");
        let is_selected =
            |node: &Node| selector.is_none_or(|selector| selector.matches(&node.attributes));
        let nodes = self.all(stack);
        nodes.iter().filter(|node| is_worker(node) && is_in(node) && is_selected(node)).count()
    }

    /// What the nodes known declare, `NAME=VALUE`, each once.
    pub(crate) fn declared(&self, stack: &Stack) -> Vec<String> {
        let pairs: BTreeSet<(String, String)> =
            self.all(stack).into_iter().flat_map(|node| node.attributes).collect();
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// The subgroups known, each once.
    pub(crate) fn subgroups(&self, stack: &Stack) -> Vec<String> {
        let mut names: Vec<String> =
            self.all(stack).into_iter().filter_map(|node| node.subgroups).flatten().collect();
        names.sort();
        names.dedup();
        names
    }
}

fn of_body(body: &NodeBody, stack: &Stack) -> Node {
    let process = stack.node(&body.peer_id);
    Node {
        peer_id: body.peer_id.clone(),
        role: body.role.clone(),
        origin: match process {
            Some(_) => Origin::Local,
            // Of itself alone a head does not say when it heard it.
            None if body.role.as_deref() == Some("head") && body.last_seen.is_none() => {
                Origin::Typed
            }
            None => Origin::Listed,
        },
        subgroups: Some(body.subgroups.clone()),
        addresses: body.addresses.clone(),
        is_connected: Some(body.connected),
        latency_ms: body.latency_ms,
        last_seen: body.last_seen.as_deref().and_then(|text| text.parse().ok()),
        n_runs: body.runs,
        n_agreed: body.agreed,
        slots: body.slots.map(|n_slots| (n_slots, body.slots_free)),
        attributes: body.attributes.clone(),
        is_cordoned: body.cordoned,
        withheld_by: body.withheld_by(),
        n_running: body.running,
        n_functions: body.functions.len(),
        process: process.map(|node| (node.name.clone(), node.pid)),
        exited: process.and_then(|node| stack.status(&node.name).exited),
    }
}
