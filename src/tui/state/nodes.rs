//! The nodes of the cluster: one for each peer that a head lists or a result names.

mod union;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use model::selector::Selector;
use model::timestamp::Timestamp;
use strum::IntoStaticStr;
use wire::functions::{ExecuteResponse, NodeBody};
use wire::nodes::NodePatch;

use super::latency::Latency;
use super::services::HeadId;
use super::stack::{Exit, Stack};
use crate::state::resource::{Failure, Outcome, Resource};

/// Maximum number of unlisted peers. The least recently seen peer is evicted.
const SEEN_MAX: usize = 1_000;

/// Source from which a node is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum Origin {
    /// The screen started the node.
    Local,
    /// The node is the head at an address given by the user.
    Typed,
    /// A head lists the node.
    Listed,
    /// A result named the node.
    #[default]
    Seen,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Node {
    pub(crate) peer_id: String,
    /// Role of the node, `head` or `worker`, if known.
    pub(crate) role: Option<String>,
    pub(crate) origin: Origin,
    /// Groups other than the general one, if known.
    pub(crate) subgroups: Option<Vec<String>>,
    pub(crate) addresses: Vec<String>,
    /// True if a head is connected to the node, or `None` if unknown.
    pub(crate) is_connected: Option<bool>,
    /// Round trip of the last ping, in milliseconds.
    pub(crate) latency_ms: Option<f64>,
    /// Time of the node's last message, or `None` for the head itself.
    pub(crate) last_seen: Option<Timestamp>,
    /// Number of executions with a result of the node, over all heads.
    pub(crate) n_runs: u64,
    /// Number of executions with the node in the largest result group.
    pub(crate) n_agreed: u64,
    /// Number of slots, and number of free slots if known.
    pub(crate) slots: Option<(usize, Option<usize>)>,
    /// Attributes that the node declares, by name.
    pub(crate) attributes: BTreeMap<String, String>,
    /// True if every head that sees the node has cordoned it.
    pub(crate) is_cordoned: bool,
    /// Strictest reason of any head to give the node no work, as a word. `None` if all heads give it
    /// work.
    pub(crate) withheld_by: Option<&'static str>,
    /// Report of each head that lists the node, in the order of the heads.
    pub(crate) reports: Vec<Report>,
    /// Number of running work orders, over all heads.
    pub(crate) n_running: usize,
    /// Number of functions installed on the node.
    pub(crate) n_functions: usize,
    /// Number of functions compiled on the node.
    pub(crate) n_ready: usize,
    /// Name and pid of the node's process, if it is a local one.
    pub(crate) process: Option<(String, u32)>,
    /// Exit of the node's local process, if it has exited.
    pub(crate) exited: Option<Exit>,
}

/// One head's view of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) head: HeadId,
    /// True if the last request to the head failed.
    pub(crate) is_stale: bool,
    /// Reason of the head to give the node no work, as a word. `None` if it gives the node work.
    pub(crate) withheld_by: Option<&'static str>,
}

/// An operator's change of a node or of the nodes of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NodeChange {
    pub(crate) peer_ids: Vec<String>,
    pub(crate) patch: NodePatch,
    /// Selected group and its number of workers, or `None` for a single node.
    pub(crate) group: Option<(String, usize)>,
}

/// Outcome of changing the nodes of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupChange {
    pub(crate) change: NodeChange,
    pub(crate) n_changed: usize,
    /// First failure, if not all were changed.
    pub(crate) failure: Option<Failure>,
}

/// The nodes that one head lists. Each head has its own requests, so that a stalled head delays no
/// other.
#[derive(Debug, Default)]
pub(crate) struct HeadNodes {
    id: HeadId,
    address: String,
    pub(crate) listed: Resource<Vec<NodeBody>>,
    /// Recent activity of each listed node in executions of this head, and its smoothed round trip.
    tracks: BTreeMap<String, (Activity, Latency)>,
    /// True if the head does not respond, which makes its last list stale.
    is_away: bool,
    /// True if the event stream of the head is open.
    pub(crate) is_live: bool,
}

