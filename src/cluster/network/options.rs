//! Options for the connections of a node, apart from its boot nodes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use libp2p::StreamProtocol;
use model::node::{PeerId, Role};

use super::{Advertised, MESSAGE_BYTES_MAX};

/// Limits of connections to other peers, and the ways to reach this node.
#[derive(Debug, Clone)]
pub struct Connectivity {
    /// Port of a websocket listener, 0 for any free port; `None` for no listener.
    pub websocket: Option<u16>,
    /// Addresses announced to peers instead of the listen addresses, unless empty.
    pub advertised: Vec<Advertised>,
    /// Bounds for the number of connections; `None` for no limit.
    pub connections: Option<ConnectionBounds>,
    /// The node looks for peers on its topics until this number is connected; 0 to look for none.
    pub wanted_peers: usize,
    /// Directory of the peer store; `None` for no store.
    pub peer_db: Option<PathBuf>,
    /// True if the peers in the peer store are dialed at start.
    pub is_dialing_back: bool,
    /// Interval of pings. The node notices after two unanswered pings that a machine vanished without
    /// closing its connections.
    pub ping_every: Duration,
    /// Peers whose gossip and messages are accepted.
    pub allowed: AllowedPeers,
    /// Maximum size in bytes of a message from a peer or a frame on a line that this node opened.
    pub answer_bytes_max: usize,
}

impl Connectivity {
    /// Returns the defaults: no websocket, no peer store, all peers allowed.
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
            peer_db: None,
            is_dialing_back: true,
            ping_every,
            allowed: None,
            answer_bytes_max: MESSAGE_BYTES_MAX,
        }
    }
}

/// Interval of pings by a worker. The interval is long because heads ping workers more often, a vanished
/// neighbor only occupies a connection, and pings between neighbors are most of the work of idle
/// workers.
const PING_EVERY: Duration = Duration::from_mins(1);

/// Interval of pings by a head, which uses the round trips for placement. A worker that runs an
/// order for long is also pinged every second on its line.
const PING_EVERY_OF_HEAD: Duration = Duration::from_secs(15);

/// Number of peers that a worker looks for: enough for the gossip mesh and for fetching functions. A
/// head needs all of its workers: see [`WANTED_PEERS_OF_HEAD`].
pub const WANTED_PEERS: usize = 16;

/// Number of peers that a head looks for.
pub const WANTED_PEERS_OF_HEAD: usize = 1024;

/// Default number of connections. It fits a head of a thousand workers. b7s allows 192, which throttles
/// heads.
pub const CONNECTIONS: ConnectionBounds = ConnectionBounds { low: 2048, high: 2458 };

/// Bounds for the number of connections of a node. If there are more than `high`, connections are closed
/// until `low` are left: first connections of peers that have not sent a valid message, then the latest
/// connections. Connections to boot nodes and to peers allowed by name are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionBounds {
    pub(super) low: u32,
    pub(super) high: u32,
}

impl ConnectionBounds {
    /// Returns bounds for about `count` connections, at most a fifth more, as b7s reads its
    /// `--connection-count`.
    pub const fn around(count: u32) -> Self {
        Self { low: count, high: count.saturating_add(count / 5) }
    }
}

/// Minimum number of peers to remember in each table.
const REMEMBERED_MIN: usize = 4096;

/// Number of peers that a node without a limit of connections remembers: more than the usual limit of
/// open files.
const REMEMBERED_UNBOUNDED: usize = 64 * 1024;

impl Connectivity {
    /// Returns the number of peers to remember in each table. It is higher than the limit of
    /// connections.
    pub fn remembered_peers(&self) -> usize {
        let n_connections = self.connections.map(|bounds| bounds.high as usize);
        n_connections.map_or(REMEMBERED_UNBOUNDED, |n| n.saturating_mul(2).max(REMEMBERED_MIN))
    }
}

/// Peers whose gossip and messages are accepted; `None` for every peer. With this set, a worker can obey
/// only some heads, and a head can accept only some workers. Other peers stay connected and forward
/// gossip.
pub type AllowedPeers = Option<BTreeSet<PeerId>>;

/// Protocols on which peers can open streams to a node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Protocols {
    /// Protocols with one message on each stream.
    pub messages: &'static [&'static str],
    /// Protocols with one request and its response on each stream.
    pub questions: &'static [&'static str],
    /// Protocols of lines.
    pub lines: &'static [&'static str],
    /// Protocols that are also open to peers that are not allowed.
    pub open: &'static [&'static str],
}

impl Protocols {
    /// Returns the protocols of messages, requests and lines.
    pub(super) fn all(self) -> Vec<StreamProtocol> {
        let all = [self.messages, self.questions, self.lines].into_iter().flatten();
        all.map(|name| StreamProtocol::new(name)).collect()
    }
}
