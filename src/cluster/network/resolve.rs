//! TCP to hosts with a name, which the system's resolver looks up for each dial.
//!
//! A name that was not configured on this node is dialed only if the resolved address is no nearer than
//! the farthest connected peer. Otherwise a stranger's name could lead to services of this machine or
//! its network. libp2p's own transport does not report the name behind a resolved address and queries
//! DNS servers instead of the system's resolver.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt as _};
use libp2p::core::transport::{DialOpts, ListenerId, TransportError, TransportEvent};
use libp2p::multiaddr::Protocol;
use libp2p::tcp::tokio::TcpStream;
use libp2p::tcp::{self};
use libp2p::{Multiaddr, Transport};
use parking_lot::Mutex;
use tokio::net::lookup_host;

use super::address::Scope;

/// TCP transport that also dials `/dns`, `/dns4` and `/dns6`.
#[derive(Clone)]
pub(super) struct Resolve {
    tcp: Arc<Mutex<tcp::tokio::Transport>>,
    names: Names,
}

/// Rules for the addresses at which resolved names can be dialed. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<Mutex<KnownNames>>);

#[derive(Debug, Default)]
struct KnownNames {
    /// Configured hosts, each with the scope of the address it last resolved to; `None` before it was
    /// dialed.
    own: BTreeMap<String, Option<Scope>>,
    /// Scope of the most distant connected peer. Names that were not configured must not resolve to a
    /// nearer address.
    farthest_peer: Option<Scope>,
    n_connections: usize,
}

impl Names {
    /// Creates rules under which the hosts in the configured `addresses` can resolve to any address.
    pub(super) fn new<'a>(addresses: impl IntoIterator<Item = &'a Multiaddr>) -> Self {
        let hosts = addresses.into_iter().filter_map(host_name).map(|(host, _)| (host, None));
        Self(Arc::new(Mutex::new(KnownNames { own: hosts.collect(), ..KnownNames::default() })))
    }

    /// Returns the scope of `address`, which was dialed or from which a peer connected. For a configured
    /// name, this is the scope of the address that it last resolved to.
    pub(super) fn scope_of(&self, address: &Multiaddr) -> Scope {
        let led_to = host_name(address)
            .and_then(|(host, _)| self.0.lock().own.get(&host).copied().flatten());
        led_to.unwrap_or_else(|| Scope::from_address(address))
    }

    /// Replaces the recorded scopes of all connections.
    pub(super) fn set_connections(&self, scopes: impl ExactSizeIterator<Item = Scope>) {
        let mut names = self.0.lock();
        names.n_connections = scopes.len();
        names.farthest_peer = scopes.max();
    }

    /// Returns the scope of the most distant connected peer. Returns the public scope if there are no
    /// connections.
    pub(super) fn farthest_peer(&self) -> Scope {
        self.0.lock().farthest_peer.unwrap_or(Scope::Public)
    }

    /// Returns the number of connections.
    pub(super) fn n_connections(&self) -> usize {
        self.0.lock().n_connections
    }

    /// Returns true if `host` can be dialed at `ip`, to which it was resolved.
    fn admits(&self, host: &str, ip: IpAddr) -> bool {
        let scope = Scope::of_ip(ip);
        if let Some(led_to) = self.0.lock().own.get_mut(host) {
            *led_to = Some(scope);
            return true;
        }
        scope >= self.farthest_peer()
    }
}

impl Resolve {
    pub(super) fn new(names: Names) -> Self {
        let tcp = tcp::tokio::Transport::new(tcp::Config::default());
        Self { tcp: Arc::new(Mutex::new(tcp)), names }
    }
}

impl Transport for Resolve {
    type Output = TcpStream;
    type Error = io::Error;
    type ListenerUpgrade = <tcp::tokio::Transport as Transport>::ListenerUpgrade;
    type Dial = BoxFuture<'static, io::Result<TcpStream>>;

