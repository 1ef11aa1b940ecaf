//! What a node's role works with.

use content::Functions;
use task::{clock::Clock, group::Group};
use web::metrics::Metrics;

use crate::{identity::Identity, network::Network, peers::Peers};

/// What a head or a worker works with.
#[derive(Debug, Clone)]
pub struct NodeContext {
    /// Where its peers are.
    pub network: Network,
    /// The functions it holds.
    pub functions: Functions,
    /// What it knows of its peers.
    pub peers: Peers,
    /// Signs a worker's results.
    pub identity: Identity,
    /// Where it counts.
    pub metrics: Metrics,
    /// Dates a head's executions.
    pub clock: Clock,
    /// Where its tasks belong.
    pub group: Group,
}
