//! The network: connections, gossip and messages between nodes. Hides libp2p.
//!
//! [`Network`] is a handle to one task that owns the swarm: TCP, noise and yamux below; gossipsub,
//! Kademlia, identify, ping and the streams of this program above. [`Event`]s go through one bounded
//! queue to the caller of [`Network::start`]. The swarm waits while that reader is slow, so the reader
//! must never wait for the swarm. Boot nodes are dialed until they respond, other peers are found
//! through them, and the traffic of each peer is limited.

mod actor;
mod address;
mod dialer;
mod exchange;
mod guard;
mod handshake;
pub mod line;
mod muxer;
mod options;
mod rendezvous;
mod resolve;
mod streams;
mod swarm;
mod table;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use content::Answer;
use libp2p::{Multiaddr, StreamProtocol};
use model::node::PeerId;
use parking_lot::RwLock;
use task::clock::Clock;
use task::group::Group;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use self::actor::{Actor, Connections, NetworkCommand};
use self::address::Scope;
pub use self::address::{Advertised, AdvertisedError, BootNode, BootNodeError};
use self::dialer::Dialer;
pub use self::exchange::{ExchangeError, NetworkError, PublishError};
pub use self::guard::Standing;
use self::guard::{Allowances, Budget, Guard, Offense};
use self::line::{Frames, Line};
pub use self::options::{
    AllowedPeers, CONNECTIONS, ConnectionBounds, Connectivity, Protocols, WANTED_PEERS,
    WANTED_PEERS_OF_HEAD,
};
use self::rendezvous::Rendezvous;
use self::resolve::Names;
use self::streams::Gate;
use crate::identity::Identity;
use crate::peer_db::PeerDb;

/// Maximum size of a message on a stream or in gossip, as JSON, in bytes. Responses of workers are
/// limited by the output limit instead. Bodies of the REST API are limited to three quarters of this, so
/// that the work orders that contain them fit.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum size of a gossip message, in bytes, as in go-libp2p.
pub const GOSSIP_BYTES_MAX: usize = 1024 * 1024;

/// Returns how many messages of [`MESSAGE_BYTES_MAX`] are needed for `n_bytes`, at least one. Time
/// limits are multiplied by this number.
fn n_messages(n_bytes: usize) -> u32 {
    u32::try_from(n_bytes.div_ceil(MESSAGE_BYTES_MAX).max(1)).unwrap_or(u32::MAX)
}

/// Time to open a stream and send a message of up to [`MESSAGE_BYTES_MAX`].
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// Options of a network.
#[derive(Debug)]
pub struct NetworkOptions {
    /// Identity of the node.
    pub identity: Identity,
    /// Address to listen on; the unspecified address for every interface.
    pub address: IpAddr,
    /// TCP port to listen on; 0 for any free port.
    pub port: u16,
    /// Nodes to stay connected to.
    pub boot_nodes: Vec<BootNode>,
    /// Protocols on which peers can open streams.
    pub protocols: Protocols,
    /// Limits of connections to other peers, and the ways to reach this node.
    pub connectivity: Connectivity,
    /// Clock for the peer store.
    pub clock: Clock,
}

/// An event on the network.
#[derive(Debug)]
pub enum Event {
    /// The first connection to a peer was established.
    Connected(PeerId),
    /// The last connection to a peer was closed.
    Disconnected(PeerId),
    /// A peer identified itself.
    Identified {
        /// Peer that identified itself.
        peer: PeerId,
        /// Multiaddresses that the peer listens on, each ending in its id.
        addresses: Vec<String>,
        /// Protocols that the peer speaks.
        protocols: Vec<String>,
    },
    /// A peer answered a ping.
    Pinged {
        /// Peer that answered the ping.
        peer: PeerId,
        /// Round trip time.
        round_trip: Duration,
    },
    /// A peer joined a topic.
    Joined {
        /// Peer that joined the topic.
        peer: PeerId,
        /// Name of the topic.
        topic: String,
    },
    /// A peer left a topic.
    Left {
        /// Peer that left the topic.
        peer: PeerId,
        /// Name of the topic.
        topic: String,
    },
    /// A message was published on a subscribed topic.
    Gossip {
        /// Author, as proved by the signature.
        author: PeerId,
        /// Name of the topic.
        topic: String,
        /// Content of the message, not parsed yet.
        bytes: Bytes,
    },
    /// A peer sent a message.
    Message {
        /// Peer that sent the message.
        peer: PeerId,
        /// Protocol of the stream.
        protocol: String,
        /// Content of the message, not parsed yet.
        bytes: Bytes,
    },
    /// A peer sent a message that exceeds the limit.
    TooLong {
        /// Peer that sent the message.
        peer: PeerId,
        /// Protocol of the stream.
        protocol: String,
        /// Beginning of the message.
        start: Bytes,
    },
    /// A peer sent a message for which there was no memory.
    Crowded {
        /// Peer that sent the message.
        peer: PeerId,
        /// Beginning of the message.
        start: Bytes,
    },
    /// A peer sent a request and waits for the response.
    Question {
        /// Peer that sent the request.
        peer: PeerId,
        /// Content of the request, not parsed yet.
        bytes: Bytes,
        /// Receives the response. Dropping this closes the stream without a response.
        answer: oneshot::Sender<Answer>,
    },
    /// A peer opened a line.
    LineOpened {
        /// Peer that opened the line.
        peer: PeerId,
        /// Half of the line that sends frames.
        line: Line,
        /// Half of the line that receives frames.
        frames: Frames,
    },
}

