//! Peers that connect again while an earlier connection to them seems to be established.
//!
//! A peer only dials while it has no connection. If it connects again, it has lost the earlier
//! connection without notice: its link was cut or its machine failed. State that belongs to a
//! connection is then known to one side only. For example, gossip announces its topics on the first
//! connection to a peer only, so a head would not learn that a worker listens. Therefore the new
//! connection is refused and the earlier ones are closed. The peer dials again immediately, and
//! both sides start over.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler,
    THandlerInEvent, THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use tokio::time::Instant;
use tracing::info;

/// Connections younger than this might belong together: both sides dialed, or one side several
/// addresses. As long as a dial may take.
const YOUNG_FOR: Duration = Duration::from_secs(10);

/// Behavior that tracks the age of connections.
#[derive(Debug, Default)]
pub(super) struct Reconnects {
    established: HashMap<PeerId, Vec<(ConnectionId, Instant)>>,
    /// Peers with connections to close.
    lost: VecDeque<PeerId>,
}

impl NetworkBehaviour for Reconnects {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let earlier = self.established.get(&peer).and_then(|all| all.last());
        if earlier.is_none_or(|(_, since)| since.elapsed() < YOUNG_FOR) {
            return Ok(dummy::ConnectionHandler);
        }
        info!(%peer, "a peer has connected again: closed its earlier connection");
        // The next connection is accepted, however slow the closing is.
        self.established.remove(&peer);
        self.lost.push_back(peer);
        Err(ConnectionDenied::new("the peer has an earlier connection"))
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(event) => {
                let connections = self.established.entry(event.peer_id).or_default();
                connections.push((event.connection_id, Instant::now()));
            }
            FromSwarm::ConnectionClosed(closed) => {
                if let Some(connections) = self.established.get_mut(&closed.peer_id) {
                    connections.retain(|(id, _)| *id != closed.connection_id);
                    if connections.is_empty() {
                        self.established.remove(&closed.peer_id);
                    }
                }
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        // The swarm polls after each new connection.
        self.lost.pop_front().map_or(Poll::Pending, |peer_id| {
            Poll::Ready(ToSwarm::CloseConnection { peer_id, connection: CloseConnection::All })
        })
    }
}

#[cfg(test)]
mod tests {
    use libp2p::core::ConnectedPoint;
    use libp2p::swarm::ConnectionClosed;
    use libp2p::swarm::behaviour::ConnectionEstablished;

    use super::*;

    fn endpoint() -> ConnectedPoint {
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        ConnectedPoint::Listener { local_addr: address.clone(), send_back_addr: address }
    }

    /// Has `peer` connect. Returns true if it was accepted.
    fn connect(reconnects: &mut Reconnects, peer: PeerId, number: usize) -> bool {
        let (connection_id, endpoint) = (ConnectionId::new_unchecked(number), endpoint());
        let address = endpoint.get_remote_address();
        let is_accepted = reconnects
            .handle_established_inbound_connection(connection_id, peer, address, address)
            .is_ok();
        if is_accepted {
            reconnects.on_swarm_event(FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id: peer,
                connection_id,
                endpoint: &endpoint,
                failed_addresses: &[],
                other_established: 0,
            }));
        }
        is_accepted
    }

    fn close(reconnects: &mut Reconnects, peer_id: PeerId, number: usize) {
        reconnects.on_swarm_event(FromSwarm::ConnectionClosed(ConnectionClosed {
            peer_id,
            connection_id: ConnectionId::new_unchecked(number),
            endpoint: &endpoint(),
            cause: None,
            remaining_established: 0,
        }));
    }

    fn closed(reconnects: &mut Reconnects) -> Option<PeerId> {
        match reconnects.poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(ToSwarm::CloseConnection { peer_id, .. }) => Some(peer_id),
            _ => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reconnecting_peer_loses_its_connections_and_is_accepted_next_time() {
        let (mut reconnects, peer) = (Reconnects::default(), PeerId::random());
        assert!(connect(&mut reconnects, peer, 1));
        assert!(connect(&mut reconnects, peer, 2), "both sides may have dialed");
        tokio::time::advance(YOUNG_FOR).await;
        assert!(connect(&mut reconnects, PeerId::random(), 3), "another peer");
        assert_eq!(closed(&mut reconnects), None);
        assert!(!connect(&mut reconnects, peer, 4));
        assert_eq!((closed(&mut reconnects), closed(&mut reconnects)), (Some(peer), None));
        assert!(connect(&mut reconnects, peer, 5), "however long the others take to close");
        for number in [1, 2, 5] {
            close(&mut reconnects, peer, number);
        }
        tokio::time::advance(YOUNG_FOR).await;
        assert!(connect(&mut reconnects, peer, 6), "it has no other");
        assert_eq!(reconnects.established.len(), 2, "closed connections leave nothing");
    }
}
