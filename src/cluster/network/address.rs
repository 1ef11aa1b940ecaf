//! Addresses of nodes: whether they can be dialed or announced, and their scope. No I/O.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use model::node::PeerId;
use web::address::Network as HostNetwork;

use crate::identity::model_peer_id;

/// A node to connect to: `/ip4/<address>/tcp/<port>/p2p/<peer id>`, or with `ip6`, `dns`, `dns4` or
/// `dns6`. `/ws` after the port means a websocket (`/wss` or `/tls/ws` with TLS).
#[derive(Debug, Clone, derive_more::Display, PartialEq, Eq)]
#[display("{address}/p2p/{peer}")]
pub struct BootNode {
    pub(super) peer: libp2p::PeerId,
    pub(super) address: Multiaddr,
}

/// Error for a text that is not the address of a boot node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid boot node `{text}`; expected /ip4/<address>/tcp/<port>/p2p/<peer id>")]
pub struct BootNodeError {
    text: String,
}

impl BootNode {
    /// Returns the id of the node.
    pub fn peer_id(&self) -> PeerId {
        model_peer_id(self.peer)
    }
}

impl FromStr for BootNode {
    type Err = BootNodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || BootNodeError { text: text.chars().take(160).collect() };
        // Valid texts are shorter: a DNS name has at most 253 bytes, a peer id 52.
        if text.len() > 512 {
            return Err(wrong());
        }
        let mut address: Multiaddr = text.parse().map_err(|_| wrong())?;
        let Some(Protocol::P2p(peer)) = address.pop() else { return Err(wrong()) };
        if is_dialable(&address) { Ok(Self { peer, address }) } else { Err(wrong()) }
    }
}

/// Address at which other nodes reach a node behind NAT or by its host name:
/// `/ip4|ip6|dns/<address>/tcp/<port>`, with `/ws` for its websocket.
#[derive(Debug, Clone, derive_more::Display, PartialEq, Eq)]
pub struct Advertised(pub(super) Multiaddr);

/// Error for a host or port that cannot be advertised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{host}` with port {port} cannot be advertised; expected an IP address or host name, and a port"
)]
pub struct AdvertisedError {
    host: String,
    port: u16,
}

impl Advertised {
    /// Returns the external address of the TCP listener with an IP address or host name and a port.
    ///
    /// # Errors
    /// Returns [`AdvertisedError`] if `host` is neither, or `port` is 0.
    pub fn tcp(host: &str, port: u16) -> Result<Self, AdvertisedError> {
        let wrong = || AdvertisedError { host: host.chars().take(80).collect(), port };
        let named = |name: &str| format!("/dns/{name}").parse::<Multiaddr>();
        let address = match host.parse::<IpAddr>() {
            Ok(ip) if ip.is_unspecified() => return Err(wrong()),
            Ok(ip) => Ok(Multiaddr::from(ip)),
            Err(_) if is_host_name(host) => named(host),
            Err(_) => return Err(wrong()),
        };
        match address {
            Ok(address) if port != 0 => Ok(Self(address.with(Protocol::Tcp(port)))),
            _ => Err(wrong()),
        }
    }

    /// Returns the external address of the websocket listener.
    ///
    /// # Errors
    /// As [`Self::tcp`].
    pub fn websocket(host: &str, port: u16) -> Result<Self, AdvertisedError> {
        Self::tcp(host, port).map(|Self(address)| Self(address.with(Protocol::Ws("/".into()))))
    }
}

/// Returns true if this node could dial `address`, which has no peer id.
pub(super) fn is_dialable(address: &Multiaddr) -> bool {
    use Protocol::{Dns, Dns4, Dns6, Ip4, Ip6, Tcp, Tls, Ws, Wss};
    let parts: Vec<Protocol<'_>> = address.iter().collect();
    let [Ip4(_) | Ip6(_) | Dns(_) | Dns4(_) | Dns6(_), Tcp(1..), rest @ ..] = parts.as_slice()
    else {
        return false;
    };
    matches!(rest, [] | [Ws(_) | Wss(_)] | [Tls, Ws(_)])
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len()) && label.chars().all(is_allowed)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Scope of an address, from the nearest to the farthest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Loopback,
    /// A private or link-local network.
    Private,
    /// Any address on the Internet. Includes host names, since their addresses are not known yet.
    Public,
}

impl Scope {
    /// Returns the scope of `address`.
    pub(super) fn from_address(address: &Multiaddr) -> Self {
        ip(address).map_or(Self::Public, Self::of_ip)
    }

    /// Returns the scope of `ip`.
    pub(super) fn of_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) if ip.is_loopback() || ip.is_unspecified() => Self::Loopback,
            IpAddr::V6(ip) if ip.is_loopback() || ip.is_unspecified() => Self::Loopback,
            IpAddr::V4(ip) if is_private_v4(ip) => Self::Private,
            IpAddr::V6(ip) if ip.is_unique_local() || ip.is_unicast_link_local() => Self::Private,
            IpAddr::V4(_) | IpAddr::V6(_) => Self::Public,
        }
    }

    /// Returns true if `address` can be dialed and a peer at this scope is allowed to name it. The
    /// address must not be nearer than the peer itself. Otherwise a distant stranger could make this
    /// node dial services in its own network.
    pub(super) fn may_name(self, address: &Multiaddr) -> bool {
        is_dialable(address) && Self::from_address(address) >= self
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    // The last condition is 100.64.0.0/10, which providers share among their customers and overlay
    // networks use.
    ip.is_private() || ip.is_link_local() || (a == 100 && b & 0xc0 == 64)
}

