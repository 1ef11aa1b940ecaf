//! Assembly of the swarm, in its own module because its generics are slow to compile.

use std::net::IpAddr;
use std::time::Duration;
use std::{io, iter};

use futures::StreamExt as _;
use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::Boxed;
use libp2p::core::upgrade::Version;
use libp2p::gossipsub::{
    self, IdentityTransform, MaxCountSubscriptionFilter, MessageAuthenticity, MessageId, TopicHash,
    TopicSubscriptionFilter, ValidationMode,
};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::tcp::tokio::TcpStream;
use libp2p::{
    Multiaddr, PeerId, Swarm, SwarmBuilder, Transport as _, allow_block_list, identify, identity,
    noise, ping,
};
use libp2p_websocket as websocket;
use model::node::SUBGROUP_BYTES_MAX;
use socket2::{SockRef, TcpKeepalive};
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::address::ip;
use super::guard::Budget;
use super::handshake::Handshakes;
use super::muxer::{Multiplex, NEGOTIATING_MAX};
use super::resolve::{Names, Resolve};
use super::streams::{self, Gate};
use super::table::ProviderTable;
use super::{Connectivity, GOSSIP_BYTES_MAX, NetworkError, rendezvous};
use crate::identity::Identity;

/// Maximum number of topics per peer, and of subscription changes per message. Each topic of a peer takes
/// up to half a KiB of memory, so a peer can fill a quarter of a MiB.
const TOPICS_PER_PEER_MAX: usize = 512;

/// When listening on every interface, time to wait for more addresses after the first address. The
/// number of addresses is not known in advance.
const ADDRESSES_WITHIN: Duration = Duration::from_millis(50);

/// Time for listening to succeed.
const LISTEN_WITHIN: Duration = Duration::from_secs(5);

/// Filter that accepts topics of valid length.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ShortTopics;

impl TopicSubscriptionFilter for ShortTopics {
    fn can_subscribe(&mut self, topic: &TopicHash) -> bool {
        // Maximum length of a topic, in bytes: twice the maximum length of a subgroup's name. Otherwise
        // a peer could name topics with a gibibyte in total.
        topic.as_str().len() <= 2 * SUBGROUP_BYTES_MAX
    }
}

/// Gossip with limited memory for the topics of a peer.
pub(super) type Gossip =
    gossipsub::Behaviour<IdentityTransform, MaxCountSubscriptionFilter<ShortTopics>>;

#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    pub(super) limits: connection_limits::Behaviour,
    pub(super) banned: allow_block_list::Behaviour<allow_block_list::BlockedPeers>,
    /// Precedes gossip, since a connection serves its protocols in the order of these fields. Responses
    /// to a burst of roll calls must not wait for the whole burst.
    pub(super) streams: streams::Behaviour,
    ping: ping::Behaviour,
    identify: identify::Behaviour,
    pub(super) gossip: Gossip,
    pub(super) table: Toggle<ProviderTable>,
}

/// Builds the swarm of a node that accepts streams through `gate`, resolves hosts by `names` and
/// buffers data within `budget`.
pub(super) fn build(
    identity: &Identity,
    gate: Gate,
    connectivity: &Connectivity,
    names: &Names,
    budget: &Budget,
) -> Result<Swarm<Behaviour>, NetworkError> {
    let swarm = SwarmBuilder::with_existing_identity(identity.keypair().clone())
        .with_tokio()
        .with_other_transport(|keypair| {
            let n_connections_max = connectivity.connections.map(|bounds| bounds.high);
            let joined = transport(keypair, names, budget.clone())?;
            Ok(Handshakes::new(joined, n_connections_max))
        })
        .map_err(|error| NetworkError::Setup(Box::new(error)))?
        .with_behaviour(|keypair| behaviour(keypair, gate, connectivity, names))
        .map_err(|error| NetworkError::Setup(Box::new(error)))?
        .with_swarm_config(|config| config.with_max_negotiating_inbound_streams(NEGOTIATING_MAX))
        .build();
    Ok(swarm)
}

