//! Which connections this node parts with: those past a bound, and neighbors that it does not need.

use std::collections::BTreeSet;

use libp2p::{PeerId, swarm::ConnectionId};
use tokio::time::Instant;
use tracing::{debug, info};
use web::address::Network as HostNetwork;

use super::{
    super::{ConnectionBounds, address_scope::Scope},
    Actor,
    connections::Standing,
};

/// The part of all connections that one host may have, as its divisor: half of them, which is more
/// workers than run on one machine where nothing else is said.
const HOST_PART: usize = 2;

/// The part of all connections that one host may have whose peers have not sent a message that could be
/// read, as its divisor. An honest peer does so within a round trip or two.
const SILENT_HOST_PART: usize = 10;

/// So many silent ones one host may have in any case: workers that start together on one machine.
const SILENT_PER_HOST_MIN: usize = 256;

/// Other workers that a worker is connected to. It looks for sixteen, and takes as many more as come
/// while the cluster is young.
const NEIGHBORS_MAX: usize = 24;

impl ConnectionBounds {
    /// Connections of one host.
    const fn per_host_max(self) -> usize {
        self.high as usize / HOST_PART
    }

    /// Connections of one host whose peers are silent.
    fn silent_per_host_max(self) -> usize {
        (self.high as usize / SILENT_HOST_PART).max(SILENT_PER_HOST_MIN)
    }
}

impl Actor {
    /// Where `peer` is, as its farthest connection tells.
    pub(super) fn scope_of(&self, peer: PeerId) -> Scope {
        self.connections.scope_of(peer).unwrap_or(Scope::Public)
    }

    /// Takes note of where the farthest peer is: names that others tell may lead as near.
    pub(super) fn note_farthest_peer(&self) {
        self.names.set_farthest_peer(self.connections.farthest());
    }

    /// Closes connections where too many stand: of `host`, from which the newest one comes, or of all.
    /// The first to go are those of silent peers, the oldest of them first, so that a newcomer has time
    /// to say something; then the newest of all others.
    pub(super) fn relieve(&mut self, host: HostNetwork) {
        let Some(bounds) = self.bounds else { return };
        let n_standing = self.connections.len();
        let is_crowded = n_standing > bounds.high as usize;
        let closed = if is_crowded {
            self.least_worth(n_standing.saturating_sub(bounds.low as usize))
        } else {
            self.surplus_of(host, bounds)
        };
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

    /// The `n` connections that are closed first of all.
    fn least_worth(&self, n: usize) -> Vec<ConnectionId> {
        let (silent, useful): (Vec<_>, Vec<_>) = self
            .connections
            .iter()
            .filter(|(_, standing)| !self.is_named(standing.peer))
            .partition(|(_, standing)| self.is_silent(standing));
        silent.into_iter().chain(useful.into_iter().rev()).take(n).map(|(id, _)| id).collect()
    }

    /// The connections of `host` past what one host may have.
    fn surplus_of(&mut self, host: HostNetwork, bounds: ConnectionBounds) -> Vec<ConnectionId> {
        let n_of_host = self.connections.n_of_host(host);
        if n_of_host <= bounds.silent_per_host_max() {
            return Vec::new();
        }
        let guard = &self.guard;
        let silent =
            self.connections.silent_of_host(host, |standing| !guard.is_useful(standing.peer));
        let n_surplus = silent
            .len()
            .saturating_sub(bounds.silent_per_host_max())
            .max(self.n_unnamed_of(host, n_of_host, bounds).saturating_sub(bounds.per_host_max()));
        self.of_host_by_worth(host, &silent).take(n_surplus).collect()
    }

    /// How many connections of `host` are to unnamed peers, where that is more than it may have. They are
    /// counted in that case alone, since it takes long.
    fn n_unnamed_of(&self, host: HostNetwork, n_all: usize, bounds: ConnectionBounds) -> usize {
        if n_all <= bounds.per_host_max() {
            return n_all;
        }
        self.connections.of_host(host).filter(|(_, at)| !self.is_named(at.peer)).count()
    }

    /// Those of `host` that may be closed, in the order in which they are.
    fn of_host_by_worth(
        &self,
        host: HostNetwork,
        silent: &BTreeSet<ConnectionId>,
    ) -> impl Iterator<Item = ConnectionId> {
        let others = self.connections.of_host(host).rev();
        let others = others
            .filter(|(id, at)| !silent.contains(id) && !self.is_named(at.peer))
            .map(|(id, _)| id);
        silent.iter().copied().chain(others)
    }

    /// Whether the peer of a connection opened it, and has not sent a message that could be read.
    fn is_silent(&self, standing: &Standing) -> bool {
        standing.is_inbound && !self.guard.is_useful(standing.peer)
    }

    fn is_named(&self, peer: PeerId) -> bool {
        self.dialer.is_boot_node(peer) || self.guard.knows_by_name(peer)
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(Standing { peer, .. }) = self.connections.remove(connection) {
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
        for connection in self.connections.of_peer(peer) {
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

#[cfg(test)]
mod tests {
    use super::{super::super::CONNECTIONS, *};

    #[test]
    fn what_one_host_may_have_follows_the_bound_and_is_never_all() {
        assert_eq!((CONNECTIONS.per_host_max(), CONNECTIONS.silent_per_host_max()), (1229, 256));
        let large = ConnectionBounds::around(10_000);
        assert_eq!((large.per_host_max(), large.silent_per_host_max()), (6_000, 1_200));
    }
}