/// Handle to the network. Clones share one task.
#[derive(Debug, Clone)]
pub struct Network {
    commands: mpsc::Sender<NetworkCommand>,
    peer_id: PeerId,
    listening: Arc<RwLock<Vec<Multiaddr>>>,
    advertised: Arc<[Multiaddr]>,
    /// Number of peers in the peer store that were dialed at start.
    pub(crate) n_remembered: usize,
    guard: Guard,
    group: Group,
    answer_bytes_max: usize,
}

impl Network {
    /// Listens, starts the network's tasks in `group` and returns the handle and the queue of events.
    ///
    /// # Errors
    /// Returns [`NetworkError`] if, for example, the address is in use.
    pub async fn start(
        group: &Group,
        options: NetworkOptions,
    ) -> Result<(Self, mpsc::Receiver<Event>), NetworkError> {
        let n_peers = options.connectivity.remembered_peers();
        // Boxed, since the swarm is large.
        Box::pin(Self::start_with(group, options, guard::ALLOWANCES.for_peers(n_peers))).await
    }

    async fn start_with(
        group: &Group,
        options: NetworkOptions,
        allowances: Allowances,
    ) -> Result<(Self, mpsc::Receiver<Event>), NetworkError> {
        // Queue of events. When it is full, the swarm waits.
        let (events, happened) = mpsc::channel(1024);
        // Queue of commands. When it is full, callers wait.
        let (commands, commanded) = mpsc::channel(1024);
        // Queue of accepted streams. It fits the replies to one roll call of a large cluster. When it
        // is full, further streams are dropped.
        let (inbound, accepted) = mpsc::channel(1024);
        let (connectivity, protocols) = (options.connectivity, options.protocols);
        let boot_nodes = options.boot_nodes.iter().map(|node| node.peer);
        let guard = Guard::new(connectivity.allowed.clone(), boot_nodes, allowances);
        let gate = Gate { protocols, guard: guard.clone(), inbound };
        let names = Names::new(options.boot_nodes.iter().map(|node| &node.address));
        let budget = Budget::new(&guard);
        let mut swarm = swarm::build(&options.identity, gate, &connectivity, &names, &budget)?;
        let wanted = swarm::listened_on(options.address, options.port, connectivity.websocket)?;
        let (listening, early) = swarm::listen(&mut swarm, &wanted).await?;
        let advertised = connectivity.advertised.into_iter().map(|Advertised(address)| address);
        let advertised: Vec<Multiaddr> = advertised.collect();
        let announces_listening = advertised.is_empty();
        let announced = if announces_listening { &listening } else { &advertised };
        for address in announced {
            swarm.add_external_address(address.clone());
        }
        let db = open_peer_db(connectivity.peer_db, options.clock, group).await?;
        let remembered = match &db {
            Some(db) if connectivity.is_dialing_back => remembered_peers(db, &options.identity),
            _ => Vec::new(),
        };
        let network = Self {
            commands,
            peer_id: options.identity.peer_id().clone(),
            listening: Arc::new(RwLock::new(listening)),
            advertised: advertised.into(),
            n_remembered: remembered.iter().map(|node| node.peer).collect::<BTreeSet<_>>().len(),
            guard: guard.clone(),
            group: group.clone(),
            answer_bytes_max: connectivity.answer_bytes_max,
        };
        let actor = Actor {
            swarm,
            commands: commanded,
            events: events.clone(),
            dialer: Dialer::new(options.boot_nodes, remembered, Instant::now()),
            rendezvous: Rendezvous::new(connectivity.wanted_peers),
            protocols,
            heads: HashSet::new(),
            guard,
            db,
            bounds: connectivity.connections,
            connections: Connections::default(),
            names,
            neighbors: HashSet::new(),
            next_look: Instant::now(),
            waiting: HashMap::new(),
            listening: Arc::clone(&network.listening),
            announces_listening,
        };
        group.spawn("network", actor.run(early));
        let bytes_max = connectivity.answer_bytes_max;
        let reading =
            exchange::read_all(accepted, protocols, bytes_max, events, budget, group.clone());
        group.spawn("streams", reading);
        Ok((network, happened))
    }

