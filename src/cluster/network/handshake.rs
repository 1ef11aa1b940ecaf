//! Limits for handshakes of incoming connections: their number, and the time of each.
//!
//! An idle socket costs its owner nothing, so that a hostile host can open more of them than there are
//! places. When the places are taken, the newest handshake displaces the oldest one of the host with the
//! most handshakes. An honest peer needs only a few round trips, and a host that opens many connections
//! displaces only its own. libp2p's limit of pending connections rejects the newest one instead, which
//! would lock out everyone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use libp2p::core::transport::{Boxed, DialOpts, ListenerId, TransportError, TransportEvent};
use libp2p::{Multiaddr, Transport};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;
use web::address::Network as HostNetwork;

use super::address::host_network;

/// Minimum number of concurrent handshakes of one host. Two hundred workers that start together on one
/// machine queue for some milliseconds each.
const PER_HOST_MIN: usize = 128;

/// Divisor of the maximum number of connections for the handshakes of one host. Workers of a large
/// cluster reconnect together when their head restarts, and a displaced one tries again.
const HOST_PART: usize = 16;

/// Maximum number of handshakes of all hosts, in multiples of that of one host.
const HOSTS: usize = 4;

/// Time limit of a handshake: four round trips of a second, with some slack for a busy machine.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// A transport whose incoming handshakes are limited.
pub(super) struct Handshakes<O> {
    inner: Boxed<O>,
    pending: Arc<Mutex<PendingHandshakes>>,
}

/// Handshakes in progress.
#[derive(Debug)]
struct PendingHandshakes {
    n_of_host_max: usize,
    n_begun: u64,
    /// By host, oldest first. Dropping the sender displaces a handshake.
    by_host: HashMap<HostNetwork, BTreeMap<u64, oneshot::Sender<()>>>,
    n_open: usize,
}

/// Ends a handshake when dropped.
struct HandshakeGuard {
    pending: Arc<Mutex<PendingHandshakes>>,
    host: HostNetwork,
    number: u64,
}

impl PendingHandshakes {
    /// Creates the limits for a node with a maximum number of connections, if it has one.
    fn new(n_connections_max: Option<u32>) -> Self {
        let n_of_host_max =
            (n_connections_max.unwrap_or_default() as usize / HOST_PART).max(PER_HOST_MIN);
        Self { n_of_host_max, n_begun: 0, by_host: HashMap::new(), n_open: 0 }
    }

    /// Starts a handshake of `host`, displacing another one if necessary. Returns its number, and a
    /// receiver that is closed when it is displaced.
    fn begin(&mut self, host: HostNetwork) -> (u64, oneshot::Receiver<()>) {
        let n_own = self.by_host.get(&host).map_or(0, BTreeMap::len);
        let crowded = if n_own >= self.n_of_host_max {
            Some(host)
        } else if self.n_open >= HOSTS * self.n_of_host_max {
            let begun = |own: &BTreeMap<u64, _>| Reverse(own.keys().next().copied());
            let most = self.by_host.iter().max_by_key(|(_, own)| (own.len(), begun(own)));
            most.map(|(host, _)| *host)
        } else {
            None
        };
        if let Some(crowded) = crowded {
            let oldest = self.by_host.get(&crowded).and_then(|own| own.keys().next().copied());
            if let Some(oldest) = oldest {
                self.end(crowded, oldest);
            }
        }
        self.n_begun += 1;
        let (keep, displaced) = oneshot::channel();
        self.by_host.entry(host).or_default().insert(self.n_begun, keep);
        self.n_open += 1;
        (self.n_begun, displaced)
    }

    /// Ends a handshake. It might have been displaced before.
    fn end(&mut self, host: HostNetwork, number: u64) {
        let Some(own) = self.by_host.get_mut(&host) else { return };
        if own.remove(&number).is_some() {
            self.n_open -= 1;
        }
        if own.is_empty() {
            self.by_host.remove(&host);
        }
    }
}

