//! `GET /metrics`: counts, as Prometheus text.

use axum::{extract::State, response::Response};
use web::metrics::answer;

use super::super::Head;

/// Answers all counts.
pub(super) async fn metrics(State(head): State<Head>) -> Response {
    answer(head.metrics_text())
}
