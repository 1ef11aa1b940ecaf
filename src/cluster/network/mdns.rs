//! The local network: nodes in it find one another by multicast DNS, on every interface but loopback.
//!
//! libp2p's behavior tells each interface the addresses that are listened on there, and dials its
//! senders alone. It remembers every address until its time is over and has dials of that peer use
//! it; here each is forgotten once it is reported, so that what strangers send takes no memory, and
//! a node that was not reached is tried again when it answers again. Its tasks, one for each
//! interface, end with the process.

use std::{
    io,
    net::IpAddr,
    task::{Context, Poll, ready},
};

use libp2p::{
    Multiaddr, PeerId,
    core::{
        Endpoint,
        transport::{ListenerId, PortUse},
    },
    mdns::{self, tokio::Behaviour},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, NewListenAddr, THandler,
        THandlerInEvent, THandlerOutEvent, ToSwarm, dummy,
    },
};

/// Finds nodes of the local network, and lets them find this one.
pub(super) struct LocalDiscovery(Behaviour);

impl LocalDiscovery {
    /// Speaks IPv4 or IPv6, as `address` is, and tells the addresses in `listening` until others are
    /// listened on.
    pub(super) fn new(own: PeerId, address: IpAddr, listening: &[Multiaddr]) -> io::Result<Self> {
        let config = mdns::Config { enable_ipv6: address.is_ipv6(), ..mdns::Config::default() };
        let mut mdns = Behaviour::new(config, own)?;
        for addr in listening {
            let listener_id = ListenerId::next();
            mdns.on_swarm_event(FromSwarm::NewListenAddr(NewListenAddr { listener_id, addr }));
        }
        Ok(Self(mdns))
    }
}

impl NetworkBehaviour for LocalDiscovery {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Vec<(PeerId, Multiaddr)>;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
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
        self.0.on_swarm_event(event);
    }

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        loop {
            let event = ready!(self.0.poll(context));
            if let ToSwarm::GenerateEvent(mdns::Event::Discovered(found)) = event {
                for (peer, _) in &found {
                    #[expect(deprecated, reason = "nothing else makes it forget what it was told")]
                    self.0.expire_node(peer);
                }
                return Poll::Ready(ToSwarm::GenerateEvent(found));
            }
        }
    }
}
