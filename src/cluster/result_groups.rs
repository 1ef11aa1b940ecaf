//! How equal outcomes of an execution are grouped.

use std::{cmp::Reverse, collections::BTreeMap};

use model::node::PeerId;
use wire::functions::{Outcome, ResultGroupBody};

/// The peers that returned one and the same outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultGroup {
    /// What each of them returned.
    pub outcome: Outcome,
    /// The peers, in the order of their ids.
    pub peers: Vec<PeerId>,
    /// Their share of the outcomes received, 0 to 100.
    pub frequency_percent: f64,
}

/// Folds equal outcomes into groups, the most frequent first.
///
/// Two outcomes are equal when stdout, stderr and exit code are. Groups of one size are ordered by
/// their smallest peer id, so that the answer depends on nothing but the outcomes.
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
