//! Limits connections: a listener that accepts a limited number of connections and closes silent
//! connections.
//!
//! Some connections are reserved for health checks while all other connections are in use.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use task::tally::{Counted, Tally};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use tracing::debug;

use crate::address::{AddressSource, Neighborhood};

/// Maximum time during which no byte is sent or received. It exceeds the duration of any response and
/// the pauses of streams. Without it, idle clients could occupy their connections indefinitely.
pub(super) const SILENT_MAX: Duration = Duration::from_mins(5);

/// Maximum number of reserved connections. A load balancer and a metrics scraper need one connection at
/// a time, and each connection is free again after one response.
const RESERVED_MAX: usize = 32;

/// Accepts connections while permits are available. Further connections wait in the queue of the system.
/// A connection from a network that has reached its limit is closed.
#[derive(Debug)]
pub(crate) struct LimitedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    networks: NetworkLimit,
}

/// Remote end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// True if the connection has a reserved permit, which only allows a single request for the
    /// service's health.
    pub(crate) is_reserved: bool,
}

/// A connection with its permit. The permit is released when the connection is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
    _network: Option<NetworkPermit>,
}

impl Connection {
    /// Restarts the time limit after bytes were received or sent.
    fn reset_silence(&mut self) {
        self.silence.as_mut().reset(Instant::now() + SILENT_MAX);
    }
}

impl LimitedListener {
    pub(super) fn new(listener: TcpListener, n_places: usize, networks: NetworkLimit) -> Self {
        let n_reserved = RESERVED_MAX.min(n_places / 8);
        Self {
            listener,
            places: Arc::new(Semaphore::new(n_places - n_reserved)),
            reserved: Arc::new(Semaphore::new(n_reserved)),
            networks,
        }
    }

    /// Returns the next connection.
    pub(crate) async fn take(&mut self) -> (Connection, Peer) {
        // The semaphores are never closed, so a permit will become free.
        let (mut place, mut is_reserved) = select! {
            biased;
            place = Arc::clone(&self.places).acquire_owned() => (place.ok(), false),
            place = Arc::clone(&self.reserved).acquire_owned() => (place.ok(), true),
        };
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            let Ok(permit) = self.networks.take(address.ip()) else {
                debug!(%address, "a network has reached its limit of connections");
                continue;
            };
            // Small responses and events must be sent immediately, rather than wait until a packet is
            // full.
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "a connection stays without TCP_NODELAY");
            }
            // If a regular permit became available before the caller connected, it replaces the
            // reserved permit.
            if is_reserved && let Ok(free) = Arc::clone(&self.places).try_acquire_owned() {
                (place, is_reserved) = (Some(free), false);
            }
            let silence = Box::pin(sleep(SILENT_MAX));
            let connection = Connection { stream, silence, _place: place, _network: permit };
            return (connection, Peer { address, is_reserved });
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.reset_silence();
            return read;
        }
        self.silence.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.reset_silence();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        if written.is_ready() {
            self.reset_silence();
        }
        written
    }
}

/// Limit of the connections of each network that is not exempt.
#[derive(Debug, Clone)]
pub(super) struct NetworkLimit {
    n_max: usize,
    /// Function that returns true for addresses to which the limit does not apply.
    is_exempt: fn(IpAddr) -> bool,
    taken: Tally<Neighborhood>,
}

/// Permit that counts as one connection of a network until it is dropped.
pub(super) type NetworkPermit = Counted<Neighborhood>;

impl NetworkLimit {
    /// Creates a limit of `n_max` connections for each network that is not exempt.
    pub(super) fn new(n_max: usize, is_exempt: fn(IpAddr) -> bool) -> Self {
        Self { n_max, is_exempt, taken: Tally::default() }
    }

    /// Creates the limit of connections for a service that determines callers' addresses with
    /// `addresses`. Connections from loopback are exempt. Behind a proxy, all connections are exempt.
    pub(super) fn for_source(addresses: AddressSource, n_max: usize) -> Self {
        Self::new(
            n_max,
            match addresses {
                AddressSource::Connection => |address| address.to_canonical().is_loopback(),
                AddressSource::Proxy => |_| true,
            },
        )
    }

    /// Creates a limit for the concurrent requests that a proxy forwards. It applies to all networks,
    /// since the proxy's header contains the address of the caller.
    pub(super) fn of_forwarded(n_max: usize) -> Self {
        Self::new(n_max, |_| false)
    }

    /// Counts a connection from `address`. Returns `None` if the address is exempt.
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

/// Error for a network that has reached its limit of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(networks: &NetworkLimit, address: &str) -> Result<Option<NetworkPermit>, Full> {
        networks.take(address.parse().unwrap())
    }

    #[test]
    fn network_at_its_connection_limit_does_not_affect_other_networks() {
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
    fn loopback_and_proxies_are_exempt_from_the_limit_per_network() {
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
