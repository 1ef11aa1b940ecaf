//! Established connections, and the choice of connections to close: surplus connections,
//! connections to unneeded neighbors, and connections to a peer that connects again.
//!
//! A peer only dials another peer while it has no connection to it. If it connects again, it has lost the
//! earlier connection without notice: its link was cut or its machine failed. State that belongs to a
//! connection is then known to one side only. For example, gossip announces its topics on the first
//! connection to a peer only, so a head would not learn that a worker listens. Therefore all connections
//! of the peer are closed. The peer dials again immediately, and both sides start over.
//!
//! A peer that dials an outdated id of this node closes the new connection as soon as it learns the
//! current id, and keeps the earlier one. Therefore a new connection counts only once the peer has
//! identified itself on it.

use std::collections::BTreeMap;
use std::time::Duration;

use libp2p::PeerId;
use libp2p::core::ConnectedPoint;
use libp2p::swarm::ConnectionId;
use tokio::time::Instant;
use tracing::{debug, info};
use web::address::Network as HostNetwork;

use super::Actor;
use crate::network::ConnectionBounds;
use crate::network::address::{Scope, host_network};
use crate::network::resolve::Names;

/// An established connection.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Established {
    peer: PeerId,
    /// Host of the other end.
    pub(super) host: HostNetwork,
    scope: Scope,
    is_inbound: bool,
    since: Instant,
}

/// Established connections, the oldest first.
pub(in super::super) type Connections = BTreeMap<ConnectionId, Established>;

impl Established {
    pub(super) fn new(peer: PeerId, endpoint: &ConnectedPoint, names: &Names) -> Self {
        let address = endpoint.get_remote_address();
        Self {
            peer,
            host: host_network(address),
            scope: names.scope_of(address),
            is_inbound: endpoint.is_listener(),
            since: Instant::now(),
        }
    }
}

/// Connections younger than this might belong to one attempt: both sides dialed, or one side dialed
/// several addresses. A dial can take this long.
const YOUNG_FOR: Duration = Duration::from_secs(10);

/// The silent peers of one host can use at most the total number of connections divided by this. An
/// honest peer is silent only for a few round trips, until it sends a valid message.
const SILENT_HOST_PART: usize = 10;

/// Lower bound for the limit of silent connections per host. It is enough for workers that start
/// together on one machine.
const SILENT_PER_HOST_MIN: usize = 256;

impl ConnectionBounds {
    /// Returns the maximum number of connections of a host.
    const fn per_host_max(self) -> usize {
        // More than the workers of one machine usually need.
        self.high as usize / 2
    }

    /// Returns the maximum number of silent connections of a host.
    fn silent_per_host_max(self) -> usize {
        (self.high as usize / SILENT_HOST_PART).max(SILENT_PER_HOST_MIN)
    }
}

impl Actor {
    /// Returns the scope of the most distant connection to `peer`.
    pub(super) fn scope_of(&self, peer: PeerId) -> Scope {
        let of_peer = self.connections.values().filter(|established| established.peer == peer);
        of_peer.map(|established| established.scope).max().unwrap_or(Scope::Public)
    }

    /// Updates the scopes of all connections. The scopes determine which host names and addresses can be
    /// dialed.
    pub(super) fn note_scopes(&self) {
        self.names.set_connections(self.connections.values().map(|established| established.scope));
    }

