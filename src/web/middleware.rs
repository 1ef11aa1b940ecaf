//! Middleware for all services. The middleware limits the time and size of requests and logs each
//! request. Also a helper to add other middleware.

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::Route;
use futures::FutureExt as _;
use task::traces::{self, Carrier, TRACEPARENT, TRACESTATE};
use tokio::time::{Instant, timeout};
use tower::layer::layer_fn;
use tower::{Service as _, service_fn};
use tracing::{Instrument as _, Span, debug, error, field, info, info_span};

/// Content type of server-sent events.
const EVENTS: &[u8] = b"text/event-stream";

/// Header that tells nginx not to buffer a response.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `Vary` header of most responses. These responses depend on the API key, which is in one of these
/// request headers.
const PRIVATE_VARY: HeaderValue = HeaderValue::from_static("X-API-Key, Authorization");

/// Default `Retry-After` of a response with status 503, in seconds. It is long enough for connections
/// and streams to close, and so short that users do not notice.
const FULL_RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Limits of the requests to a service.
#[derive(Debug, Clone, Copy)]
pub struct RequestOptions {
    /// Maximum length of a body in bytes. A longer body is rejected with status 413 when it is read.
    pub body_bytes_max: usize,
    /// Time limit until the handler returns a response. The body of the response, which may be a stream,
    /// has no time limit.
    pub response_within: Duration,
    /// Creates the response to a request that fails in this middleware: with status 500 after a panic,
    /// 504 after the time limit.
    pub refuse: fn(StatusCode, &'static str) -> Response,
}

/// Extension of a request that exceeds a limit of connections or of concurrent requests, with the
/// reason. The middleware rejects the request with an error body in the format of the service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overloaded(pub(crate) &'static str);

/// Inner service of a middleware that [`wrap`] adds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Next(Arc<Route>);

impl Next {
    /// Runs the inner service on `request`.
    pub async fn run(self, request: Request) -> Response {
        // A route is always ready, so `poll_ready` is not needed.
        let Ok(response) = Route::clone(&self.0).call(request).await;
        response
    }
}

/// Adds `middleware` to every path of `router`, including its fallback.
///
/// A middleware that axum's `from_fn` creates would clone its inner service, including the state of a
/// handler, several times per request. A middleware that is added here shares the inner service.
pub fn wrap<S, F, A>(router: Router<S>, middleware: F) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
    F: Fn(Request, Next) -> A + Send + Sync + 'static,
    A: Future<Output = Response> + Send + 'static,
{
    let middleware = Arc::new(middleware);
    router.layer(layer_fn(move |inside: Route| {
        let (middleware, next) = (Arc::clone(&middleware), Next(Arc::new(inside)));
        service_fn(move |request| middleware(request, next.clone()).map(Ok::<_, Infallible>))
    }))
}

/// Applies the limits in `options` to `router` and logs each request at level info.
///
/// The log line contains the path, but neither the query string nor headers, so that it cannot leak a
/// secret.
pub fn add_layers(router: Router, options: RequestOptions) -> Router {
    wrap(router, move |request, next| log_request(request, next, options))
}

/// Runs `next` within the limits of `options`.
async fn answer(mut request: Request, next: Next, options: RequestOptions) -> Response {
    if let Some(Overloaded(reason)) = request.extensions().get() {
        return (options.refuse)(StatusCode::SERVICE_UNAVAILABLE, reason);
    }
    DefaultBodyLimit::max(options.body_bytes_max).apply(&mut request);
    let answer = AssertUnwindSafe(timeout(options.response_within, next.run(request)));
    match answer.catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => (options.refuse)(StatusCode::GATEWAY_TIMEOUT, "no response in time"),
        Err(cause) => {
            let cause = panic_message(cause);
            error!(cause, "a request handler panicked");
            (options.refuse)(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
        }
    }
}

fn panic_message(cause: Box<dyn Any + Send>) -> String {
    match cause.downcast::<String>() {
        Ok(text) => *text,
        Err(cause) => cause.downcast_ref::<&str>().map(ToString::to_string).unwrap_or_default(),
    }
}

/// Sets the headers that all responses have.
///
/// A 401 names the scheme of keys and tokens, as RFC 9110 requires. The others prevent browsers from guessing content types, and proxies from buffering events. A connection
/// over the limit is closed after its response with status 503, so that another one can be accepted.
/// Shared caches store no response unless the handler allows it, since most responses depend on the
/// caller's key.
fn set_headers(response: &mut Response) {
    let is_full = response.status() == StatusCode::SERVICE_UNAVAILABLE;
    let lacks_key = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if lacks_key {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_full {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        headers.entry(RETRY_AFTER).or_insert(FULL_RETRY_AFTER);
    }
    let is_stream =
        headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(EVENTS));
    if is_stream {
        headers.insert(BUFFERING, HeaderValue::from_static("no"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.append(VARY, PRIVATE_VARY);
    } else if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.append(VARY, PRIVATE_VARY);
    }
}

async fn log_request(request: Request, next: Next, options: RequestOptions) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = request_span(&request);
    let mut response = answer(request, next, options).instrument(span.clone()).await;
    let status = response.status().as_u16();
    span.record("http.response.status_code", status);
    let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    // Successful health checks are logged at level debug only, since terminals and supervisors send
    // them every few seconds.
    if path.ends_with("/health") && response.status().is_success() {
        debug!(%method, path, status, elapsed_ms, "{method} {path} {status}");
    } else {
        info!(%method, path, status, elapsed_ms, "{method} {path} {status}");
    }
    set_headers(&mut response);
    response
}

/// Creates the span of a request as part of the caller's trace. The span is closed when the response
/// starts. It contains neither the query string nor any header except the header of the trace.
fn request_span(request: &Request) -> Span {
    let route = request.extensions().get().map_or("", MatchedPath::as_str);
    let method = request.method();
    let span = info_span!(
        target: traces::TARGET, "HTTP request",
        otel.name = format!("{method} {route}"), otel.kind = "server",
        http.request.method = %method, http.route = route, url.path = request.uri().path(),
        http.response.status_code = field::Empty,
    );
    if !span.is_disabled() {
        let header = |name| {
            let value = request.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let traceparent = header(TRACEPARENT).unwrap_or_default();
        Carrier { traceparent, tracestate: header(TRACESTATE).unwrap_or_default() }.adopt(&span);
    }
    span
}

#[cfg(test)]
mod tests;