/// Returns the transport: TCP and websockets, with noise and yamux.
fn transport(
    keypair: &identity::Keypair,
    names: &Names,
    budget: Budget,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, Box<dyn std::error::Error + Send + Sync>> {
    let tcp = || Resolve::new(names.clone()).map(|stream, _| watch(stream));
    let mut websocket = websocket::Config::new(tcp());
    // Must exceed the frames of yamux, which have at most 256 KiB.
    websocket.set_max_data_size(2 * 1024 * 1024);
    Ok(websocket
        .or_transport(tcp())
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(keypair)?)
        .multiplex_ext(move |peer, _| Multiplex { budget, peer: *peer })
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
        .boxed())
}

fn behaviour(
    keypair: &identity::Keypair,
    gate: Gate,
    connectivity: &Connectivity,
    names: &Names,
) -> Result<Behaviour, Box<dyn std::error::Error + Send + Sync>> {
    let own = keypair.public().to_peer_id();
    // Several connections are allowed, since both peers might have dialed at the same time while an
    // earlier connection is closing. The limit also applies to peers that the operator named.
    let limits = ConnectionLimits::default().with_max_established_per_peer(Some(4));
    // Protocol family that the identify protocol sends, as in go-libp2p.
    let identify = identify::Config::new("ipfs/0.1.0".to_owned(), keypair.public())
        // Agent version that the identify protocol sends.
        .with_agent_version(concat!("triptych/", env!("CARGO_PKG_VERSION")).to_owned())
        .with_hide_listen_addrs(!connectivity.advertised.is_empty())
        .with_push_listen_addr_updates(true)
        // Addresses that peers name are not cached for dials by libp2p. Only the dialer and the table
        // dial them, within their limits.
        .with_cache_size(0);
    let gossip = gossipsub::ConfigBuilder::default()
        .validation_mode(ValidationMode::Strict)
        .max_transmit_size(GOSSIP_BYTES_MAX)
        .message_id_fn(message_id)
        .heartbeat_initial_delay(Duration::from_millis(100))
        // The heartbeat repairs the mesh and announces recent messages to peers outside it. Messages and
        // joins do not wait for the heartbeat. The interval is long because each heartbeat wakes an idle
        // node.
        .heartbeat_interval(Duration::from_secs(3))
        // Equals the number of heartbeats for which a message is announced.
        .history_length(3)
        // Peer exchange is disabled, so that no peer can make this node dial other peers.
        .prune_peers(0)
        // The guard decides which messages are forwarded.
        .validate_messages()
        .build()?;
    let topics = MaxCountSubscriptionFilter {
        filter: ShortTopics,
        max_subscribed_topics: TOPICS_PER_PEER_MAX,
        max_subscriptions_per_request: TOPICS_PER_PEER_MAX,
    };
    Ok(Behaviour {
        limits: connection_limits::Behaviour::new(limits),
        banned: allow_block_list::Behaviour::default(),
        gossip: gossipsub::Behaviour::new_with_subscription_filter(
            MessageAuthenticity::Signed(keypair.clone()),
            gossip,
            topics,
        )?,
        identify: identify::Behaviour::new(identify),
        ping: ping::Behaviour::new(
            ping::Config::new()
                .with_interval(connectivity.ping_every)
                .with_timeout(Duration::from_secs(10)),
        ),
        streams: streams::Behaviour::new(gate),
        table: Toggle::from((connectivity.wanted_peers > 0).then(|| {
            ProviderTable::new(rendezvous::behaviour(own), connectivity.wanted_peers, names.clone())
        })),
    })
}

/// Returns the id of a message as go-libp2p does, by author and sequence number, so that nodes of both
/// kinds understand each other's announcements.
fn message_id(message: &gossipsub::Message) -> MessageId {
    let mut id = message.source.map(PeerId::to_bytes).unwrap_or_default();
    id.extend(message.sequence_number.unwrap_or_default().to_be_bytes());
    MessageId::from(id)
}

