//! Per-network connection limit.

use std::net::IpAddr;

use task::tally::{Counted, Tally};

use crate::address::{AddressSource, Neighborhood};

/// Connections of each network that is not exempt.
#[derive(Debug, Clone)]
pub(super) struct NetworkLimit {
    n_max: usize,
    /// Returns true for addresses that are not limited by their network.
    is_exempt: fn(IpAddr) -> bool,
    taken: Tally<Neighborhood>,
}

/// Counts a connection of a network until dropped.
pub(super) type NetworkPermit = Counted<Neighborhood>;

impl NetworkLimit {
    /// Creates a limit of `n_max` for each network that is not exempt.
    pub(super) fn new(n_max: usize, is_exempt: fn(IpAddr) -> bool) -> Self {
        Self { n_max, is_exempt, taken: Tally::default() }
    }

    /// Creates a limit for connections whose callers are identified by `addresses`. This machine's
    /// own programs are exempt, and so is a proxy.
    pub(super) fn for_source(addresses: AddressSource, n_max: usize) -> Self {
        Self::new(
            n_max,
            match addresses {
                AddressSource::Connection => |address| address.to_canonical().is_loopback(),
                AddressSource::Proxy => |_| true,
            },
        )
    }

    /// Creates a limit of the requests that a proxy forwards, for all networks. Each request has
    /// its own connection from the proxy.
    pub(super) fn of_forwarded(n_max: usize) -> Self {
        Self::new(n_max, |_| false)
    }

    /// Counts a connection from `address`. Returns `None` if it is exempt.
    ///
    /// # Errors
    /// [`Full`] if its network has reached the limit.
    pub(super) fn take(&self, address: IpAddr) -> Result<Option<NetworkPermit>, Full> {
        if (self.is_exempt)(address) {
            return Ok(None);
        }
        let has_room = |n_own, _| n_own < self.n_max;
        self.taken.add(&Neighborhood::from_address(address), has_room).map(Some).ok_or(Full)
    }
}

/// A network has reached its limit of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(networks: &NetworkLimit, address: &str) -> Result<Option<NetworkPermit>, Full> {
        networks.take(address.parse().unwrap())
    }

    #[test]
    fn network_at_its_limit_does_not_affect_others() {
        let networks = NetworkLimit::for_source(AddressSource::Connection, 2);
        let first = take(&networks, "192.0.2.7").unwrap();
        let _second = take(&networks, "192.0.2.200").unwrap();
        assert_eq!(take(&networks, "::ffff:192.0.2.8").unwrap_err(), Full);
        let _other = take(&networks, "198.51.100.7").unwrap();
        let _far =
            [take(&networks, "2001:db8::1").unwrap(), take(&networks, "2001:db8::2").unwrap()];
        assert_eq!(take(&networks, "2001:db8::ffff:3").unwrap_err(), Full);
        drop(first);
        drop(take(&networks, "192.0.2.9").unwrap());
        drop(take(&networks, "192.0.2.9").unwrap());
    }

    #[test]
    fn loopback_and_proxies_are_exempt() {
        let networks = NetworkLimit::for_source(AddressSource::Connection, 0);
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(take(&networks, address).unwrap().is_none(), "{address}");
        }
        assert!(take(&networks, "10.0.0.1").is_err());
        assert!(
            take(&NetworkLimit::for_source(AddressSource::Proxy, 0), "10.0.0.1").unwrap().is_none()
        );
        assert!(networks.taken.total() == 0 || networks.n_max == 0);
    }
}
