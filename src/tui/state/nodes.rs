//! The nodes of the cluster: one for each peer that is listed by a head or named by a result.

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
use crate::widget::stats;

/// Maximum number of peers that no head lists. The peer that was seen the longest time ago is
/// evicted.
const SEEN_MAX: usize = 1_000;

/// Age of a connected node's last message from which the node counts as silent. A head pings its
/// peers every 15 s.
const SILENT_FROM: Duration = Duration::from_secs(20);

/// How a node became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum Origin {
    /// The screen started the node.
    Local,
    /// The node is the head at an address that the user has given.
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
    /// Role of the node: `head` or `worker`. `None` if unknown.
    pub(crate) role: Option<String>,
    pub(crate) origin: Origin,
    /// Groups of the node besides the general group. `None` if unknown.
    pub(crate) subgroups: Option<Vec<String>>,
    pub(crate) addresses: Vec<String>,
    /// True if at least one head is connected to the node. `None` if unknown.
    pub(crate) is_connected: Option<bool>,
    /// Round-trip time of the last ping in milliseconds.
    pub(crate) latency_ms: Option<f64>,
    /// Time of the node's last message. `None` for a head, which does not receive its own
    /// messages.
    pub(crate) last_seen: Option<Timestamp>,
    /// Time of the last message of a connected node that no longer responds to its heads, by the
    /// clock of the screen. `None` if it responds.
    pub(crate) silent_since: Option<Timestamp>,
    /// Number of executions to which the node returned a result, over all heads.
    pub(crate) n_runs: u64,
    /// Number of executions in which the node's result was in the largest result group.
    pub(crate) n_agreed: u64,
    /// Number of all slots, and number of free slots if it is known.
    pub(crate) slots: Option<(usize, Option<usize>)>,
    /// Attributes that the node declares, by name.
    pub(crate) attributes: BTreeMap<String, String>,
    /// True if all heads that list the node have cordoned it.
    pub(crate) is_cordoned: bool,
    /// Reason why a head gives the node no work, as a word. If several heads do, the strictest
    /// reason. `None` if all heads give it work.
    pub(crate) withheld_by: Option<&'static str>,
    /// Reports of the heads that list the node, in the order of the heads.
    pub(crate) reports: Vec<Report>,
    /// Number of work orders that the node is running, over all heads.
    pub(crate) n_running: usize,
    /// Number of functions installed on the node.
    pub(crate) n_functions: usize,
    /// Number of functions compiled on the node.
    pub(crate) n_ready: usize,
    /// Name and process id, if the node is a local process.
    pub(crate) process: Option<(String, u32)>,
    /// Exit of the local process. `None` while it is running, and for other nodes.
    pub(crate) exited: Option<Exit>,
}

/// A head's report on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) head: HeadId,
    /// True if the report is outdated, because the last request to the head failed.
    pub(crate) is_stale: bool,
    /// Reason why the head gives the node no work, as a word. `None` if it gives the node work.
    pub(crate) withheld_by: Option<&'static str>,
}

/// A change of nodes by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NodeChange {
    pub(crate) peer_ids: Vec<String>,
    pub(crate) patch: NodePatch,
    /// Title of the changed group and its number of workers. `None` if a single node is changed.
    pub(crate) group: Option<(String, usize)>,
}

/// Outcome of changing all nodes of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupChange {
    pub(crate) change: NodeChange,
    pub(crate) n_changed: usize,
    /// First failure. `None` if all nodes were changed.
    pub(crate) failure: Option<Failure>,
}

/// The nodes that one head lists. Each head is requested separately, so that a slow head does not delay
/// the other heads.
#[derive(Debug, Default)]
pub(crate) struct HeadNodes {
    address: String,
    pub(crate) listed: Resource<Vec<NodeBody>>,
    /// Records on each listed node.
    tracks: BTreeMap<String, Track>,
    /// True if the head does not respond, so its last list is outdated.
    pub(crate) is_away: bool,
}

