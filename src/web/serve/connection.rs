//! One connection: its requests, timeouts and shutdown.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo};
use http_body_util::BodyExt as _;
use hyper::{Request, Version, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use parking_lot::Mutex;
use task::group::Group;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    select,
    time::{Instant, sleep},
};
use tower::ServiceExt as _;
use tracing::debug;

use crate::address::Caller;

/// How long the head of each request may take, and so how long a connection may be idle before it,
/// also one of HTTP/2 that answers pings: some round trips over the slowest of lines.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// How often an HTTP/2 connection is asked for a sign of life, and how long the answer may take.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Serves the requests of `stream` until its caller has no more, a time limit is over, or `group`
/// stops and the request under way is answered.
pub(super) async fn serve<S>(stream: S, caller: Caller, router: Router, group: Group)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::default();
    let noted = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let under_way = noted.begin(request.version());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(caller));
        let answer = router.clone().oneshot(request);
        async move {
            let response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| hold(body, under_way)))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut idle_check = pin!(sleep(HEAD_WITHIN));
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
                // Until the first bytes tell HTTP/1 from HTTP/2, neither's limits hold.
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

/// The requests of one connection. Cheap to clone; all clones permit one count.
#[derive(Debug, Clone, Default)]
struct Activity(Arc<Mutex<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    n_under_way: usize,
    /// That of the last request; none before the first.
    version: Option<Version>,
    /// When the last answer ended.
    idle_since: Option<Instant>,
}

/// Whether a connection has been idle for too long.
#[derive(Debug)]
enum Idle {
    /// No request has come.
    NeverUsed,
    /// The time limit of heads bounds it.
    Http1,
    /// Not yet: to be checked again at this time.
    Until(Instant),
    /// Idle for too long.
    Over,
}

/// A request under way, until its answer has been sent and this is dropped.
#[derive(Debug)]
struct UnderWay(Activity);

/// The body, which holds `guard` until it is dropped.
fn hold(body: Body, guard: impl Send + 'static) -> Body {
    Body::new(body.map_err(move |error| {
        let _held = &guard;
        error
    }))
}

impl Activity {
    fn begin(&self, version: Version) -> UnderWay {
        let mut requests = self.0.lock();
        requests.n_under_way += 1;
        requests.version = Some(version);
        drop(requests);
        UnderWay(self.clone())
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

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut requests = self.0.0.lock();
        requests.n_under_way -= 1;
        requests.idle_since = Some(Instant::now());
    }
}
