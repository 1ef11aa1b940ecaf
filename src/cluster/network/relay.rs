//! Circuit relay v2: heads that pass connections on to nodes behind NAT.
//!
//! A node behind NAT reserves a place at a relay, to which it is connected anyway; who wants to
//! reach it asks the relay for a circuit, and both speak noise through it, which the relay cannot
//! read. A relay dials nobody: it joins two connections that it has. What one peer may take of it
//! is bounded, and where it heeds some peers alone, it relays for these alone.
//!
//! Relays are named to a node by its operator, and it goes through no others. Of an address that a
//! stranger names, only which relay is meant counts; that one is dialed where the operator said it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use libp2p::{
    Multiaddr, PeerId, Swarm,
    core::{
        ConnectedPoint,
        transport::{ListenerId, OptionalTransport},
    },
    multiaddr::Protocol,
    relay,
    swarm::{NetworkBehaviour, behaviour::toggle::Toggle},
};
use model::node::PeerId as NodeId;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, info};

use super::{
    BootNode,
    address::{self, Scope, is_dialable, remote},
    guard::Guard,
};
use crate::identity::model_peer_id;

/// How long a place is reserved: longer than connections stand, with which it ends. libp2p's relay
/// panics if a reservation runs out while its renewal is being answered, which its peer can bring about.
const RESERVED_FOR: Duration = Duration::from_hours(365 * 24);

/// How often one peer may reserve a place and open a circuit, beside those that it may have at once.
const REQUEST_EVERY: Duration = Duration::from_secs(5);

/// Places that one peer may ask for at once. It needs one for each of its connections.
const RESERVATIONS_PER_PEER: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// How a node relays, and who relays for it.
#[derive(Debug, Clone, Default)]
pub struct RelayOptions {
    /// How much it relays for others; none for nothing.
    pub limits: Option<RelayLimits>,
    /// The relays through which it is reached, and through which it reaches others. They are boot nodes,
    /// too.
    pub through: Vec<BootNode>,
}

/// How much a relay relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayLimits {
    /// Nodes that may be reached through it at once.
    pub reservations: u32,
    /// Connections through it at once. One peer may open half of them.
    pub circuits: u32,
    /// Bytes that one of these may carry, both ways together, after which it ends.
    pub circuit_bytes: u64,
    /// How long one of them may stand.
    pub circuit_for: Duration,
}

/// The relays that a node goes through. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Relays(Arc<[BootNode]>);

/// Relayed connections of this node, and those that it relays. Cheap to clone; all clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct RelayStatus(Arc<Mutex<Status>>);

#[derive(Debug, Default)]
struct Status {
    /// The relay of each peer whose first connection is through one.
    relayed: BTreeMap<NodeId, NodeId>,
    /// The peers that have a place at this relay.
    reserved: BTreeSet<PeerId>,
    /// From whom to whom connections go through this relay, as many as its limits allow.
    circuits: Vec<(PeerId, PeerId)>,
    n_refused: usize,
}

/// How much a node relays, and has relayed for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Peers that are connected through a relay.
    pub n_relayed_peers: usize,
    /// Nodes that have a place here.
    pub n_reservations: usize,
    /// Connections that go through here.
    pub n_circuits: usize,
    /// Places and connections that were refused here, since its start.
    pub n_refused: usize,
}

/// The relays of this node, and what they relay.
#[derive(Debug)]
pub(super) struct Relaying {
    pub(super) relays: Relays,
    pub(super) status: RelayStatus,
    reservations: Vec<Reservation>,
}

/// A place that this node has, or wants, at a relay.
#[derive(Debug)]
struct Reservation {
    relay: BootNode,
    listener: Option<ListenerId>,
    next_try: Instant,
}

/// Makes the behavior of a relay, which relays for those that `guard` heeds, or knows by name.
pub(super) fn serve(own: PeerId, limits: RelayLimits, guard: &Guard) -> relay::Behaviour {
    let circuits_of_peer = NonZeroU32::MIN.saturating_add(limits.circuits / 2);
    let places_of_host = NonZeroU32::MIN.saturating_add(limits.reservations);
    let circuits_of_host = NonZeroU32::MIN.saturating_add(limits.circuits);
    let config = relay::Config {
        max_reservations: count(limits.reservations),
        // One more is let in than is said here.
        max_reservations_per_peer: count(RESERVATIONS_PER_PEER.get() - 1),
        reservation_duration: RESERVED_FOR,
        reservation_rate_limiters: vec![heeded_alone(guard)],
        max_circuits: count(limits.circuits),
        max_circuits_per_peer: count(circuits_of_peer.get() - 1),
        max_circuit_duration: limits.circuit_for,
        max_circuit_bytes: limits.circuit_bytes,
        circuit_src_rate_limiters: vec![heeded_alone(guard)],
    };
    let config = config
        .reservation_rate_per_peer(RESERVATIONS_PER_PEER, REQUEST_EVERY)
        .reservation_rate_per_ip(places_of_host, REQUEST_EVERY)
        .circuit_src_per_peer(circuits_of_peer, REQUEST_EVERY)
        .circuit_src_per_ip(circuits_of_host, REQUEST_EVERY);
    relay::Behaviour::new(own, config)
}

