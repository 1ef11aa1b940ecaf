//! The network: connections, gossip and messages between nodes. libp2p stays inside.
//!
//! [`Network`] is a handle to one task that owns the swarm: TCP, noise and yamux below; gossipsub,
//! Kademlia, identify, ping and our own streams above. What happens comes out as [`Event`]s through one
//! bounded queue, to the caller of [`Network::start`]; while that reader is slow the swarm waits,
//! so the reader must never wait for the swarm. Boot nodes are dialed again and again until they
//! answer, other peers are found through them, and what one peer may send is bounded. Absent on
//! purpose: what the messages say (see [`message`](crate::message)).

mod actor;
mod address;
mod dialer;
mod exchange;
mod guard;
mod handshake;
pub mod line;
mod muxer;
mod options;
mod reconnect;
mod relay;
mod rendezvous;
mod resolve;
mod streams;
mod swarm;
mod table;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use content::Answer;
use libp2p::{Multiaddr, StreamProtocol};
use model::node::PeerId;
use parking_lot::RwLock;
use task::{clock::Clock, group::Group, wait::until};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

use self::{
    actor::{Actor, Command, Connections},
    address::Scope,
    dialer::Dialer,
    guard::{Allowances, Budget, Guard, Offense},
    line::{Frames, Line},
    relay::{RelayStatus, Relaying},
    rendezvous::Rendezvous,
    resolve::Names,
    streams::Gate,
};
pub use self::{
    address::{Advertised, AdvertisedError, BootNode, BootNodeError},
    exchange::{ExchangeError, NetworkError, PublishError, SendError},
    options::{
        AllowedPeers, CONNECTIONS, ConnectionBounds, Connectivity, Protocols, WANTED_PEERS,
        WANTED_PEERS_OF_HEAD,
    },
    relay::{RelayCounts, RelayLimits, RelayOptions},
};
use crate::{
    identity::{Identity, model_peer_id},
    peer_db::PeerDb,
};

/// The longest message of one stream or one gossip read, in bytes, as JSON, but for the answers of
/// workers, which follow the limit of output. The REST API takes bodies a quarter shorter, so that
/// what fits there fits here.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest gossip message, in bytes, as go-libp2p limits it.
pub const GOSSIP_BYTES_MAX: usize = 1024 * 1024;

/// How many messages of [`MESSAGE_BYTES_MAX`] have as many bytes together, one at least: long answers
/// have as many times as long to arrive.
fn n_messages(n_bytes: usize) -> u32 {
    u32::try_from(n_bytes.div_ceil(MESSAGE_BYTES_MAX).max(1)).unwrap_or(u32::MAX)
}

/// The longest time from asking for a stream to having sent a message on it, or to having it where an answer
/// takes longer.
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// How a node joins the network.
#[derive(Debug)]
pub struct NetworkOptions {
    /// Who the node is.
    pub identity: Identity,
    /// The address to listen on; unspecified for every interface.
    pub address: IpAddr,
    /// The TCP port to listen on; 0 for a free one.
    pub port: u16,
    /// The nodes to stay connected to.
    pub boot_nodes: Vec<BootNode>,
    /// On which protocols peers open streams to it.
    pub protocols: Protocols,
    /// Whom it is connected to beside the boot nodes, and how they reach it.
    pub connectivity: Connectivity,
    /// Dates what it remembers of peers.
    pub clock: Clock,
}

/// What happens on the network.
#[derive(Debug)]
pub enum Event {
    /// The first connection to a peer stands.
    Connected(PeerId),
    /// The last connection to a peer is gone.
    Disconnected(PeerId),
    /// A peer said who it is.
    Identified {
        /// The peer that the event is about.
        peer: PeerId,
        /// Where it listens: multiaddresses, each ending in its id.
        addresses: Vec<String>,
        /// What it speaks.
        protocols: Vec<String>,
    },
    /// A peer answered a ping.
    Pinged {
        /// The peer that the event is about.
        peer: PeerId,
        /// How long the round trip took.
        round_trip: Duration,
    },
    /// A peer joined a topic.
    Joined {
        /// The peer that the event is about.
        peer: PeerId,
        /// Name of the topic.
        topic: String,
    },
    /// A peer left a topic.
    Left {
        /// The peer that the event is about.
        peer: PeerId,
        /// Name of the topic.
        topic: String,
    },
    /// A message was published on a topic we are subscribed to.
    Gossip {
        /// Who wrote it, as its signature proves.
        author: PeerId,
        /// Name of the topic.
        topic: String,
        /// The message, not parsed.
        bytes: Bytes,
    },
    /// A peer told us something.
    Message {
        /// The peer that the event is about.
        peer: PeerId,
        /// On which protocol.
        protocol: String,
        /// The message, not parsed.
        bytes: Bytes,
    },
    /// A peer told us something longer than it may be.
    TooLong {
        /// The peer that the event is about.
        peer: PeerId,
        /// On which protocol.
        protocol: String,
        /// How it begins.
        start: Bytes,
    },
    /// A peer asks us something and waits.
    Question {
        /// The peer that the event is about.
        peer: PeerId,
        /// The request, not parsed.
        bytes: Bytes,
        /// Where the answer goes. Dropped, it ends the stream without one.
        answer: oneshot::Sender<Answer>,
    },
    /// A peer opened a line to us.
    LineOpened {
        /// The peer that the event is about.
        peer: PeerId,
        /// Our sending end of it.
        line: Line,
        /// Our reading end of it.
        frames: Frames,
    },
}

