//! Periodic work of the network's task: dialing, finding peers of subscribed topics, banning peers that
//! offend.

use libp2p::kad::{self, GetProvidersOk, InboundRequest, QueryResult};
use libp2p::swarm::DialError;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::{Multiaddr, PeerId, StreamProtocol, identify};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::super::rendezvous::{self, TableAction};
use super::super::{Protocols, dialer};
use super::{Actor, LOOK_EVERY, LOOK_SOON};
use crate::identity::model_peer_id;

impl Actor {
    /// Checks all tables: applies changes of bans, dials peers that are due, and provides and looks up
    /// topics.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        self.next_look = now + LOOK_EVERY;
        let (fresh, over) = self.guard.take_changes();
        for peer in fresh {
            self.dialer.forget(peer, now);
            self.swarm.behaviour_mut().banned.block_peer(peer);
        }
        for peer in over {
            self.swarm.behaviour_mut().banned.unblock_peer(peer);
        }
        for (peer, addresses) in self.dialer.take_due(now) {
            if self.swarm.is_connected(&peer) {
                self.dialer.note_connected(peer, None, now);
                continue;
            }
            if let Err(error) = self.dial(peer, Some(addresses)) {
                debug!(%peer, %error, "failed to dial a peer");
                self.on_dial_failure(peer, &error);
            }
        }
        let n_peers = self.swarm.network_info().num_peers();
        if let Some(table) = self.swarm.behaviour_mut().table.as_mut() {
            let kad = table.kad();
            let n_routed = || kad.kbuckets().map(|bucket| bucket.num_entries()).sum();
            for action in self.rendezvous.due(now, n_peers, n_routed) {
                match action {
                    TableAction::Provide(key) => {
                        if let Err(error) = kad.start_providing(key) {
                            debug!(%error, "failed to provide a topic");
                        }
                    }
                    TableAction::Look(key) => {
                        kad.get_providers(key);
                    }
                }
            }
        }
        // An overdue lookup waits for a peer that can be queried, so it does not schedule a check.
        let look = self.rendezvous.next_look().filter(|at| *at > now);
        if let Some(due) = self.dialer.next_due().into_iter().chain(look).min() {
            self.next_look = self.next_look.min(due.max(now + LOOK_SOON));
        }
    }

    /// Dials `peer` at `addresses`; `None` for the addresses in the table.
    fn dial(&mut self, peer: PeerId, addresses: Option<Vec<Multiaddr>>) -> Result<(), DialError> {
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::DisconnectedAndNotDialing)
            // Dials from a new port, since the listening port might still hold the previous connection.
            .allocate_new_port();
        self.swarm.dial(match addresses {
            Some(addresses) => options.addresses(addresses).build(),
            None => options.build(),
        })
    }

    /// Records that `peer` was not reached and logs it for a boot node.
    pub(super) fn on_dial_failure(&mut self, peer: PeerId, error: &DialError) {
        let now = Instant::now();
        if let DialError::WrongPeerId { address, .. } = error {
            self.dialer.forget_address(peer, address);
        }
        self.dialer.note_failed(peer, now);
        if matches!(error, DialError::DialPeerConditionFalse(_)) {
            // Nothing is logged, since another dial is in progress.
            return;
        }
        if let Some(address) = self.dialer.take_report(peer, now) {
            let reason = reason(error);
            warn!(%address, reason, "cannot reach boot node {address}: {reason}; trying again");
        }
    }

    /// Starts to dial a peer without a connection, at addresses from the table or from other behaviors.
    /// Returns true if the outcome will be reported.
    pub(super) fn reach(&mut self, peer: PeerId) -> bool {
        // The peer is already being dialed, or is banned. The caller should try another peer.
        if self.dialer.knows(peer) || self.guard.is_banned(peer) {
            return false;
        }
        match self.dial(peer, None) {
            // If the condition is false, another dial of the peer might be in progress, and its
            // outcome will be reported.
            Ok(()) | Err(DialError::DialPeerConditionFalse(_)) => true,
            Err(_) => false,
        }
    }

    /// Handles the identification of a peer.
    pub(super) fn on_identify(&mut self, peer: PeerId, info: &identify::Info) {
        let scope = self.scope_of(peer);
        let addresses = info.listen_addrs.iter().cloned().map(dialer::without_peer);
        let addresses = addresses.filter(|address| scope.may_name(address));
        let addresses: Vec<_> = addresses.take(dialer::ADDRESSES_MAX).collect();
        self.dialer.add_addresses(peer, &addresses);
        let is_head = self.note_protocols(peer, &info.protocols);
        if let Some(table) = self.swarm.behaviour_mut().table.as_mut()
            && info.protocols.iter().any(|protocol| protocol.as_ref() == rendezvous::PROTOCOL)
        {
            for address in &addresses {
                table.kad().add_address(&peer, address.clone());
            }
            // The peer might have restarted without its records, so the topics are provided again.
            if is_head || self.heads.is_empty() || self.dialer.is_boot_node(peer) {
                self.rendezvous.note_table_peer();
            }
        }
        if let Some(db) = &self.db {
            let addresses = addresses.iter().map(ToString::to_string).collect();
            db.note(&model_peer_id(peer), addresses, false);
        }
    }

    /// Records the protocols of `peer`. Returns true if it is a head of this program: heads speak the
    /// protocols of messages like every node, but only workers accept lines.
    fn note_protocols(&mut self, peer: PeerId, protocols: &[StreamProtocol]) -> bool {
        let Protocols { messages, lines, .. } = self.protocols;
        let speaks = |name: &&str| protocols.iter().any(|spoken| spoken.as_ref() == *name);
        let is_head = !lines.is_empty() && messages.iter().all(speaks) && !lines.iter().any(speaks);
        if is_head {
            self.heads.insert(peer);
        } else {
            self.heads.remove(&peer);
        }
        self.note_heads();
        is_head
    }

    /// Tells the rendezvous and the table whether a head is connected.
    pub(super) fn note_heads(&mut self) {
        let has_head = !self.heads.is_empty();
        self.rendezvous.set_has_head(has_head, Instant::now());
        if let Some(table) = self.swarm.behaviour_mut().table.as_mut() {
            table.set_has_head(has_head);
        }
    }

    /// Handles an event of the table.
    pub(super) fn on_table_event(&mut self, event: kad::Event) {
        match event {
            kad::Event::OutboundQueryProgressed {
                result:
                    QueryResult::GetProviders(Ok(GetProvidersOk::FoundProviders { providers, .. })),
                ..
            } => providers.into_iter().take(20).for_each(|peer| self.invite(peer)),
            kad::Event::InboundRequest {
                request: InboundRequest::AddProvider { record: Some(record) },
            } => {
                let scope = self.scope_of(record.provider);
                if let Some(table) = self.swarm.behaviour_mut().table.as_mut() {
                    rendezvous::keep(table.kad(), record, scope);
                }
            }
            _ => {}
        }
    }

    /// Dials a peer of a subscribed topic if more peers are wanted.
    fn invite(&mut self, peer: PeerId) {
        // A response from the table names many peers at one time, so peers that are being dialed count
        // as connected.
        let network = self.swarm.network_info();
        let n_dialed = network.connection_counters().num_pending_outgoing() as usize;
        let is_stranger = peer != *self.swarm.local_peer_id()
            && !self.swarm.is_connected(&peer)
            && !self.dialer.knows(peer)
            && !self.guard.is_banned(peer);
        if !is_stranger || !self.rendezvous.invite(network.num_peers() + n_dialed) {
            return;
        }
        // No addresses are passed, since the query that found the peer still has them.
        match self.dial(peer, None) {
            Ok(()) => debug!(%peer, "dialing a peer of a subscribed topic"),
            Err(error) => debug!(%peer, %error, "failed to dial a peer of a subscribed topic"),
        }
    }
}

/// Describes why a dial failed: the innermost cause of the last attempt.
fn reason(error: &DialError) -> String {
    match error {
        DialError::WrongPeerId { obtained, .. } => {
            format!("the node there is {obtained}; correct the id at the end of the address")
        }
        DialError::LocalPeerId { .. } => "the address is this node's own".to_owned(),
        DialError::Transport(attempts) => {
            let last = attempts.last().map(|(_, error)| error as &dyn std::error::Error);
            let innermost = last.and_then(|error| {
                std::iter::successors(Some(error), |error| error.source()).last()
            });
            innermost.map_or_else(|| error.to_string(), ToString::to_string)
        }
        _ => error.to_string(),
    }
}
