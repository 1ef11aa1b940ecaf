//! `GET /metrics`: counts, as Prometheus text.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};

use super::super::Head;

/// Answers all counts.
pub(super) async fn metrics(State(head): State<Head>) -> Response {
    answer(head.metrics_text())
}

/// Answers counts as text.
pub(super) fn answer(text: String) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
