//! `/api/datasets/{id}/tags/` and `/api/datasets/{id}/tags/{tag_name}/`: lists, adds and removes the tags
//! of a dataset.

use axum::{
    Json,
    extract::{Request, State},
    response::Response,
};
use model::dataset::DatasetId;
use tsdb::catalog::DatasetRef;
use wire::datasets::{Envelope, MessageBody, TagBody, TagName};

use super::{App, Caller, PathParams, added_response, error::ApiError, tags::envelope};
use crate::error::OperationError;

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Envelope<TagBody>>, ApiError> {
    let tags = app.datasets.dataset_tags(key, dataset_id(&id)?).await?;
    Ok(Json(envelope(tags)))
}

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams(id): PathParams<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = dataset_id(&id)?;
    app.datasets.find_owned(key, DatasetRef::Id(id)).await?;
    let TagName { tag_name } = web::extract::json(request).await?;
    let is_new = app.datasets.add_tag(key, id, &tag_name).await?;
    Ok(added_response(is_new, ["Tag added successfully", "Tag was there already"]))
}

pub(super) async fn delete(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams((id, tag_name)): PathParams<(String, String)>,
) -> Result<Json<MessageBody>, ApiError> {
    app.datasets.remove_tag(key, dataset_id(&id)?, &tag_name).await?;
    Ok(Json(MessageBody { message: "Tag removed successfully".to_owned() }))
}

fn dataset_id(text: &str) -> Result<DatasetId, OperationError> {
    text.parse().map_err(|_| OperationError::NotFound)
}
