//! Which connected peers are heads, as the protocols that they speak tell.

use std::collections::HashSet;

use libp2p::{PeerId, StreamProtocol};

use super::super::Protocols;

/// The connected heads. A node that takes no lines is a head itself, and knows none.
#[derive(Debug)]
pub(in super::super) struct Heads {
    /// Of these, nodes of ours speak those of messages, and workers those of lines too, since heads
    /// open lines to them.
    protocols: Protocols,
    connected: HashSet<PeerId>,
}

impl Heads {
    /// Recognizes heads from a node that speaks `protocols`.
    pub(in super::super) fn new(protocols: Protocols) -> Self {
        Self { protocols, connected: HashSet::new() }
    }

    /// Notes what connected `peer` speaks. Returns whether it is a head.
    pub(super) fn identify(&mut self, peer: PeerId, protocols: &[StreamProtocol]) -> bool {
        let Protocols { messages, lines, .. } = self.protocols;
        let speaks = |name: &&str| protocols.iter().any(|spoken| spoken.as_ref() == *name);
        let is_head = !lines.is_empty() && messages.iter().all(speaks) && !lines.iter().any(speaks);
        if is_head {
            self.connected.insert(peer);
        } else {
            self.connected.remove(&peer);
        }
        is_head
    }

    /// Notes that no connection to `peer` stands any more.
    pub(super) fn remove(&mut self, peer: PeerId) {
        self.connected.remove(&peer);
    }

    /// Whether a head is connected.
    pub(super) fn is_any_connected(&self) -> bool {
        !self.connected.is_empty()
    }
}
