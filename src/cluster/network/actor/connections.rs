//! Established connections, and the choice of those to close: surplus ones, and neighbors that this
//! node does not need.
//!
//! Connections are indexed by peer, host and scope, so that the cost of a new one does not grow
//! with their number.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use libp2p::{PeerId, core::ConnectedPoint, swarm::ConnectionId};
use tokio::time::Instant;
use tracing::{debug, info};
use web::address::Network as HostNetwork;

use super::Actor;
use crate::network::{
    ConnectionBounds,
    address::{Scope, host_network, remote},
    resolve::Names,
};

/// An established connection.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Established {
    pub(in super::super) peer: PeerId,
    /// Host of the other end.
    pub(in super::super) host: HostNetwork,
    pub(in super::super) scope: Scope,
    pub(super) is_inbound: bool,
}

/// Established connections.
#[derive(Debug, Default)]
pub(in super::super) struct Connections {
    /// Connections, the oldest first.
    by_id: BTreeMap<ConnectionId, Established>,
    by_peer: HashMap<PeerId, Vec<ConnectionId>>,
    by_host: HashMap<HostNetwork, OfHost>,
    n_by_scope: BTreeMap<Scope, usize>,
}

/// Connections of one host.
#[derive(Debug, Default)]
struct OfHost {
    all: BTreeSet<ConnectionId>,
    /// Connections opened by peers that had not sent a valid message when last checked.
    silent: BTreeSet<ConnectionId>,
}

impl Established {
    pub(super) fn new(peer: PeerId, endpoint: &ConnectedPoint, names: &Names) -> Self {
        let address = remote(endpoint);
        Self {
            peer,
            host: host_network(address),
            scope: names.scope_of(address),
            is_inbound: endpoint.is_listener(),
        }
    }
}

