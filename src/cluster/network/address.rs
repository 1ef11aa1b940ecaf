//! Addresses of nodes: which to dial, which to tell others, and how far each reaches. No I/O.

use std::{
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

use libp2p::{Multiaddr, core::ConnectedPoint, multiaddr::Protocol};
use model::node::PeerId;
use web::address::Network as HostNetwork;

use crate::identity::model_peer_id;

/// A node to connect to: `/ip4/<address>/tcp/<port>/p2p/<peer id>`, also with `ip6`, `dns`, `dns4` or
/// `dns6`, and with `/ws` after the port for a websocket (`/wss` or `/tls/ws` for one in TLS).
#[derive(Debug, Clone, derive_more::Display, PartialEq, Eq)]
#[display("{address}/p2p/{peer}")]
pub struct BootNode {
    pub(super) peer: libp2p::PeerId,
    pub(super) address: Multiaddr,
}

/// A text names no boot node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{text}` as a boot node, which is /ip4/<address>/tcp/<port>/p2p/<peer id>")]
pub struct BootNodeError {
    text: String,
}

impl BootNode {
    /// The node's id.
    pub fn peer_id(&self) -> PeerId {
        model_peer_id(self.peer)
    }
}

impl FromStr for BootNode {
    type Err = BootNodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || BootNodeError { text: text.chars().take(160).collect() };
        // A DNS name has at most 253 bytes, a peer id 52.
        if text.len() > 512 {
            return Err(wrong());
        }
        let mut address: Multiaddr = text.parse().map_err(|_| wrong())?;
        let Some(Protocol::P2p(peer)) = address.pop() else { return Err(wrong()) };
        if is_dialable(&address) { Ok(Self { peer, address }) } else { Err(wrong()) }
    }
}

/// An address under which others reach a node that is behind NAT or a name:
/// `/ip4|ip6|dns/<address>/tcp/<port>`, with `/ws` for its websocket.
#[derive(Debug, Clone, derive_more::Display, PartialEq, Eq)]
pub struct Advertised(pub(super) Multiaddr);

/// A text is no host under which a node could be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("advertise `{host}`, which is neither an IP address nor a host name, with port {port}")]
pub struct AdvertisedError {
    host: String,
    port: u16,
}

impl Advertised {
    /// The address of the TCP listener as seen from outside: an IP address or a DNS name, and a port.
    ///
    /// # Errors
    /// [`AdvertisedError`] if `host` is neither, or `port` is 0.
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

    /// The address of the websocket listener as seen from outside.
    ///
    /// # Errors
    /// As [`Self::tcp`].
    pub fn websocket(host: &str, port: u16) -> Result<Self, AdvertisedError> {
        Self::tcp(host, port).map(|Self(address)| Self(address.with(Protocol::Ws("/".into()))))
    }
}

/// Whether a node here could dial `address`, which names no peer.
pub(super) fn is_dialable(address: &Multiaddr) -> bool {
    use Protocol::{Dns, Dns4, Dns6, Ip4, Ip6, Tcp, Tls, Ws, Wss};
    let parts: Vec<Protocol<'_>> = address.iter().collect();
    let [Ip4(_) | Ip6(_) | Dns(_) | Dns4(_) | Dns6(_), Tcp(1..), rest @ ..] = parts.as_slice()
    else {
        return false;
    };
    matches!(rest, [] | [Ws(_) | Wss(_)] | [Tls, Ws(_)])
}

/// Whether `address`, which names no peer at its end, is one behind a relay.
pub(super) fn is_circuit(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len()) && label.chars().all(is_allowed)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_boot_node_is_a_tcp_or_websocket_address_that_names_its_peer() {
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
    fn an_advertised_host_is_an_address_or_a_name() {
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
        fn any_text_is_an_address_or_an_error(text in "(/?[a-z0-9]{0,6}/?[ -~]{0,12}){0,6}") {
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
