//! Which connected peers are heads, as the protocols that they speak tell.

use std::collections::HashSet;

use libp2p::{PeerId, StreamProtocol};

/// The connected heads. A node that takes no lines is a head itself, and knows none.
#[derive(Debug)]
pub(in super::super) struct Heads {
    /// What nodes of ours speak.
    spoken: Vec<StreamProtocol>,
    /// What workers speak beside it, since heads open lines to them.
    lines: Vec<StreamProtocol>,
    connected: HashSet<PeerId>,
}

impl Heads {
    /// Recognizes heads from a node that speaks `spoken` and takes `lines`.
    pub(in super::super) fn new(spoken: &[StreamProtocol], lines: &[StreamProtocol]) -> Self {
        Self { spoken: spoken.to_vec(), lines: lines.to_vec(), connected: HashSet::new() }
    }

    /// Notes what connected `peer` speaks. Returns whether it is a head.
    pub(super) fn identify(&mut self, peer: PeerId, protocols: &[StreamProtocol]) -> bool {
        let is_head = !self.lines.is_empty()
            && self.spoken.iter().all(|protocol| protocols.contains(protocol))
            && !self.lines.iter().any(|protocol| protocols.contains(protocol));
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
