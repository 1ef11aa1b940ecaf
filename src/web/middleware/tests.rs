//! Tests of the limits from the perspective of callers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use tower::ServiceExt as _;

use super::*;
use crate::extract;

fn router() -> Router {
    let router = Router::new()
        .route("/panic/", get(|| async { panic!("on purpose") as &'static str }))
        .route("/slow/", get(std::future::pending::<&'static str>))
        .route("/private/", get(|| async { StatusCode::UNAUTHORIZED }))
        .route("/public/", get(|| async { ([(CACHE_CONTROL, "public, max-age=1")], "here") }))
        .route("/events/", get(|| async { ([(CONTENT_TYPE, "text/event-stream")], "") }))
        .route(
            "/length/",
            post(|request: Request| async {
                let bytes: Result<Bytes, _> = extract::bytes(request).await;
                bytes.map_or_else(
                    |error| error.status().into_response(),
                    |bytes| bytes.len().to_string().into_response(),
                )
            }),
        );
    add_layers(router, OPTIONS)
}

const OPTIONS: RequestOptions = RequestOptions {
    body_bytes_max: 10,
    response_within: Duration::from_secs(5),
    refuse: |status, reason| (status, reason).into_response(),
};

/// State that counts its clones.
#[derive(Default)]
struct CountedState(Arc<AtomicUsize>);

impl Clone for CountedState {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Relaxed);
        Self(Arc::clone(&self.0))
    }
}

/// Returns how often the state of a handler is cloned per request if `n_layers` layers are around the
/// handler.
async fn count_clones(n_layers: usize) -> usize {
    let state = CountedState::default();
    let clones = Arc::clone(&state.0);
    let router = Router::new()
        .route("/", get(async |State(_): State<CountedState>| "here"))
        .with_state(state);
    let router = (0..n_layers).fold(router, |router, _| add_layers(router, OPTIONS));
    let before = clones.load(Relaxed);
    router.oneshot(Request::new(Body::empty())).await.unwrap();
    clones.load(Relaxed) - before
}

async fn answer(method: &str, path: &str, body: &'static str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
    let response = router().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1024).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn panic_results_in_500_with_the_error_body_of_the_service() {
    assert_eq!(answer("GET", "/panic/", "").await, (500, "internal error".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn endless_handler_results_in_504() {
    assert_eq!(answer("GET", "/slow/", "").await, (504, "no response in time".to_owned()));
}

#[tokio::test]
async fn body_beyond_the_limit_results_in_413() {
    assert_eq!(answer("POST", "/length/", "0123456789").await, (200, "10".to_owned()));
    assert_eq!(answer("POST", "/length/", "0123456789a").await.0, 413);
}

#[tokio::test]
async fn middleware_layers_do_not_clone_the_inner_service() {
    assert_eq!(count_clones(4).await, count_clones(1).await);
}

#[tokio::test]
async fn shared_caches_store_only_responses_whose_handler_allows_it() {
    let headers_of = async |path: &str| {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = router().oneshot(request).await.unwrap();
        let text = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        [text("cache-control"), text("vary"), text("x-accel-buffering")]
            .map(Option::unwrap_or_default)
    };
    let vary = "X-API-Key, Authorization";
    assert_eq!(headers_of("/nothing/").await, ["private, no-cache", vary, ""]);
    assert_eq!(headers_of("/panic/").await, ["private, no-cache", vary, ""]);
    assert_eq!(headers_of("/public/").await, ["public, max-age=1", "", ""]);
    assert_eq!(headers_of("/events/").await, ["no-cache", vary, "no"]);
}

#[tokio::test]
async fn response_with_status_401_names_the_scheme_of_keys() {
    let request = Request::builder().uri("/private/").body(Body::empty()).unwrap();
    let response = router().oneshot(request).await.unwrap();
    assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
}

#[tokio::test]
async fn request_over_the_connection_limit_gets_503_and_its_connection_is_closed() {
    let mut request = Request::builder().uri("/length/").body(Body::empty()).unwrap();
    request.extensions_mut().insert(Overloaded("too many connections"));
    let response = router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[CONNECTION], "close");
    assert_eq!(response.headers()[RETRY_AFTER], "5");
}
