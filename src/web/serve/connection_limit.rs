//! Global connection limit: a listener that accepts a bounded number of connections and drops
//! silent ones.
//!
//! Some places are reserved. When all others are taken, they are available for health checks.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    select,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};
use tracing::debug;

use super::per_network_limit::{NetworkLimit, NetworkPermit};

/// Maximum time without a byte in either direction. It exceeds the time of any response and the
/// silence of streams. Without it, idle clients would hold their places indefinitely.
pub(super) const SILENT_MAX: Duration = Duration::from_mins(5);

/// Number of reserved places. A balancer and a scraper of metrics need one at a time, and each is
/// available again after one response.
const RESERVED_MAX: usize = 32;

/// Accepts connections while there are places. Further ones wait in the queue of the system. A
/// connection of a network at its limit is closed.
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
    /// True if the connection has a reserved place, for one request of the service's health.
    pub(crate) is_reserved: bool,
}

/// A connection and its place, which is released with the connection.
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
        // The semaphores are never closed, so a place will become available.
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
            // Small responses and events are sent immediately instead of waiting to fill a packet.
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "a connection stays without TCP_NODELAY");
            }
            // Places may have become available while no one connected.
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
