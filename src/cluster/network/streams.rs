//! Streams of the protocols that this program handles itself, opened on demand and accepted into a
//! bounded queue.
//!
//! Each message has its own stream, so many streams arrive together when many peers reply to one head.
//! The queue fits the replies to one roll call. Further streams are dropped. Their senders notice the
//! failure.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};

use libp2p::core::transport::PortUse;
use libp2p::core::upgrade::ReadyUpgrade;
use libp2p::core::{Endpoint, InboundUpgrade, UpgradeInfo};
use libp2p::swarm::handler::{
    ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound,
};
use libp2p::swarm::{
    ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId, FromSwarm,
    NetworkBehaviour, NotifyHandler, StreamUpgradeError, SubstreamProtocol, THandler,
    THandlerInEvent, THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId, Stream, StreamProtocol};
use task::tally::{Counted, Tally};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self};
use tokio::sync::oneshot;
use tracing::debug;

use super::Protocols;
use super::guard::Guard;

/// Maximum number of streams that are waiting, being read or being answered: enough for the replies of a
/// large cluster to one roll call. A quarter is reserved for named peers. A peer can have a quarter of the
/// number that the others leave.
const STREAMS_MAX: usize = 2048;

/// Maximum number of such streams of one peer, over all its connections. It is much higher than usual: by
/// default, a peer has up to 10 work orders and responses in progress.
const STREAMS_PER_PEER_MAX: usize = 128;

/// A stream opened by a peer. It counts toward the peer's limit of simultaneous streams.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) peer: PeerId,
    pub(super) protocol: StreamProtocol,
    pub(super) stream: Stream,
    pub(super) slot: Counted<PeerId>,
}

/// Receives the opened stream, or [`io::ErrorKind::NotConnected`] if there is no connection, or
/// [`io::ErrorKind::Unsupported`] if the peer does not speak the protocol.
pub(super) type Opened = oneshot::Sender<io::Result<Stream>>;

/// A request to one connection to open a stream.
#[derive(Debug)]
pub(super) struct Open {
    protocol: StreamProtocol,
    opened: Opened,
}

fn has_room(is_named: bool, n_own: usize, n_others: usize) -> bool {
    let n_max = if is_named { STREAMS_MAX } else { STREAMS_MAX / 4 * 3 };
    n_own < STREAMS_PER_PEER_MAX.min(n_max.saturating_sub(n_others).div_ceil(4))
}

/// Behavior that passes requests to connections and accepted streams to the queue.
#[derive(Debug)]
pub(super) struct Behaviour {
    gate: Gate,
    /// Open streams, by peer.
    slots: Tally<PeerId>,
    requests: VecDeque<(PeerId, Open)>,
}

/// Filter and queue for accepted streams.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    pub(super) protocols: Protocols,
    pub(super) guard: Guard,
    /// Queue of accepted streams.
    pub(super) inbound: mpsc::Sender<Inbound>,
}

impl Behaviour {
    pub(super) fn new(gate: Gate) -> Self {
        Self { gate, slots: Tally::default(), requests: VecDeque::new() }
    }

    /// Requests a stream to a connected `peer`. If the connection is closed first, `opened` is dropped.
    pub(super) fn open(&mut self, peer: PeerId, protocol: StreamProtocol, opened: Opened) {
        self.requests.push_back((peer, Open { protocol, opened }));
    }

    fn handler(&self, peer: PeerId) -> Handler {
        let (gate, slots) = (self.gate.clone(), self.slots.clone());
        Handler { peer, gate, slots, requests: VecDeque::new() }
    }
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = Handler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(self.handler(peer))
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(self.handler(peer))
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        // No waker is needed, since the task that polls the swarm calls `open` just before it polls
        // again.
        self.requests.pop_front().map_or(Poll::Pending, |(peer_id, event)| {
            Poll::Ready(ToSwarm::NotifyHandler { peer_id, handler: NotifyHandler::Any, event })
        })
    }
}

/// One connection's part of the behavior. The connection stays open while the handler exists.
#[derive(Debug)]
pub(super) struct Handler {
    peer: PeerId,
    gate: Gate,
    slots: Tally<PeerId>,
    requests: VecDeque<Open>,
}

