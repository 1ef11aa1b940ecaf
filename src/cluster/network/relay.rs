//! Circuit relay v2: heads that pass on connections to nodes behind NAT.
//!
//! A node behind NAT reserves a place at a relay that it is connected to. Other nodes request a circuit
//! to it from the relay. Both ends speak noise through the circuit, which the relay cannot read. A relay
//! does not dial: it joins two existing connections. It serves only allowed peers, with limits for each.
//!
//! A node uses only the relays that the operator named. Of a circuit address that a stranger names, only
//! the id of the relay counts. The relay is dialed at its configured address.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use libp2p::core::ConnectedPoint;
use libp2p::core::transport::{ListenerId, OptionalTransport};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::{Multiaddr, PeerId, Swarm, relay};
use model::node::PeerId as NodeId;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, info};

use super::BootNode;
use super::address::{self, Scope, is_dialable, remote};
use super::guard::Guard;
use crate::identity::model_peer_id;

/// Interval at which the limits of a peer for reservations and circuits refill.
const REQUEST_EVERY: Duration = Duration::from_secs(5);

/// Maximum number of reservations of a peer. It needs one for each of its connections.
const RESERVATIONS_PER_PEER: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// Relaying options of a node.
#[derive(Debug, Clone, Default)]
pub struct RelayOptions {
    /// Limits for relaying; `None` to disable relaying.
    pub limits: Option<RelayLimits>,
    /// Relays for connections in both directions. They are boot nodes, too.
    pub through: Vec<BootNode>,
}

/// Limits of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayLimits {
    /// Maximum number of nodes that are reached through it.
    pub reservations: u32,
    /// Maximum number of connections through it. One peer may open half of them.
    pub circuits: u32,
    /// Maximum number of bytes of a connection in both directions, after which it is closed.
    pub circuit_bytes: u64,
    /// Maximum duration of a connection.
    pub circuit_for: Duration,
}

/// Relays that a node uses. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Relays(Arc<[BootNode]>);

/// Connections of this node that are relayed, and connections that it relays. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(super) struct RelayStatus(Arc<Mutex<RelayState>>);

#[derive(Debug, Default)]
struct RelayState {
    /// Relay of each peer with a relayed first connection.
    relayed: BTreeMap<NodeId, NodeId>,
    /// Peers with a reservation at this relay.
    reserved: BTreeSet<PeerId>,
    /// Connections through this relay, with source and destination.
    circuits: Vec<(PeerId, PeerId)>,
    n_refused: usize,
}

/// Numbers of relayed connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Peers that are connected through a relay.
    pub n_relayed_peers: usize,
    /// Nodes with a reservation at this relay.
    pub n_reservations: usize,
    /// Connections through this relay.
    pub n_circuits: usize,
    /// Reservations and connections that this relay refused since its start.
    pub n_refused: usize,
}

/// Relays of this node, its reservations, and the state.
#[derive(Debug)]
pub(super) struct Relaying {
    pub(super) relays: Relays,
    pub(super) status: RelayStatus,
    reservations: Vec<Reservation>,
}

/// A reservation at a relay that this node has or wants.
#[derive(Debug)]
struct Reservation {
    relay: BootNode,
    listener: Option<ListenerId>,
    next_try: Instant,
}

/// Returns the behavior of a relay that serves peers that `guard` allows or knows by name.
pub(super) fn serve(own: PeerId, limits: RelayLimits, guard: &Guard) -> relay::Behaviour {
    let circuits_of_peer = NonZeroU32::MIN.saturating_add(limits.circuits / 2);
    let places_of_host = NonZeroU32::MIN.saturating_add(limits.reservations);
    let circuits_of_host = NonZeroU32::MIN.saturating_add(limits.circuits);
    let config = relay::Config {
        max_reservations: limits.reservations as usize,
        // libp2p accepts one more.
        max_reservations_per_peer: RESERVATIONS_PER_PEER.get() as usize - 1,
        // Duration of a reservation: longer than any connection. It is closed with its connection.
        // libp2p's relay panics if a reservation expires while its renewal is being answered, which the
        // peer could cause.
        reservation_duration: Duration::from_hours(365 * 24),
        reservation_rate_limiters: vec![only_served(guard)],
        max_circuits: limits.circuits as usize,
        max_circuits_per_peer: circuits_of_peer.get() as usize - 1,
        max_circuit_duration: limits.circuit_for,
        max_circuit_bytes: limits.circuit_bytes,
        circuit_src_rate_limiters: vec![only_served(guard)],
    };
    let config = config
        .reservation_rate_per_peer(RESERVATIONS_PER_PEER, REQUEST_EVERY)
        .reservation_rate_per_ip(places_of_host, REQUEST_EVERY)
        .circuit_src_per_peer(circuits_of_peer, REQUEST_EVERY)
        .circuit_src_per_ip(circuits_of_host, REQUEST_EVERY);
    relay::Behaviour::new(own, config)
}

