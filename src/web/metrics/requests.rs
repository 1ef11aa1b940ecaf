//! Metrics of the requests to a service: counts, durations, sizes.
//!
//! The label for the path is the route, such as `/api/datasets/{id}/`, and never the requested path, so
//! that callers cannot create labels.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::Route;
use futures::StreamExt as _;
use parking_lot::RwLock;
use tokio::time::Instant;
use tower::layer::layer_fn;
use tower::{Service as _, service_fn};

use super::{Metric, Metrics, OTHER, RaisedGauge, Series};

/// Bounds of the latency histogram in seconds, from the time of a cached page to the time-outs of
/// clients.
const SECONDS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

crate::metrics! {
    /// Requests by method, route and status.
    REQUESTS = counter("http_requests_total", &["method", "path", "code"]);
    /// Time from a request to the start of its response.
    SECONDS_UNTIL = histogram("http_request_seconds", &["path"], SECONDS);
    /// Bytes of request bodies received.
    BYTES_IN = counter("http_request_bytes_total", &["path"]);
    /// Bytes of response bodies sent.
    BYTES_OUT = counter("http_response_bytes_total", &["path"]);
    /// Requests whose response has not been sent completely.
    UNDER_WAY = gauge("http_requests_under_way", &[]);
    /// Requests rejected with 429.
    RATE_LIMITED = counter("http_rate_limited_total", &[]);
}

/// Handles for all routes. The first request to a route creates its handle, so that later requests
/// neither format labels nor acquire a write lock.
#[derive(Debug)]
struct RequestCounts {
    metrics: Metrics,
    under_way: Series,
    routes: RwLock<HashMap<String, Arc<RouteCounts>>>,
}

/// Metrics of a route.
#[derive(Debug)]
struct RouteCounts {
    metrics: Metrics,
    path: String,
    seconds: Series,
    bytes_in: Series,
    bytes_out: Series,
    answers: RwLock<HashMap<(&'static str, StatusCode), Series>>,
}

/// A request in progress: its response has not been sent completely.
#[derive(Debug)]
struct RequestInProgress {
    route: Arc<RouteCounts>,
    method: &'static str,
    began: Instant,
    raised: RaisedGauge,
}

impl RequestCounts {
    fn new(metrics: Metrics) -> Self {
        let under_way = metrics.series(UNDER_WAY, &[]);
        Self { metrics, under_way, routes: RwLock::default() }
    }

    fn begin(&self, request: &Request) -> RequestInProgress {
        let path = request.extensions().get().map_or(OTHER, MatchedPath::as_str);
        let known = self.routes.read().get(path).map(Arc::clone);
        RequestInProgress {
            route: known.unwrap_or_else(|| self.add_route(path)),
            method: method_name(request.method()),
            began: Instant::now(),
            raised: self.under_way.raise(),
        }
    }

    fn add_route(&self, path: &str) -> Arc<RouteCounts> {
        let series = |metric: Metric| self.metrics.series(metric, &[path]);
        let route = RouteCounts {
            metrics: self.metrics.clone(),
            path: path.to_owned(),
            seconds: series(SECONDS_UNTIL),
            bytes_in: series(BYTES_IN),
            bytes_out: series(BYTES_OUT),
            answers: RwLock::default(),
        };
        Arc::clone(self.routes.write().entry(path.to_owned()).or_insert(Arc::new(route)))
    }
}

impl RouteCounts {
    fn count_answer(&self, method: &'static str, status: StatusCode) {
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.metrics.add(RATE_LIMITED, &[]);
        }
        if let Some(answers) = self.answers.read().get(&(method, status)) {
            return answers.add_n(1);
        }
        let answers = self.metrics.series(REQUESTS, &[method, &self.path, status.as_str()]);
        answers.add_n(1);
        self.answers.write().insert((method, status), answers);
    }
}

impl RequestInProgress {
    fn count_body(&self, body: Body) -> Body {
        let route = Arc::clone(&self.route);
        count_bytes(body, move |n_bytes| route.bytes_in.add_n(n_bytes))
    }

    fn end(self, response: Response) -> Response {
        let Self { route, method, began, raised } = self;
        route.seconds.observe(began.elapsed());
        route.count_answer(method, response.status());
        response.map(|body| {
            count_bytes(body, move |n_bytes| {
                let _held = &raised;
                route.bytes_out.add_n(n_bytes);
            })
        })
    }
}