impl Handler {
    fn accept(&self, stream: Stream, protocol: StreamProtocol) {
        let Gate { guard, protocols, inbound } = &self.gate;
        if !guard.admits_stream(self.peer) {
            return;
        }
        if !protocols.open.contains(&protocol.as_ref()) && !guard.allows(self.peer) {
            debug!(peer = %self.peer, %protocol, "dropped a stream of a peer that is not allowed");
            return;
        }
        let is_named = guard.is_named(self.peer);
        let slot =
            self.slots.add(&self.peer, |n_own, n_others| has_room(is_named, n_own, n_others));
        let Some(slot) = slot else {
            // This is no offense, since the streams of an honest peer also wait if this node is slow.
            guard.log_dropped(self.peer, "too many of its streams are open");
            return;
        };
        let accepted = Inbound { peer: self.peer, protocol, stream, slot };
        // If the queue is closed, the node is stopping.
        if let Err(TrySendError::Full(_)) = inbound.try_send(accepted) {
            debug!(peer = %self.peer, "dropped a stream: too many are waiting to be read");
        }
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Open;
    type ToBehaviour = Infallible;
    type InboundProtocol = AnyOf;
    type OutboundProtocol = ReadyUpgrade<StreamProtocol>;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Opened;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol, Self::InboundOpenInfo> {
        SubstreamProtocol::new(AnyOf(self.gate.protocols.all()), ())
    }

    fn connection_keep_alive(&self) -> bool {
        true
    }

    fn poll(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<
        ConnectionHandlerEvent<Self::OutboundProtocol, Self::OutboundOpenInfo, Self::ToBehaviour>,
    > {
        // No waker is needed, since a connection polls its handler again after each event that the
        // handler returns.
        self.requests.pop_front().map_or(Poll::Pending, |Open { protocol, opened }| {
            Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest {
                protocol: SubstreamProtocol::new(ReadyUpgrade::new(protocol), opened),
            })
        })
    }

    fn on_behaviour_event(&mut self, request: Open) {
        self.requests.push_back(request);
    }

    fn on_connection_event(
        &mut self,
        event: ConnectionEvent<
            '_,
            Self::InboundProtocol,
            Self::OutboundProtocol,
            Self::InboundOpenInfo,
            Self::OutboundOpenInfo,
        >,
    ) {
        let (opened, outcome) = match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: (stream, protocol),
                ..
            }) => return self.accept(stream, protocol),
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: stream,
                info,
            }) => (info, Ok(stream)),
            ConnectionEvent::DialUpgradeError(DialUpgradeError { info, error }) => {
                let error = match error {
                    StreamUpgradeError::Timeout => io::ErrorKind::TimedOut.into(),
                    StreamUpgradeError::NegotiationFailed => io::ErrorKind::Unsupported.into(),
                    StreamUpgradeError::Io(source) => source,
                    StreamUpgradeError::Apply(never) => match never {},
                };
                (info, Err(error))
            }
            _ => return,
        };
        // If the receiver has given up, this closes the stream.
        drop(opened.send(outcome));
    }
}

/// Protocol upgrade that negotiates one of several protocols.
#[derive(Debug)]
pub(super) struct AnyOf(Vec<StreamProtocol>);

impl UpgradeInfo for AnyOf {
    type Info = StreamProtocol;
    type InfoIter = std::vec::IntoIter<StreamProtocol>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.clone().into_iter()
    }
}

impl InboundUpgrade<Stream> for AnyOf {
    type Output = (Stream, StreamProtocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Self::Error>>;

    fn upgrade_inbound(self, stream: Stream, protocol: StreamProtocol) -> Self::Future {
        ready(Ok((stream, protocol)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_with_many_streams_leave_streams_to_other_peers_and_to_named_peers() {
        let slots = Tally::default();
        let open = |is_named: bool| {
            let peer = PeerId::random();
            let add = || slots.add(&peer, |n_own, n_others| has_room(is_named, n_own, n_others));
            std::iter::from_fn(add).collect::<Vec<_>>()
        };
        let held: Vec<_> = (0..20).map(|_| open(false)).collect();
        assert_eq!(held[0].len(), STREAMS_PER_PEER_MAX);
        assert!(!open(false).is_empty());
        assert_eq!(open(true).len(), STREAMS_PER_PEER_MAX);
    }
}