    /// Returns the id of the node.
    pub fn peer_id(&self) -> &PeerId {
        &self.peer_id
    }

    /// Returns the advertised addresses, or the listen addresses: multiaddresses, each with the node's
    /// id.
    pub fn addresses(&self) -> Vec<String> {
        let listening = self.listening.read();
        let announced = if self.advertised.is_empty() { &**listening } else { &*self.advertised };
        announced.iter().map(|address| format!("{address}/p2p/{}", self.peer_id)).collect()
    }

    /// Records that a message of `peer` was malformed or too long. A peer that sends many is banned for
    /// a while.
    pub fn blame(&self, peer: &PeerId) {
        if let Some(peer) = id(peer) {
            self.guard.offended(peer, Offense::Malformed);
        }
    }

    /// Records that connected `peer` sent a valid message. If there are too many connections,
    /// connections of peers without a valid message are closed first.
    pub fn vouch(&self, peer: &PeerId) {
        if let Some(peer) = id(peer) {
            self.guard.vouch(peer);
        }
    }

    /// Forgets that disconnected `peer` sent valid messages.
    pub fn forget(&self, peer: &PeerId) {
        if let Some(peer) = id(peer) {
            self.guard.note_lost(peer);
        }
    }

    /// Returns true if `peer` is allowed by name.
    pub fn allows_by_name(&self, peer: &PeerId) -> bool {
        id(peer).is_some_and(|peer| self.guard.allows_by_name(peer))
    }

    /// Returns the standing of `peer`.
    pub fn standing(&self, peer: &PeerId) -> Standing {
        id(peer).map_or(Standing::Stranger, |peer| self.guard.standing(peer))
    }

    /// Returns true if messages of `peer` are accepted.
    pub fn allows(&self, peer: &PeerId) -> bool {
        id(peer).is_some_and(|peer| self.guard.allows(peer))
    }

    /// Waits until messages of `peer` are not accepted. Cancel-safe.
    pub async fn excluded(&self, peer: &PeerId) {
        if let Some(peer) = id(peer) {
            self.guard.excluded(peer).await;
        }
    }

    /// Returns true if every peer is allowed.
    pub fn allows_everyone(&self) -> bool {
        self.guard.allows_everyone()
    }

    /// Returns true if other machines can reach this node: it listens on, or advertises, an address
    /// that is not a loopback one.
    pub fn is_exposed(&self) -> bool {
        let listening = self.listening.read();
        self.advertised
            .iter()
            .chain(&*listening)
            .any(|at| Scope::from_address(at) != Scope::Loopback)
    }

    /// Replaces the set of allowed peers.
    pub fn set_allowed(&self, allowed: AllowedPeers) {
        self.guard.set_allowed(allowed);
    }

    /// Records that connected `peer` has the same role as this node. Only some of these neighbors stay
    /// connected.
    pub fn neighbor(&self, peer: &PeerId) {
        if let Some(peer) = id(peer) {
            // If the queue is full, the neighbor is recorded when its next offer arrives.
            drop(self.commands.try_send(NetworkCommand::Neighbor { peer }));
        }
    }

    /// Subscribes to `topic`. Has no effect if it is already subscribed.
    ///
    /// # Errors
    /// Returns [`PublishError::Refused`] if gossipsub refuses the topic.
    pub async fn subscribe(&self, topic: &str) -> Result<(), PublishError> {
        let topic = topic.to_owned();
        let outcome = self.request(|done| NetworkCommand::Subscribe { topic, done }).await;
        outcome.unwrap_or(Err(PublishError::Stopped))
    }

    /// Publishes a message once to the connected peers that listen to `topic`.
    ///
    /// # Errors
    /// Returns [`PublishError::NoListeners`] if no peer listens.
    pub async fn publish(&self, topic: &str, bytes: Vec<u8>) -> Result<(), PublishError> {
        let topic = topic.to_owned();
        let outcome = self.request(|done| NetworkCommand::Publish { topic, bytes, done }).await;
        outcome.unwrap_or(Err(PublishError::Stopped))
    }

