//! Grouping of equal results of an execution.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::node::PeerId;
use wire::functions::{Outcome, ResultGroupBody};

/// Peers with an equal outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultGroup {
    /// Outcome that all nodes of the group returned.
    pub outcome: Outcome,
    /// Peers, ordered by id.
    pub peers: Vec<PeerId>,
    /// Share of all outcomes, from 0 to 100.
    pub frequency_percent: f64,
}

/// Groups equal outcomes, the most frequent first.
///
/// Outcomes are equal if stdout, stderr, their hashes and the exit code are. Groups of the same size are
/// ordered by their smallest peer id, so that the order depends on the outcomes only.
pub fn group(outcomes: impl IntoIterator<Item = (PeerId, Outcome)>) -> Vec<ResultGroup> {
    let mut peers_by_outcome: BTreeMap<Outcome, Vec<PeerId>> = BTreeMap::new();
    let mut n_outcomes = 0_u32;
    for (peer, outcome) in outcomes {
        peers_by_outcome.entry(outcome).or_default().push(peer);
        n_outcomes += 1;
    }
    let mut groups: Vec<ResultGroup> = peers_by_outcome
        .into_iter()
        .map(|(outcome, mut peers)| {
            peers.sort();
            let n_peers = u32::try_from(peers.len()).unwrap_or(u32::MAX);
            let frequency_percent = 100.0 * f64::from(n_peers) / f64::from(n_outcomes);
            ResultGroup { outcome, peers, frequency_percent }
        })
        .collect();
    groups.sort_by(|a, b| {
        (Reverse(a.peers.len()), &a.peers).cmp(&(Reverse(b.peers.len()), &b.peers))
    });
    groups
}

impl From<ResultGroup> for ResultGroupBody {
    fn from(group: ResultGroup) -> Self {
        Self {
            result: group.outcome,
            peers: group.peers.iter().map(PeerId::to_string).collect(),
            frequency: group.frequency_percent,
        }
    }
}

#[cfg(test)]
mod tests;
