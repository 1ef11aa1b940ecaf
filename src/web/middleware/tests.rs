//! Limits seen from outside: what a caller gets.

use axum::{
    body::{Body, Bytes, to_bytes},
    response::IntoResponse as _,
    routing::{get, post},
};
use tower::ServiceExt as _;

use super::*;
use crate::extract;

fn router() -> Router {
    let router = Router::new()
        .route("/panic/", get(|| async { panic!("on purpose") as &'static str }))
        .route("/slow/", get(std::future::pending::<&'static str>))
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
    let options = RequestOptions {
        body_bytes_max: 10,
        answer_within: Duration::from_secs(5),
        refuse: |status, reason| (status, reason).into_response(),
    };
    add_layers(router, options)
}

async fn answer(method: &str, path: &str, body: &'static str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
    let response = router().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1024).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_panic_answers_500_in_the_rooms_words() {
    assert_eq!(answer("GET", "/panic/", "").await, (500, "internal error".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_answers_504() {
    assert_eq!(answer("GET", "/slow/", "").await, (504, "no answer in time".to_owned()));
}

#[tokio::test]
async fn a_body_past_the_limit_answers_413() {
    assert_eq!(answer("POST", "/length/", "0123456789").await, (200, "10".to_owned()));
    assert_eq!(answer("POST", "/length/", "0123456789a").await.0, 413);
}
