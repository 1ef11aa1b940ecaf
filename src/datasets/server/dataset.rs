//! `GET /api/datasets/{id}/`: one dataset.

use axum::{
    Json,
    extract::{Path, State},
};
use wire::datasets::DatasetBody;

use super::{App, Caller, error::ApiError};
use crate::{catalog::CatalogError, query::DatasetRef};

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Json<DatasetBody>, ApiError> {
    // What is no number is the number of no dataset.
    let id = id.parse().map_err(|_| CatalogError::NotFound)?;
    let dataset = app.datasets.dataset(key, DatasetRef::Id(id)).await?;
    Ok(Json(dataset.into()))
}