impl Drop for HandshakeGuard {
    fn drop(&mut self) {
        self.pending.lock().end(self.host, self.number);
    }
}

impl<O> Handshakes<O> {
    /// Limits the handshakes of `inner` for a node with a maximum number of connections, if it has one.
    pub(super) fn new(inner: Boxed<O>, n_connections_max: Option<u32>) -> Self {
        let pending = PendingHandshakes::new(n_connections_max);
        Self { inner, pending: Arc::new(Mutex::new(pending)) }
    }
}

impl<O: Send + 'static> Handshakes<O> {
    fn limited(
        &self,
        address: &Multiaddr,
        upgrade: <Boxed<O> as Transport>::ListenerUpgrade,
    ) -> BoxFuture<'static, io::Result<O>> {
        let host = host_network(address);
        let (number, displaced) = self.pending.lock().begin(host);
        let guard = HandshakeGuard { pending: Arc::clone(&self.pending), host, number };
        Box::pin(async move {
            let outcome = tokio::select! {
                done = timeout(HANDSHAKE_WITHIN, upgrade) => done?,
                _ = displaced => Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "too many handshakes of this host are in progress",
                )),
            };
            drop(guard);
            outcome
        })
    }
}

impl<O: Send + 'static> Transport for Handshakes<O> {
    type Output = O;
    type Error = io::Error;
    type ListenerUpgrade = BoxFuture<'static, io::Result<O>>;
    type Dial = <Boxed<O> as Transport>::Dial;

    fn listen_on(
        &mut self,
        id: ListenerId,
        address: Multiaddr,
    ) -> Result<(), TransportError<io::Error>> {
        self.inner.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<io::Error>> {
        self.inner.dial(address, options)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        Pin::new(&mut self.inner).poll(context).map(|event| {
            let address = match &event {
                TransportEvent::Incoming { send_back_addr, .. } => send_back_addr.clone(),
                _ => Multiaddr::empty(),
            };
            event.map_upgrade(|upgrade| self.limited(&address, upgrade))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: usize) -> HostNetwork {
        host_network(&format!("/ip4/10.0.{}.{}/tcp/1", n / 256, n % 256).parse().unwrap())
    }

    #[test]
    fn oldest_handshake_of_host_with_most_is_displaced() {
        let (mut pending, n_max) = (PendingHandshakes::new(None), HOSTS * PER_HOST_MIN);
        let mut own: Vec<_> = (0..PER_HOST_MIN).map(|_| pending.begin(host(0)).1).collect();
        let (_, mut latest) = pending.begin(host(0));
        let displaced: Vec<bool> = own.iter_mut().map(is_displaced).collect();
        assert!(displaced[0] && !displaced[1..].contains(&true));
        assert!(!is_displaced(&mut latest));
        let mut others: Vec<_> = (1..2 * n_max).map(|n| pending.begin(host(n)).1).collect();
        assert_eq!(pending.n_open, n_max);
        let n_displaced = own.iter_mut().map(is_displaced).filter(|it| *it).count();
        assert_eq!(n_displaced, PER_HOST_MIN, "the host with most handshakes is displaced first");
        assert!(others.iter_mut().rev().take(n_max / 2).all(|other| !is_displaced(other)));
    }

    fn is_displaced(handshake: &mut oneshot::Receiver<()>) -> bool {
        handshake.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn limit_grows_with_number_of_connections() {
        assert_eq!(PendingHandshakes::new(Some(12_000)).n_of_host_max, 750);
        assert_eq!(PendingHandshakes::new(Some(100)).n_of_host_max, PER_HOST_MIN);
    }

    #[test]
    fn dropped_guard_ends_handshake() {
        let pending = Arc::new(Mutex::new(PendingHandshakes::new(None)));
        let (number, _displaced) = pending.lock().begin(host(1));
        drop(HandshakeGuard { pending: Arc::clone(&pending), host: host(1), number });
        let pending = pending.lock();
        assert_eq!((pending.n_open, pending.by_host.len()), (0, 0));
    }
}
