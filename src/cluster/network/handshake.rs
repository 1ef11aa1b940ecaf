//! Limits for handshakes of incoming connections: their number, and the duration of each.
//!
//! An idle socket costs its owner nothing, so a hostile host can open more sockets than there are slots
//! for handshakes. If all slots are taken, the newest handshake displaces the oldest handshake of the
//! host with the most handshakes. An honest peer needs only a few round trips, and a host that opens
//! many connections displaces only its own handshakes. libp2p's limit of pending connections rejects the
//! newest connection instead, which would lock out everyone.

use std::collections::{HashMap, VecDeque};
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

/// Lower bound for the limit of concurrent handshakes per host. If two hundred workers start together on
/// one machine, each queues for some milliseconds.
const PER_HOST_MIN: usize = 128;

/// The limit of concurrent handshakes per host is the maximum number of connections divided by this.
/// Workers of a large cluster reconnect together when their head restarts, and a displaced worker tries
/// again.
const HOST_PART: usize = 16;

/// The limit of handshakes of all hosts is the limit per host multiplied by this.
const HOSTS: usize = 4;

/// Time limit of a handshake: four round trips of one second each, plus some slack for a busy machine.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// A transport with limited incoming handshakes.
pub(super) struct Handshakes<O> {
    inner: Boxed<O>,
    pending: Arc<Mutex<PendingHandshakes>>,
}

/// Handshakes in progress, the oldest first.
#[derive(Debug)]
struct PendingHandshakes {
    n_of_host_max: usize,
    /// Host and sender of each handshake. Dropping the sender displaces the handshake. The channel is
    /// closed when the handshake has ended.
    open: VecDeque<(HostNetwork, oneshot::Sender<()>)>,
}

impl PendingHandshakes {
    /// Creates the limits for a node with `n_connections_max` connections, if it has a maximum.
    fn new(n_connections_max: Option<u32>) -> Self {
        let n_of_host_max =
            (n_connections_max.unwrap_or_default() as usize / HOST_PART).max(PER_HOST_MIN);
        Self { n_of_host_max, open: VecDeque::new() }
    }

    /// Starts a handshake of `host`, displacing another one if necessary. Returns a receiver that is
    /// closed when the new handshake is displaced.
    fn begin(&mut self, host: HostNetwork) -> oneshot::Receiver<()> {
        self.open.retain(|(_, keep)| !keep.is_closed());
        let n_own = self.open.iter().filter(|(other, _)| *other == host).count();
        let crowded = if n_own >= self.n_of_host_max {
            Some(host)
        } else if self.open.len() >= HOSTS * self.n_of_host_max {
            self.most_crowded()
        } else {
            None
        };
        if let Some(oldest) = self.open.iter().position(|(other, _)| Some(*other) == crowded) {
            self.open.remove(oldest);
        }
        let (keep, displaced) = oneshot::channel();
        self.open.push_back((host, keep));
        displaced
    }

    /// Returns the host with the most handshakes. If several hosts have the same number, returns the
    /// host with the oldest handshake.
    fn most_crowded(&self) -> Option<HostNetwork> {
        let mut n_by_host: HashMap<HostNetwork, usize> = HashMap::new();
        for (host, _) in &self.open {
            *n_by_host.entry(*host).or_default() += 1;
        }
        let hosts = self.open.iter().rev().map(|(host, _)| *host);
        hosts.max_by_key(|host| n_by_host.get(host).copied())
    }
}

impl<O> Handshakes<O> {
    /// Limits the handshakes of `inner` for a node with `n_connections_max` connections, if it has a
    /// maximum.
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
        let displaced = self.pending.lock().begin(host_network(address));
        Box::pin(async move {
            tokio::select! {
                done = timeout(HANDSHAKE_WITHIN, upgrade) => done?,
                _ = displaced => Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "too many handshakes of this host are in progress",
                )),
            }
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
    fn oldest_handshake_of_the_host_with_the_most_handshakes_is_displaced() {
        let (mut pending, n_max) = (PendingHandshakes::new(None), HOSTS * PER_HOST_MIN);
        let mut own: Vec<_> = (0..PER_HOST_MIN).map(|_| pending.begin(host(0))).collect();
        let mut latest = pending.begin(host(0));
        let displaced: Vec<bool> = own.iter_mut().map(is_displaced).collect();
        assert!(displaced[0] && !displaced[1..].contains(&true));
        assert!(!is_displaced(&mut latest));
        let mut others: Vec<_> = (1..2 * n_max).map(|n| pending.begin(host(n))).collect();
        assert_eq!(pending.open.len(), n_max);
        let n_displaced = own.iter_mut().map(is_displaced).filter(|it| *it).count();
        assert_eq!(n_displaced, PER_HOST_MIN, "the host with most handshakes is displaced first");
        assert!(others.iter_mut().rev().take(n_max / 2).all(|other| !is_displaced(other)));
    }

    fn is_displaced(handshake: &mut oneshot::Receiver<()>) -> bool {
        handshake.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn handshake_limit_per_host_grows_with_the_connection_limit() {
        assert_eq!(PendingHandshakes::new(Some(12_000)).n_of_host_max, 750);
        assert_eq!(PendingHandshakes::new(Some(100)).n_of_host_max, PER_HOST_MIN);
    }

    #[test]
    fn dropped_handshake_frees_its_slot() {
        let mut pending = PendingHandshakes::new(None);
        drop(pending.begin(host(1)));
        let _open = pending.begin(host(2));
        assert_eq!(pending.open.len(), 1);
    }
}
