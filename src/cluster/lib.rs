//! Document 1: a cluster of nodes that execute functions.
//!
//! [`node::Node`] combines the parts: [`network`] (which hides libp2p), [`content`] (the store of
//! functions by content id), and a role, [`head::Head`] or [`worker::Worker`]. Both roles work with a
//! [`NodeContext`]. [`function_call`] is the input of one run. [`message`] contains the messages
//! between nodes, [`metrics`] the counters, [`peers`] the state of other nodes, and [`peer_db`] the
//! part of this state that outlasts a restart.
//!
//! ```no_run
//! # use cluster::node::{Node, NodeOptions};
//! # async fn example(options: NodeOptions) -> Result<(), Box<dyn std::error::Error>> {
//! use task::{clock::Clock, group::Group};
//!
//! let group = Group::default();
//! let node = Node::start(options, &group, Clock::system()).await?;
//! println!("{:?}", node.addresses());
//! group.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod attributes;
mod fair_queue;
pub mod function_call;
pub mod head;
pub mod identity;
pub mod message;
pub mod metrics;
pub mod network;
pub mod node;
pub mod peer_db;
pub mod peers;
pub mod result_groups;
pub mod worker;

use content::Functions;
use task::clock::Clock;
use task::group::Group;
use web::metrics::Metrics;

use self::identity::Identity;
use self::network::Network;
use self::peers::Peers;

/// Parts of a node that its role works with.
#[derive(Debug, Clone)]
pub struct NodeContext {
    /// Connections to other nodes.
    pub network: Network,
    /// Store of functions.
    pub functions: Functions,
    /// State of other nodes.
    pub peers: Peers,
    /// Key that signs a worker's results.
    pub identity: Identity,
    /// Counters that the node reports.
    pub metrics: Metrics,
    /// Clock for a head's executions.
    pub clock: Clock,
    /// Group of the node's tasks.
    pub group: Group,
}
