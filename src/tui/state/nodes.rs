//! The nodes: those that the heads list, one for each peer, and further peers named by results.

mod activity;
mod union;

use std::collections::{BTreeMap, BTreeSet};

use model::{selector::Selector, timestamp::Timestamp};
use strum::IntoStaticStr;
use wire::{
    functions::{ExecuteResponse, NodeBody},
    nodes::NodePatch,
};

use self::activity::Activity;
pub(crate) use self::activity::PERIOD;
use super::{
    latency::Latency,
    loadable::{Failure, Loadable},
    services::HeadId,
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
    /// Whether a head has a connection to it, where that is known.
    pub(crate) is_connected: Option<bool>,
    /// The last ping's round trip, in milliseconds.
    pub(crate) latency_ms: Option<f64>,
    /// When it was last heard; none for the head itself.
    pub(crate) last_seen: Option<Timestamp>,
    /// Executions it answered: each head counts its own.
    pub(crate) n_runs: u64,
    /// Of those, in the largest result group.
    pub(crate) n_agreed: u64,
    /// How many concurrent executions, and how many more it could run now.
    pub(crate) slots: Option<(usize, Option<usize>)>,
    /// What it declares of itself, by name.
    pub(crate) attributes: BTreeMap<String, String>,
    /// Whether it is cordoned at every head that sees it.
    pub(crate) is_cordoned: bool,
    /// Why a head gives it no work, in a word, the strictest where heads differ; none where all do.
    pub(crate) withheld_by: Option<&'static str>,
    /// What each head that lists it says of it, in the order of the heads.
    pub(crate) reports: Vec<Report>,
    /// Work orders of the heads that it runs.
    pub(crate) n_running: usize,
    /// How many functions it says are installed.
    pub(crate) n_functions: usize,
    /// How many of these it says are compiled.
    pub(crate) n_ready: usize,
    /// Name and process number, if it is a local one.
    pub(crate) process: Option<(String, u32)>,
    /// Its exit code, if its process ended.
    pub(crate) exited: Option<Exit>,
}

/// What one head says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) head: HeadId,
    /// Whether the head has not listed its nodes at the last try.
    pub(crate) is_stale: bool,
    /// Why the head gives it no work, in a word; none where it does.
    pub(crate) withheld_by: Option<&'static str>,
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

/// The nodes that one head lists, and the state of asking for them. Each head is asked by itself, so that
/// one that stalls delays no other.
#[derive(Debug, Default)]
pub(crate) struct HeadNodes {
    id: HeadId,
    address: String,
    /// The nodes that it lists.
    pub(crate) listed: Loadable<Vec<NodeBody>>,
    /// What each listed node answered lately, of this head's executions.
    activity: BTreeMap<String, Activity>,
    /// The round trips of each listed node.
    latencies: BTreeMap<String, Latency>,
    /// True if it does not respond, so that its last list is out of date.
    is_away: bool,
    /// Whether a list is under way.
    pub(crate) is_asked: bool,
    /// Times in a row that it did not list them.
    pub(crate) n_failures: u32,
    /// Whether it tells what happens as it happens.
    pub(crate) is_live: bool,
}

/// All nodes known.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    heads: Vec<HeadNodes>,
    /// The head that runs go to: the form lists its functions, and counts its workers.
    pub(crate) run_head: Option<HeadId>,
    /// The workers that results named, by peer id.
    seen: BTreeMap<String, Node>,
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

    /// How many heads see it now.
    pub(crate) fn n_seen_by(&self) -> usize {
        self.reports.iter().filter(|report| !report.is_stale).count()
    }

    /// Why it gets no work, and at how many of the heads that see it where these differ:
    /// `cordoned 1/2`.
    pub(crate) fn withheld_text(&self) -> Option<String> {
        let word = self.withheld_by?;
        let reports =
            self.reports.iter().filter(|report| self.n_seen_by() == 0 || !report.is_stale);
        let n_heads = reports.clone().count();
        let is_same = |report: &&Report| union::is_same_decision(report.withheld_by, Some(word));
        let n_same = reports.filter(is_same).count();
        Some(if n_same < n_heads { format!("{word} {n_same}/{n_heads}") } else { word.to_owned() })
    }

    /// Whether every head that lists it gives it no work for the reason `word`.
    pub(crate) fn is_withheld_everywhere(&self, word: &str) -> bool {
        !self.reports.is_empty()
            && self.reports.iter().all(|report| report.withheld_by == Some(word))
    }

    /// What it declares: `gpu=none,zone=a`.
    pub(crate) fn attribute_text(&self) -> String {
        let texts = self.attributes.iter().map(|(name, value)| format!("{name}={value}"));
        texts.collect::<Vec<_>>().join(",")
    }
}

