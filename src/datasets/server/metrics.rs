//! `GET /metrics`: metrics as Prometheus text. Needs no key: they name no dataset.

use axum::{extract::State, response::Response};
use wire::paths;

use super::{App, error::Result};
use crate::error::OperationError;
/// Counts, as Prometheus text.
#[utoipa::path(get, path = paths::METRICS, operation_id = "metrics", tag = "service", security(()),
    responses((status = 200, description = "Counts", body = String, content_type = "text/plain")))]
pub(super) async fn get(State(app): State<App>) -> Result<Response> {
    let text = app.datasets.render_metrics(app.gate.keys()).await;
    let text = text.map_err(OperationError::Store)?;
    Ok(web::metrics::respond(text))
}
