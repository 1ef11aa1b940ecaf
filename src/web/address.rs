//! Address and network of a caller.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap};

/// Header to which a proxy appends the address of its client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Source from which a caller's address is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressSource {
    /// The peer address of the connection.
    #[default]
    Connection,
    /// The `X-Forwarded-For` header of the proxy in front of the service. The service must be reachable
    /// only through the proxy, since other callers could claim any address.
    Proxy,
}

/// Address from which a request originates. Handlers get it as `ConnectInfo<Caller>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller(pub SocketAddr);

impl Caller {
    /// Creates the caller at `address`. IPv4 addresses are normalized, since an IPv6 socket shows them
    /// as `::ffff:10.0.0.5`.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

/// Network of a caller: an IPv4 address, or the 64-bit prefix of an IPv6 address, since a caller usually
/// has all addresses with this prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(IpAddr);

/// Addresses that are usually rented or operated together: 256 adjacent IPv4 addresses, or all IPv6
/// addresses with the same 64-bit prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Neighborhood(Network);

impl AddressSource {
    /// Returns the address from which a request originates, or `None` if it did not arrive over a
    /// connection.
    #[must_use]
    pub fn caller(self, headers: &HeaderMap, extensions: &Extensions) -> Option<IpAddr> {
        let connection =
            || extensions.get::<ConnectInfo<Caller>>().map(|ConnectInfo(caller)| caller.0.ip());
        match self {
            Self::Connection => connection(),
            Self::Proxy => forwarded(headers).or_else(connection),
        }
    }
}

impl Neighborhood {
    /// Returns the neighborhood of `address`.
    pub(crate) fn from_address(address: IpAddr) -> Self {
        Self(match Network::from_address(address) {
            Network(IpAddr::V4(address)) => {
                let [first, second, third, _] = address.octets();
                Network(Ipv4Addr::new(first, second, third, 0).into())
            }
            network => network,
        })
    }
}

/// Returns the last address in `X-Forwarded-For`, which the proxy appended. Addresses before it may be
/// forged by the caller.
pub(crate) fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all(FORWARDED_FOR).iter().next_back()?;
    // The part of the header that the caller wrote can contain arbitrary bytes.
    let last = last.as_bytes().rsplit(|byte| *byte == b',').next()?;
    let text = std::str::from_utf8(last).ok()?.trim();
    // Some proxies put brackets around the address, or append a port.
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

impl Network {
    /// Returns the network of `address`.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.into()),
            IpAddr::V6(address) => {
                let bits = u128::from(address) & !u128::from(u64::MAX);
                Self(Ipv6Addr::from(bits).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn caller(addresses: AddressSource, forwarded: &[&[u8]]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_bytes(value).unwrap());
        }
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo(Caller("10.0.0.9:1234".parse().unwrap())));
        addresses.caller(&headers, &extensions).map(|address| address.to_string())
    }

    #[test]
    fn caller_behind_a_proxy_is_the_last_forwarded_address() {
        let check = |addresses, forwarded: &[&str], want: &str| {
            let bytes: Vec<_> = forwarded.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(caller(addresses, &bytes).as_deref(), Some(want), "{forwarded:?}");
        };
        check(AddressSource::Connection, &["127.0.0.1"], "10.0.0.9");
        check(AddressSource::Proxy, &["127.0.0.1, 192.0.2.7"], "192.0.2.7");
        check(AddressSource::Proxy, &["127.0.0.1", "2001:db8::1"], "2001:db8::1");
        check(AddressSource::Proxy, &["nonsense, 192.0.2.7:443"], "192.0.2.7");
        check(AddressSource::Proxy, &["[2001:db8::1]"], "2001:db8::1");
        check(AddressSource::Proxy, &["[2001:db8::1]:443"], "2001:db8::1");
        check(AddressSource::Proxy, &["nonsense"], "10.0.0.9");
        check(AddressSource::Proxy, &[], "10.0.0.9");
        let any_bytes = caller(AddressSource::Proxy, &[b"\xe9, 192.0.2.7"]);
        assert_eq!(any_bytes.as_deref(), Some("192.0.2.7"));
    }

    #[test]
    fn ipv6_addresses_with_the_same_64_bit_prefix_are_one_network() {
        let network = |text: &str| Network::from_address(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2::3"), network("2001:db8:1:2:ffff::9"));
        assert_ne!(network("2001:db8:1:2::3"), network("2001:db8:1:3::3"));
        assert_eq!(network("::ffff:192.0.2.7"), network("192.0.2.7"));
        assert_ne!(network("192.0.2.7"), network("192.0.2.8"));
    }
}
