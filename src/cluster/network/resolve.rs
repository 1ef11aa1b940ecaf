//! TCP to hosts that have a name: the system's resolver is asked while an address is dialed.
//!
//! libp2p's own resolver brings a whole DNS client. Absent on purpose: `/dnsaddr`, which needs one.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt as _};
use libp2p::{
    Multiaddr, Transport,
    core::transport::{DialOpts, ListenerId, TransportError, TransportEvent},
    multiaddr::Protocol,
    tcp::{self, tokio::TcpStream},
};
use parking_lot::Mutex;
use tokio::net::lookup_host;

/// Addresses of one name that are tried, one after the other.
const TRIED_MAX: usize = 4;

/// The TCP transport that also dials `/dns`, `/dns4` and `/dns6`.
#[derive(Clone)]
pub(super) struct Resolve(Arc<Mutex<tcp::tokio::Transport>>);

impl Resolve {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(tcp::tokio::Transport::new(tcp::Config::default()))))
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
        self.0.lock().listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.0.lock().remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<io::Error>> {
        let Some(named) = Named::of(&address) else {
            return Ok(self.0.lock().dial(address, options)?.boxed());
        };
        let tcp = Arc::clone(&self.0);
        Ok(async move {
            let found = lookup_host((named.host.as_str(), named.port)).await?;
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no such address");
            for at in found.filter(|at| named.is_meant(at)).take(TRIED_MAX) {
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
        Pin::new(&mut *self.0.lock()).poll(context)
    }
}

/// A host by its name.
#[derive(Debug, PartialEq)]
struct Named {
    host: String,
    port: u16,
    family: Option<Family>,
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Named {
    fn of(address: &Multiaddr) -> Option<Self> {
        let mut parts = address.iter();
        let (host, family) = match parts.next()? {
            Protocol::Dns(host) => (host, None),
            Protocol::Dns4(host) => (host, Some(Family::V4)),
            Protocol::Dns6(host) => (host, Some(Family::V6)),
            _ => return None,
        };
        match (parts.next()?, parts.next()) {
            (Protocol::Tcp(port), None | Some(Protocol::P2p(_))) => {
                Some(Self { host: host.into_owned(), port, family })
            }
            _ => None,
        }
    }

    fn is_meant(&self, address: &SocketAddr) -> bool {
        match self.family {
            None => true,
            Some(Family::V4) => address.is_ipv4(),
            Some(Family::V6) => address.is_ipv6(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_a_number_and_keeps_its_family() {
        let named = |text: &str| Named::of(&text.parse().unwrap());
        let head = named("/dns4/head.example/tcp/9527").unwrap();
        assert_eq!((head.host.as_str(), head.port), ("head.example", 9527));
        assert!(head.is_meant(&"10.0.0.1:1".parse().unwrap()));
        assert!(!head.is_meant(&"[::1]:1".parse().unwrap()));
        assert!(named("/dns/head/tcp/1").unwrap().is_meant(&"[::1]:1".parse().unwrap()));
        for text in ["/ip4/10.0.0.1/tcp/1", "/dns/head", "/dns/head/udp/1", "/dns/head/tcp/1/ws"] {
            assert_eq!(named(text), None, "{text}");
        }
    }
}
