//! `GET /metrics`: counts, as Prometheus text. Needs no key: they tell of no dataset by name.

use axum::{extract::State, response::Response};

use super::{App, error::ApiError};
use crate::append::AppendError;

pub(super) async fn get(State(app): State<App>) -> Result<Response, ApiError> {
    let text = app.datasets.counts_text().await.map_err(AppendError::Store)?;
    Ok(web::metrics::respond(text))
}