    fn listen_on(
        &mut self,
        id: ListenerId,
        address: Multiaddr,
    ) -> Result<(), TransportError<io::Error>> {
        self.tcp.lock().listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.tcp.lock().remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<io::Error>> {
        let mut rest = address.iter().skip(1);
        let (Some((host, is_wanted)), Some(Protocol::Tcp(port)), None | Some(Protocol::P2p(_))) =
            (host_name(&address), rest.next(), rest.next())
        else {
            return Ok(self.tcp.lock().dial(address, options)?.boxed());
        };
        let (tcp, names) = (Arc::clone(&self.tcp), self.names.clone());
        Ok(async move {
            let found = lookup_host((host.as_str(), port)).await?;
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no such address");
            for at in found.filter(is_wanted).take(4) {
                if !names.admits(&host, at.ip()) {
                    last = io::Error::new(
                        io::ErrorKind::PermissionDenied,
                        "the name leads to an address nearer than any peer",
                    );
                    continue;
                }
                let address = Multiaddr::from(at.ip()).with(Protocol::Tcp(at.port()));
                let dialing = tcp.lock().dial(address, options);
                match dialing {
                    Ok(dialing) => match dialing.await {
                        Ok(stream) => return Ok(stream),
                        Err(error) => last = error,
                    },
                    Err(TransportError::Other(error)) => last = error,
                    Err(TransportError::MultiaddrNotSupported(_)) => {}
                }
            }
            Err(last)
        }
        .boxed())
    }

    fn poll(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        Pin::new(&mut *self.tcp.lock()).poll(context)
    }
}

/// Predicate that selects addresses of a name.
type IsWanted = fn(&SocketAddr) -> bool;

/// Returns the host name at the start of `address` and a predicate for the required address family.
fn host_name(address: &Multiaddr) -> Option<(String, IsWanted)> {
    match address.iter().next()? {
        Protocol::Dns(host) => Some((host.into_owned(), |_| true)),
        Protocol::Dns4(host) => Some((host.into_owned(), SocketAddr::is_ipv4)),
        Protocol::Dns6(host) => Some((host.into_owned(), SocketAddr::is_ipv6)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use libp2p::core::Endpoint;
    use libp2p::core::transport::PortUse;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn host_name_from_a_stranger_is_not_dialed_if_its_address_is_more_local_than_all_peers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let address: Multiaddr = format!("/dns4/localhost/tcp/{port}").parse().unwrap();
        let dial = async |names: &Names| {
            let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
            Resolve::new(names.clone()).dial(address.clone(), options).unwrap().await.map(|_| ())
        };
        let of_others = Names::default();
        for (farthest, is_dialed) in [
            (None, false),
            (Some(Scope::Public), false),
            (Some(Scope::Private), false),
            (Some(Scope::Loopback), true),
        ] {
            of_others.set_connections(farthest.into_iter());
            assert_eq!(dial(&of_others).await.is_ok(), is_dialed, "{farthest:?}");
        }
        let own = Names::new([&address]);
        assert_eq!(own.scope_of(&address), Scope::Public, "unknown yet");
        dial(&own).await.unwrap();
        assert_eq!(own.scope_of(&address), Scope::Loopback);
    }

    #[test]
    fn dns_addresses_are_parsed_with_their_family() {
        let named = |text: &str| host_name(&text.parse().unwrap());
        let (host, is_wanted) = named("/dns4/head.example/tcp/9527").unwrap();
        assert_eq!(host, "head.example");
        assert!(is_wanted(&"10.0.0.1:1".parse().unwrap()));
        assert!(!is_wanted(&"[::1]:1".parse().unwrap()));
        let (_, is_wanted) = named("/dns/head/tcp/1").unwrap();
        assert!(is_wanted(&"[::1]:1".parse().unwrap()));
        assert!(named("/ip4/10.0.0.1/tcp/1").is_none());
        for text in ["/dns/head", "/dns/head/udp/1", "/dns/head/tcp/1/ws"] {
            let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
            let dialed = Resolve::new(Names::default()).dial(text.parse().unwrap(), options);
            assert!(dialed.is_err(), "{text} is not a TCP address");
        }
    }
}
