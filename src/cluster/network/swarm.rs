//! Putting the swarm together: the one file whose generics are slow to compile.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use futures::StreamExt as _;
use libp2p::{
    Multiaddr, StreamProtocol, Swarm, SwarmBuilder,
    connection_limits::{self, ConnectionLimits},
    gossipsub::{self, MessageAuthenticity, MessageId, ValidationMode},
    identify, identity, noise, ping,
    swarm::{NetworkBehaviour, SwarmEvent},
    tcp, yamux,
};
use tokio::{sync::mpsc, time::timeout};

use super::{
    GOSSIP_BYTES_MAX, NetworkError,
    streams::{self, Inbound},
};
use crate::identity::Identity;

/// What identify tells peers about us, beside what we speak.
const AGENT: &str = concat!("triptych/", env!("CARGO_PKG_VERSION"));

/// The protocol family that identify names; the one go-libp2p names.
const PROTOCOL_FAMILY: &str = "ipfs/0.1.0";

/// How often each peer is pinged. A machine that vanished without a word is noticed after this and
/// [`PING_WITHIN`]; half as long is twice the chatter.
const PING_EVERY: Duration = Duration::from_secs(5);

/// How long a peer has to answer a ping before its connection is given up.
const PING_WITHIN: Duration = Duration::from_secs(10);

/// Connections in all. A head of a thousand workers fits.
const CONNECTIONS_MAX: u32 = 2048;

/// Connections to one peer: both may have dialed at once, and one may be dying.
const CONNECTIONS_PER_PEER_MAX: u32 = 4;

/// Connections that are being set up by others. More wait in the system's queue.
const CONNECTIONS_PENDING_MAX: u32 = 256;

/// Streams per connection that are still agreeing on a protocol.
const NEGOTIATING_MAX: usize = 512;

/// How long to wait for more addresses once the first is known, where every interface is listened
/// on: their number is not told.
const ADDRESSES_WITHIN: Duration = Duration::from_millis(50);

/// How long listening may take.
const LISTEN_WITHIN: Duration = Duration::from_secs(5);

#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    limits: connection_limits::Behaviour,
    /// Before gossip: a connection serves its protocols in this order, and the answers to a burst of
    /// roll calls are not to wait for the whole burst.
    pub(super) streams: streams::Behaviour,
    ping: ping::Behaviour,
    identify: identify::Behaviour,
    pub(super) gossip: gossipsub::Behaviour,
}

/// Builds the swarm of a node that accepts streams of the protocols `spoken` into `inbound`.
pub(super) fn built(
    identity: &Identity,
    spoken: Arc<[StreamProtocol]>,
    inbound: mpsc::Sender<Inbound>,
) -> Result<Swarm<Behaviour>, NetworkError> {
    let swarm = SwarmBuilder::with_existing_identity(identity.keypair().clone())
        .with_tokio()
        .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
        .map_err(|error| NetworkError::Setup(Box::new(error)))?
        .with_behaviour(|keypair| behaviour(keypair, spoken, inbound))
        .map_err(|error| NetworkError::Setup(Box::new(error)))?
        .with_swarm_config(|config| config.with_max_negotiating_inbound_streams(NEGOTIATING_MAX))
        .build();
    Ok(swarm)
}

fn behaviour(
    keypair: &identity::Keypair,
    spoken: Arc<[StreamProtocol]>,
    inbound: mpsc::Sender<Inbound>,
) -> Result<Behaviour, Box<dyn std::error::Error + Send + Sync>> {
    let limits = ConnectionLimits::default()
        .with_max_established(Some(CONNECTIONS_MAX))
        .with_max_established_per_peer(Some(CONNECTIONS_PER_PEER_MAX))
        .with_max_pending_incoming(Some(CONNECTIONS_PENDING_MAX));
    let identify = identify::Config::new(PROTOCOL_FAMILY.to_owned(), keypair.public())
        .with_agent_version(AGENT.to_owned())
        .with_push_listen_addr_updates(true);
    let gossip = gossipsub::ConfigBuilder::default()
        .validation_mode(ValidationMode::Strict)
        .max_transmit_size(GOSSIP_BYTES_MAX)
        .message_id_fn(message_id)
        .heartbeat_initial_delay(Duration::from_millis(100))
        .build()?;
    Ok(Behaviour {
        limits: connection_limits::Behaviour::new(limits),
        gossip: gossipsub::Behaviour::new(MessageAuthenticity::Signed(keypair.clone()), gossip)?,
        identify: identify::Behaviour::new(identify),
        ping: ping::Behaviour::new(
            ping::Config::new().with_interval(PING_EVERY).with_timeout(PING_WITHIN),
        ),
        streams: streams::Behaviour::new(spoken, inbound),
    })
}

/// Names a message as go-libp2p does, by author and sequence number, so that announcements of
/// messages are understood between both.
fn message_id(message: &gossipsub::Message) -> MessageId {
    let mut id = message.source.map(libp2p::PeerId::to_bytes).unwrap_or_default();
    id.extend(message.sequence_number.unwrap_or_default().to_be_bytes());
    MessageId::from(id)
}

/// Listens on `address`, and returns all addresses that this came to, without the peer id.
pub(super) async fn listen(
    swarm: &mut Swarm<Behaviour>,
    address: IpAddr,
    port: u16,
) -> Result<Vec<Multiaddr>, NetworkError> {
    let wanted = Multiaddr::from(address).with(libp2p::multiaddr::Protocol::Tcp(port));
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| NetworkError::Listen {
        address: wanted.to_string(),
        source,
    };
    let listener = swarm.listen_on(wanted.clone()).map_err(|error| failed(Box::new(error)))?;
    let mut found = Vec::new();
    loop {
        let patience = if found.is_empty() { LISTEN_WITHIN } else { ADDRESSES_WITHIN };
        match timeout(patience, swarm.select_next_some()).await {
            Ok(SwarmEvent::NewListenAddr { listener_id, address: found_one })
                if listener_id == listener =>
            {
                found.push(found_one);
                if !address.is_unspecified() {
                    return Ok(found);
                }
            }
            Ok(SwarmEvent::ListenerClosed { listener_id, reason, .. })
                if listener_id == listener =>
            {
                let source = reason.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
                return Err(failed(Box::new(source)));
            }
            Ok(_) => {}
            Err(_) if found.is_empty() => {
                return Err(failed(Box::new(io::Error::from(io::ErrorKind::TimedOut))));
            }
            Err(_) => return Ok(found),
        }
    }
}
