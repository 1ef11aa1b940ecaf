//! The Kademlia table of provider records, with limits for dials caused by its responses.
//!
//! Responses can contain any number of unverified peers and addresses, so only few addresses are dialed
//! per peer and per second. Since the origin of an address is unknown, addresses of this machine or a
//! private network are dialed only while every connected peer is at least as near. A node that is
//! connected to enough peers or to a head queries only connected peers: otherwise each query would dial
//! the nearest twenty, and eventually every node. Kademlia starts a bootstrap after each new peer. The
//! bootstrap is skipped because it would be most of the cost of a new neighbor, and only providers are
//! looked for.

use std::collections::HashMap;
use std::task::{Context, Poll};
use std::time::Duration;

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId, kad};
use tokio::time::Instant;
use web::rate_limit::{Bucket, Rate};

use super::rendezvous::ProviderStore;
use super::resolve::Names;

/// Maximum number of addresses dialed per peer. An honest node has one or two addresses.
const PER_PEER_MAX: usize = 4;

/// Maximum number of peers that are recorded as not to be dialed for a while.
const RESTING_MAX: usize = 1024;

/// Kademlia behavior with limited dials.
pub(super) struct ProviderTable {
    kad: kad::Behaviour<ProviderStore>,
    dials: Bucket,
    /// With this number of connections or more, queries do not dial.
    n_enough: usize,
    /// True if a head is connected, so no query dials.
    has_head: bool,
    /// Connection that a query has requested and that is not dialed yet.
    queried: Option<ConnectionId>,
    /// True if Kademlia will bootstrap soon.
    is_bootstrap_due: bool,
    /// Bootstrap that is being skipped.
    bootstrap: Option<kad::QueryId>,
    /// Scopes of the connections.
    names: Names,
    /// Peers that are not dialed before a given time.
    resting: HashMap<PeerId, Instant>,
}

impl ProviderTable {
    pub(super) fn new(kad: kad::Behaviour<ProviderStore>, n_enough: usize, names: Names) -> Self {
        Self {
            kad,
            // Limits the rate of dialed addresses. A joining worker looks for sixteen peers. A head
            // looks for hundreds, but most of them connect by themselves.
            dials: Bucket::full(Rate::per_second(16, 64)),
            n_enough,
            has_head: false,
            queried: None,
            is_bootstrap_due: false,
            bootstrap: None,
            names,
            resting: HashMap::new(),
        }
    }

    /// Returns the behavior itself.
    pub(super) const fn kad(&mut self) -> &mut kad::Behaviour<ProviderStore> {
        &mut self.kad
    }

    /// Prevents `peer` from being dialed for a while.
    pub(super) fn rest(&mut self, peer: PeerId) {
        let now = Instant::now();
        if self.resting.len() >= RESTING_MAX {
            self.resting.retain(|_, until| *until > now);
        }
        if self.resting.len() < RESTING_MAX {
            // The time is the same as the interval between lookups of a node with enough peers.
            self.resting.insert(peer, now + Duration::from_mins(15));
        }
    }

    /// Records whether a head is connected.
    pub(super) const fn set_has_head(&mut self, has_head: bool) {
        self.has_head = has_head;
    }

    /// Returns true if queries are allowed to dial now.
    fn may_query_dial(&self) -> bool {
        let n_connections = self.names.n_connections();
        n_connections == 0 || !self.has_head && n_connections < self.n_enough
    }

    /// Skips the bootstrap that Kademlia starts half a second after it added a peer. This bootstrap
    /// cannot be disabled. However, starting a bootstrap resets the timer, and a bootstrap that is
    /// finished before it is polled sends no queries.
    fn skip_bootstrap(&mut self) {
        if self.bootstrap.is_none() && self.is_bootstrap_due {
            self.is_bootstrap_due = false;
            self.bootstrap = self.kad.bootstrap().ok();
        }
        if let Some(id) = self.bootstrap {
            match self.kad.query_mut(&id) {
                Some(mut query) => query.finish(),
                None => self.bootstrap = None,
            }
        }
    }

    fn is_resting(&self, peer: PeerId) -> bool {
        self.resting.get(&peer).is_some_and(|until| *until > Instant::now())
    }

    /// Returns the `addresses` that are allowed to be dialed.
    fn choose(&self, addresses: Vec<Multiaddr>) -> Vec<Multiaddr> {
        let farthest = self.names.farthest_peer();
        let mut chosen = Vec::new();
        for address in addresses {
            let address = super::dialer::without_peer(address);
            let is_new = chosen.len() < PER_PEER_MAX && !chosen.contains(&address);
            if is_new && farthest.may_name(&address) {
                chosen.push(address);
            }
        }
        chosen
    }
}