/// Records on a node over several lists of a head.
#[derive(Debug, Default)]
struct Track {
    /// Recent activity in executions of the head.
    activity: Activity,
    /// Smoothed round-trip time.
    latency: Latency,
    /// Time of the node's last message, by the clock of the head.
    last_seen: Option<Timestamp>,
    /// The same time by the clock of the screen.
    heard_at: Timestamp,
    /// Same as [`Node::silent_since`].
    silent_since: Option<Timestamp>,
}

/// All known nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    heads: Vec<HeadNodes>,
    /// Head that executes new runs. The form offers the functions of this head and counts its
    /// workers.
    pub(crate) run_head: Option<HeadId>,
    /// Workers that results have named, by peer id.
    seen: BTreeMap<String, Node>,
}

impl Node {
    /// Returns the percentage of the node's results that were in the largest result group.
    pub(crate) fn agree_percent(&self) -> Option<f64> {
        stats::percent(self.n_agreed, self.n_runs)
    }

    /// Returns the groups of the node as a text, such as `gpu+eu`. `*` stands for the general
    /// group only, `?` for unknown groups.
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

    /// Returns the number of heads that currently see the node.
    pub(crate) fn n_seen_by(&self) -> usize {
        self.reports.iter().filter(|report| !report.is_stale).count()
    }

    /// Returns the reason why the node gets no work. If not all heads agree, the number of heads
    /// with this decision follows, as in `cordoned 1/2`.
    pub(crate) fn withheld_text(&self) -> Option<String> {
        let word = self.withheld_by?;
        let reports =
            self.reports.iter().filter(|report| self.n_seen_by() == 0 || !report.is_stale);
        let n_heads = reports.clone().count();
        let decision = |word: &'static str| union::strictness(word).0;
        let is_same = |report: &&Report| report.withheld_by.map(decision) == Some(decision(word));
        let n_same = reports.filter(is_same).count();
        Some(if n_same < n_heads { format!("{word} {n_same}/{n_heads}") } else { word.to_owned() })
    }

    /// Returns true if all heads that list the node give it no work, for the reason `word`.
    pub(crate) fn is_withheld_everywhere(&self, word: &str) -> bool {
        !self.reports.is_empty()
            && self.reports.iter().all(|report| report.withheld_by == Some(word))
    }

    /// Returns the reason why the node gets no work, or `silent` if it does not respond. `None` if
    /// neither is the case.
    pub(crate) fn status(&self) -> Option<&'static str> {
        self.withheld_by.or(self.silent_since.map(|_| "silent"))
    }

    /// Returns the attributes of the node as a text, such as `gpu=none,zone=a`.
    pub(crate) fn attribute_text(&self) -> String {
        let texts = self.attributes.iter().map(|(name, value)| format!("{name}={value}"));
        texts.collect::<Vec<_>>().join(",")
    }
}

impl HeadNodes {
    fn settle(&mut self, mut result: Outcome<Vec<NodeBody>>, now: Timestamp) {
        if let Ok(bodies) = &mut result {
            // The activity of nodes that are no longer listed is dropped. The number of listed
            // nodes is bounded by the size of a response.
            let mut before = std::mem::take(&mut self.tracks);
            // The head's clock can be wrong, so the latest message of any node stands for its time.
            let latest = bodies.iter().filter_map(last_seen).max();
            for body in bodies {
                let mut track = before.remove(&body.peer_id).unwrap_or_default();
                track.activity.take(body.runs, now);
                body.latency_ms = body.latency_ms.map(|sample_ms| track.latency.add(sample_ms));
                let last_seen = last_seen(body);
                if let (Some(latest), Some(at)) = (latest, last_seen)
                    && track.last_seen != last_seen
                {
                    (track.last_seen, track.heard_at) = (last_seen, now - latest.since(at));
                }
                // A node without a round-trip time might not support pings.
                let is_pinged = body.connected && body.latency_ms.is_some();
                let is_silent = is_pinged && now.since(track.heard_at) >= SILENT_FROM;
                track.silent_since = is_silent.then_some(track.heard_at);
                self.tracks.insert(body.peer_id.clone(), track);
            }
        }
        self.listed.settle(result, now);
    }

    /// Returns true if the last list is outdated, because a later request has failed or the head
    /// does not respond.
    fn is_stale(&self) -> bool {
        self.is_away || self.listed.failure().is_some()
    }
}

