//! Per-network connection limit.

use std::net::IpAddr;

use task::tally::{Counted, Tally};

use crate::address::{AddressSource, Neighborhood};

/// The connections of each network that counts.
#[derive(Debug, Clone)]
pub(super) struct NetworkLimit {
    n_max: usize,
    /// Whether a caller from there counts for itself alone.
    is_exempt: fn(IpAddr) -> bool,
    taken: Tally<Neighborhood>,
}

/// A connection of a network that counts, until this is dropped.
pub(super) type NetworkPermit = Counted<Neighborhood>;

impl NetworkLimit {
    /// At most `n_max` of each network that is not exempt.
    pub(super) fn new(n_max: usize, is_exempt: fn(IpAddr) -> bool) -> Self {
        Self { n_max, is_exempt, taken: Tally::default() }
    }

    /// The same where connections tell callers apart only as far as `addresses` says: this machine's
    /// own programs count for themselves, and so does a proxy.
    pub(super) fn for_source(addresses: AddressSource, n_max: usize) -> Self {
        Self::new(
            n_max,
            match addresses {
                AddressSource::Connection => |address| address.to_canonical().is_loopback(),
                AddressSource::Proxy => |_| true,
            },
        )
    }

    /// A limit of the requests that a proxy forwards, each of which has a connection from it: of all
    /// networks.
    pub(super) fn of_forwarded(n_max: usize) -> Self {
        Self::new(n_max, |_| false)
    }

    /// Counts a connection from `address`; none to hold where it is exempt.
    ///
    /// # Errors
    /// [`Full`] if its network has its share.
    pub(super) fn take(&self, address: IpAddr) -> Result<Option<NetworkPermit>, Full> {
        if (self.is_exempt)(address) {
            return Ok(None);
        }
        let has_room = |n_own, _| n_own < self.n_max;
        self.taken.add(&Neighborhood::from_address(address), has_room).map(Some).ok_or(Full)
    }
}

/// A network has all the connections it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(networks: &NetworkLimit, address: &str) -> Result<Option<NetworkPermit>, Full> {
        networks.take(address.parse().unwrap())
    }

    #[test]
    fn a_network_at_its_limit_leaves_others_theirs() {
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
