//! Where an address is: on this machine, in a private network, or public. Values alone, no I/O.

use std::net::{IpAddr, Ipv4Addr};

use libp2p::{Multiaddr, core::ConnectedPoint, multiaddr::Protocol};
use web::address::Network as HostNetwork;

/// How far an address reaches, from the nearest to the farthest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Loopback,
    /// A private or link-local network.
    Private,
    /// Everywhere. Names count as such: what they resolve to is not known yet.
    Public,
}

impl Scope {
    /// Where `address` is.
    pub(super) fn from_address(address: &Multiaddr) -> Self {
        ip(address).map_or(Self::Public, Self::of_ip)
    }

    /// Where `ip` is.
    pub(super) fn of_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) if ip.is_loopback() || ip.is_unspecified() => Self::Loopback,
            IpAddr::V6(ip) if ip.is_loopback() || ip.is_unspecified() => Self::Loopback,
            IpAddr::V4(ip) if is_private_v4(ip) => Self::Private,
            IpAddr::V6(ip) if ip.is_unique_local() || ip.is_unicast_link_local() => Self::Private,
            IpAddr::V4(_) | IpAddr::V6(_) => Self::Public,
        }
    }

    /// Whether a peer at this scope may name `address`: one that is not nearer to this node than the
    /// peer itself. A stranger far away knows nothing of what is near, and would have this node dial
    /// services of its own network.
    pub(super) fn may_name(self, address: &Multiaddr) -> bool {
        Self::from_address(address) >= self
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    // 100.64.0.0/10 is shared between customers of one provider, and the net of overlay networks.
    ip.is_private() || ip.is_link_local() || (a == 100 && b & 0xc0 == 64)
}

/// The address of the other side of a connection; that of the relay for one that comes through it.
pub(super) fn remote(endpoint: &ConnectedPoint) -> &Multiaddr {
    match endpoint {
        ConnectedPoint::Listener { local_addr, .. } if endpoint.is_relayed() => local_addr,
        _ => endpoint.get_remote_address(),
    }
}

/// The IP address in `address`, if it begins with one.
pub(super) fn ip(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

/// The network of a peer at `address`, whose connections are counted together; all addresses without
/// an IP address count as one.
pub(super) fn host_network(address: &Multiaddr) -> HostNetwork {
    HostNetwork::from_address(ip(address).unwrap_or(Ipv4Addr::UNSPECIFIED.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, want: Scope) {
        let address: Multiaddr = address.parse().unwrap();
        assert_eq!(Scope::from_address(&address), want, "{address}");
    }

    #[test]
    fn addresses_are_here_near_or_far() {
        check("/ip4/127.0.0.1/tcp/1", Scope::Loopback);
        check("/ip4/0.0.0.0/tcp/1", Scope::Loopback);
        check("/ip6/::1/tcp/1", Scope::Loopback);
        check("/ip6/::ffff:127.0.0.1/tcp/1", Scope::Loopback);
        check("/ip4/10.1.2.3/tcp/1", Scope::Private);
        check("/ip4/169.254.169.254/tcp/80", Scope::Private);
        check("/ip4/100.64.0.1/tcp/1", Scope::Private);
        check("/ip6/fd00::1/tcp/1", Scope::Private);
        check("/ip4/8.8.8.8/tcp/1", Scope::Public);
        check("/dns/example.com/tcp/1", Scope::Public);
    }

    #[test]
    fn a_peer_names_nothing_nearer_than_itself() {
        let named = |scope: Scope, address: &str| scope.may_name(&address.parse().unwrap());
        assert!(named(Scope::Loopback, "/ip4/127.0.0.1/tcp/1"));
        assert!(named(Scope::Private, "/ip4/10.0.0.1/tcp/1"));
        assert!(!named(Scope::Private, "/ip4/127.0.0.1/tcp/1"));
        assert!(!named(Scope::Public, "/ip4/10.0.0.1/tcp/1"));
        assert!(named(Scope::Public, "/ip4/8.8.8.8/tcp/1"));
    }

    #[test]
    fn addresses_of_one_prefix_are_one_host() {
        let of = |address: &str| host_network(&address.parse().unwrap());
        assert_eq!(of("/ip6/2001:db8::1/tcp/1"), of("/ip6/2001:db8::2/tcp/2"));
        assert_ne!(of("/ip6/2001:db8::1/tcp/1"), of("/ip6/2001:db8:0:1::1/tcp/1"));
        assert_eq!(of("/ip4/10.0.0.1/tcp/1"), of("/ip4/10.0.0.1/tcp/2"));
        assert_ne!(of("/ip4/10.0.0.1/tcp/1"), of("/ip4/10.0.0.2/tcp/1"));
    }
}
