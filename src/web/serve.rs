//! Binds an address and serves a router until its group stops.

mod connection;
mod connection_limit;

use std::io::{self, ErrorKind};
use std::time::Duration;

use axum::Router;
use task::group::Group;
use tokio::net::TcpListener;
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tokio_rustls::TlsAcceptor;
use tracing::warn;

use self::connection::ConnectionApp;
use self::connection_limit::{LimitedListener, NetworkLimit};
use crate::address::AddressSource;
use crate::open_files::connections_max;
use crate::tls::Tls;

/// Time for which open requests can continue after the group stops. It is enough for pending responses,
/// but so short that the program does not seem to hang.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);

/// The maximum number of connections per network is the total maximum divided by this. Thus two
/// networks cannot block a service, but an office behind one address has enough connections.
/// Programs on this machine are exempt.
const NETWORK_PART: usize = 4;

/// Interval of a timer without an effect. A new timer wakes a thread of tokio if it expires before all
/// others. This timer expires before the time limits of requests, so these wake no thread, which saves a
/// twentieth of the time of a small request.
const TIMER_EVERY: Duration = Duration::from_secs(10);

/// Error for an address on which the service cannot listen. The text contains the reason and a remedy.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct BindError {
    what: String,
    /// Error of the system, unless the text already contains it.
    source: Option<io::Error>,
}

impl BindError {
    /// Creates the error for a socket that cannot listen on `address` because of `source`.
    #[must_use]
    pub fn new(address: &str, source: io::Error) -> Self {
        let why = match source.kind() {
            ErrorKind::AddrInUse => {
                "another program uses this port; stop it, or choose another port"
            }
            ErrorKind::AddrNotAvailable => "this machine does not have this address",
            ErrorKind::PermissionDenied => "this user cannot use this port; choose one above 1023",
            ErrorKind::InvalidInput => {
                let what = format!(
                    "invalid address `{address}` to listen on, expected for example 127.0.0.1:8080 or :8080"
                );
                return Self { what, source: None };
            }
            _ => return Self { what: format!("cannot listen on {address}"), source: Some(source) },
        };
        Self { what: format!("cannot listen on {address}: {why}"), source: None }
    }
}

/// Listens on `address`, such as `127.0.0.1:8080`. Port 0 stands for any free port. An address without a
/// host, such as `:8080`, stands for every interface, with IPv6 and IPv4.
///
/// # Errors
/// [`BindError`] if the text is not an address, or the address is in use or not available.
pub async fn bind(address: &str) -> Result<TcpListener, BindError> {
    let bound = if address.starts_with(':') {
        // An IPv6 socket also accepts IPv4 connections.
        match TcpListener::bind(format!("[::]{address}")).await {
            Err(error) if may_lack_ipv6(&error) => {
                TcpListener::bind(format!("0.0.0.0{address}")).await
            }
            bound => bound,
        }
    } else {
        TcpListener::bind(address).await
    };
    bound.map_err(|source| BindError::new(address, source))
}

/// Returns true if binding an IPv6 port may have failed because the machine only has IPv4.
fn may_lack_ipv6(error: &io::Error) -> bool {
    use ErrorKind::{AddrInUse, InvalidInput, PermissionDenied};
    !matches!(error.kind(), AddrInUse | InvalidInput | PermissionDenied)
}

/// Serves `router` on `listener` in a task of `group` until the group stops.
///
/// After that, no connection is accepted, and pending requests have [`DRAIN_MAX`] to complete. An
/// endless response, such as a stream, should end itself when the group stops, so that its reader sees a
/// clean end. Each request carries its [`Caller`](crate::address::Caller).
pub fn serve(listener: TcpListener, router: Router, group: &Group) {
    serve_by(AddressSource::Connection, listener, router, group);
}

/// Serves like [`serve`], but determines the callers' addresses with `addresses`. Behind a proxy, all
/// connections may come from the proxy, so the limit per network then applies to concurrent requests.
pub fn serve_by(addresses: AddressSource, listener: TcpListener, router: Router, group: &Group) {
    let forwarded = match addresses {
        AddressSource::Connection => None,
        AddressSource::Proxy => Some(NetworkLimit::of_forwarded(network_connections_max())),
    };
    let listener = limit_connections(listener, addresses);
    let app = ConnectionApp { router, forwarded, group: group.clone() };
    group.spawn_to_end("http", serve_connections(listener, None, app));
}

/// Serves like [`serve`], over TLS.
pub fn serve_tls(listener: TcpListener, tls: Tls, router: Router, group: &Group) {
    let listener = limit_connections(listener, AddressSource::Connection);
    let app = ConnectionApp { router, forwarded: None, group: group.clone() };
    group.spawn_to_end("http", serve_connections(listener, Some(TlsAcceptor::from(tls.0)), app));
}

fn limit_connections(listener: TcpListener, addresses: AddressSource) -> LimitedListener {
    let networks = NetworkLimit::for_source(addresses, network_connections_max());
    LimitedListener::new(listener, connections_max(), networks)
}

/// Returns the maximum number of connections of a network.
fn network_connections_max() -> usize {
    (connections_max() / NETWORK_PART).max(1)
}

/// Serves the connections of `listener` until the group of `app` stops. Then waits until they are
/// closed, for at most [`DRAIN_MAX`].
async fn serve_connections(
    mut listener: LimitedListener,
    tls: Option<TlsAcceptor>,
    app: ConnectionApp,
) {
    let mut connections = JoinSet::new();
    let mut early_timer = interval(TIMER_EVERY);
    loop {
        select! {
            (stream, peer) = listener.take() => {
                let (tls, app) = (tls.clone(), app.clone());
                connections.spawn(async move {
                    match tls {
                        None => connection::serve(stream, peer, app).await,
                        Some(tls) => connection::serve_tls(stream, tls, peer, app).await,
                    }
                });
            }
            // Removes a closed connection from the set. This branch is disabled while the set is empty.
            Some(_) = connections.join_next() => {}
            _ = early_timer.tick() => {}
            () = app.group.stopped() => break,
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    select! {
        () = ended => {}
        () = sleep(DRAIN_MAX) => {
            warn!("cut off requests that did not end in {} s", DRAIN_MAX.as_secs());
        }
    }
}

#[cfg(test)]
mod tests;