fn count(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Lets those alone ask a relay that it serves.
fn heeded_alone(guard: &Guard) -> Box<dyn relay::RateLimiter> {
    let guard = guard.clone();
    Box::new(move |peer: PeerId, _: &Multiaddr, _| serves(&guard, peer))
}

/// Whether a relay serves `peer`: `guard` heeds it, or knows it by name.
pub(super) fn serves(guard: &Guard, peer: PeerId) -> bool {
    guard.hears(peer) || guard.knows_by_name(peer)
}

/// The transport and the behavior of a node that goes through relays, if it does.
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
    /// Goes through the relays `through`, at which no place is reserved yet.
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

    /// Takes note of the first connection to `peer`.
    pub(super) fn note_connected(&self, peer: PeerId, endpoint: &ConnectedPoint) {
        if !endpoint.is_relayed() {
            return;
        }
        let address = remote(endpoint);
        // Where the connection to a relay came from says who that is, which is not repeated.
        let at = |relay: &&BootNode| address.iter().next() == relay.address.iter().next();
        let known = || self.relays.0.iter().find(at).or(self.relays.0.first());
        if let Some(relay) = relay_in(address).or_else(|| Some(known()?.peer)) {
            self.status.0.lock().relayed.insert(model_peer_id(peer), model_peer_id(relay));
        }
    }

    /// Reserves a place at each relay that is connected and at which this node has none.
    pub(super) fn reserve<B: NetworkBehaviour>(&mut self, swarm: &mut Swarm<B>, now: Instant) {
        for wanted in &mut self.reservations {
            let is_due = wanted.listener.is_none() && wanted.next_try <= now;
            if !is_due || !swarm.is_connected(&wanted.relay.peer) {
                continue;
            }
            wanted.next_try = now + Duration::from_secs(10);
            match swarm.listen_on(circuit(&wanted.relay)) {
                Ok(listener) => wanted.listener = Some(listener),
                Err(error) => debug!(relay = %wanted.relay, %error, "failed to ask a relay"),
            }
        }
    }

    /// Takes note that `listener` has ended, which may have been a place at a relay.
    pub(super) fn note_ended(&mut self, listener: ListenerId) {
        let ended = self.reservations.iter_mut().find(|known| known.listener == Some(listener));
        if let Some(ended) = ended {
            ended.listener = None;
            debug!(relay = %ended.relay, "has no place at a relay");
        }
    }
}

impl Relays {
    /// Returns where a node here could dial what a peer at `scope` says is `address`, which names
    /// no peer at its end; none where it could or should not.
    pub(super) fn choose(&self, address: Multiaddr, scope: Scope) -> Option<Multiaddr> {
        if !address::is_circuit(&address) {
            return (is_dialable(&address) && scope.may_name(&address)).then_some(address);
        }
        let named = relay_in(&address)?;
        self.0.iter().find(|relay| relay.peer == named).map(circuit)
    }

    /// Whether `address`, which this node may be reached under, is worth telling: a relay names all
    /// addresses that it has, of which one was named here.
    pub(super) fn is_told(&self, address: &Multiaddr) -> bool {
        !address::is_circuit(address) || self.0.iter().any(|relay| circuit(relay) == *address)
    }
}

impl RelayStatus {
    /// Takes note that no connection to `peer` stands.
    pub(super) fn note_lost(&self, peer: PeerId) {
        self.0.lock().relayed.remove(&model_peer_id(peer));
    }

    /// The relay through which `peer` is connected; none for one that is connected directly.
    pub(super) fn relay_of(&self, peer: &NodeId) -> Option<NodeId> {
        self.0.lock().relayed.get(peer).cloned()
    }

    /// Takes note of what happened at this relay.
    pub(super) fn note(&self, event: &relay::Event) {
        let mut status = self.0.lock();
        let Status { reserved, circuits, n_refused, .. } = &mut *status;
        match event {
            relay::Event::ReservationReqAccepted { src_peer_id, renewed: true } => {
                reserved.insert(*src_peer_id);
            }
            relay::Event::ReservationReqAccepted { src_peer_id, renewed: false } => {
                reserved.insert(*src_peer_id);
                info!(peer = %src_peer_id, "a peer is reached through this relay from now on");
            }
            // Told of connections without a place, too.
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
                debug!(from = %src_peer_id, to = %dst_peer_id, error, "relayed a connection");
            }
            relay::Event::ReservationReqDenied { src_peer_id, status } => {
                *n_refused += 1;
                debug!(peer = %src_peer_id, ?status, "refused to have a peer reached through here");
            }
            relay::Event::CircuitReqDenied { src_peer_id, dst_peer_id, status } => {
                *n_refused += 1;
                debug!(from = %src_peer_id, to = %dst_peer_id, ?status, "refused to relay");
            }
            _ => {}
        }
    }

    /// The peers that have a place or a connection through this relay.
    pub(super) fn served(&self) -> BTreeSet<PeerId> {
        let status = self.0.lock();
        let callers = status.circuits.iter().map(|(from, _)| from);
        status.reserved.iter().chain(callers).copied().collect()
    }

    /// How much goes through this node, and through relays to it, now.
    pub(super) fn counts(&self) -> RelayCounts {
        let Status { relayed, reserved, circuits, n_refused } = &*self.0.lock();
        RelayCounts {
            n_relayed_peers: relayed.len(),
            n_reservations: reserved.len(),
            n_circuits: circuits.len(),
            n_refused: *n_refused,
        }
    }
}

/// The address under which a peer is reached through `relay`, without the peer.
fn circuit(relay: &BootNode) -> Multiaddr {
    relay.address.clone().with(Protocol::P2p(relay.peer)).with(Protocol::P2pCircuit)
}

/// The relay that the address of a circuit names.
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
    fn a_circuit_goes_through_a_named_relay_at_the_address_named_with_it() {
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
        assert_eq!(choose(&elsewhere), Some(want), "where it is said to be does not count");
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