/// Handle to the network. Cheap to clone; all clones reach one task.
#[derive(Debug, Clone)]
pub struct Network {
    commands: mpsc::Sender<Command>,
    peer_id: PeerId,
    listening: Arc<RwLock<Vec<Multiaddr>>>,
    advertised: Arc<[Multiaddr]>,
    /// How many peers of earlier runs it dials.
    pub(crate) n_remembered: usize,
    guard: Guard,
    group: Group,
    answer_bytes_max: usize,
    relay_status: RelayStatus,
}

impl Network {
    /// Listens, starts the network's tasks in `group`, and returns the queue of what happens.
    ///
    /// # Errors
    /// [`NetworkError::Listen`] if the address is taken or not ours.
    pub async fn start(
        group: &Group,
        options: NetworkOptions,
    ) -> Result<(Self, mpsc::Receiver<Event>), NetworkError> {
        let n_peers = options.connectivity.remembered_peers();
        // The swarm is large, and would be in the future of each caller.
        Box::pin(Self::start_with(group, options, guard::ALLOWANCES.for_peers(n_peers))).await
    }

    async fn start_with(
        group: &Group,
        mut options: NetworkOptions,
        allowances: Allowances,
    ) -> Result<(Self, mpsc::Receiver<Event>), NetworkError> {
        let relaying = Relaying::new(&options.connectivity.relay.through, Instant::now());
        options.boot_nodes.extend(options.connectivity.relay.through.iter().cloned());
        // When full, the swarm waits.
        let (events, happened) = mpsc::channel(1024);
        // When full, callers wait.
        let (commands, commanded) = mpsc::channel(1024);
        // As many as the replies to one roll call of a large cluster. When full, streams are dropped.
        let (inbound, accepted) = mpsc::channel(1024);
        let (connectivity, protocols) = (options.connectivity, options.protocols);
        let boot_nodes = options.boot_nodes.iter().map(|node| node.peer);
        let guard = Guard::new(connectivity.heeded.clone(), boot_nodes, allowances);
        let gate = Gate { protocols, guard: guard.clone(), inbound };
        let names = Names::new(options.boot_nodes.iter().map(|node| &node.address));
        let budget = Budget::new(&guard);
        let relays = &relaying.relays;
        let mut swarm =
            swarm::build(&options.identity, gate, &connectivity, &names, relays, &budget)?;
        let wanted = swarm::listened_on(options.address, options.port, connectivity.websocket)?;
        let listening = swarm::listen(&mut swarm, &wanted).await?;
        if connectivity.is_local_discovery_on {
            swarm::discover_locally(&mut swarm, options.address, &listening);
        }
        let advertised = connectivity.advertised.into_iter().map(|Advertised(address)| address);
        let advertised: Vec<Multiaddr> = advertised.collect();
        let is_listening_told = advertised.is_empty();
        let told_addresses = if is_listening_told { &listening } else { &advertised };
        swarm::name(&mut swarm, told_addresses, &guard);
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
            relay_status: relaying.status.clone(),
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
            is_listening_told,
            relaying,
        };
        group.spawn("network", actor.run());
        let bytes_max = connectivity.answer_bytes_max;
        let reading =
            exchange::read_all(accepted, protocols, bytes_max, events, budget, group.clone());
        group.spawn("streams", reading);
        Ok((network, happened))
    }

    /// The node's own id.
    pub fn peer_id(&self) -> &PeerId {
        &self.peer_id
    }

    /// Where the node is reached: the advertised addresses, or those it listens on. Multiaddresses,
    /// each ending in its id.
    pub fn addresses(&self) -> Vec<String> {
        let listening = self.listening.read();
        let told = if self.advertised.is_empty() { &**listening } else { &*self.advertised };
        told.iter().map(|address| format!("{address}/p2p/{}", self.peer_id)).collect()
    }

    /// The relay through which `peer` is connected; none for one that is connected directly.
    pub fn relay_of(&self, peer: &PeerId) -> Option<PeerId> {
        self.relay_status.relay_of(peer)
    }

    /// How much this node relays, and has relayed for it.
    pub fn relay_counts(&self) -> RelayCounts {
        self.relay_status.counts()
    }

    /// Waits until all boot nodes are connected. Cancel-safe.
    ///
    /// # Errors
    /// [`NetworkError::Unreached`] with those that are not after `within`.
    pub async fn reach_boot_nodes(&self, within: Duration) -> Result<(), NetworkError> {
        let unreached = || async {
            let (told, unreached) = oneshot::channel();
            // A network that has stopped reaches nobody, and does not answer.
            drop(self.commands.send(Command::Unreached { told }).await);
            unreached.await.unwrap_or_default()
        };
        let look = || async {
            let peers = unreached().await;
            if peers.is_empty() { Ok(()) } else { Err(peers) }
        };
        if until(within, look).await.is_ok() {
            return Ok(());
        }
        let peers = unreached().await.into_iter().map(model_peer_id).collect();
        Err(NetworkError::Unreached { peers, within })
    }

    /// Records that a message of `peer` was too long. A peer that sends many is cut off for a while.
    pub fn blame_too_long(&self, peer: &PeerId) {
        self.offended(peer, Offense::TooLong);
    }

    /// Records that a message of `peer` was malformed. A peer that sends many is cut off for a while.
    pub fn blame(&self, peer: &PeerId) {
        self.offended(peer, Offense::Malformed);
    }

    fn offended(&self, peer: &PeerId, offense: Offense) {
        if let Ok(peer) = peer.as_str().parse() {
            self.guard.offended(peer, offense);
        }
    }

    /// Takes note that a message of connected `peer` could be read: under pressure, connections to
    /// peers without one are closed first.
    pub fn vouch(&self, peer: &PeerId) {
        if let Ok(peer) = peer.as_str().parse() {
            self.guard.vouch(peer);
        }
    }

    /// Whether `peer` was named to this node: as a boot node, or as a peer that it heeds.
    pub fn knows_by_name(&self, peer: &PeerId) -> bool {
        peer.as_str().parse().is_ok_and(|peer| self.guard.knows_by_name(peer))
    }

    /// Whether `peer` is heeded by name.
    pub fn trusts(&self, peer: &PeerId) -> bool {
        peer.as_str().parse().is_ok_and(|peer| self.guard.trusts(peer))
    }

    /// Whether any peer was named to this node.
    pub fn has_names(&self) -> bool {
        self.guard.has_names()
    }

    /// Whether messages of `peer` are heard.
    pub fn hears(&self, peer: &PeerId) -> bool {
        peer.as_str().parse().is_ok_and(|peer| self.guard.hears(peer))
    }

    /// Whether every peer is heeded.
    pub fn heeds_everyone(&self) -> bool {
        self.guard.heeds_everyone()
    }

    /// Whether peers on other machines may reach this node: it listens on, or advertises, an address
    /// that is not of this machine alone.
    pub fn is_exposed(&self) -> bool {
        let listening = self.listening.read();
        self.advertised
            .iter()
            .chain(&*listening)
            .any(|at| Scope::from_address(at) != Scope::Loopback)
    }

    /// Replaces the set of peers that are heeded.
    pub async fn heed(&self, heeded: AllowedPeers) {
        self.guard.heed(heeded);
        let peers = self.guard.names();
        // A network that has stopped keeps no places.
        drop(self.commands.send(Command::KeepPlaces { peers }).await);
    }

    /// Takes note that connected `peer` does the same as this node, which keeps but some of its kind.
    pub fn neighbor(&self, peer: &PeerId) {
        if let Ok(peer) = peer.as_str().parse() {
            // Full, it is noted when the peer says so again.
            drop(self.commands.try_send(Command::Neighbor { peer }));
        }
    }

    /// Subscribes to `topic`; to be subscribed already is no error.
    ///
    /// # Errors
    /// [`PublishError::Refused`] if the gossip protocol refuses the topic.
    pub async fn subscribe(&self, topic: &str) -> Result<(), PublishError> {
        let (done, outcome) = oneshot::channel();
        self.command(Command::Subscribe { topic: topic.to_owned(), done }).await?;
        outcome.await.map_err(|_| PublishError::Stopped)?
    }

    /// Publishes a message to the connected peers that listen to `topic`, once.
    ///
    /// # Errors
    /// [`PublishError::Unheard`] if there are none.
    pub async fn publish(&self, topic: &str, bytes: Vec<u8>) -> Result<(), PublishError> {
        let (done, outcome) = oneshot::channel();
        self.command(Command::Publish { topic: topic.to_owned(), bytes, done }).await?;
        outcome.await.map_err(|_| PublishError::Stopped)?
    }

    /// Tells a connected peer one message. Dropping it may leave the message half sent, which the
    /// peer then discards.
    ///
    /// # Errors
    /// [`SendError`] if it was not handed over within 5 s for each 4 MiB.
    pub async fn tell(
        &self,
        peer: &PeerId,
        protocol: &'static str,
        bytes: &[u8],
    ) -> Result<(), SendError> {
        let telling = async {
            let mut stream = self.open(peer, protocol).await?;
            let told = exchange::tell(&mut stream, bytes).await;
            told.map(|()| stream).map_err(failed_with(peer))
        };
        let stream = in_time(peer, SEND_WITHIN * n_messages(bytes.len()), telling).await?;
        // Not of that time: what was handed over is no failure, or an order would be given twice.
        exchange::linger(stream).await;
        Ok(())
    }

    /// Asks a connected peer one thing, and returns all it answers: at most `bytes_max` bytes.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`SendError`] if the peer did not agree within 5 s, or the whole answer is not here after `within`, or
    /// is longer.
    pub async fn ask(
        &self,
        peer: &PeerId,
        protocol: &'static str,
        question: &[u8],
        bytes_max: usize,
        within: Duration,
    ) -> Result<Vec<u8>, SendError> {
        let asking = async {
            let stream = in_time(peer, SEND_WITHIN, self.open(peer, protocol)).await?;
            exchange::ask(stream, question, bytes_max).await.map_err(failed_with(peer))
        };
        in_time(peer, within, asking).await
    }

    /// Opens a line to a connected peer. Its writing task belongs to the network's group.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`SendError`] if the peer did not agree within 5 s.
    pub async fn open_line(
        &self,
        peer: &PeerId,
        protocol: &'static str,
    ) -> Result<(Line, Frames), SendError> {
        let stream = in_time(peer, SEND_WITHIN, self.open(peer, protocol)).await?;
        Ok(line::split(stream, self.answer_bytes_max, &self.group, None))
    }

    async fn open(
        &self,
        peer: &PeerId,
        protocol: &'static str,
    ) -> Result<libp2p::Stream, SendError> {
        let failed = |source| SendError::Open { peer: peer.clone(), source };
        let gone = || failed(io::ErrorKind::NotConnected.into());
        let id = peer.as_str().parse().map_err(|_| gone())?;
        let (opened, outcome) = oneshot::channel();
        let command = Command::Open { peer: id, protocol: StreamProtocol::new(protocol), opened };
        self.commands.send(command).await.map_err(|_| SendError::Stopped)?;
        // The connection ended before its handler saw the request.
        outcome.await.map_err(|_| gone())?.map_err(failed)
    }

    async fn command(&self, command: Command) -> Result<(), PublishError> {
        self.commands.send(command).await.map_err(|_| PublishError::Stopped)
    }
}

fn failed_with(peer: &PeerId) -> impl FnOnce(ExchangeError) -> SendError {
    |source| SendError::Exchange { peer: peer.clone(), source }
}

/// Does with `peer` what takes `within` at most.
async fn in_time<T>(
    peer: &PeerId,
    within: Duration,
    work: impl Future<Output = Result<T, SendError>>,
) -> Result<T, SendError> {
    let late = |_| failed_with(peer)(ExchangeError::Stalled { within });
    timeout(within, work).await.map_err(late)?
}

/// Opens the peer store, if there is to be one, and has `group` keep it.
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

/// The peers in the peer store, without the node itself.
fn remembered_peers(db: &PeerDb, identity: &Identity) -> Vec<BootNode> {
    let nodes = db.addresses().into_iter().filter_map(|text| text.parse::<BootNode>().ok());
    nodes.filter(|node| node.peer_id() != *identity.peer_id()).collect()
}

#[cfg(test)]
mod tests;
