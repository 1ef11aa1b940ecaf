//! Handshakes of connections that others open: how many at one time, and how long each may take.
//!
//! A socket that says nothing costs its owner nothing, so there may always be more of them than places.
//! Where the places are taken, the newest handshake displaces the oldest one of the host that has the
//! most: an honest peer is done in some round trips, and other hosts are never displaced by one that
//! opens many.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use libp2p::{
    Multiaddr, Transport,
    core::transport::{Boxed, DialOpts, ListenerId, TransportError, TransportEvent},
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};
use web::address::Network as HostNetwork;

use super::address::host_network;

/// Handshakes of one host at one time, at least. Two hundred workers that start together on one machine
/// queue for some milliseconds each.
const PER_HOST_MIN: usize = 128;

/// The part of all connections that one host may have in their handshakes, as a divisor: workers of a
/// large cluster come back together when their head does, and one that is displaced tries again.
const HOST_PART: usize = 16;

/// Handshakes at one time, of all hosts: as many as of four.
const HOSTS: usize = 4;

/// How long a handshake may take: four round trips of a second, and some time of a busy machine.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// A transport whose inbound handshakes are bounded.
pub(super) struct Handshakes<O> {
    inner: Boxed<O>,
    pending: Arc<Mutex<Pending>>,
}

/// The handshakes that go on.
#[derive(Debug)]
struct Pending {
    /// How many one host may have.
    n_of_host_max: usize,
    n_begun: u64,
    /// By host, the oldest first.
    by_host: HashMap<HostNetwork, BTreeMap<u64, oneshot::Sender<()>>>,
    n_open: usize,
}

/// A handshake's place. Given back when dropped.
struct Place {
    pending: Arc<Mutex<Pending>>,
    host: HostNetwork,
    number: u64,
}

impl Pending {
    /// Those of a node that keeps at most so many connections, if it has a bound.
    fn new(n_connections: Option<u32>) -> Self {
        let n_of_host_max =
            (n_connections.unwrap_or_default() as usize / HOST_PART).max(PER_HOST_MIN);
        Self { n_of_host_max, n_begun: 0, by_host: HashMap::new(), n_open: 0 }
    }

    /// Takes a place for a handshake of `host`, which another one may have to leave. Returns its number
    /// and what ends when it has to leave in turn.
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
        let (leave, left) = oneshot::channel();
        self.by_host.entry(host).or_default().insert(self.n_begun, leave);
        self.n_open += 1;
        (self.n_begun, left)
    }

    /// Ends a handshake, which may have ended before.
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

impl Drop for Place {
    fn drop(&mut self) {
        self.pending.lock().end(self.host, self.number);
    }
}

impl<O> Handshakes<O> {
    /// Bounds those of `inner` for a node that keeps at most `n_connections`, if it has a bound.
    pub(super) fn new(inner: Boxed<O>, n_connections: Option<u32>) -> Self {
        Self { inner, pending: Arc::new(Mutex::new(Pending::new(n_connections))) }
    }
}

impl<O: Send + 'static> Handshakes<O> {
    fn bounded(
        &self,
        address: &Multiaddr,
        upgrade: <Boxed<O> as Transport>::ListenerUpgrade,
    ) -> BoxFuture<'static, io::Result<O>> {
        let host = host_network(address);
        let (number, left) = self.pending.lock().begin(host);
        let place = Place { pending: Arc::clone(&self.pending), host, number };
        Box::pin(async move {
            let outcome = tokio::select! {
                done = timeout(HANDSHAKE_WITHIN, upgrade) => done?,
                _ = left => Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "too many handshakes of this host go on",
                )),
            };
            drop(place);
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
            event.map_upgrade(|upgrade| self.bounded(&address, upgrade))
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
    fn the_oldest_of_the_host_that_has_the_most_leaves() {
        let (mut pending, n_max) = (Pending::new(None), HOSTS * PER_HOST_MIN);
        let mut own: Vec<_> = (0..PER_HOST_MIN).map(|_| pending.begin(host(0)).1).collect();
        let (_, mut newest) = pending.begin(host(0));
        let mut has_left =
            own.iter_mut().map(|left| left.try_recv().is_err_and(|error| is_closed(&error)));
        assert!(has_left.next().unwrap() && !has_left.any(|left| left));
        assert!(!newest.try_recv().is_err_and(|error| is_closed(&error)));
        let mut others: Vec<_> = (1..2 * n_max).map(|n| pending.begin(host(n)).1).collect();
        assert_eq!(pending.n_open, n_max);
        let n_left = own.iter_mut().map(is_gone).filter(|is_gone| *is_gone).count();
        assert_eq!(n_left, PER_HOST_MIN, "the host with many gives way first");
        assert!(others.iter_mut().rev().take(n_max / 2).all(|left| !is_gone(left)));
    }

    fn is_closed(error: &oneshot::error::TryRecvError) -> bool {
        *error == oneshot::error::TryRecvError::Closed
    }

    fn is_gone(left: &mut oneshot::Receiver<()>) -> bool {
        left.try_recv().is_err_and(|error| is_closed(&error))
    }

    #[test]
    fn a_node_of_many_connections_shakes_more_hands() {
        assert_eq!(Pending::new(Some(12_000)).n_of_host_max, 750);
        assert_eq!(Pending::new(Some(100)).n_of_host_max, PER_HOST_MIN);
    }

    #[test]
    fn a_place_is_given_back() {
        let pending = Arc::new(Mutex::new(Pending::new(None)));
        let (number, _left) = pending.lock().begin(host(1));
        drop(Place { pending: Arc::clone(&pending), host: host(1), number });
        let pending = pending.lock();
        assert_eq!((pending.n_open, pending.by_host.len()), (0, 0));
    }
}
