//! The connections that stand, by peer, by host and by how far they reach: nothing here takes longer
//! where more of them stand, since a head looks at each that comes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use libp2p::{PeerId, core::ConnectedPoint, swarm::ConnectionId};
use web::address::Network as HostNetwork;

use super::super::{
    address_scope::{Scope, host_network, remote},
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