/// All known nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    heads: Vec<HeadNodes>,
    /// Head for new runs. The form lists its functions and counts its workers.
    pub(crate) run_head: Option<HeadId>,
    /// Workers named by results, by peer id.
    seen: BTreeMap<String, Node>,
}

impl Node {
    /// Returns the share of the node's results in the largest result group, in percent.
    pub(crate) fn agree_percent(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a percentage needs no more")]
        let percent = 100.0 * self.n_agreed as f64 / self.n_runs as f64;
        (self.n_runs > 0).then_some(percent)
    }

    /// Returns the groups of the node as `gpu+eu`, `*` for only the general one, `?` if unknown.
    pub(crate) fn group_text(&self) -> String {
        match self.subgroups.as_deref() {
            None => "?".to_owned(),
            Some([]) => "*".to_owned(),
            Some(groups) => groups.join("+"),
        }
    }

    /// Returns true if the node is a head.
    pub(crate) fn is_head(&self) -> bool {
        self.role.as_deref() == Some("head")
    }

    /// Returns the number of heads that see the node now.
    pub(crate) fn n_seen_by(&self) -> usize {
        self.reports.iter().filter(|report| !report.is_stale).count()
    }

    /// Returns the reason why the node gets no work, with the number of heads if they differ:
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

    /// Returns true if every head that lists the node gives it no work for the reason `word`.
    pub(crate) fn is_withheld_everywhere(&self, word: &str) -> bool {
        !self.reports.is_empty()
            && self.reports.iter().all(|report| report.withheld_by == Some(word))
    }

    /// Returns the attributes of the node as `gpu=none,zone=a`.
    pub(crate) fn attribute_text(&self) -> String {
        let texts = self.attributes.iter().map(|(name, value)| format!("{name}={value}"));
        texts.collect::<Vec<_>>().join(",")
    }
}

impl HeadNodes {
    fn settle(&mut self, mut result: Outcome<Vec<NodeBody>>, now: Timestamp) {
        if let Ok(bodies) = &mut result {
            // Unlisted nodes are dropped. The response size bounds the list itself.
            let mut before = std::mem::take(&mut self.tracks);
            for body in bodies {
                let (mut activity, mut latency) = before.remove(&body.peer_id).unwrap_or_default();
                activity.take(body.runs, now);
                body.latency_ms = body.latency_ms.map(|sample_ms| latency.add(sample_ms));
                self.tracks.insert(body.peer_id.clone(), (activity, latency));
            }
        }
        self.listed.settle(result, now);
    }

    /// Returns true if the last list is outdated: a later request failed, or the head is away.
    fn is_stale(&self) -> bool {
        self.is_away || self.listed.failure().is_some()
    }
}

impl Nodes {
    /// Uses the heads at `addresses` with the ids `ids`. Preserves the nodes of heads used before.
    pub(crate) fn connect(&mut self, ids: impl Iterator<Item = HeadId>, addresses: &[String]) {
        let mut before = std::mem::take(&mut self.heads);
        self.heads = ids
            .zip(addresses)
            .map(|(id, address)| {
                let same = before.iter().position(|head| head.address == *address);
                let mut head = same.map(|idx| before.swap_remove(idx)).unwrap_or_default();
                head.listed.clear_error();
                head.listed.cancel();
                HeadNodes { id, address: address.clone(), is_away: false, ..head }
            })
            .collect();
    }

    /// Returns the nodes of `head`, or `None` if it is not in use.
    pub(crate) fn head(&self, head: HeadId) -> Option<&HeadNodes> {
        self.heads.get(head.idx).filter(|it| it.id == head)
    }

    /// Like [`Self::head`], mutable.
    pub(crate) fn head_mut(&mut self, head: HeadId) -> Option<&mut HeadNodes> {
        self.heads.get_mut(head.idx).filter(|it| it.id == head)
    }

