//! The network: connections, gossip and messages between nodes. libp2p stays inside.
//!
//! [`Network`] is a handle to one task that owns the swarm: TCP, noise and yamux below; gossipsub,
//! identify, ping and our own streams above. What happens comes out as [`Event`]s through one
//! bounded queue, to whoever called [`Network::start`]; while that reader is slow the swarm waits,
//! so the reader must never wait for the swarm. Boot nodes are dialed again and again until they
//! answer. Absent on purpose: what the messages say (see [`message`](crate::message)).

mod actor;
mod boot;
mod exchange;
mod streams;
mod swarm;

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use libp2p::{Multiaddr, StreamProtocol, multiaddr::Protocol};
use model::node::PeerId;
use parking_lot::RwLock;
use task::group::Group;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use self::actor::{Actor, Command};
pub use self::{exchange::ExchangeError, streams::OpenError};
use crate::identity::{Identity, named};

/// The longest message of one stream or one gossip read or sent, in bytes, as JSON. The REST API
/// takes bodies a quarter shorter, so that what fits there fits here.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest gossip message, in bytes, as go-libp2p limits it.
pub const GOSSIP_BYTES_MAX: usize = 1024 * 1024;

/// Events that wait for their reader. When there are more, the swarm waits.
const EVENTS_CAPACITY: usize = 1024;

/// Commands that wait for the swarm's task. When there are more, those who call wait.
const COMMANDS_CAPACITY: usize = 1024;

/// Streams of peers that wait to be read: the answers that one roll call of a large cluster draws.
/// When there are more, a stream is dropped.
const INBOUND_CAPACITY: usize = 1024;

/// The longest time from asking for a stream to having sent a message on it.
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
    /// Protocols on which peers tell us a message.
    pub told: &'static [&'static str],
    /// Protocols on which peers ask us one thing and wait for the answer on the same stream.
    pub asked: &'static [&'static str],
}

/// A node to connect to: `/ip4/<address>/tcp/<port>/p2p/<peer id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootNode {
    peer: libp2p::PeerId,
    address: Multiaddr,
}

/// A text names no boot node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{text}` as a boot node, which is /ip4/<address>/tcp/<port>/p2p/<peer id>")]
pub struct BootNodeError {
    text: String,
}

/// Why the network did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The transport or a protocol could not be set up.
    #[error("set up the network")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The address could not be listened on.
    #[error("listen on {address}")]
    Listen {
        /// Which address.
        address: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A protocol name is none.
    #[error("use `{name}` as the name of a protocol, which begins with a slash")]
    Protocol {
        /// The name.
        name: String,
    },
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// No connected peer listens to the topic.
    #[error("find a peer that listens to the topic")]
    Unheard,
    /// It is longer than [`GOSSIP_BYTES_MAX`], or the gossip protocol refused it.
    #[error("publish a message: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The network has stopped.
    #[error("publish on a network that has stopped")]
    Stopped,
}

/// Why a message did not reach a peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The peer's id is no libp2p one.
    #[error("read {peer} as a libp2p peer id")]
    Peer {
        /// Which peer.
        peer: PeerId,
    },
    /// No stream could be opened.
    #[error("open a stream to {peer}")]
    Open {
        /// To whom.
        peer: PeerId,
        /// Why not.
        #[source]
        source: OpenError,
    },
    /// The stream broke, or more came back than was agreed.
    #[error("exchange a message with {peer}")]
    Exchange {
        /// With whom.
        peer: PeerId,
        /// What went wrong.
        #[source]
        source: ExchangeError,
    },
    /// It took too long.
    #[error("exchange a message with {peer} within {within:?}")]
    TimedOut {
        /// With whom.
        peer: PeerId,
        /// How long it was given.
        within: Duration,
    },
    /// The network has stopped.
    #[error("send on a network that has stopped")]
    Stopped,
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
        /// Who.
        peer: PeerId,
        /// Where it listens: multiaddresses, each ending in its id.
        addresses: Vec<String>,
        /// What it speaks.
        protocols: Vec<String>,
    },
    /// A peer answered a ping.
    Pinged {
        /// Who.
        peer: PeerId,
        /// How long the round trip took.
        round_trip: Duration,
    },
    /// A peer joined a topic.
    Joined {
        /// Who.
        peer: PeerId,
        /// Which one.
        topic: String,
    },
    /// A peer left a topic.
    Left {
        /// Who.
        peer: PeerId,
        /// Which one.
        topic: String,
    },
    /// A message was published on a topic we are subscribed to.
    Gossip {
        /// Who wrote it, as its signature proves.
        author: PeerId,
        /// Where.
        topic: String,
        /// The message.
        bytes: Bytes,
    },
    /// A peer told us something.
    Told {
        /// Who.
        peer: PeerId,
        /// On which protocol.
        protocol: String,
        /// The message.
        bytes: Bytes,
    },
    /// A peer asks us something and waits.
    Asked {
        /// Who.
        peer: PeerId,
        /// On which protocol.
        protocol: String,
        /// The question.
        bytes: Bytes,
        /// Where the answer goes. Dropped, it ends the stream without one.
        answer: oneshot::Sender<Answer>,
    },
}

