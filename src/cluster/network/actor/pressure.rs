//! Which connections this node parts with: those past a bound, and neighbors that it does not need.

use libp2p::{PeerId, core::ConnectedPoint, swarm::ConnectionId};
use tokio::time::Instant;
use tracing::{debug, info};
use web::address::Network as HostNetwork;

use super::{
    super::{
        address_scope::{Scope, host_network},
        resolve::Names,
    },
    Actor,
};

/// Connections of one host whose peers have not sent a message that could be read. An honest peer does
/// so within a round trip or two.
const SILENT_PER_HOST_MAX: usize = 256;

/// Connections of one host: half of those that are kept where nothing else is said, and more workers
/// than run on one machine.
const PER_HOST_MAX: usize = 1228;

/// Other workers that a worker is connected to. It looks for sixteen, and takes as many more as come
/// while the cluster is young.
const NEIGHBORS_MAX: usize = 24;

/// A connection that stands.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Standing {
    pub(in super::super) peer: PeerId,
    /// The host that it comes from or goes to.
    pub(in super::super) host: HostNetwork,
    pub(in super::super) scope: Scope,
    is_inbound: bool,
}

impl Standing {
    pub(in super::super) fn new(peer: PeerId, endpoint: &ConnectedPoint, names: &Names) -> Self {
        let address = endpoint.get_remote_address();
        Self {
            peer,
            host: host_network(address),
            scope: names.scope_of(address),
            is_inbound: endpoint.is_listener(),
        }
    }
}

impl Actor {
    /// Where `peer` is, as its farthest connection tells.
    pub(super) fn scope_of(&self, peer: PeerId) -> Scope {
        let own = self.standing.values().filter(|standing| standing.peer == peer);
        own.map(|standing| standing.scope).max().unwrap_or(Scope::Public)
    }

    /// Takes note of where the farthest peer is: names that others tell may lead as near.
    pub(super) fn note_farthest_peer(&self) {
        self.names.set_farthest_peer(self.standing.values().map(|standing| standing.scope).max());
    }

    /// Closes connections where too many stand: of `host`, from which the newest one comes, or of all.
    /// The first to go are those of silent peers, the oldest of them first, so that a newcomer has time
    /// to say something; then the newest of all others.
    pub(super) fn relieve(&mut self, host: HostNetwork) {
        let Some(bounds) = self.bounds else { return };
        let n_standing = self.standing.len();
        let is_crowded = n_standing > bounds.high as usize;
        if !is_crowded && n_standing <= SILENT_PER_HOST_MAX {
            return;
        }
        let mut of_host = self.by_worth(|standing| standing.host == host);
        let n_of_host = of_host.len();
        let n_silent = of_host.iter().filter(|(is_silent, _)| *is_silent).count();
        let n_surplus = n_silent
            .saturating_sub(SILENT_PER_HOST_MAX)
            .max(n_of_host.saturating_sub(PER_HOST_MAX));
        of_host.truncate(n_surplus);
        let mut closed: Vec<ConnectionId> = of_host.into_iter().map(|(_, id)| id).collect();
        if is_crowded {
            let n_closed = n_standing.saturating_sub(bounds.low as usize);
            let all = self.by_worth(|_| true);
            closed = all.into_iter().take(n_closed).map(|(_, id)| id).collect();
        }
        if closed.is_empty() {
            return;
        }
        if is_crowded {
            info!(connections = n_standing, "closed {} connections: too many stand", closed.len());
        } else {
            debug!(?host, "closed {} connections: too many of one host stand", closed.len());
        }
        for connection in closed {
            self.close(connection);
        }
    }

    /// The connections that may be closed, in the order in which they are, and whether each is silent: its
    /// peer opened it, and has not sent a message that could be read. Those of named peers stay.
    fn by_worth(&self, is_meant: impl Fn(&Standing) -> bool) -> Vec<(bool, ConnectionId)> {
        let standing = self.standing.iter().filter(|(_, standing)| is_meant(standing));
        let (silent, mut useful): (Vec<_>, Vec<_>) = standing
            .filter(|(_, standing)| !self.is_named(standing.peer))
            .map(|(id, at)| (at.is_inbound && !self.guard.is_useful(at.peer), *id))
            .partition(|(is_silent, _)| *is_silent);
        useful.reverse();
        silent.into_iter().chain(useful).collect()
    }

    fn is_named(&self, peer: PeerId) -> bool {
        self.dialer.is_boot_node(peer) || self.guard.knows_by_name(peer)
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(Standing { peer, .. }) = self.standing.remove(&connection) {
            // Not to be dialed again at once.
            self.dialer.forget(peer, Instant::now());
            self.swarm.close_connection(connection);
        }
    }

    /// Takes note that connected `peer` does the same as this node. Parts with it if there are enough.
    pub(super) fn take_neighbor(&mut self, peer: PeerId) {
        if self.is_named(peer) || self.neighbors.contains(&peer) {
            return;
        }
        if !self.swarm.is_connected(&peer) {
            // It has gone before this was known, as one does that has enough neighbors itself.
            return self.leave_alone(peer);
        }
        if self.neighbors.len() < NEIGHBORS_MAX {
            self.neighbors.insert(peer);
            return;
        }
        debug!(%peer, "closed the connection to a neighbor: there are enough");
        let own = self.standing.iter().filter(|(_, standing)| standing.peer == peer);
        let own: Vec<ConnectionId> = own.map(|(id, _)| *id).collect();
        for connection in own {
            self.close(connection);
        }
        self.leave_alone(peer);
    }

    /// Takes note that the last connection to `peer` is gone. A neighbor is not dialed again: it has
    /// enough neighbors, or comes back by itself.
    pub(super) fn part_with(&mut self, peer: PeerId) {
        if self.neighbors.remove(&peer) {
            self.leave_alone(peer);
        }
    }

    /// Does not dial `peer` for a while, whatever the table says.
    pub(super) fn leave_alone(&mut self, peer: PeerId) {
        self.dialer.forget(peer, Instant::now());
        if let Some(table) = self.swarm.behaviour_mut().table.as_mut() {
            table.rest(peer);
        }
    }
}