    pub(crate) fn set_away(&mut self, head: HeadId, is_away: bool) {
        if let Some(head) = self.head_mut(head) {
            head.is_away = is_away;
        }
    }

    /// Returns the freshest list of any head.
    pub(crate) fn best_list(&self) -> &Resource<Vec<NodeBody>> {
        static NONE: Resource<Vec<NodeBody>> = Resource::EMPTY;
        let rank = |list: &&Resource<Vec<NodeBody>>| match (list.value(), list.failure()) {
            (Some(_), None) => 0,
            (Some(_), Some(_)) => 1,
            (None, None) if list.is_loading() => 2,
            (None, Some(_)) => 3,
            (None, None) => 4,
        };
        self.heads.iter().map(|head| &head.listed).min_by_key(rank).unwrap_or(&NONE)
    }

    /// Clears failures, so that a reload by the user is shown as loading.
    pub(crate) fn clear_errors(&mut self) {
        self.heads.iter_mut().for_each(|head| head.listed.clear_error());
    }

    /// Returns the entry of `peer_id` in the list of the first head that lists it.
    pub(crate) fn body(&self, peer_id: &str) -> Option<&NodeBody> {
        let lists = self.heads.iter().filter_map(|head| head.listed.value());
        lists.flatten().find(|body| body.peer_id == peer_id)
    }

    /// Returns the heads that list `peer_id`. If it is unlisted, returns all heads.
    pub(crate) fn heads_of(&self, peer_id: &str) -> Vec<HeadId> {
        let lists = |head: &&HeadNodes| {
            let list = head.listed.value();
            list.is_some_and(|list| list.iter().any(|body| body.peer_id == peer_id))
        };
        let listing: Vec<HeadId> = self.heads.iter().filter(lists).map(|head| head.id).collect();
        if listing.is_empty() { self.heads.iter().map(|head| head.id).collect() } else { listing }
    }

    /// Returns all nodes: the listed nodes in the order of the heads, then nodes named by results.
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

    /// Records the response of `head` to the request for its nodes.
    pub(crate) fn settle(&mut self, head: HeadId, result: Outcome<Vec<NodeBody>>, now: Timestamp) {
        if let Some(head) = self.head_mut(head) {
            head.settle(result, now);
        }
    }

    /// Returns the results of a node in each of the last `n` periods, over all heads. See
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

    /// Returns the results of a node in the last minute, over all heads. See
    /// [`Activity::a_minute`].
    pub(crate) fn a_minute(&self, peer_id: &str, now: Timestamp) -> Option<u64> {
        let all = self.activities(peer_id).filter_map(|activity| activity.a_minute(now));
        all.reduce(|sum, more| sum + more)
    }

    fn activities(&self, peer_id: &str) -> impl Iterator<Item = &Activity> {
        self.heads.iter().filter_map(move |head| Some(&head.tracks.get(peer_id)?.0))
    }

    /// Counts the peers in the results of an execution.
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

    /// Returns the number of workers of the head for new runs that are in `subgroup` (the general
    /// group if empty) and match `selector`.
    pub(crate) fn n_workers_in(
        &self,
        subgroup: &str,
        selector: Option<&Selector>,
        stack: &Stack,
    ) -> usize {
        let is_counted = |node: &&Node| {
            let groups = node.subgroups.as_deref().unwrap_or_default();
            // The head cannot reach the workers of other heads.
            let mut reports = node.reports.iter();
            node.role.as_deref() == Some("worker")
                && (subgroup.is_empty() || groups.iter().any(|group| group == subgroup))
                && selector.is_none_or(|selector| selector.matches(&node.attributes))
                && (node.reports.is_empty()
                    || reports.any(|report| Some(report.head) == self.run_head))
        };
        self.all(stack).iter().filter(is_counted).count()
    }

