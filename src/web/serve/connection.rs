//! Handling of a single connection: its requests, its time limits and its shutdown.

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use task::group::Group;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::select;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use tracing::debug;
use wire::paths;

use super::connection_limit::{Connection, Full, NetworkLimit, NetworkPermit, Peer};
use crate::address::{Caller, forwarded};
use crate::middleware::Overloaded;

/// Time limit for the head of each request to arrive. Thus it also limits idle connections. This time
/// allows some round trips over the slowest connections.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// Like [`HEAD_WITHIN`], for a connection with a reserved permit. It is shorter, since other
/// connections wait for the permit.
const RESERVED_HEAD_WITHIN: Duration = Duration::from_secs(5);

/// Time limit of a TLS handshake. It allows two round trips over the slowest connections.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Application that is served on the connections of a listener. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ConnectionApp {
    pub(super) router: Router,
    /// Limit of the concurrent requests that a proxy forwards for each network. `None` if callers
    /// connect directly.
    pub(super) forwarded: Option<NetworkLimit>,
    /// When this group stops, the connections are closed.
    pub(super) group: Group,
}

impl ConnectionApp {
    /// If a proxy forwarded the request, counts it toward the limit of its network. Returns a permit
    /// that must be held until the response was sent.
    ///
    /// # Errors
    /// [`Overloaded`] if the limit is reached.
    pub(super) fn admit<B>(
        &self,
        request: &Request<B>,
        is_reserved: bool,
    ) -> Result<Option<NetworkPermit>, Overloaded> {
        let path = request.uri().path();
        if path == paths::METRICS || path.ends_with(paths::HEALTH) {
            return Ok(None);
        }
        if is_reserved {
            return Err(Overloaded("too many connections are open"));
        }
        let Some(networks) = &self.forwarded else { return Ok(None) };
        let Some(address) = forwarded(request.headers()) else { return Ok(None) };
        let full = |Full| Overloaded("too many requests of this network are in progress");
        networks.take(address).map_err(full)
    }
}

/// Serves a connection over TLS, beginning with the handshake.
pub(super) async fn serve_tls(
    stream: Connection,
    tls: TlsAcceptor,
    peer: Peer,
    app: ConnectionApp,
) {
    select! {
        accepted = timeout(HANDSHAKE_WITHIN, tls.accept(stream)) => match accepted {
            Ok(Ok(stream)) => serve(stream, peer, app).await,
            Ok(Err(error)) => debug!(peer = %peer.address, %error, "TLS handshake failed"),
            Err(_) => debug!(peer = %peer.address, "TLS handshake timed out"),
        },
        () = app.group.stopped() => {}
    }
}

/// Serves the requests of `stream`. Returns when the caller has no more requests, when a time limit is
/// reached, or when the group of `app` has stopped and the pending request got its response.
pub(super) async fn serve<S>(stream: S, peer: Peer, app: ConnectionApp)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Peer { address, is_reserved } = peer;
    let caller = Caller::new(address);
    let group = app.group.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let admitted = app.admit(&request, is_reserved);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(caller));
        if let Err(overloaded) = &admitted {
            request.extensions_mut().insert(*overloaded);
        }
        let answer = app.router.clone().oneshot(request);
        async move {
            let response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| hold(body, admitted.ok())))
        }
    });
    let stream = TokioIo::new(stream);
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(if is_reserved { RESERVED_HEAD_WITHIN } else { HEAD_WITHIN })
        .keep_alive(!is_reserved)
        .serve_connection(stream, service);
    let mut connection = pin!(connection);
    let mut is_stopping = false;
    loop {
        select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(error = &error as &dyn Error, "a connection ended early");
                }
                return;
            }
            () = group.stopped(), if !is_stopping => {
                connection.as_mut().graceful_shutdown();
                is_stopping = true;
            }
        }
    }
}

/// Wraps `body` so that `guard` is held until the body is dropped.
fn hold(body: Body, guard: impl Send + 'static) -> Body {
    Body::new(body.map_err(move |error| {
        let _held = &guard;
        error
    }))
}
