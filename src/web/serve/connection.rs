//! One connection: its requests, their time limits, and its end.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use task::group::Group;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    select,
    time::sleep,
};
use tower::ServiceExt as _;
use tracing::debug;

use super::Caller;

/// How long the head of each request may take, and so how long a connection may be idle before it:
/// some round trips over the slowest of lines.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// How often an HTTP/2 connection is asked for a sign of life, and how long the answer may take.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Serves the requests of `stream` until its caller has no more, a time limit is over, or `group`
/// stops and the request under way is answered.
pub(super) async fn serve<S>(stream: S, caller: Caller, router: Router, group: Group)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let has_begun = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&has_begun);
    let service = router.map_request(move |request: hyper::Request<Incoming>| -> Request {
        noted.store(true, Ordering::Relaxed);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(caller));
        request
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY);
    let service = TowerToHyperService::new(service);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // Until the first bytes tell HTTP/1 from HTTP/2, neither's limits hold.
    let mut first = pin!(sleep(HEAD_WITHIN));
    let (mut is_first_due, mut is_stopping) = (true, false);
    loop {
        select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(error, "a connection ended early");
                }
                return;
            }
            () = first.as_mut(), if is_first_due => {
                if !has_begun.load(Ordering::Relaxed) {
                    return;
                }
                is_first_due = false;
            }
            () = group.stopped(), if !is_stopping => {
                connection.as_mut().graceful_shutdown();
                is_stopping = true;
            }
        }
    }
}