    /// Returns the distinct attributes of all nodes as `NAME=VALUE`.
    pub(crate) fn declared(&self, stack: &Stack) -> Vec<String> {
        let pairs: BTreeSet<(String, String)> =
            self.all(stack).into_iter().flat_map(|node| node.attributes).collect();
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Returns the distinct subgroups of all nodes.
    pub(crate) fn subgroups(&self, stack: &Stack) -> Vec<String> {
        let mut names: Vec<String> =
            self.all(stack).into_iter().filter_map(|node| node.subgroups).flatten().collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Length of a period of activity. It exceeds the longest wait between two lists, so that every period
/// has a list.
pub(crate) const PERIOD: Duration = Duration::from_secs(20);

/// Number of periods of activity in a minute.
const PERIODS_A_MINUTE: i64 = 3;

/// Maximum number of periods of activity, more than there are columns for bars.
const PERIODS_MAX: usize = 120;

/// Recent activity of a node: the number of its results in each period, derived from the growth of its
/// count between two lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Activity {
    /// Number of results of the node in the last list.
    n_runs: Option<u64>,
    /// Number of each period and of its results, oldest first.
    periods: VecDeque<(i64, u64)>,
}

impl Activity {
    /// Records that the node has `n_runs` results by `now`.
    fn take(&mut self, n_runs: u64, now: Timestamp) {
        let n_new = match self.n_runs.replace(n_runs) {
            // The times of results before the first list are unknown.
            None => 0,
            // A restarted head counts from zero.
            Some(before) => n_runs.checked_sub(before).unwrap_or(n_runs),
        };
        let period = period_of(now);
        match self.periods.back_mut() {
            Some((last, n)) if *last >= period => *n += n_new,
            _ => self.periods.push_back((period, n_new)),
        }
        if self.periods.len() > PERIODS_MAX {
            self.periods.pop_front();
        }
    }

    /// Returns the number of results in each of the last `n` periods, oldest first and the current one
    /// last. A period without a list is `None`.
    fn last(&self, n: usize, now: Timestamp) -> Vec<Option<f64>> {
        let newest = period_of(now);
        let oldest = newest.saturating_sub(i64::try_from(n).unwrap_or(i64::MAX)) + 1;
        let count = |period: i64| {
            let idx = self.periods.binary_search_by_key(&period, |(number, _)| *number).ok()?;
            #[expect(clippy::cast_precision_loss, reason = "a bar needs no more")]
            self.periods.get(idx).map(|(_, n)| *n as f64)
        };
        (oldest..=newest).map(count).collect()
    }

    /// Returns the number of results in the last minute of complete periods, or `None` if it was not
    /// observed for that long.
    fn a_minute(&self, now: Timestamp) -> Option<u64> {
        let newest = period_of(now);
        let before = newest - PERIODS_A_MINUTE - 1;
        let is_watched = self.periods.front().is_some_and(|(first, _)| *first <= before);
        let is_within = |period: i64| period > before && period < newest;
        let within = self.periods.iter().filter(|(period, _)| is_within(*period));
        is_watched.then(|| within.map(|(_, n)| n).sum())
    }
}

fn period_of(now: Timestamp) -> i64 {
    let micros = i64::try_from(PERIOD.as_micros()).unwrap_or(i64::MAX);
    now.micros().div_euclid(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_counted_in_its_period_across_restarts() {
        let mut activity = Activity::default();
        for (second, n_runs) in [(0, 40), (5, 43), (21, 44), (70, 2)] {
            activity.take(n_runs, Timestamp::from_seconds(second));
        }
        let now = Timestamp::from_seconds(75);
        let want = [None, Some(3.0), Some(1.0), None, Some(2.0)];
        assert_eq!(activity.last(5, now), want);
        assert_eq!(activity.a_minute(now), None, "the first period was not seen in whole");
        assert_eq!(activity.a_minute(Timestamp::from_seconds(80)), Some(3));
    }

    #[test]
    fn oldest_periods_are_evicted() {
        let mut activity = Activity::default();
        for period in 0..500 {
            activity.take(0, Timestamp::from_seconds(period * 20));
        }
        assert_eq!(activity.periods.len(), PERIODS_MAX);
    }
}