    /// Closes surplus connections: of all hosts if there are too many in total, else of `host`, which
    /// has just connected. Connections of silent peers are closed first, beginning with the oldest, so
    /// that a newcomer has time to send something. Other connections follow, beginning with the latest.
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
            if let Some(peer) = self.close(connection) {
                // Otherwise the peer would be dialed again immediately.
                self.dialer.forget(peer, Instant::now());
            }
        }
    }

    /// Returns the `n` connections that should be closed first.
    fn least_worth(&self, n: usize) -> Vec<ConnectionId> {
        let (silent, useful): (Vec<_>, Vec<_>) = self
            .connections
            .iter()
            .filter(|(_, established)| !self.is_named(established.peer))
            .partition(|(_, established)| self.is_silent(established));
        silent.into_iter().chain(useful.into_iter().rev()).take(n).map(|(id, _)| *id).collect()
    }

    /// Returns the surplus connections of `host`.
    fn surplus_of(&self, host: HostNetwork, bounds: ConnectionBounds) -> Vec<ConnectionId> {
        let of_host = || self.connections.iter().filter(|(_, at)| at.host == host);
        if of_host().count() <= bounds.silent_per_host_max() {
            return Vec::new();
        }
        let (silent, useful): (Vec<_>, Vec<_>) = of_host()
            .filter(|(_, at)| !self.is_named(at.peer))
            .partition(|(_, at)| self.is_silent(at));
        let n_silent = silent.len().saturating_sub(bounds.silent_per_host_max());
        let n_all = (silent.len() + useful.len()).saturating_sub(bounds.per_host_max());
        let by_worth = silent.into_iter().chain(useful.into_iter().rev());
        by_worth.take(n_silent.max(n_all)).map(|(id, _)| *id).collect()
    }

    /// Returns true if the peer opened the connection and has not sent a valid message.
    fn is_silent(&self, established: &Established) -> bool {
        established.is_inbound && !self.guard.is_useful(established.peer)
    }

    fn is_named(&self, peer: PeerId) -> bool {
        self.dialer.is_boot_node(peer) || self.guard.is_named(peer)
    }

    /// Closes a connection. Returns its peer, which can still be dialed at its known addresses.
    fn close(&mut self, connection: ConnectionId) -> Option<PeerId> {
        let Established { peer, .. } = self.connections.remove(&connection)?;
        self.swarm.close_connection(connection);
        Some(peer)
    }

    /// Closes all connections to `peer`.
    fn close_all(&mut self, peer: PeerId) {
        let of_peer = self.connections.iter().filter(|(_, at)| at.peer == peer);
        for connection in of_peer.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(connection);
        }
    }

    /// Records that a peer has identified itself on a connection. If the peer has connected again,
    /// closes all its connections.
    pub(super) fn note_identified(&mut self, id: ConnectionId) {
        let Some(new) = self.connections.get(&id).copied().filter(|new| new.is_inbound) else {
            return;
        };
        let is_repeated = self.connections.values().any(|earlier| {
            earlier.peer == new.peer
                && new.since.saturating_duration_since(earlier.since) >= YOUNG_FOR
        });
        if is_repeated {
            info!(peer = %new.peer, "a peer has connected again: closed its earlier connection");
            self.close_all(new.peer);
        }
    }

    /// Records that connected `peer` has the same role as this node. Disconnects the peer if there are
    /// enough neighbors.
    pub(super) fn take_neighbor(&mut self, peer: PeerId) {
        if self.is_named(peer) || self.neighbors.contains(&peer) {
            return;
        }
        if !self.swarm.is_connected(&peer) {
            // The peer disconnected before its role was known, most likely since it has enough neighbors.
            return self.leave_alone(peer);
        }
        // A worker looks for 16 neighbors and accepts some more that connect while the cluster starts.
        if self.neighbors.len() < 24 {
            self.neighbors.insert(peer);
            return;
        }
        debug!(%peer, "disconnected a neighbor: there are enough");
        self.close_all(peer);
        self.leave_alone(peer);
    }

    /// Records that the last connection to `peer` was closed. A neighbor is not dialed again, since it
    /// has enough neighbors or reconnects itself.
    pub(super) fn part_with(&mut self, peer: PeerId) {
        if self.neighbors.remove(&peer) {
            self.leave_alone(peer);
        }
    }

    /// Prevents `peer` from being dialed for a while, even if the table names it.
    pub(super) fn leave_alone(&mut self, peer: PeerId) {
        self.dialer.forget(peer, Instant::now());
        if let Some(table) = self.swarm.behaviour_mut().table.as_mut() {
            table.rest(peer);
        }
    }
}

#[cfg(test)]
mod pressure_tests {
    use super::super::super::CONNECTIONS;
    use super::*;

    #[test]
    fn connection_limits_per_host_grow_with_the_total_limit() {
        assert_eq!((CONNECTIONS.per_host_max(), CONNECTIONS.silent_per_host_max()), (1229, 256));
        let large = ConnectionBounds::around(10_000);
        assert_eq!((large.per_host_max(), large.silent_per_host_max()), (6_000, 1_200));
    }
}