/// An answer: a head, then maybe long content that is shared, not copied.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What comes first.
    pub head: Bytes,
    /// What follows it.
    pub content: Bytes,
}

/// Handle to the network. Cheap to clone; all clones reach one task.
#[derive(Debug, Clone)]
pub struct Network {
    commands: mpsc::Sender<Command>,
    peer_id: PeerId,
    listening: Arc<RwLock<Vec<Multiaddr>>>,
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
        let (events, happened) = mpsc::channel(EVENTS_CAPACITY);
        let (commands, commanded) = mpsc::channel(COMMANDS_CAPACITY);
        let (inbound, accepted) = mpsc::channel(INBOUND_CAPACITY);
        let (told, asked) = (protocols(options.told)?, protocols(options.asked)?);
        let spoken = told.iter().chain(&asked).cloned().collect();
        let mut swarm = swarm::built(&options.identity, spoken, inbound)?;
        let addresses = swarm::listen(&mut swarm, options.address, options.port).await?;
        let listening = Arc::new(RwLock::new(addresses));
        let peer_id = options.identity.peer_id().clone();
        let actor = Actor {
            swarm,
            commands: commanded,
            events: events.clone(),
            boot: boot::BootNodes::new(options.boot_nodes),
            listening: Arc::clone(&listening),
        };
        group.spawn("network", actor.run());
        group.spawn("streams", exchange::read_all(accepted, asked, events, group.clone()));
        Ok((Self { commands, peer_id, listening }, happened))
    }

    /// The node's own id.
    #[must_use]
    pub fn peer_id(&self) -> &PeerId {
        &self.peer_id
    }

    /// Where the node listens: multiaddresses, each ending in its id.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let listening = self.listening.read();
        listening.iter().map(|address| format!("{address}/p2p/{}", self.peer_id)).collect()
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
    /// [`SendError`] if it was not handed over within 5 s.
    pub async fn tell(
        &self,
        peer: &PeerId,
        protocol: &'static str,
        bytes: &[u8],
    ) -> Result<(), SendError> {
        let telling = async {
            let stream = self.open(peer, protocol).await?;
            exchange::tell(stream, bytes)
                .await
                .map_err(|source| SendError::Exchange { peer: peer.clone(), source })
        };
        timeout(SEND_WITHIN, telling)
            .await
            .map_err(|_| SendError::TimedOut { peer: peer.clone(), within: SEND_WITHIN })?
    }

    /// Asks a connected peer one thing, and returns all it answers: at most `bytes_max` bytes.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`SendError`] if the whole answer is not here after `within`, or is longer.
    pub async fn ask(
        &self,
        peer: &PeerId,
        protocol: &'static str,
        question: &[u8],
        (bytes_max, within): (usize, Duration),
    ) -> Result<Vec<u8>, SendError> {
        let asking = async {
            let stream = self.open(peer, protocol).await?;
            exchange::ask(stream, question, bytes_max)
                .await
                .map_err(|source| SendError::Exchange { peer: peer.clone(), source })
        };
        timeout(within, asking)
            .await
            .map_err(|_| SendError::TimedOut { peer: peer.clone(), within })?
    }

    async fn open(
        &self,
        peer: &PeerId,
        protocol: &'static str,
    ) -> Result<libp2p::Stream, SendError> {
        let id = peer.as_str().parse().map_err(|_| SendError::Peer { peer: peer.clone() })?;
        let (opened, outcome) = oneshot::channel();
        let command = Command::Open { peer: id, protocol: StreamProtocol::new(protocol), opened };
        self.commands.send(command).await.map_err(|_| SendError::Stopped)?;
        // The connection ended before its handler saw the request.
        let outcome = outcome.await.unwrap_or(Err(OpenError::NotConnected));
        outcome.map_err(|source| SendError::Open { peer: peer.clone(), source })
    }

    async fn command(&self, command: Command) -> Result<(), PublishError> {
        self.commands.send(command).await.map_err(|_| PublishError::Stopped)
    }
}

impl BootNode {
    /// The node's id.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        named(self.peer)
    }
}

impl FromStr for BootNode {
    type Err = BootNodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || BootNodeError { text: text.chars().take(160).collect() };
        let mut address: Multiaddr = text.parse().map_err(|_| wrong())?;
        let Some(Protocol::P2p(peer)) = address.pop() else { return Err(wrong()) };
        let parts: Vec<Protocol<'_>> = address.iter().collect();
        match parts.as_slice() {
            [Protocol::Ip4(_) | Protocol::Ip6(_), Protocol::Tcp(_)] => Ok(Self { peer, address }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for BootNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/p2p/{}", self.address, self.peer)
    }
}

fn protocols(names: &[&str]) -> Result<Vec<StreamProtocol>, NetworkError> {
    names
        .iter()
        .map(|name| {
            StreamProtocol::try_from_owned((*name).to_owned())
                .map_err(|_| NetworkError::Protocol { name: (*name).to_owned() })
        })
        .collect()
}

#[cfg(test)]
mod tests;
