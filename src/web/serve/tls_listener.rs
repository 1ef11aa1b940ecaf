//! Handshakes of TLS, beside the accept loop.

use std::{io, sync::Arc, time::Duration};

use axum::serve::Listener;
use task::group::Group;
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::debug;

use super::connection_limit::{Connection, LimitedListener, Peer};
use crate::tls::Tls;

/// How long a handshake may take: two round trips over the slowest of lines.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Handshakes at once. More wait in the system's queue.
const HANDSHAKES_MAX: usize = 256;

/// Connections that wait to be served, their handshake done. When there are more, handshakes wait.
const READY_CAPACITY: usize = 64;

/// Connections whose handshake is done.
#[derive(Debug)]
pub(crate) struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<Connection>, Peer)>,
    address: io::Result<Peer>,
}

impl TlsListener {
    /// Accepts connections on `listener` in tasks of `group`.
    pub(crate) fn start(listener: LimitedListener, tls: Tls, group: &Group) -> Self {
        let (done, ready) = mpsc::channel(READY_CAPACITY);
        let address = Listener::local_addr(&listener);
        group.spawn("accept", accept_all(listener, tls, done, group.clone()));
        Self { ready, address }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<Connection>;
    type Addr = Peer;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // Its group has stopped; the caller will be stopped soon.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.address.as_ref().copied().map_err(|error| error.kind().into())
    }
}

async fn accept_all(
    mut listener: LimitedListener,
    tls: Tls,
    done: mpsc::Sender<(TlsStream<Connection>, Peer)>,
    group: Group,
) {
    let acceptor = TlsAcceptor::from(tls.0);
    let shaking = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(permit) = Arc::clone(&shaking).acquire_owned().await else { return };
        let (stream, peer) = listener.take().await;
        let (acceptor, done) = (acceptor.clone(), done.clone());
        group.spawn("handshake", async move {
            match timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
                // The server may be gone.
                Ok(Ok(stream)) => drop(done.send((stream, peer)).await),
                Ok(Err(error)) => debug!(peer = %peer.address, %error, "a handshake failed"),
                Err(_) => debug!(peer = %peer.address, "a handshake took too long"),
            }
            drop(permit);
        });
    }
}
