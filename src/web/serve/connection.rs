//! Handling of a single connection: its requests, its time limits and its shutdown.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use task::group::Group;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::select;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use tracing::debug;
use wire::paths;

use super::connection_limit::{Connection, Full, NetworkLimit, NetworkPermit, Peer};
use super::control_frames::ControlFrameLimit;
use crate::address::{Caller, forwarded};
use crate::middleware::Overloaded;

/// Time limit for the head of each request to arrive. Thus it also limits idle connections, even an
/// HTTP/2 connection that responds to pings. This time allows some round trips over the slowest
/// connections.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// Like [`HEAD_WITHIN`], for a connection with a reserved permit. It is shorter, since other
/// connections wait for the permit.
const RESERVED_HEAD_WITHIN: Duration = Duration::from_secs(5);

/// Time limit of a TLS handshake. It allows two round trips over the slowest connections.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Interval of pings on an HTTP/2 connection, and time limit for their responses.
const PING_EVERY: Duration = Duration::from_secs(30);

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
    let activity = Activity::default();
    let (noted, group) = (activity.clone(), app.group.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let under_way = noted.begin(request.version());
        let admitted = app.admit(&request, is_reserved);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(caller));
        if let Err(overloaded) = &admitted {
            request.extensions_mut().insert(*overloaded);
        }
        let answer = app.router.clone().oneshot(request);
        async move {
            let response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| hold(body, (under_way, admitted.ok()))))
        }
    });
    let head_within = if is_reserved { RESERVED_HEAD_WITHIN } else { HEAD_WITHIN };
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_within)
        .keep_alive(!is_reserved);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY);
    let builder = if is_reserved { builder.http1_only() } else { builder };
    let stream = TokioIo::new(ControlFrameLimit::new(stream));
    let mut connection = pin!(builder.serve_connection(stream, service));
    let mut idle_check = pin!(sleep(head_within));
    let (mut is_checked, mut is_stopping) = (true, false);
    loop {
        select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(error, "a connection ended early");
                }
                return;
            }
            () = idle_check.as_mut(), if is_checked => match activity.check() {
                // The connection is closed here, since hyper's time limits only apply after the first
                // bytes have shown the HTTP version.
                Idle::NeverUsed => return,
                Idle::Http1 => is_checked = false,
                Idle::Until(next) => idle_check.as_mut().reset(next),
                Idle::Over => {
                    connection.as_mut().graceful_shutdown();
                    is_checked = false;
                }
            },
            () = group.stopped(), if !is_stopping => {
                connection.as_mut().graceful_shutdown();
                is_stopping = true;
            }
        }
    }
}

/// Counts the requests on a connection. Cheap to clone: all clones share the state.
#[derive(Debug, Clone, Default)]
struct Activity(Arc<Mutex<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    n_under_way: usize,
    /// HTTP version of the last request. `None` before the first request.
    version: Option<Version>,
    /// Time at which the last response was complete.
    idle_since: Option<Instant>,
}

/// Result of checking how long a connection has been idle.
#[derive(Debug)]
enum Idle {
    /// No request has arrived on the connection yet.
    NeverUsed,
    /// HTTP/1, for which the time limit of request heads suffices.
    Http1,
    /// Used recently. The connection must be checked again at this time.
    Until(Instant),
    /// Idle for too long.
    Over,
}

/// A pending request. It counts as complete when this is dropped, after the response was sent.
#[derive(Debug)]
struct PendingRequest(Activity);

/// Wraps `body` so that `guard` is held until the body is dropped.
fn hold(body: Body, guard: impl Send + 'static) -> Body {
    Body::new(body.map_err(move |error| {
        let _held = &guard;
        error
    }))
}

impl Activity {
    fn begin(&self, version: Version) -> PendingRequest {
        let mut requests = self.0.lock();
        requests.n_under_way += 1;
        requests.version = Some(version);
        drop(requests);
        PendingRequest(self.clone())
    }

    fn check(&self) -> Idle {
        let requests = self.0.lock();
        let now = Instant::now();
        let idle_until = requests.idle_since.unwrap_or(now) + HEAD_WITHIN;
        match requests.version {
            None => Idle::NeverUsed,
            Some(version) if version != Version::HTTP_2 => Idle::Http1,
            Some(_) if requests.n_under_way > 0 => Idle::Until(now + HEAD_WITHIN),
            Some(_) if idle_until > now => Idle::Until(idle_until),
            Some(_) => Idle::Over,
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let mut requests = self.0.0.lock();
        requests.n_under_way -= 1;
        requests.idle_since = Some(Instant::now());
    }
}