/// Returns the IP address that `address` begins with, if any.
pub(super) fn ip(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

/// Returns the network of a peer at `address`. Connections are counted per network. All addresses
/// without an IP address belong to one network.
pub(super) fn host_network(address: &Multiaddr) -> HostNetwork {
    HostNetwork::from_address(ip(address).unwrap_or(Ipv4Addr::UNSPECIFIED.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn boot_node_is_a_tcp_or_websocket_address_with_a_peer_id() {
        let peer = libp2p::PeerId::random();
        for address in [
            "/ip4/10.0.0.1/tcp/9527",
            "/ip6/::1/tcp/1",
            "/dns4/head.example/tcp/9527",
            "/dns6/head.example/tcp/9527",
            "/dns/head/tcp/9527/ws",
            "/ip4/10.0.0.1/tcp/80/ws",
            "/dns4/head.example/tcp/443/wss",
            "/dns4/head.example/tcp/443/tls/ws",
        ] {
            let text = format!("{address}/p2p/{peer}");
            let node: BootNode = text.parse().unwrap();
            assert_eq!((node.to_string(), node.peer_id().to_string()), (text, peer.to_string()));
        }
        for address in [
            "",
            "/ip4/10.0.0.1",
            "/ip4/10.0.0.1/tcp/0",
            "/ip4/10.0.0.1/udp/1/quic-v1",
            "/dnsaddr/head.example",
            "/ip4/10.0.0.1/tcp/1/tls",
        ] {
            assert!(format!("{address}/p2p/{peer}").parse::<BootNode>().is_err(), "{address}");
        }
        for text in ["", "10.0.0.1:9527", "/ip4/10.0.0.1/tcp/9527"] {
            assert!(text.parse::<BootNode>().is_err(), "{text}");
        }
    }

    #[test]
    fn advertised_host_is_an_ip_address_or_a_name() {
        for (host, want) in [
            ("203.0.113.7", "/ip4/203.0.113.7/tcp/9527"),
            ("2001:db8::7", "/ip6/2001:db8::7/tcp/9527"),
            ("head.example", "/dns/head.example/tcp/9527"),
        ] {
            assert_eq!(Advertised::tcp(host, 9527).unwrap().0.to_string(), want);
            let websocket = Advertised::websocket(host, 9527).unwrap();
            assert_eq!(websocket.0.to_string(), format!("{want}/ws"));
        }
        for host in ["", "0.0.0.0", "a/b", "head..example", "head example"] {
            assert!(Advertised::tcp(host, 9527).is_err(), "{host}");
        }
        assert!(Advertised::tcp("203.0.113.7", 0).is_err());
    }

    proptest! {
        #[test]
        fn boot_node_parsed_from_arbitrary_text_round_trips(
            text in "(/?[a-z0-9]{0,6}/?[ -~]{0,12}){0,6}",
        ) {
            if let Ok(node) = text.parse::<BootNode>() {
                prop_assert_eq!(node.to_string().parse::<BootNode>(), Ok(node));
            }
        }
    }
}

#[cfg(test)]
mod address_scope_tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, want: Scope) {
        let address: Multiaddr = address.parse().unwrap();
        assert_eq!(Scope::from_address(&address), want, "{address}");
    }

    #[test]
    fn scope_of_an_address_depends_on_its_ip_range() {
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
    fn addresses_more_local_than_the_peer_that_names_them_are_not_dialed() {
        let named = |scope: Scope, address: &str| scope.may_name(&address.parse().unwrap());
        assert!(named(Scope::Loopback, "/ip4/127.0.0.1/tcp/1"));
        assert!(named(Scope::Private, "/ip4/10.0.0.1/tcp/1"));
        assert!(!named(Scope::Private, "/ip4/127.0.0.1/tcp/1"));
        assert!(!named(Scope::Public, "/ip4/10.0.0.1/tcp/1"));
        assert!(named(Scope::Public, "/ip4/8.8.8.8/tcp/1"));
    }

    #[test]
    fn ipv6_addresses_of_one_prefix_belong_to_one_host() {
        let of = |address: &str| host_network(&address.parse().unwrap());
        assert_eq!(of("/ip6/2001:db8::1/tcp/1"), of("/ip6/2001:db8::2/tcp/2"));
        assert_ne!(of("/ip6/2001:db8::1/tcp/1"), of("/ip6/2001:db8:0:1::1/tcp/1"));
        assert_eq!(of("/ip4/10.0.0.1/tcp/1"), of("/ip4/10.0.0.1/tcp/2"));
        assert_ne!(of("/ip4/10.0.0.1/tcp/1"), of("/ip4/10.0.0.2/tcp/1"));
    }
}
