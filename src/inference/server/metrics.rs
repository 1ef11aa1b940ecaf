//! `GET /metrics`: metrics as Prometheus text. Needs no key: they name no topic.

use accounts::gate::Gate;
use axum::{Extension, extract::State, response::Response};
use wire::paths;

use super::{App, error::ApiError};

/// Counts, as Prometheus text.
#[utoipa::path(get, path = paths::METRICS, operation_id = "metrics", tag = "service", security(()),
    responses((status = 200, description = "Counts", body = String, content_type = "text/plain")))]
pub(super) async fn get(
    State(service): State<App>,
    Extension(gate): Extension<Gate>,
) -> Result<Response, ApiError> {
    Ok(web::metrics::respond(service.inference.render_metrics(gate.keys()).await?))
}
