//! `GET /metrics`: counts, as Prometheus text.

use axum::{extract::State, response::Response};
use web::metrics::respond;
use wire::paths;

use super::super::Head;

/// Counts, as Prometheus text.
#[utoipa::path(get, path = paths::METRICS, tag = "cluster",
    responses((status = 200, description = "Counts", body = String)))]
pub(super) async fn metrics(State(head): State<Head>) -> Response {
    respond(head.metrics_text())
}
