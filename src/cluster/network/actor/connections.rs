//! Established connections, and which of them to close: those above a bound, and neighbors that this node
//! does not need.
//!
//! They are indexed by peer, host and scope, so that a new connection costs the same however many there
//! are.

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

/// A connection that stands.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Standing {
    pub(in super::super) peer: PeerId,
    /// The host that it comes from or goes to.
    pub(in super::super) host: HostNetwork,
    pub(in super::super) scope: Scope,
    pub(super) is_inbound: bool,
}

/// The connections that stand.
#[derive(Debug, Default)]
pub(in super::super) struct Connections {
    /// The oldest first.
    by_id: BTreeMap<ConnectionId, Standing>,
    by_peer: HashMap<PeerId, Vec<ConnectionId>>,
    by_host: HashMap<HostNetwork, OfHost>,
    n_by_scope: BTreeMap<Scope, usize>,
}

/// The connections of one host.
#[derive(Debug, Default)]
struct OfHost {
    all: BTreeSet<ConnectionId>,
    /// Those that peers opened who had not sent anything of use when they were last looked at.
    silent: BTreeSet<ConnectionId>,
}

impl Standing {
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
    pub(super) fn insert(&mut self, id: ConnectionId, standing: Standing) {
        self.remove(id);
        self.by_id.insert(id, standing);
        self.by_peer.entry(standing.peer).or_default().push(id);
        let of_host = self.by_host.entry(standing.host).or_default();
        of_host.all.insert(id);
        if standing.is_inbound {
            of_host.silent.insert(id);
        }
        *self.n_by_scope.entry(standing.scope).or_default() += 1;
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Standing> {
        let standing = self.by_id.remove(&id)?;
        if let Some(of_peer) = self.by_peer.get_mut(&standing.peer) {
            of_peer.retain(|known| *known != id);
            if of_peer.is_empty() {
                self.by_peer.remove(&standing.peer);
            }
        }
        if let Some(of_host) = self.by_host.get_mut(&standing.host) {
            of_host.all.remove(&id);
            of_host.silent.remove(&id);
            if of_host.all.is_empty() {
                self.by_host.remove(&standing.host);
            }
        }
        if let Some(n) = self.n_by_scope.get_mut(&standing.scope) {
            *n -= 1;
            if *n == 0 {
                self.n_by_scope.remove(&standing.scope);
            }
        }
        Some(standing)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (ConnectionId, &Standing)> {
        self.by_id.iter().map(|(id, standing)| (*id, standing))
    }

    /// Those to `peer`.
    pub(super) fn of_peer(&self, peer: PeerId) -> Vec<ConnectionId> {
        self.by_peer.get(&peer).cloned().unwrap_or_default()
    }

    /// Where `peer` is, as its farthest connection tells.
    pub(super) fn scope_of(&self, peer: PeerId) -> Option<Scope> {
        let own = self.by_peer.get(&peer)?.iter().filter_map(|id| self.by_id.get(id));
        own.map(|standing| standing.scope).max()
    }

    /// How far the farthest of them reaches.
    pub(super) fn farthest(&self) -> Option<Scope> {
        self.n_by_scope.last_key_value().map(|(scope, _)| *scope)
    }

    /// How many are of `host`.
    pub(super) fn n_of_host(&self, host: HostNetwork) -> usize {
        self.by_host.get(&host).map_or(0, |of_host| of_host.all.len())
    }

    /// Those of `host`, the oldest first.
    pub(super) fn of_host(
        &self,
        host: HostNetwork,
    ) -> impl DoubleEndedIterator<Item = (ConnectionId, &Standing)> {
        let all = self.by_host.get(&host).into_iter().flat_map(|of_host| &of_host.all);
        all.filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    /// Those of `host` that are silent still, as `is_silent` says: each is asked after until it is not
    /// once.
    pub(super) fn silent_of_host(
        &mut self,
        host: HostNetwork,
        is_silent: impl Fn(&Standing) -> bool,
    ) -> BTreeSet<ConnectionId> {
        let Some(of_host) = self.by_host.get_mut(&host) else { return BTreeSet::new() };
        of_host.silent.retain(|id| self.by_id.get(id).is_some_and(&is_silent));
        of_host.silent.clone()
    }
}

/// The part of all connections that one host may have whose peers have not sent a message that could be
/// read, as its divisor. An honest peer does so within a round trip or two.
const SILENT_HOST_PART: usize = 10;

/// So many silent ones one host may have in any case: workers that start together on one machine.
const SILENT_PER_HOST_MIN: usize = 256;

impl ConnectionBounds {
    /// Connections of one host.
    const fn per_host_max(self) -> usize {
        // Half of all connections is more than the workers of one machine usually need.
        self.high as usize / 2
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
        // A worker looks for 16 neighbors, and accepts some more that come while the cluster starts.
        if self.neighbors.len() < 24 {
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
    use super::*;

    fn standing(peer: PeerId, address: &str) -> Standing {
        let address = address.parse().unwrap();
        let (host, scope) = (host_network(&address), Scope::from_address(&address));
        Standing { peer, host, scope, is_inbound: true }
    }

    #[test]
    fn nothing_is_left_of_a_connection_that_is_gone() {
        let mut connections = Connections::default();
        let (near, far) = (PeerId::random(), PeerId::random());
        let id = ConnectionId::new_unchecked;
        connections.insert(id(1), standing(near, "/ip4/127.0.0.1/tcp/1"));
        connections.insert(id(2), standing(near, "/ip4/10.0.0.1/tcp/1"));
        connections.insert(id(3), standing(far, "/ip4/8.8.8.8/tcp/1"));
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
    fn one_that_was_of_use_is_not_asked_after_again() {
        let mut connections = Connections::default();
        let peers = [PeerId::random(), PeerId::random()];
        for (n, peer) in peers.iter().enumerate() {
            let id = ConnectionId::new_unchecked(n);
            connections.insert(id, standing(*peer, "/ip4/10.0.0.1/tcp/1"));
        }
        let host = host_network(&"/ip4/10.0.0.1/tcp/9".parse().unwrap());
        let silent = connections.silent_of_host(host, |standing| standing.peer == peers[1]);
        assert_eq!(silent.into_iter().collect::<Vec<_>>(), [ConnectionId::new_unchecked(1)]);
        assert_eq!(connections.silent_of_host(host, |_| true).len(), 1);
        assert_eq!((connections.n_of_host(host), connections.of_host(host).count()), (2, 2));
    }
}

#[cfg(test)]
mod pressure_tests {
    use super::{super::super::CONNECTIONS, *};

    #[test]
    fn what_one_host_may_have_follows_the_bound_and_is_never_all() {
        assert_eq!((CONNECTIONS.per_host_max(), CONNECTIONS.silent_per_host_max()), (1229, 256));
        let large = ConnectionBounds::around(10_000);
        assert_eq!((large.per_host_max(), large.silent_per_host_max()), (6_000, 1_200));
    }
}