/// Counts the requests of `router` in `metrics`, which must include the table [`METRICS`].
///
/// This should be the outermost layer, so that requests rejected by other layers are counted, too.
pub fn count_requests<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    metrics: Metrics,
) -> Router<S> {
    let counts = Arc::new(RequestCounts::new(metrics));
    // `layer_fn` is used because a layer made with `from_fn` would clone the inner service for each
    // request.
    router.layer(layer_fn(move |mut inner: Route| {
        let counts = Arc::clone(&counts);
        service_fn(move |request: Request| {
            let under_way = counts.begin(&request);
            let response = inner.call(request.map(|body| under_way.count_body(body)));
            async move { Ok::<_, Infallible>(under_way.end(response.await?)) }
        })
    }))
}

/// Returns the name of a method, or `other` for a non-standard method.
fn method_name(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|name| method == name).unwrap_or(OTHER)
}

/// Calls `count` with the number of bytes in `body`: immediately if the length is known, otherwise with
/// the length of each part when it is sent. The returned body has a known length if `body` has a known
/// length. `count` is dropped with the returned body at the latest.
pub fn count_bytes(body: Body, mut count: impl FnMut(u64) + Send + 'static) -> Body {
    if let Some(n_bytes) = body.size_hint().exact() {
        count(n_bytes);
        return body;
    }
    Body::from_stream(body.into_data_stream().inspect(move |piece| {
        if let Ok(piece) = piece {
            count(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        }
    }))
}

#[cfg(test)]
mod tests {
    use axum::body::{Bytes, to_bytes};
    use axum::response::IntoResponse as _;
    use axum::routing::{get, post};
    use futures::stream;
    use tower::ServiceExt as _;

    use super::*;

    fn service() -> (Router, Metrics) {
        let metrics = Metrics::new("test_", &[METRICS]);
        let pieces = async || {
            let pieces = ["ab", "cde"].map(|text| Ok::<_, Infallible>(Bytes::from(text)));
            Body::from_stream(stream::iter(pieces)).into_response()
        };
        let router = Router::new()
            .route("/things/{id}/", post(async |body: Bytes| body))
            .route("/pieces/", get(pieces))
            .route("/busy/", get(async || StatusCode::TOO_MANY_REQUESTS))
            .fallback(async || StatusCode::NOT_FOUND);
        (count_requests(router, metrics.clone()), metrics)
    }

    async fn ask(router: &Router, method: &str, path: &str, body: &'static str) -> Response {
        let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
        router.clone().oneshot(request).await.unwrap()
    }

    #[track_caller]
    fn check(metrics: &Metrics, lines: &[&str]) {
        let text = metrics.text();
        for line in lines {
            assert!(text.lines().any(|told| told == *line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test]
    async fn requests_are_counted_by_route_without_labels_from_callers() {
        let (router, metrics) = service();
        ask(&router, "POST", "/things/7/", "12345").await;
        ask(&router, "POST", "/things/8/", "123").await;
        ask(&router, "GET", "/nowhere/at/all", "").await;
        ask(&router, "GET", "/busy/", "").await;
        ask(&router, "BREW", "/pieces/", "").await;
        check(
            &metrics,
            &[
                "test_http_requests_total{method=\"POST\",path=\"/things/{id}/\",code=\"200\"} 2",
                "test_http_requests_total{method=\"GET\",path=\"other\",code=\"404\"} 1",
                "test_http_requests_total{method=\"other\",path=\"/pieces/\",code=\"405\"} 1",
                "test_http_request_bytes_total{path=\"/things/{id}/\"} 8",
                "test_http_response_bytes_total{path=\"/things/{id}/\"} 8",
                "test_http_request_seconds_count{path=\"/things/{id}/\"} 2",
                "test_http_rate_limited_total 1",
                "test_http_requests_under_way 0",
            ],
        );
    }

    #[tokio::test]
    async fn streamed_response_is_in_progress_until_read_or_dropped() {
        let (router, metrics) = service();
        let response = ask(&router, "GET", "/pieces/", "").await;
        check(&metrics, &["test_http_requests_under_way 1"]);
        assert_eq!(to_bytes(response.into_body(), 100).await.unwrap(), "abcde");
        check(
            &metrics,
            &[
                "test_http_requests_under_way 0",
                "test_http_response_bytes_total{path=\"/pieces/\"} 5",
            ],
        );
        drop(ask(&router, "GET", "/pieces/", "").await);
        check(&metrics, &["test_http_requests_under_way 0"]);
    }
}
