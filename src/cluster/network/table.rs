//! The Kademlia table of provider records, with limits for dials caused by its responses.
//!
//! Responses name any number of unverified peers and addresses. Few addresses are dialed per peer and
//! per second. Addresses of this machine or a private network are dialed only while every connected peer
//! is at least as near, since the origin of an address is unknown. A node with enough connections, or
//! with a head, queries only connected peers: otherwise each query would dial the nearest twenty, and
//! eventually every node. Kademlia's bootstrap after each new peer is skipped. Only providers are looked
//! for. The bootstrap would be most of the cost of a new neighbor.

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

use super::address::Scope;
use super::rendezvous::ProviderStore;

/// Maximum number of addresses dialed per peer. An honest node has one or two.
const PER_PEER_MAX: usize = 4;

/// Time after the first connection in which a node queries only connected peers. Otherwise all
/// nodes that start together would dial the same twenty peers, the nearest to the topic.
const YOUNG_FOR: Duration = Duration::from_secs(15);

/// Maximum number of peers that are left alone.
const RESTING_MAX: usize = 1024;

/// Kademlia behavior with limited dials.
pub(super) struct ProviderTable {
    kad: kad::Behaviour<ProviderStore>,
    dials: Bucket,
    /// Number of connections from which no query dials.
    n_enough: usize,
    /// True if a head is connected, so that no query dials.
    has_head: bool,
    /// Queries do not dial before this time once a connection is established.
    young_until: Option<Instant>,
    /// Connection that a query requests, until it is dialed.
    queried: Option<ConnectionId>,
    /// True if Kademlia will bootstrap soon.
    is_bootstrap_due: bool,
    /// Bootstrap that is being skipped.
    bootstrap: Option<kad::QueryId>,
    /// Scope of each connection.
    scopes: HashMap<ConnectionId, Scope>,
    /// Peers that are not dialed before a given time.
    resting: HashMap<PeerId, Instant>,
}

impl ProviderTable {
    pub(super) fn new(kad: kad::Behaviour<ProviderStore>, n_enough: usize) -> Self {
        Self {
            kad,
            // Rate of dialed addresses. A joining worker looks for sixteen peers. Most of the hundreds
            // that a head looks for connect by themselves.
            dials: Bucket::full(Rate::per_second(16, 64)),
            n_enough,
            has_head: false,
            young_until: None,
            queried: None,
            is_bootstrap_due: false,
            bootstrap: None,
            scopes: HashMap::new(),
            resting: HashMap::new(),
        }
    }

    /// Returns the behavior itself.
    pub(super) const fn kad(&mut self) -> &mut kad::Behaviour<ProviderStore> {
        &mut self.kad
    }

    /// Does not dial `peer` for a while.
    pub(super) fn rest(&mut self, peer: PeerId) {
        let now = Instant::now();
        if self.resting.len() >= RESTING_MAX {
            self.resting.retain(|_, until| *until > now);
        }
        if self.resting.len() < RESTING_MAX {
            // The interval between looks of a node with enough peers.
            self.resting.insert(peer, now + Duration::from_mins(15));
        }
    }

    /// Records if a head is connected.
    pub(super) const fn set_has_head(&mut self, has_head: bool) {
        self.has_head = has_head;
    }

    /// Returns true if a query may dial now.
    fn may_query_dial(&self) -> bool {
        let is_young = self.young_until.is_some_and(|until| until > Instant::now());
        let has_enough = self.has_head || is_young || self.scopes.len() >= self.n_enough;
        self.scopes.is_empty() || !has_enough
    }

    /// Skips the bootstrap that Kademlia starts half a second after it added a peer. It cannot be
    /// disabled. However, starting a bootstrap resets the timer, and a bootstrap that is finished before
    /// it is polled sends no queries.
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

    /// Returns the addresses that may be dialed.
    fn choose(&self, addresses: Vec<Multiaddr>) -> Vec<Multiaddr> {
        let farthest = self.scopes.values().max().copied().unwrap_or(Scope::Public);
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
        // The caller has the addresses and does not need the table.
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
        match &event {
            FromSwarm::ConnectionEstablished(established) => {
                let scope = Scope::from_address(established.endpoint.get_remote_address());
                self.scopes.insert(established.connection_id, scope);
                self.young_until.get_or_insert_with(|| Instant::now() + YOUNG_FOR);
            }
            FromSwarm::ConnectionClosed(closed) => {
                self.scopes.remove(&closed.connection_id);
            }
            _ => {}
        }
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

    use super::super::rendezvous;
    use super::*;

    fn table() -> ProviderTable {
        ProviderTable::new(rendezvous::behaviour(PeerId::random()), 2)
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
    async fn near_addresses_are_dialed_only_while_every_peer_is_as_near() {
        let mut table = table();
        let named = ["/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1", "/ip4/8.8.8.8/tcp/1"];
        let n_chosen = |table: &ProviderTable| table.choose(addresses(&named)).len();
        assert_eq!(n_chosen(&table), 1);
        table.scopes.insert(ConnectionId::new_unchecked(1), Scope::Loopback);
        assert_eq!(n_chosen(&table), 3);
        table.scopes.insert(ConnectionId::new_unchecked(2), Scope::Private);
        assert_eq!(n_chosen(&table), 2);
        table.scopes.insert(ConnectionId::new_unchecked(3), Scope::Public);
        assert_eq!(n_chosen(&table), 1);
    }

    #[tokio::test]
    async fn new_peer_starts_no_bootstrap() {
        let mut table = table();
        table.scopes.insert(ConnectionId::new_unchecked(1), Scope::Loopback);
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
            // Kademlia waits for half a second of the system's clock.
            assert!(timeout(Duration::from_millis(700), dialed).await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dials_are_limited_per_peer_and_per_second() {
        let mut table = table();
        table.scopes.insert(ConnectionId::new_unchecked(1), Scope::Loopback);
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
        table.young_until = Some(Instant::now() + YOUNG_FOR);
        table.queried = Some(ConnectionId::new_unchecked(1));
        assert_eq!(dial(&mut table, peers[1]), None, "peers that start together connect first");
        tokio::time::advance(YOUNG_FOR).await;
        table.queried = Some(ConnectionId::new_unchecked(1));
        assert_eq!(dial(&mut table, peers[1]), Some(PER_PEER_MAX), "too few are connected");
        table.set_has_head(true);
        table.queried = Some(ConnectionId::new_unchecked(1));
        assert_eq!(dial(&mut table, peers[1]), None, "a head is connected");
        table.set_has_head(false);
        table.scopes.insert(ConnectionId::new_unchecked(2), Scope::Loopback);
        table.queried = Some(ConnectionId::new_unchecked(1));
        assert_eq!(dial(&mut table, peers[1]), None, "a query");
        assert_eq!(dial(&mut table, peers[1]), Some(PER_PEER_MAX), "another reason");
        table.rest(peers[0]);
        assert_eq!(dial(&mut table, peers[0]), None);
    }
}
