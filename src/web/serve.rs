//! Binding an address and serving a router on it until its group stops.

mod bounded;
mod headed;
mod shares;

use std::{future::IntoFuture as _, io, net::SocketAddr, time::Duration};

use axum::{Router, extract::connect_info::Connected, serve::IncomingStream};
use task::group::Group;
use tokio::{net::TcpListener, select, time::sleep};
use tracing::{error, warn};

use self::shares::Shares;
pub(crate) use self::{
    bounded::{Bounded, Connection},
    headed::Headed,
};
use crate::{
    address::Addresses,
    tls::{Tls, TlsListener},
};

/// How long open requests may go on once the group stops. Long enough for any answer under way,
/// short enough that stopping the program does not look like a hang.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);

/// Connections of one service at a time. More wait to be accepted. Each takes a file descriptor, of
/// which a process commonly may have some thousands, and a few kilobytes.
const CONNECTIONS_MAX: usize = 4096;

/// Those of them that one network may have: no two shut a service out, and an office behind one
/// address has enough. This machine's own programs may have them all.
const SHARE_MAX: usize = CONNECTIONS_MAX / 4;

/// An address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("listen on `{address}`")]
pub struct BindError {
    /// The address asked for.
    pub address: String,
    /// Why not.
    #[source]
    pub source: io::Error,
}

/// Binds `address`: `127.0.0.1:0` for a free port, `:8080` for a port on every interface.
///
/// # Errors
/// [`BindError`] if the text is no address, or the address is taken or not ours.
pub async fn bind(address: &str) -> Result<TcpListener, BindError> {
    let bound = if address.starts_with(':') {
        TcpListener::bind(format!("0.0.0.0{address}")).await
    } else {
        TcpListener::bind(address).await
    };
    bound.map_err(|source| BindError { address: address.to_owned(), source })
}

/// Where a request came from, as handlers get it: `ConnectInfo<Caller>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller(pub SocketAddr);

impl Connected<IncomingStream<'_, Bounded>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Serves `router` on `listener` in a task of `group`, until the group stops.
///
/// Then no connection is taken any more, and requests under way have [`DRAIN_MAX`] to end. An
/// endless answer, such as a stream, should watch the group itself, so that its reader sees a clean
/// end. Each request carries its [`Caller`].
pub fn serve(listener: TcpListener, router: Router, group: &Group) {
    serve_by(Addresses::OfConnections, listener, router, group);
}

/// The same where `addresses` says who the callers are: behind a proxy all connections may be its
/// own.
pub fn serve_by(addresses: Addresses, listener: TcpListener, router: Router, group: &Group) {
    let router = router.into_make_service_with_connect_info::<Caller>();
    let asked = group.clone();
    let shares = Shares::by(addresses, SHARE_MAX);
    let serving = axum::serve(Bounded::new(listener, CONNECTIONS_MAX, shares), router)
        .with_graceful_shutdown(async move { asked.stopped().await })
        .into_future();
    serve_until_stopped(serving, group);
}

/// As [`serve`], over TLS.
pub fn serve_tls(listener: TcpListener, tls: Tls, router: Router, group: &Group) {
    let router = router.into_make_service_with_connect_info::<Caller>();
    let asked = group.clone();
    let shares = Shares::by(Addresses::OfConnections, SHARE_MAX);
    let listener = TlsListener::start(Bounded::new(listener, CONNECTIONS_MAX, shares), tls, group);
    let serving = axum::serve(listener, router)
        .with_graceful_shutdown(async move { asked.stopped().await })
        .into_future();
    serve_until_stopped(serving, group);
}

fn serve_until_stopped(
    serving: impl Future<Output = io::Result<()>> + Send + 'static,
    group: &Group,
) {
    let expired = group.clone();
    group.spawn_to_end("http", async move {
        select! {
            ended = serving => if let Err(error) = ended {
                error!(%error, "stopped serving HTTP");
            },
            () = async { expired.stopped().await; sleep(DRAIN_MAX).await } => {
                warn!("cut off requests that did not end in {} s", DRAIN_MAX.as_secs());
            }
        }
    });
}

#[cfg(test)]
mod tests;