impl NetworkBehaviour for ProviderTable {
    type ConnectionHandler = <kad::Behaviour<ProviderStore> as NetworkBehaviour>::ConnectionHandler;
    type ToSwarm = kad::Event;

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.kad.handle_established_inbound_connection(connection, peer, local, remote)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        // If the caller provides the addresses, the table is not needed.
        if !addresses.is_empty() {
            return Ok(Vec::new());
        }
        if self.queried.take() == Some(connection) && !self.may_query_dial() {
            return Err(ConnectionDenied::new("enough peers are connected for a query"));
        }
        if peer.is_some_and(|peer| self.is_resting(peer)) {
            return Err(ConnectionDenied::new("the peer had no room recently"));
        }
        let named =
            self.kad.handle_pending_outbound_connection(connection, peer, addresses, role)?;
        let chosen = self.choose(named);
        let n_dialed = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
        if !self.dials.take_n(n_dialed, Instant::now()) {
            return Err(ConnectionDenied::new("too many addresses of the table were dialed"));
        }
        Ok(chosen)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.kad.handle_established_outbound_connection(connection, peer, address, role, port)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.kad.on_swarm_event(event);
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        self.kad.on_connection_handler_event(peer, connection, event);
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.skip_bootstrap();
        let polled = self.kad.poll(context);
        match &polled {
            Poll::Ready(ToSwarm::Dial { opts }) => self.queried = Some(opts.connection_id()),
            Poll::Ready(ToSwarm::GenerateEvent(kad::Event::RoutingUpdated { .. })) => {
                self.is_bootstrap_due = true;
            }
            _ => {}
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::timeout;

    use super::super::address::Scope;
    use super::super::rendezvous;
    use super::*;

    fn table() -> ProviderTable {
        ProviderTable::new(rendezvous::behaviour(PeerId::random()), 2, Names::default())
    }

    fn addresses(texts: &[&str]) -> Vec<Multiaddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn dial(table: &mut ProviderTable, peer: PeerId) -> Option<usize> {
        let connection = ConnectionId::new_unchecked(1);
        let dialed =
            table.handle_pending_outbound_connection(connection, Some(peer), &[], Endpoint::Dialer);
        dialed.ok().map(|addresses| addresses.len())
    }

    #[tokio::test]
    async fn addresses_of_a_narrower_scope_than_those_of_all_connected_peers_are_not_dialed() {
        let table = table();
        let named = ["/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1", "/ip4/8.8.8.8/tcp/1"];
        let n_chosen = |table: &ProviderTable| table.choose(addresses(&named)).len();
        assert_eq!(n_chosen(&table), 1);
        let scopes = [Scope::Loopback, Scope::Private, Scope::Public];
        for (n_connections, want) in [(1, 3), (2, 2), (3, 1)] {
            table.names.set_connections(scopes.into_iter().take(n_connections));
            assert_eq!(n_chosen(&table), want);
        }
    }

    #[tokio::test]
    async fn adding_a_peer_does_not_start_a_bootstrap() {
        let mut table = table();
        table.names.set_connections([Scope::Loopback].into_iter());
        for _ in 0..3 {
            table.kad().add_address(&PeerId::random(), "/ip4/127.0.0.1/tcp/1".parse().unwrap());
            let dialed = poll_fn(|context| {
                while let Poll::Ready(event) = table.poll(context) {
                    if let ToSwarm::Dial { .. } = event {
                        return Poll::Ready(());
                    }
                }
                Poll::Pending
            });
            // The test waits in real time, since Kademlia waits for half a second of the system's
            // clock.
            assert!(timeout(Duration::from_millis(700), dialed).await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dials_are_limited_per_peer_and_per_second() {
        let mut table = table();
        table.names.set_connections([Scope::Loopback].into_iter());
        let peers: Vec<PeerId> = (0..200).map(|_| PeerId::random()).collect();
        let mut n_dialed = 0;
        for peer in &peers {
            for port in 1..10 {
                let address = format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap();
                table.kad().add_address(peer, address);
            }
            n_dialed += dial(&mut table, *peer).unwrap_or_default();
        }
        assert_eq!(n_dialed, 64);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(dial(&mut table, peers[0]), Some(PER_PEER_MAX));
        tokio::time::advance(Duration::from_secs(1)).await;
        table.queried = Some(ConnectionId::new_unchecked(1));
        assert_eq!(dial(&mut table, peers[1]), Some(PER_PEER_MAX), "too few are connected");
        table.set_has_head(true);
        table.queried = Some(ConnectionId::new_unchecked(1));
        assert_eq!(dial(&mut table, peers[1]), None, "a head is connected");
        table.set_has_head(false);
        table.names.set_connections([Scope::Loopback; 2].into_iter());
        table.queried = Some(ConnectionId::new_unchecked(1));
        assert_eq!(dial(&mut table, peers[1]), None, "a query");
        assert_eq!(dial(&mut table, peers[1]), Some(PER_PEER_MAX), "another reason");
        table.rest(peers[0]);
        assert_eq!(dial(&mut table, peers[0]), None);
    }
}