/// Limits requests to peers that the relay serves.
fn only_served(guard: &Guard) -> Box<dyn relay::RateLimiter> {
    let guard = guard.clone();
    Box::new(move |peer: PeerId, _: &Multiaddr, _| serves(&guard, peer))
}

/// Returns true if a relay serves `peer`: `guard` allows it, or knows it by name.
pub(super) fn serves(guard: &Guard, peer: PeerId) -> bool {
    guard.allows(peer) || guard.is_named(peer)
}

/// Returns the transport and the behavior of a node that uses relays; empty without relays.
pub(super) fn go_through(
    own: PeerId,
    relays: &Relays,
) -> (OptionalTransport<relay::client::Transport>, Toggle<relay::client::Behaviour>) {
    if relays.0.is_empty() {
        return (OptionalTransport::none(), Toggle::from(None));
    }
    let (transport, behaviour) = relay::client::new(own);
    (OptionalTransport::some(transport), Toggle::from(Some(behaviour)))
}

impl Relaying {
    /// Creates the state without reservations at the relays `through`.
    pub(super) fn new(through: &[BootNode], now: Instant) -> Self {
        Self {
            relays: Relays(through.into()),
            status: RelayStatus::default(),
            reservations: through
                .iter()
                .map(|relay| Reservation { relay: relay.clone(), listener: None, next_try: now })
                .collect(),
        }
    }

    /// Records the first connection to `peer`.
    pub(super) fn note_connected(&self, peer: PeerId, endpoint: &ConnectedPoint) {
        if !endpoint.is_relayed() {
            return;
        }
        let address = remote(endpoint);
        // The source of an inbound connection does not repeat the id of the relay.
        let at = |relay: &&BootNode| address.iter().next() == relay.address.iter().next();
        let known = || self.relays.0.iter().find(at).or(self.relays.0.first());
        if let Some(relay) = relay_in(address).or_else(|| Some(known()?.peer)) {
            self.status.0.lock().relayed.insert(model_peer_id(peer), model_peer_id(relay));
        }
    }

    /// Makes a reservation at each connected relay without one.
    pub(super) fn reserve<B: NetworkBehaviour>(&mut self, swarm: &mut Swarm<B>, now: Instant) {
        for wanted in &mut self.reservations {
            let is_due = wanted.listener.is_none() && wanted.next_try <= now;
            if !is_due || !swarm.is_connected(&wanted.relay.peer) {
                continue;
            }
            wanted.next_try = now + Duration::from_secs(10);
            match swarm.listen_on(circuit(&wanted.relay)) {
                Ok(listener) => wanted.listener = Some(listener),
                Err(error) => {
                    debug!(relay = %wanted.relay, %error, "failed to make a reservation at a relay");
                }
            }
        }
    }

    /// Records that `listener`, which can be a reservation at a relay, was closed.
    pub(super) fn note_ended(&mut self, listener: ListenerId) {
        let ended = self.reservations.iter_mut().find(|known| known.listener == Some(listener));
        if let Some(ended) = ended {
            ended.listener = None;
            debug!(relay = %ended.relay, "lost the reservation at a relay");
        }
    }
}

impl Relays {
    /// Returns the address to dial for `address`, without a peer id at its end, as a peer at
    /// `scope` named it. Returns `None` if it cannot or must not be dialed.
    pub(super) fn choose(&self, address: Multiaddr, scope: Scope) -> Option<Multiaddr> {
        if !address::is_circuit(&address) {
            return (is_dialable(&address) && scope.may_name(&address)).then_some(address);
        }
        let named = relay_in(&address)?;
        self.0.iter().find(|relay| relay.peer == named).map(circuit)
    }

    /// Returns true if `address` of this node is announced: a relay names all its addresses, of
    /// which one was configured here.
    pub(super) fn is_announced(&self, address: &Multiaddr) -> bool {
        !address::is_circuit(address) || self.0.iter().any(|relay| circuit(relay) == *address)
    }
}

impl RelayStatus {
    /// Records that the last connection to `peer` was closed.
    pub(super) fn note_lost(&self, peer: PeerId) {
        self.0.lock().relayed.remove(&model_peer_id(peer));
    }

    /// Returns the relay through which `peer` is connected, or `None` for a direct connection.
    pub(super) fn relay_of(&self, peer: &NodeId) -> Option<NodeId> {
        self.0.lock().relayed.get(peer).cloned()
    }