    /// Sends a connected peer one message. Dropping the future might leave the message incomplete. The
    /// peer then discards it.
    ///
    /// # Errors
    /// Returns [`ExchangeError`] if it was not sent within 5 s for each 4 MiB.
    pub async fn tell(
        &self,
        peer: &PeerId,
        protocol: &'static str,
        bytes: &[u8],
    ) -> Result<(), ExchangeError> {
        let sending = async {
            let mut stream = self.open(peer, protocol).await?;
            exchange::tell(&mut stream, bytes).await.map(|()| stream)
        };
        let stream = in_time(SEND_WITHIN * n_messages(bytes.len()), sending).await?;
        // This is outside the time limit, since the message was already sent. A failure here would make
        // the caller send the order again.
        exchange::linger(stream).await;
        Ok(())
    }

    /// Sends a connected peer a request and returns its response of at most `bytes_max` bytes.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Returns [`ExchangeError`] if the peer did not accept the stream within 5 s, or the response is
    /// too long or incomplete after `within`.
    pub async fn ask(
        &self,
        peer: &PeerId,
        protocol: &'static str,
        question: &[u8],
        bytes_max: usize,
        within: Duration,
    ) -> Result<Vec<u8>, ExchangeError> {
        let asking = async {
            let stream = in_time(SEND_WITHIN, self.open(peer, protocol)).await?;
            exchange::ask(stream, question, bytes_max).await
        };
        in_time(within, asking).await
    }

    /// Opens a line to a connected peer. The task that writes to the line belongs to the network's
    /// group. Cancel-safe.
    ///
    /// # Errors
    /// Returns [`ExchangeError`] if the peer did not accept the stream within 5 s.
    pub async fn open_line(
        &self,
        peer: &PeerId,
        protocol: &'static str,
    ) -> Result<(Line, Frames), ExchangeError> {
        let stream = in_time(SEND_WITHIN, self.open(peer, protocol)).await?;
        Ok(line::split(stream, self.answer_bytes_max, &self.group, None))
    }

    async fn open(
        &self,
        peer: &PeerId,
        protocol: &'static str,
    ) -> Result<libp2p::Stream, ExchangeError> {
        let gone = || ExchangeError::Unopened(io::ErrorKind::NotConnected.into());
        let (peer, protocol) = (id(peer).ok_or_else(gone)?, StreamProtocol::new(protocol));
        let (opened, outcome) = oneshot::channel();
        let command = NetworkCommand::Open { peer, protocol, opened };
        self.commands.send(command).await.map_err(|_| ExchangeError::Stopped)?;
        // If the sender was dropped, the connection was closed before its handler saw the request.
        outcome.await.map_err(|_| gone())?.map_err(ExchangeError::Unopened)
    }

    /// Sends a command and returns the reply. Returns `None` if the network has stopped.
    async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> NetworkCommand,
    ) -> Option<T> {
        let (reply, replied) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        replied.await.ok()
    }
}

/// Converts a peer id to libp2p's type. Returns `None` for a truncated id.
fn id(peer: &PeerId) -> Option<libp2p::PeerId> {
    peer.as_str().parse().ok()
}

/// Limits `work` with a peer to `within`.
async fn in_time<T>(
    within: Duration,
    work: impl Future<Output = Result<T, ExchangeError>>,
) -> Result<T, ExchangeError> {
    timeout(within, work).await.map_err(|_| ExchangeError::Stalled { within })?
}

/// Opens the peer store, if configured, and starts a task of `group` that writes it.
async fn open_peer_db(
    dir: Option<PathBuf>,
    clock: Clock,
    group: &Group,
) -> Result<Option<PeerDb>, NetworkError> {
    let Some(dir) = dir else { return Ok(None) };
    let open = tokio::task::spawn_blocking(move || PeerDb::open(&dir, clock));
    let db = open.await.map_err(|error| NetworkError::Setup(Box::new(error)))??;
    db.keep(group);
    Ok(Some(db))
}

/// Returns the peers in the peer store, without the node itself.
fn remembered_peers(db: &PeerDb, identity: &Identity) -> Vec<BootNode> {
    let nodes = db.addresses().into_iter().filter_map(|text| text.parse::<BootNode>().ok());
    nodes.filter(|node| node.peer_id() != *identity.peer_id()).collect()
}

#[cfg(test)]
mod tests;
