//! Peers that connect again while an earlier connection to them seems to stand.
//!
//! A peer dials while it has no connection alone. One that comes again has lost what this node still
//! takes for a connection: its link was cut or its machine died, and nobody said so. What belongs to a
//! connection is then known to one side alone. Gossip, for one, names its topics on the first
//! connection to a peer and never again: a head would not learn that a worker listens. So the new
//! connection is refused and the earlier ones are closed; the peer dials again at once, and both
//! sides start over.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    task::{Context, Poll},
    time::Duration,
};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler,
        THandlerInEvent, THandlerOutEvent, ToSwarm, dummy,
    },
};
use tokio::time::Instant;
use tracing::info;

/// Connections that are younger may belong together: both sides have dialed, or one under several
/// addresses. As long as a dial may take.
const YOUNG_FOR: Duration = Duration::from_secs(10);

/// The behavior: knows since when connections stand.
#[derive(Debug, Default)]
pub(super) struct Reconnects {
    standing: HashMap<PeerId, Vec<(ConnectionId, Instant)>>,
    /// Peers whose connections are to be closed.
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
        let standing = self.standing.get(&peer).map(Vec::as_slice).unwrap_or_default();
        let is_again = standing.last().is_some_and(|(_, since)| since.elapsed() >= YOUNG_FOR);
        if !is_again {
            return Ok(dummy::ConnectionHandler);
        }
        info!(%peer, "a peer has connected again: closed the connection that it has lost");
        // What comes next is let in, however long the closing takes.
        self.standing.remove(&peer);
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
            FromSwarm::ConnectionEstablished(established) => {
                let standing = self.standing.entry(established.peer_id).or_default();
                standing.push((established.connection_id, Instant::now()));
            }
            FromSwarm::ConnectionClosed(closed) => {
                if let Some(standing) = self.standing.get_mut(&closed.peer_id) {
                    standing.retain(|(id, _)| *id != closed.connection_id);
                    if standing.is_empty() {
                        self.standing.remove(&closed.peer_id);
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
        // The swarm polls after each connection that comes.
        self.lost.pop_front().map_or(Poll::Pending, |peer_id| {
            Poll::Ready(ToSwarm::CloseConnection { peer_id, connection: CloseConnection::All })
        })
    }
}

#[cfg(test)]
mod tests {
    use libp2p::{
        core::ConnectedPoint,
        swarm::{ConnectionClosed, behaviour::ConnectionEstablished},
    };

    use super::*;

    fn endpoint() -> ConnectedPoint {
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        ConnectedPoint::Listener { local_addr: address.clone(), send_back_addr: address }
    }

    /// Has `peer` connect; returns whether it was let in.
    fn comes(reconnects: &mut Reconnects, peer: PeerId, number: usize) -> bool {
        let (connection_id, endpoint) = (ConnectionId::new_unchecked(number), endpoint());
        let address = endpoint.get_remote_address();
        let let_in = reconnects
            .handle_established_inbound_connection(connection_id, peer, address, address)
            .is_ok();
        if let_in {
            reconnects.on_swarm_event(FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id: peer,
                connection_id,
                endpoint: &endpoint,
                failed_addresses: &[],
                other_established: 0,
            }));
        }
        let_in
    }

    fn goes(reconnects: &mut Reconnects, peer_id: PeerId, number: usize) {
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
    async fn a_peer_that_comes_again_loses_what_it_had_and_is_let_in_the_next_time() {
        let (mut reconnects, peer) = (Reconnects::default(), PeerId::random());
        assert!(comes(&mut reconnects, peer, 1));
        assert!(comes(&mut reconnects, peer, 2), "both sides may have dialed");
        tokio::time::advance(YOUNG_FOR).await;
        assert!(comes(&mut reconnects, PeerId::random(), 3), "another peer");
        assert_eq!(closed(&mut reconnects), None);
        assert!(!comes(&mut reconnects, peer, 4));
        assert_eq!((closed(&mut reconnects), closed(&mut reconnects)), (Some(peer), None));
        assert!(comes(&mut reconnects, peer, 5), "however long the others take to close");
        goes(&mut reconnects, peer, 1);
        goes(&mut reconnects, peer, 2);
        goes(&mut reconnects, peer, 5);
        tokio::time::advance(YOUNG_FOR).await;
        assert!(comes(&mut reconnects, peer, 6), "it has no other");
        assert_eq!(reconnects.standing.len(), 2, "nothing is kept of connections that are gone");
    }
}