impl Connections {
    pub(super) fn insert(&mut self, id: ConnectionId, established: Established) {
        self.remove(id);
        self.by_id.insert(id, established);
        self.by_peer.entry(established.peer).or_default().push(id);
        let of_host = self.by_host.entry(established.host).or_default();
        of_host.all.insert(id);
        if established.is_inbound {
            of_host.silent.insert(id);
        }
        *self.n_by_scope.entry(established.scope).or_default() += 1;
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Established> {
        let established = self.by_id.remove(&id)?;
        if let Some(of_peer) = self.by_peer.get_mut(&established.peer) {
            of_peer.retain(|known| *known != id);
            if of_peer.is_empty() {
                self.by_peer.remove(&established.peer);
            }
        }
        if let Some(of_host) = self.by_host.get_mut(&established.host) {
            of_host.all.remove(&id);
            of_host.silent.remove(&id);
            if of_host.all.is_empty() {
                self.by_host.remove(&established.host);
            }
        }
        if let Some(n) = self.n_by_scope.get_mut(&established.scope) {
            *n -= 1;
            if *n == 0 {
                self.n_by_scope.remove(&established.scope);
            }
        }
        Some(established)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns all connections, the oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (ConnectionId, &Established)> {
        self.by_id.iter().map(|(id, established)| (*id, established))
    }

    /// Returns the connections to `peer`.
    pub(super) fn of_peer(&self, peer: PeerId) -> Vec<ConnectionId> {
        self.by_peer.get(&peer).cloned().unwrap_or_default()
    }

    /// Returns the scope of the farthest connection to `peer`.
    pub(super) fn scope_of(&self, peer: PeerId) -> Option<Scope> {
        let own = self.by_peer.get(&peer)?.iter().filter_map(|id| self.by_id.get(id));
        own.map(|established| established.scope).max()
    }

    /// Returns the scope of the farthest connection.
    pub(super) fn farthest(&self) -> Option<Scope> {
        self.n_by_scope.last_key_value().map(|(scope, _)| *scope)
    }

    /// Returns the number of connections of `host`.
    pub(super) fn n_of_host(&self, host: HostNetwork) -> usize {
        self.by_host.get(&host).map_or(0, |of_host| of_host.all.len())
    }

    /// Returns the connections of `host`, the oldest first.
    pub(super) fn of_host(
        &self,
        host: HostNetwork,
    ) -> impl DoubleEndedIterator<Item = (ConnectionId, &Established)> {
        let all = self.by_host.get(&host).into_iter().flat_map(|of_host| &of_host.all);
        all.filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    /// Returns the connections of `host` that are still silent. One for which `is_silent` is false
    /// once is not checked again.
    pub(super) fn silent_of_host(
        &mut self,
        host: HostNetwork,
        is_silent: impl Fn(&Established) -> bool,
    ) -> BTreeSet<ConnectionId> {
        let Some(of_host) = self.by_host.get_mut(&host) else { return BTreeSet::new() };
        of_host.silent.retain(|id| self.by_id.get(id).is_some_and(&is_silent));
        of_host.silent.clone()
    }
}

/// Divisor for the share of all connections that the silent peers of one host may have. An honest
/// peer sends a valid message within a few round trips.
const SILENT_HOST_PART: usize = 10;

/// Lower bound for silent connections of one host: workers that start together on one machine.
const SILENT_PER_HOST_MIN: usize = 256;

impl ConnectionBounds {
    /// Returns the maximum number of connections of one host.
    const fn per_host_max(self) -> usize {
        // Half of all is more than the workers of one machine usually need.
        self.high as usize / 2
    }

    /// Returns the maximum number of silent connections of one host.
    fn silent_per_host_max(self) -> usize {
        (self.high as usize / SILENT_HOST_PART).max(SILENT_PER_HOST_MIN)
    }
}

impl Actor {
    /// Returns the scope of the farthest connection to `peer`.
    pub(super) fn scope_of(&self, peer: PeerId) -> Scope {
        self.connections.scope_of(peer).unwrap_or(Scope::Public)
    }

    /// Updates the scope of the farthest peer. Names from strangers may lead that near.
    pub(super) fn note_farthest_peer(&self) {
        self.names.set_farthest_peer(self.connections.farthest());
    }

    /// Closes surplus connections: of `host`, which has a new one, or of all hosts. Connections of
    /// silent peers are closed first, beginning with the oldest, so that a newcomer has time to
    /// send something. The newest of all others follow.
    pub(super) fn relieve(&mut self, host: HostNetwork) {
        let Some(bounds) = self.bounds else { return };
        let n_established = self.connections.len();
        let is_crowded = n_established > bounds.high as usize;
        let closed = if is_crowded {
            self.least_worth(n_established.saturating_sub(bounds.low as usize))
        } else {
            self.surplus_of(host, bounds)
        };
        if closed.is_empty() {
            return;
        }
        if is_crowded {
            info!(connections = n_established, "closed {} surplus connections", closed.len());
        } else {
            debug!(?host, "closed {} surplus connections of one host", closed.len());
        }
        for connection in closed {
            self.close(connection);
        }
    }

    /// Returns the `n` connections to close first.
    fn least_worth(&self, n: usize) -> Vec<ConnectionId> {
        let (silent, useful): (Vec<_>, Vec<_>) = self
            .connections
            .iter()
            .filter(|(_, established)| !self.is_named(established.peer))
            .partition(|(_, established)| self.is_silent(established));
        silent.into_iter().chain(useful.into_iter().rev()).take(n).map(|(id, _)| id).collect()
    }

    /// Returns the surplus connections of `host`.
    fn surplus_of(&mut self, host: HostNetwork, bounds: ConnectionBounds) -> Vec<ConnectionId> {
        let n_of_host = self.connections.n_of_host(host);
        if n_of_host <= bounds.silent_per_host_max() {
            return Vec::new();
        }
        let guard = &self.guard;
        let silent =
            self.connections.silent_of_host(host, |established| !guard.is_useful(established.peer));
        let n_surplus = silent
            .len()
            .saturating_sub(bounds.silent_per_host_max())
            .max(self.n_unnamed_of(host, n_of_host, bounds).saturating_sub(bounds.per_host_max()));
        self.of_host_by_worth(host, &silent).take(n_surplus).collect()
    }

    /// Returns the number of connections of `host` to unnamed peers. They are counted only if the
    /// total exceeds the limit, since that is slow.
    fn n_unnamed_of(&self, host: HostNetwork, n_all: usize, bounds: ConnectionBounds) -> usize {
        if n_all <= bounds.per_host_max() {
            return n_all;
        }
        self.connections.of_host(host).filter(|(_, at)| !self.is_named(at.peer)).count()
    }

    /// Returns the connections of `host` that may be closed, in that order.
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

    /// Returns true if the peer opened the connection and has not sent a valid message.
    fn is_silent(&self, established: &Established) -> bool {
        established.is_inbound && !self.guard.is_useful(established.peer)
    }

    fn is_named(&self, peer: PeerId) -> bool {
        self.dialer.is_boot_node(peer) || self.guard.is_named(peer)
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(Established { peer, .. }) = self.connections.remove(connection) {
            // Prevents an immediate new dial.
            self.dialer.forget(peer, Instant::now());
            self.swarm.close_connection(connection);
        }
    }

    /// Records that connected `peer` has the same role as this node. Disconnects it if there are
    /// enough of these.
    pub(super) fn take_neighbor(&mut self, peer: PeerId) {
        if self.is_named(peer) || self.neighbors.contains(&peer) {
            return;
        }
        if !self.swarm.is_connected(&peer) {
            // It disconnected before this was known, as a peer with enough neighbors does.
            return self.leave_alone(peer);
        }
        // A worker looks for 16 neighbors, and accepts some more that connect while the cluster
        // starts.
        if self.neighbors.len() < 24 {
            self.neighbors.insert(peer);
            return;
        }
        debug!(%peer, "disconnected a neighbor: there are enough");
        for connection in self.connections.of_peer(peer) {
            self.close(connection);
        }
        self.leave_alone(peer);
    }

    /// Records that the last connection to `peer` was closed. A neighbor is not dialed again: it
    /// has enough neighbors, or reconnects itself.
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
    use super::*;

    fn established(peer: PeerId, address: &str) -> Established {
        let address = address.parse().unwrap();
        let (host, scope) = (host_network(&address), Scope::from_address(&address));
        Established { peer, host, scope, is_inbound: true }
    }

    #[test]
    fn closed_connection_leaves_nothing() {
        let mut connections = Connections::default();
        let (near, far) = (PeerId::random(), PeerId::random());
        let id = ConnectionId::new_unchecked;
        connections.insert(id(1), established(near, "/ip4/127.0.0.1/tcp/1"));
        connections.insert(id(2), established(near, "/ip4/10.0.0.1/tcp/1"));
        connections.insert(id(3), established(far, "/ip4/8.8.8.8/tcp/1"));
        assert_eq!(connections.scope_of(near), Some(Scope::Private));
        assert_eq!(connections.farthest(), Some(Scope::Public));
        assert_eq!(connections.of_peer(near), [id(1), id(2)]);
        connections.remove(id(3));
        connections.remove(id(2));
        assert_eq!((connections.scope_of(far), connections.len()), (None, 1));
        assert_eq!(connections.scope_of(near), Some(Scope::Loopback));
        assert_eq!(connections.farthest(), Some(Scope::Loopback));
        connections.remove(id(1));
        let Connections { by_id, by_peer, by_host, n_by_scope } = connections;
        assert!(by_id.is_empty() && by_peer.is_empty());
        assert!(by_host.is_empty() && n_by_scope.is_empty());
    }

    #[test]
    fn useful_connection_is_not_checked_again() {
        let mut connections = Connections::default();
        let peers = [PeerId::random(), PeerId::random()];
        for (n, peer) in peers.iter().enumerate() {
            let id = ConnectionId::new_unchecked(n);
            connections.insert(id, established(*peer, "/ip4/10.0.0.1/tcp/1"));
        }
        let host = host_network(&"/ip4/10.0.0.1/tcp/9".parse().unwrap());
        let silent = connections.silent_of_host(host, |established| established.peer == peers[1]);
        assert_eq!(silent.into_iter().collect::<Vec<_>>(), [ConnectionId::new_unchecked(1)]);
        assert_eq!(connections.silent_of_host(host, |_| true).len(), 1);
        assert_eq!((connections.n_of_host(host), connections.of_host(host).count()), (2, 2));
    }
}

#[cfg(test)]
mod pressure_tests {
    use super::{super::super::CONNECTIONS, *};

    #[test]
    fn limits_of_one_host_follow_the_limit_of_all() {
        assert_eq!((CONNECTIONS.per_host_max(), CONNECTIONS.silent_per_host_max()), (1229, 256));
        let large = ConnectionBounds::around(10_000);
        assert_eq!((large.per_host_max(), large.silent_per_host_max()), (6_000, 1_200));
    }
}
