//! What the network's task does by itself: dial whom the dialer names, look for peers of our topics,
//! cut off who offends, and close connections that are too many.

use libp2p::{
    PeerId, identify,
    kad::{self, GetProvidersOk, InboundRequest, QueryResult},
    swarm::{
        DialError,
        dial_opts::{DialOpts, PeerCondition},
    },
};
use tokio::time::Instant;
use tracing::{debug, info};

use super::{
    super::{
        BootNode, address,
        dialer::{self, Due},
        rendezvous::{self, Step},
    },
    Actor,
};
use crate::identity::named;

impl Actor {
    /// Looks at all tables.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        let (fresh, over) = self.guard.take_changes();
        for peer in fresh {
            self.dialer.forget(peer, now);
            self.swarm.behaviour_mut().cut_off.block_peer(peer);
        }
        for peer in over {
            self.swarm.behaviour_mut().cut_off.unblock_peer(peer);
        }
        for Due { peer, addresses } in self.dialer.take_due(now) {
            if self.swarm.is_connected(&peer) {
                self.dialer.connected(peer, None, now);
                continue;
            }
            // A port of its own: the listening port may still hold the last connection there.
            let options = DialOpts::peer_id(peer)
                .condition(PeerCondition::DisconnectedAndNotDialing)
                .addresses(addresses)
                .allocate_new_port()
                .build();
            if let Err(error) = self.swarm.dial(options) {
                debug!(%peer, %error, "failed to dial a peer");
                self.dialer.failed(peer, now);
            }
        }
        let n_peers = self.swarm.network_info().num_peers();
        if let Some(kad) = self.swarm.behaviour_mut().kad.as_mut() {
            let n_routed = || kad.kbuckets().map(|bucket| bucket.num_entries()).sum();
            for step in self.rendezvous.due(now, n_peers, n_routed) {
                match step {
                    Step::Provide(key) => {
                        if let Err(error) = kad.start_providing(key) {
                            debug!(%error, "failed to provide a topic");
                        }
                    }
                    Step::Look(key) => {
                        kad.get_providers(key);
                    }
                }
            }
        }
    }

    /// Dials a peer that was found in the local network, unless it is connected.
    pub(super) fn met(&mut self, BootNode { peer, address }: BootNode) {
        if peer == *self.swarm.local_peer_id() || self.guard.is_cut_off(peer) {
            return;
        }
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .addresses(vec![address])
            .allocate_new_port()
            .build();
        match self.swarm.dial(options) {
            Ok(()) => debug!(%peer, "dialing a peer of the local network"),
            Err(error) => debug!(%peer, %error, "failed to dial a peer of the local network"),
        }
    }

    /// Begins to dial a peer that we never met, under addresses that the table or others told of it.
    /// Returns whether its connection, or the lack of it, will be heard of.
    pub(super) fn reach(&mut self, peer: PeerId) -> bool {
        // Those we met are dialed already, and whoever asks had better ask somebody else.
        if self.dialer.knows(peer) || self.guard.is_cut_off(peer) {
            return false;
        }
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .allocate_new_port()
            .build();
        match self.swarm.dial(options) {
            // Or it is being dialed for another reason.
            Ok(()) | Err(DialError::DialPeerConditionFalse(_)) => true,
            Err(_) => false,
        }
    }

    /// Takes note of what a peer says of itself.
    pub(super) fn introduced(&mut self, peer: PeerId, info: &identify::Info) {
        let addresses: Vec<_> = info
            .listen_addrs
            .iter()
            .cloned()
            .map(dialer::without_peer)
            .filter(address::is_dialable)
            .take(dialer::ADDRESSES_MAX)
            .collect();
        self.dialer.named(peer, &addresses);
        if let Some(kad) = self.swarm.behaviour_mut().kad.as_mut()
            && info.protocols.iter().any(|protocol| protocol.as_ref() == rendezvous::PROTOCOL)
        {
            for address in &addresses {
                kad.add_address(&peer, address.clone());
            }
            self.rendezvous.met();
        }
        if let Some(db) = &self.db {
            let addresses = addresses.iter().map(ToString::to_string).collect();
            db.named(&named(peer), addresses);
        }
    }

    /// Takes note of what the table says and is asked to keep.
    pub(super) fn routed(&mut self, event: kad::Event) {
        match event {
            kad::Event::OutboundQueryProgressed {
                result:
                    QueryResult::GetProviders(Ok(GetProvidersOk::FoundProviders { providers, .. })),
                ..
            } => providers.into_iter().for_each(|peer| self.invite(peer)),
            kad::Event::InboundRequest {
                request: InboundRequest::AddProvider { record: Some(record) },
            } => {
                if let Some(kad) = self.swarm.behaviour_mut().kad.as_mut() {
                    rendezvous::keep(kad, record);
                }
            }
            _ => {}
        }
    }

    /// Dials a peer that belongs to one of our topics, if it is wanted.
    fn invite(&mut self, peer: PeerId) {
        // One answer of the table names many peers: those that are being dialed count.
        let network = self.swarm.network_info();
        let n_dialed = network.connection_counters().num_pending_outgoing() as usize;
        let is_wanted = self.rendezvous.wants(network.num_peers() + n_dialed)
            && peer != *self.swarm.local_peer_id()
            && !self.swarm.is_connected(&peer)
            && !self.dialer.knows(peer)
            && !self.guard.is_cut_off(peer);
        if !is_wanted {
            return;
        }
        // Its addresses are known to the query that found it, which is still there.
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .allocate_new_port()
            .build();
        match self.swarm.dial(options) {
            Ok(()) => debug!(%peer, "dialing a peer of a topic of ours"),
            Err(error) => debug!(%peer, %error, "failed to dial a peer of a topic of ours"),
        }
    }

    /// Closes the newest connections when there are too many.
    pub(super) fn close_newest(&mut self) {
        let Some(bounds) = self.bounds else { return };
        let n_standing = self.standing.len();
        if n_standing <= bounds.high as usize {
            return;
        }
        let n_closed = n_standing.saturating_sub(bounds.low as usize);
        let is_kept = |peer: PeerId| self.dialer.is_boot_node(peer) || self.guard.trusts(peer);
        let newest: Vec<_> = self
            .standing
            .iter()
            .rev()
            .filter(|(_, peer)| !is_kept(**peer))
            .map(|(connection, peer)| (*connection, *peer))
            .take(n_closed)
            .collect();
        info!(connections = n_standing, "closed {} connections: too many stand", newest.len());
        let now = Instant::now();
        for (connection, peer) in newest {
            self.standing.remove(&connection);
            // Not to be dialed again at once.
            self.dialer.forget(peer, now);
            self.swarm.close_connection(connection);
        }
    }
}