    /// Records an event of this relay.
    pub(super) fn note(&self, event: &relay::Event) {
        let mut status = self.0.lock();
        let RelayState { reserved, circuits, n_refused, .. } = &mut *status;
        match event {
            relay::Event::ReservationReqAccepted { src_peer_id, renewed: true } => {
                reserved.insert(*src_peer_id);
            }
            relay::Event::ReservationReqAccepted { src_peer_id, renewed: false } => {
                reserved.insert(*src_peer_id);
                info!(peer = %src_peer_id, "a peer is now reached through this relay");
            }
            // Also reported for connections without a reservation.
            relay::Event::ReservationClosed { src_peer_id }
            | relay::Event::ReservationTimedOut { src_peer_id } => {
                reserved.remove(src_peer_id);
            }
            relay::Event::CircuitReqAccepted { src_peer_id, dst_peer_id } => {
                circuits.push((*src_peer_id, *dst_peer_id));
                debug!(from = %src_peer_id, to = %dst_peer_id, "relaying a connection");
            }
            relay::Event::CircuitClosed { src_peer_id, dst_peer_id, error } => {
                let ended = circuits.iter().position(|it| *it == (*src_peer_id, *dst_peer_id));
                if let Some(idx) = ended {
                    circuits.swap_remove(idx);
                }
                let error = error.as_ref().map(ToString::to_string);
                debug!(from = %src_peer_id, to = %dst_peer_id, error, "a relayed connection ended");
            }
            relay::Event::ReservationReqDenied { src_peer_id, status } => {
                *n_refused += 1;
                debug!(peer = %src_peer_id, ?status, "refused a reservation");
            }
            relay::Event::CircuitReqDenied { src_peer_id, dst_peer_id, status } => {
                *n_refused += 1;
                debug!(from = %src_peer_id, to = %dst_peer_id, ?status, "refused to relay a connection");
            }
            _ => {}
        }
    }

    /// Returns the peers with a reservation at, or a connection through this relay.
    pub(super) fn served(&self) -> BTreeSet<PeerId> {
        let status = self.0.lock();
        let callers = status.circuits.iter().map(|(from, _)| from);
        status.reserved.iter().chain(callers).copied().collect()
    }

    /// Returns the current numbers.
    pub(super) fn counts(&self) -> RelayCounts {
        let RelayState { relayed, reserved, circuits, n_refused } = &*self.0.lock();
        RelayCounts {
            n_relayed_peers: relayed.len(),
            n_reservations: reserved.len(),
            n_circuits: circuits.len(),
            n_refused: *n_refused,
        }
    }
}

/// Returns the address for connections through `relay`, without the destination.
fn circuit(relay: &BootNode) -> Multiaddr {
    relay.address.clone().with(Protocol::P2p(relay.peer)).with(Protocol::P2pCircuit)
}

/// Returns the relay in the address of a circuit.
fn relay_in(address: &Multiaddr) -> Option<PeerId> {
    let before = address.iter().take_while(|part| *part != Protocol::P2pCircuit);
    match before.last()? {
        Protocol::P2p(relay) => Some(relay),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuit_uses_the_configured_address_of_a_named_relay() {
        let (own, other, peer) = (PeerId::random(), PeerId::random(), PeerId::random());
        let relay: BootNode = format!("/ip4/203.0.113.7/tcp/9527/p2p/{own}").parse().unwrap();
        let relays = Relays([relay].into());
        let choose = |address: &str| {
            let chosen = relays.choose(address.parse().unwrap(), Scope::Public);
            chosen.map(|address| address.to_string())
        };
        let want = format!("/ip4/203.0.113.7/tcp/9527/p2p/{own}/p2p-circuit");
        assert_eq!(choose(&want), Some(want.clone()));
        let elsewhere = format!("/ip4/127.0.0.1/tcp/22/p2p/{own}/p2p-circuit");
        assert_eq!(choose(&elsewhere), Some(want), "the named address does not count");
        for address in [
            format!("/ip4/203.0.113.7/tcp/9527/p2p/{other}/p2p-circuit"),
            format!("/ip4/127.0.0.1/tcp/22/p2p/{other}/p2p-circuit"),
            "/ip4/203.0.113.7/tcp/9527/p2p-circuit".to_owned(),
            "/p2p-circuit".to_owned(),
            "/ip4/127.0.0.1/tcp/22".to_owned(),
            format!("/ip4/8.8.8.8/tcp/1/p2p/{own}/p2p-circuit/p2p/{peer}/p2p-circuit"),
        ] {
            let chosen = choose(&address);
            let is_own = chosen.as_deref().is_none_or(|it| it.starts_with("/ip4/203.0.113.7/"));
            assert!(is_own, "{address}: {chosen:?}");
        }
        assert_eq!(choose("/ip4/8.8.8.8/tcp/1"), Some("/ip4/8.8.8.8/tcp/1".to_owned()));
    }
}
