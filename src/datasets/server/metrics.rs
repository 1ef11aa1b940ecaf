//! `GET /metrics`: metrics as Prometheus text. Needs no key: they name no dataset.

use axum::{extract::State, response::Response};

use super::{App, error::ApiError};
use crate::error::OperationError;

pub(super) async fn get(State(app): State<App>) -> Result<Response, ApiError> {
    let text = app.datasets.render_metrics().await.map_err(OperationError::Store)?;
    Ok(web::metrics::respond(text))
}
