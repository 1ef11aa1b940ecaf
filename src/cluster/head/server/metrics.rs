//! `GET /metrics`: counts, as Prometheus text.

use axum::{extract::State, response::Response};
use web::metrics::respond;

use super::super::Head;

/// Answers all counts.
pub(super) async fn metrics(State(head): State<Head>) -> Response {
    respond(head.metrics_text())
}
