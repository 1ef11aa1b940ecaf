//! Whom a node is connected to, beside its boot nodes, and how they reach it.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use libp2p::StreamProtocol;
use model::node::{PeerId, Role};

use super::{Advertised, MESSAGE_BYTES_MAX, RelayOptions};

/// Whom a node is connected to, beside its boot nodes, and how they reach it.
#[derive(Debug, Clone)]
pub struct Connectivity {
    /// The port of a websocket listener, 0 for a free one; none for no such listener.
    pub websocket: Option<u16>,
    /// The addresses told to peers, in place of those listened on. Empty for these.
    pub advertised: Vec<Advertised>,
    /// How many connections it keeps; none for as many as come.
    pub connections: Option<ConnectionBounds>,
    /// Peers it looks for on its topics until it has as many; 0 for no rendezvous at all.
    pub wanted_peers: usize,
    /// Whether it finds, and is found by, nodes in the local network (mDNS).
    pub is_local_discovery_on: bool,
    /// The folder of the peer store; none for a node that remembers nobody.
    pub peer_db: Option<PathBuf>,
    /// Whether the peers in the peer store are dialed at start.
    pub is_dialing_back: bool,
    /// Whether the node fails to start unless every boot node is reached.
    pub must_reach_boot_nodes: bool,
    /// Whether it relays for nodes behind NAT, and who relays for it.
    pub relay: RelayOptions,
    /// How often each peer is pinged. A machine that vanished without closing its connections is
    /// noticed after two pings that are not answered.
    pub ping_every: Duration,
    /// Whose gossip and messages are heard.
    pub heeded: AllowedPeers,
    /// The longest message that a peer may tell, and the longest frame on a line that this node
    /// opened, in bytes.
    pub answer_bytes_max: usize,
}

impl Connectivity {
    /// That of a node for which nothing is configured: no websocket, no memory, and everybody is heard.
    pub const fn for_role(role: Role) -> Self {
        let (wanted_peers, ping_every) = match role {
            Role::Head => (WANTED_PEERS_OF_HEAD, PING_EVERY_OF_HEAD),
            Role::Worker => (WANTED_PEERS, PING_EVERY),
        };
        Self {
            websocket: None,
            advertised: Vec::new(),
            connections: Some(CONNECTIONS),
            wanted_peers,
            is_local_discovery_on: false,
            peer_db: None,
            is_dialing_back: true,
            must_reach_boot_nodes: false,
            relay: RelayOptions { limits: None, through: Vec::new() },
            ping_every,
            heeded: None,
            answer_bytes_max: MESSAGE_BYTES_MAX,
        }
    }
}

/// How often a worker pings its peers. Heads ping it more often, and a neighbor that vanished costs
/// nothing but a place; pings between neighbors were most of what idle workers spent.
const PING_EVERY: Duration = Duration::from_mins(1);

/// How often a head pings its workers, whose round trips it places work by. One that runs an order for
/// long is pinged each second on its line besides.
const PING_EVERY_OF_HEAD: Duration = Duration::from_secs(15);

/// Peers that a worker looks for on its topics: enough for the gossip mesh and to fetch functions from.
/// A head needs all of them: see [`WANTED_PEERS_OF_HEAD`].
pub const WANTED_PEERS: usize = 16;

/// Peers that a head looks for on its topics: as many workers as it is built for.
pub const WANTED_PEERS_OF_HEAD: usize = 1024;

/// Connections that are kept where nothing else is said. A head of a thousand workers fits; b7s keeps
/// 192, which its users found to throttle heads.
pub const CONNECTIONS: ConnectionBounds = ConnectionBounds { low: 2048, high: 2458 };

/// How many connections a node keeps. Past `high`, some are closed until `low` are left: first those
/// whose peer has not sent a message that could be read, then the newest. Those to boot nodes and to
/// peers that are heeded by name stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionBounds {
    pub(super) low: u32,
    pub(super) high: u32,
}

impl ConnectionBounds {
    /// About `count` connections: at most a fifth more, as b7s reads its `--connection-count`.
    pub const fn around(count: u32) -> Self {
        Self { low: count, high: count.saturating_add(count / 5) }
    }
}

/// Peers that a node remembers in any case, in each of its tables.
const REMEMBERED_MIN: usize = 4096;

/// Peers that a node remembers that keeps as many connections as come: more than files that one process
/// has open as a rule.
const REMEMBERED_UNBOUNDED: usize = 64 * 1024;

impl Connectivity {
    /// Peers that the node remembers, in each of its tables: above the bound on connections.
    pub fn remembered_peers(&self) -> usize {
        let n_connections = self.connections.map(|bounds| bounds.high as usize);
        n_connections.map_or(REMEMBERED_UNBOUNDED, |n| n.saturating_mul(2).max(REMEMBERED_MIN))
    }
}

/// Whose gossip and messages a node hears, none for those of every peer: a worker may obey some heads
/// alone, a head may take answers and offers of some workers alone. Others stay connected and pass
/// gossip on.
pub type AllowedPeers = Option<BTreeSet<PeerId>>;

/// The protocols on which peers open streams to a node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Protocols {
    /// Peers send one message on each stream.
    pub messages: &'static [&'static str],
    /// Peers ask one question on each stream, and read the answer from it.
    pub questions: &'static [&'static str],
    /// Peers open lines.
    pub lines: &'static [&'static str],
    /// Those of all these that are open to peers whom [`Connectivity::heeded`] leaves out.
    pub open: &'static [&'static str],
}

impl Protocols {
    /// All of them.
    pub(super) fn all(self) -> Vec<StreamProtocol> {
        let all = [self.messages, self.questions, self.lines].into_iter().flatten();
        all.map(|name| StreamProtocol::new(name)).collect()
    }
}