/// Returns the addresses to listen on.
pub(super) fn listened_on(
    address: IpAddr,
    port: u16,
    websocket: Option<u16>,
) -> Result<Vec<Multiaddr>, NetworkError> {
    if port != 0 && websocket == Some(port) {
        return Err(NetworkError::SamePort { port });
    }
    let at = |port| Multiaddr::from(address).with(Protocol::Tcp(port));
    let websocket = websocket.map(|port| at(port).with(Protocol::Ws("/".into())));
    Ok(iter::once(at(port)).chain(websocket).collect())
}

/// Listens on the `wanted` addresses. Returns all resulting addresses without the peer id, and the other
/// events of the swarm in this time, since a peer might already connect. They are few, since the time is
/// short: [`ADDRESSES_WITHIN`] after the first address.
pub(super) async fn listen(
    swarm: &mut Swarm<Behaviour>,
    wanted: &[Multiaddr],
) -> Result<(Vec<Multiaddr>, Vec<SwarmEvent<BehaviourEvent>>), NetworkError> {
    let failed = |address: &Multiaddr, source: Box<dyn std::error::Error + Send + Sync>| {
        NetworkError::Listen { address: address.to_string(), source }
    };
    let (mut found, mut early) = (Vec::new(), Vec::new());
    for wanted in wanted {
        swarm.listen_on(wanted.clone()).map_err(|error| failed(wanted, Box::new(error)))?;
        let n_before = found.len();
        let mut end = Instant::now() + LISTEN_WITHIN;
        loop {
            match timeout_at(end, swarm.select_next_some()).await {
                Ok(SwarmEvent::NewListenAddr { address, .. }) => {
                    if found.len() == n_before {
                        end = Instant::now() + ADDRESSES_WITHIN;
                    }
                    found.push(address);
                    if ip(wanted).is_none_or(|ip| !ip.is_unspecified()) {
                        break;
                    }
                }
                Ok(SwarmEvent::ListenerClosed { reason, .. }) => {
                    let source = reason.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
                    return Err(failed(wanted, Box::new(source)));
                }
                Ok(event) => early.push(event),
                Err(_) if found.len() > n_before => break,
                Err(_) => {
                    let source = io::Error::from(io::ErrorKind::TimedOut);
                    return Err(failed(wanted, Box::new(source)));
                }
            }
        }
    }
    Ok((found, early))
}

/// A connection that is idle for this time is probed by the kernel. The time is longer than the ping
/// interval of a head, so that connections with pings are not probed.
const PROBE_AFTER: Duration = Duration::from_secs(20);

/// Interval between unanswered probes.
const PROBE_EVERY: Duration = Duration::from_secs(5);

/// Number of unanswered probes after which the connection is closed, if [`UNACKNOWLEDGED_FOR`] is not
/// supported.
const PROBES: u32 = 2;

/// Maximum time for which sent data can stay unacknowledged before the connection is closed. It equals
/// the interval between two offers of a worker, so that a head knows the worker again at most two
/// intervals after a broken link works again.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED_FOR: Duration = Duration::from_secs(30);

/// Makes the kernel close the connection of `stream` when the other side is unreachable.
pub(super) fn watch(stream: TcpStream) -> TcpStream {
    let socket = SockRef::from(&stream.0);
    let probes =
        TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY).with_retries(PROBES);
    let watched = socket.set_tcp_keepalive(&probes);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let watched = watched.and_then(|()| socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_FOR)));
    if let Err(error) = watched {
        // Without the option, a lost connection is noticed later, by pings.
        debug!(%error, "failed to have a connection watched by the kernel");
    }
    stream
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream as Socket};

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn socket_options_close_a_lost_connection_after_a_limited_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = Socket::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = watch(TcpStream(socket));
        let socket = SockRef::from(&stream.0);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_AFTER);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED_FOR));
        assert!(PROBE_AFTER + PROBE_EVERY * PROBES <= UNACKNOWLEDGED_FOR);
    }
}
