//! `/api/datasets/{id}/tags/` and `/api/datasets/{id}/tags/{tag_name}/`: lists, adds and removes the tags
//! of a dataset.

use axum::{Json, extract::Request, response::Response};
use model::dataset::DatasetId;
use tsdb::catalog::DatasetRef;
use wire::{
    datasets::{Envelope, MessageBody, TagBody, TagName},
    paths,
};

use super::{
    Caller, PathParams, added_response,
    error::Result,
    openapi::{DatasetNumber, NamedTag},
    tags::envelope,
};
use crate::error::OperationError;
/// Lists the tags of a dataset: all to its owner, to others those they know of.
#[utoipa::path(get, path = paths::DATASET_TAGS, operation_id = "list_dataset_tags", tag = "datasets",
    params(DatasetNumber),
    responses((status = 200, description = "These tags", body = Envelope<TagBody>)))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Envelope<TagBody>>> {
    let tags = app.datasets.dataset_tags(key, dataset_id(&id)?).await?;
    Ok(Json(envelope(tags)))
}
/// Lets the holders of a tag read a dataset that the key owns.
///
/// A name that is not public means a private tag of the key itself, whatever others use it for.
#[utoipa::path(post, path = paths::DATASET_TAGS, operation_id = "add_dataset_tag", tag = "producing",
    params(DatasetNumber), request_body = TagName,
    responses((status = 201, description = "They may now", body = MessageBody),
        (status = 200, description = "They could before", body = MessageBody)))]
pub(super) async fn post(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
    request: Request,
) -> Result<Response> {
    let id = dataset_id(&id)?;
    app.datasets.find_owned(key, DatasetRef::Id(id)).await?;
    let TagName { tag_name } = web::extract::json(request).await?;
    let is_new = app.datasets.add_tag(key, id, &tag_name).await?;
    Ok(added_response(is_new, ["Tag added successfully", "Tag was there already"]))
}
/// Takes a tag from a dataset that the key owns.
#[utoipa::path(delete, path = paths::DATASET_TAG, operation_id = "remove_dataset_tag", tag = "producing",
    params(DatasetNumber, NamedTag),
    responses((status = 200, description = "It is taken", body = MessageBody)))]
pub(super) async fn delete(
    Caller { app, key }: Caller,
    PathParams((id, tag_name)): PathParams<(String, String)>,
) -> Result<Json<MessageBody>> {
    app.datasets.remove_tag(key, dataset_id(&id)?, &tag_name).await?;
    Ok(Json(MessageBody { message: "Tag removed successfully".to_owned() }))
}

fn dataset_id(text: &str) -> Result<DatasetId, OperationError> {
    text.parse().map_err(|_| OperationError::NotFound)
}