impl Nodes {
    /// Sets the addresses of the heads. Nodes of heads with the same address as before are retained.
    pub(crate) fn connect(&mut self, addresses: &[String]) {
        let mut before = std::mem::take(&mut self.heads);
        self.heads = addresses
            .iter()
            .map(|address| {
                let same = before.iter().position(|head| head.address == *address);
                let mut head = same.map(|idx| before.swap_remove(idx)).unwrap_or_default();
                head.listed.clear_error();
                head.listed.cancel();
                HeadNodes { address: address.clone(), is_away: false, ..head }
            })
            .collect();
    }

    /// Returns the nodes of `head`.
    pub(crate) fn head(&self, head: HeadId) -> Option<&HeadNodes> {
        self.heads.get(head.0)
    }

    /// Like [`Self::head`], mutable.
    pub(crate) fn head_mut(&mut self, head: HeadId) -> Option<&mut HeadNodes> {
        self.heads.get_mut(head.0)
    }

    /// Returns the best list of any head: a current list, otherwise an outdated one, otherwise a
    /// pending request or a failure.
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

    /// Clears the failures of all lists. Called when the user requests the lists again, so that
    /// they are shown as loading.
    pub(crate) fn clear_errors(&mut self) {
        self.heads.iter_mut().for_each(|head| head.listed.clear_error());
    }

    /// Returns the entry of `peer_id` in the list of the first head that has such an entry.
    pub(crate) fn body(&self, peer_id: &str) -> Option<&NodeBody> {
        let lists = self.heads.iter().filter_map(|head| head.listed.value());
        lists.flatten().find(|body| body.peer_id == peer_id)
    }

    /// Returns the heads that list `peer_id`. If no head does, returns all heads.
    pub(crate) fn heads_of(&self, peer_id: &str) -> Vec<HeadId> {
        let lists = |head: &&HeadNodes| {
            let list = head.listed.value();
            list.is_some_and(|list| list.iter().any(|body| body.peer_id == peer_id))
        };
        let all = || self.heads.iter().zip((0..).map(HeadId));
        let listing: Vec<_> = all().filter(|(head, _)| lists(head)).map(|(_, id)| id).collect();
        if listing.is_empty() { all().map(|(_, id)| id).collect() } else { listing }
    }

