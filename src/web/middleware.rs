//! Time and size limits, and a log line, for every request.

use std::{any::Any, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{CONNECTION, X_CONTENT_TYPE_OPTIONS},
    },
    middleware::{Next, from_fn, from_fn_with_state, map_response},
    response::Response,
};
use task::traces::{self, Carrier, TRACEPARENT, TRACESTATE};
use tokio::time::{Instant, timeout};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{Instrument as _, Span, debug, error, field, info, info_span};

/// How requests of a service are bounded.
#[derive(Debug, Clone, Copy)]
pub struct RequestOptions {
    /// The longest body taken, in bytes. A longer one is refused with 413 by what reads it.
    pub body_bytes_max: usize,
    /// How long a handler may take until it answers. The body of the answer, which may be a stream,
    /// is not counted.
    pub answer_within: Duration,
    /// Words the refusals made here: 500 after a panic, 504 where the time is up.
    pub refuse: fn(StatusCode, &'static str) -> Response,
}

/// Puts the limits of `options` around `router`, and a log line at info for each request.
///
/// The line holds the path without the query string, and no header: neither can leak a secret.
pub fn add_layers(router: Router, options: RequestOptions) -> Router {
    let on_panic = move |cause: Box<dyn Any + Send + 'static>| {
        let cause = cause
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| cause.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        error!(cause, "a request handler panicked");
        (options.refuse)(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    };
    // From the outside in. As one layer they are boxed once for each request, not for each of them.
    router.layer((
        map_response(set_headers),
        from_fn(log_request),
        CatchPanicLayer::custom(on_panic),
        from_fn_with_state(options, apply_timeout),
        DefaultBodyLimit::max(options.body_bytes_max),
    ))
}

async fn apply_timeout(
    State(options): State<RequestOptions>,
    request: Request,
    next: Next,
) -> Response {
    match timeout(options.answer_within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (options.refuse)(StatusCode::GATEWAY_TIMEOUT, "no answer in time"),
    }
}

/// Keeps browsers from guessing what an answer is, and lets go of a connection whose request found
/// no room: its place is free for another one.
async fn set_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn log_request(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = request_span(&request);
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    span.record("http.response.status_code", status);
    let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    // Screens and supervisors probe every few seconds; their probes are not worth a line each.
    if path.ends_with("/health") && response.status().is_success() {
        debug!(%method, path, status, elapsed_ms, "{method} {path} {status}");
    } else {
        info!(%method, path, status, elapsed_ms, "{method} {path} {status}");
    }
    response
}

/// The span of a request in its trace. It ends when the answer begins, and holds neither the query nor
/// any header but that of its trace.
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