impl HeadNodes {
    fn settle(&mut self, mut result: Result<Vec<NodeBody>, Failure>, now: Timestamp) {
        self.is_asked = false;
        if let Ok(bodies) = &mut result {
            self.keep_latencies(bodies, now);
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

    /// Replaces each node's last round trip by its steady one.
    fn keep_latencies(&mut self, bodies: &mut [NodeBody], now: Timestamp) {
        let mut before = std::mem::take(&mut self.latencies);
        for body in bodies {
            let Some(sample_ms) = body.latency_ms else { continue };
            let mut latency = before.remove(&body.peer_id).unwrap_or_default();
            body.latency_ms = Some(latency.add(sample_ms, now));
            self.latencies.insert(body.peer_id.clone(), latency);
        }
    }

    /// True if the last list is not true of now: a later one failed, or the head went away.
    fn is_stale(&self) -> bool {
        self.is_away || self.listed.failure().is_some()
    }
}

impl Nodes {
    /// Uses the heads at `addresses`, whose ids are `ids`. The nodes of those that were used before stay.
    pub(crate) fn connect(&mut self, ids: impl Iterator<Item = HeadId>, addresses: &[String]) {
        let mut before = std::mem::take(&mut self.heads);
        self.heads = ids
            .zip(addresses)
            .map(|(id, address)| {
                let same = before.iter().position(|head| head.address == *address);
                let mut head = same.map(|idx| before.swap_remove(idx)).unwrap_or_default();
                head.listed.clear_error();
                HeadNodes { id, address: address.clone(), is_asked: false, is_away: false, ..head }
            })
            .collect();
    }

    /// The nodes of `head`; none if it is not in use.
    pub(crate) fn head(&self, head: HeadId) -> Option<&HeadNodes> {
        self.heads.get(head.idx).filter(|it| it.id == head)
    }

    /// As [`Self::head`], to be changed.
    pub(crate) fn head_mut(&mut self, head: HeadId) -> Option<&mut HeadNodes> {
        self.heads.get_mut(head.idx).filter(|it| it.id == head)
    }

    /// Records whether `head` went away.
    pub(crate) fn set_away(&mut self, head: HeadId, is_away: bool) {
        if let Some(head) = self.head_mut(head) {
            head.is_away = is_away;
        }
    }

    /// The list that says how fresh the nodes are: a fresh one, if any head has one.
    pub(crate) fn best_list(&self) -> &Loadable<Vec<NodeBody>> {
        static NONE: Loadable<Vec<NodeBody>> = Loadable::Idle;
        let rank = |list: &&Loadable<Vec<NodeBody>>| match list {
            Loadable::Ready { .. } => 0,
            Loadable::Stale { .. } => 1,
            Loadable::Loading { .. } => 2,
            Loadable::Failed { .. } => 3,
            Loadable::Idle => 4,
        };
        self.heads.iter().map(|head| &head.listed).min_by_key(rank).unwrap_or(&NONE)
    }

    /// Clears failures, so that a reload by hand shows as loading.
    pub(crate) fn clear_errors(&mut self) {
        self.heads.iter_mut().for_each(|head| head.listed.clear_error());
    }

    /// What the first head that lists `peer_id` says of it.
    pub(crate) fn body(&self, peer_id: &str) -> Option<&NodeBody> {
        let lists = self.heads.iter().filter_map(|head| head.listed.value());
        lists.flatten().find(|body| body.peer_id == peer_id)
    }

    /// The heads that list `peer_id`; all where none does.
    pub(crate) fn heads_of(&self, peer_id: &str) -> Vec<HeadId> {
        let lists = |head: &&HeadNodes| {
            let list = head.listed.value();
            list.is_some_and(|list| list.iter().any(|body| body.peer_id == peer_id))
        };
        let listing: Vec<HeadId> = self.heads.iter().filter(lists).map(|head| head.id).collect();
        if listing.is_empty() { self.heads.iter().map(|head| head.id).collect() } else { listing }
    }

    /// Every node: those that the heads list in their order, then those seen.
    pub(crate) fn all(&self, stack: &Stack) -> Vec<Node> {
        let mut nodes = union::nodes(&self.heads, stack);
        if self.heads.iter().all(|head| head.listed.value().is_none()) {
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

    /// Takes the list of nodes of `head`, or its failure.
    pub(crate) fn settle(
        &mut self,
        head: HeadId,
        result: Result<Vec<NodeBody>, Failure>,
        now: Timestamp,
    ) {
        if let Some(head) = self.head_mut(head) {
            head.settle(result, now);
        }
    }

    /// The executions that a node answered in each of the last `n` periods, of all heads; as
    /// [`Activity::last`].
    pub(crate) fn last_periods(&self, peer_id: &str, n: usize, now: Timestamp) -> Vec<Option<f64>> {
        let mut all = self.activities(peer_id).map(|activity| activity.last(n, now));
        let first = all.next().unwrap_or_default();
        let sum = |(one, other): (Option<f64>, Option<f64>)| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        all.fold(first, |sums, more| sums.into_iter().zip(more).map(sum).collect())
    }

    /// The executions that a node answered in the last minute, of all heads; as
    /// [`Activity::a_minute`].
    pub(crate) fn a_minute(&self, peer_id: &str, now: Timestamp) -> Option<u64> {
        let all = self.activities(peer_id).filter_map(|activity| activity.a_minute(now));
        all.reduce(|sum, more| sum + more)
    }

    fn activities(&self, peer_id: &str) -> impl Iterator<Item = &Activity> {
        self.heads.iter().filter_map(move |head| head.activity.get(peer_id))
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

    /// How many workers the head of runs knows in `subgroup`, the general group if that is empty, that
    /// declare what `selector` asks for.
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
        // Other heads' workers are out of its reach.
        let is_reached = |node: &Node| {
            let mut reports = node.reports.iter();
            node.reports.is_empty() || reports.any(|report| Some(report.head) == self.run_head)
        };
        let is_counted =
            |node: &&Node| is_worker(node) && is_in(node) && is_selected(node) && is_reached(node);
        self.all(stack).iter().filter(is_counted).count()
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
