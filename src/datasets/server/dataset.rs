//! `/api/datasets/{id}/`: one dataset, changed and deleted by its owner.

use axum::{Json, extract::Request};
use tsdb::catalog::{Change, DatasetRef, MetadataChange};
use wire::{
    datasets::{DatasetBody, MessageBody, ReplaceDataset, UpdateDataset},
    paths,
};

use super::{Caller, PathParams, error::Result, openapi::DatasetNumber};
use crate::error::OperationError;
/// Reads one dataset.
#[utoipa::path(get, path = paths::DATASET, operation_id = "get_dataset", tag = "datasets",
    params(DatasetNumber), responses((status = 200, description = "The dataset", body = DatasetBody)))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<DatasetBody>> {
    Ok(Json(app.datasets.sight(key, which(&id)?).await?.dataset.into()))
}
/// Changes what is named of a dataset that the key owns.
#[utoipa::path(patch, path = paths::DATASET, operation_id = "update_dataset", tag = "producing",
    params(DatasetNumber), request_body = UpdateDataset,
    responses((status = 200, description = "The dataset", body = DatasetBody)))]
pub(super) async fn patch(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
    request: Request,
) -> Result<Json<DatasetBody>> {
    let which = which(&id)?;
    app.datasets.find_owned(key, which.clone()).await?;
    let UpdateDataset { name, description, metadata } = web::extract::json(request).await?;
    let change = Change { name, description, metadata: MetadataChange::Merge(metadata) };
    Ok(Json(app.datasets.update(key, which, change).await?.into()))
}
/// Replaces name, description and metadata of a dataset that the key owns.
#[utoipa::path(put, path = paths::DATASET, operation_id = "replace_dataset", tag = "producing",
    params(DatasetNumber), request_body = ReplaceDataset,
    responses((status = 200, description = "The dataset", body = DatasetBody)))]
pub(super) async fn put(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
    request: Request,
) -> Result<Json<DatasetBody>> {
    let which = which(&id)?;
    app.datasets.find_owned(key, which.clone()).await?;
    let ReplaceDataset { name, description, metadata } = web::extract::json(request).await?;
    let metadata = MetadataChange::Replace(metadata);
    let change = Change { name: Some(name), description: Some(description), metadata };
    Ok(Json(app.datasets.update(key, which, change).await?.into()))
}
/// Deletes a dataset that the key owns, with all its rows.
#[utoipa::path(delete, path = paths::DATASET, operation_id = "delete_dataset", tag = "producing",
    params(DatasetNumber), responses((status = 200, description = "It is gone", body = MessageBody)))]
pub(super) async fn delete(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<MessageBody>> {
    app.datasets.delete(key, which(&id)?).await?;
    Ok(Json(MessageBody { message: "Dataset deleted successfully".to_owned() }))
}

/// Parses the number of a dataset; an invalid one is not found.
fn which(id: &str) -> Result<DatasetRef, OperationError> {
    id.parse().map(DatasetRef::Id).map_err(|_| OperationError::NotFound)
}