    /// Returns all nodes. Listed nodes are first, in the order of the lists, followed by nodes
    /// that only results have named.
    pub(crate) fn all(&self, stack: &Stack) -> Vec<Node> {
        let mut nodes = union::nodes(&self.heads, stack);
        if self.heads.iter().all(|head| head.listed.value().is_none()) {
            nodes.extend(stack.nodes().map(|(node, status)| Node {
                role: Some(node.role.clone()),
                origin: Origin::Local,
                subgroups: Some(node.subgroup.clone().into_iter().collect()),
                process: Some((node.name.clone(), node.pid)),
                exited: status.exited,
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

    /// Returns the number of results of a node in each of the last `n` periods, added over all
    /// heads. See [`Activity::last`].
    pub(crate) fn last_periods(&self, peer_id: &str, n: usize, now: Timestamp) -> Vec<Option<f64>> {
        let mut all = self.activities(peer_id).map(|activity| activity.last(n, now));
        let first = all.next().unwrap_or_default();
        let sum = |(one, other): (Option<f64>, Option<f64>)| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        all.fold(first, |sums, more| sums.into_iter().zip(more).map(sum).collect())
    }

    /// Returns the number of results of a node in the last minute, added over all heads. See
    /// [`Activity::a_minute`].
    pub(crate) fn a_minute(&self, peer_id: &str, now: Timestamp) -> Option<u64> {
        let all = self.activities(peer_id).filter_map(|activity| activity.a_minute(now));
        all.reduce(|sum, more| sum + more)
    }

    fn activities(&self, peer_id: &str) -> impl Iterator<Item = &Activity> {
        self.heads.iter().filter_map(move |head| Some(&head.tracks.get(peer_id)?.activity))
    }

    /// Records the peers that returned a result to an execution.
    pub(crate) fn saw(&mut self, response: &ExecuteResponse, now: Timestamp) {
        let agreed = match &*response.results {
            [first, second, ..] if first.peers.len() == second.peers.len() => None,
            groups => groups.first().map(|group| &group.peers),
        };
        let groups = &response.results;
        let has_result = |peer: &&String| groups.iter().any(|group| group.peers.contains(peer));
        for peer_id in response.cluster.peers.iter().filter(has_result) {
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

    /// Returns the number of workers that can execute a new run. Such a worker responds, is known to the
    /// head that executes new runs, is in `subgroup`, and matches `selector`. An empty `subgroup` stands
    /// for the general group.
    pub(crate) fn n_workers_in(
        &self,
        subgroup: &str,
        selector: Option<&Selector>,
        stack: &Stack,
    ) -> usize {
        let is_counted = |node: &&Node| {
            let groups = node.subgroups.as_deref().unwrap_or_default();
            // Workers that are only known to other heads do not count.
            let mut reports = node.reports.iter();
            let is_away = node.is_connected == Some(false)
                || node.silent_since.is_some()
                || node.exited.is_some();
            node.role.as_deref() == Some("worker")
                && !is_away
                && (subgroup.is_empty() || groups.iter().any(|group| group == subgroup))
                && selector.is_none_or(|selector| selector.matches(&node.attributes))
                && (node.reports.is_empty()
                    || reports.any(|report| Some(report.head) == self.run_head))
        };
        self.all(stack).iter().filter(is_counted).count()
    }

    /// Returns the attributes that any node declares and a selector can name, as `NAME=VALUE`.
    pub(crate) fn declared(&self, stack: &Stack) -> Vec<String> {
        let pairs: BTreeSet<(String, String)> =
            self.all(stack).into_iter().flat_map(|node| node.attributes).collect();
        let pairs = pairs.into_iter().map(|(name, value)| format!("{name}={value}"));
        pairs.filter(|pair| Selector::can_name(pair)).collect()
    }

    /// Returns the subgroups of all nodes, each once.
    pub(crate) fn subgroups(&self, stack: &Stack) -> Vec<String> {
        let mut names: Vec<String> =
            self.all(stack).into_iter().filter_map(|node| node.subgroups).flatten().collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Returns the time of a node's last message, by the clock of the head that lists the node.
fn last_seen(body: &NodeBody) -> Option<Timestamp> {
    body.last_seen.as_deref()?.parse().ok()
}

/// Length of a period of activity. It exceeds the longest wait between two lists, so that each
/// period contains a list.
pub(crate) const PERIOD: Duration = Duration::from_secs(20);

/// Number of periods in a minute.
const PERIODS_A_MINUTE: i64 = 3;

/// Maximum number of stored periods. A pane has fewer columns for bars.
const PERIODS_MAX: usize = 120;

/// Recent activity of a node: the number of its results in each period. It is derived from the
/// growth of the total between two lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Activity {
    /// Total number of results of the node in the last list.
    n_runs: Option<u64>,
    /// Numbers of the periods, each with the number of results in it, oldest first.
    periods: VecDeque<(i64, u64)>,
}

impl Activity {
    /// Records that the node has returned `n_runs` results by the time `now`.
    fn take(&mut self, n_runs: u64, now: Timestamp) {
        let n_new = match self.n_runs.replace(n_runs) {
            // The results before the first list cannot be assigned to a period.
            None => 0,
            // If the total has decreased, the head was restarted and counts from zero.
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

    /// Returns the number of results in each of the last `n` periods, oldest first. The last period is
    /// the current period. `None` stands for a period without a list.
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

    /// Returns the number of results in the last minute that consists of complete periods. `None`
    /// if the node was observed for less than that.
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
    fn runs_are_counted_per_period_even_if_the_node_restarts() {
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
    fn oldest_periods_of_activity_are_evicted() {
        let mut activity = Activity::default();
        for period in 0..500 {
            activity.take(0, Timestamp::from_seconds(period * 20));
        }
        assert_eq!(activity.periods.len(), PERIODS_MAX);
    }
}
