//! `/api/tags/…` and `/api/datasets/{id}/tags/…`: tags, their holders, and the datasets that have them.

use axum::{Json, extract::Request, response::Response};
use model::{dataset::DatasetId, key::KeyId};
use tsdb::catalog::{DatasetRef, Tag};
use wire::{
    datasets::{Envelope, HolderBody, MessageBody, TagBody, TagName},
    paths,
};

use super::{
    Caller, PathParams, added_response,
    error::Result,
    openapi::{DatasetNumber, NamedTag},
    single_page,
};
use crate::error::OperationError;

/// Takes a public tag, whose datasets the key sees from then on.
///
/// 409 where the key holds it already, which may be ignored.
#[utoipa::path(post, path = paths::TAGS_ACQUIRE, operation_id = "acquire_tag", tag = "datasets",
    request_body = TagName,
    responses((status = 200, description = "The key holds the tag", body = MessageBody)))]
pub(super) async fn acquire(
    Caller { app, key }: Caller,
    request: Request,
) -> Result<Json<MessageBody>> {
    let TagName { tag_name } = web::extract::json(request).await?;
    app.datasets.acquire(key, &tag_name).await?;
    Ok(Json(MessageBody { message: "Tag acquired successfully".to_owned() }))
}

/// Lists the tags that the key knows of: public ones, which any key may acquire, its own, and those
/// it holds.
#[utoipa::path(get, path = paths::TAGS, operation_id = "list_tags", tag = "datasets",
    responses((status = 200, description = "These tags", body = Envelope<TagBody>)))]
pub(super) async fn list(Caller { app, key }: Caller) -> Result<Json<Envelope<TagBody>>> {
    Ok(Json(envelope(app.datasets.known_tags(key).await?)))
}

fn envelope(tags: Vec<Tag>) -> Envelope<TagBody> {
    let body = |Tag { name, is_public, .. }| TagBody { name, is_public };
    single_page(tags.into_iter().map(body).collect())
}

/// Lists the tags of a dataset: all to its owner, to others those they know of.
#[utoipa::path(get, path = paths::DATASET_TAGS, operation_id = "list_dataset_tags", tag = "datasets",
    params(DatasetNumber),
    responses((status = 200, description = "These tags", body = Envelope<TagBody>)))]
pub(super) async fn list_of_dataset(
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
pub(super) async fn add(
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
pub(super) async fn remove(
    Caller { app, key }: Caller,
    PathParams((id, tag_name)): PathParams<(String, String)>,
) -> Result<Json<MessageBody>> {
    app.datasets.remove_tag(key, dataset_id(&id)?, &tag_name).await?;
    Ok(Json(MessageBody { message: "Tag removed successfully".to_owned() }))
}

fn dataset_id(text: &str) -> Result<DatasetId, OperationError> {
    text.parse().map_err(|_| OperationError::NotFound)
}

/// Lists the keys that hold a tag, which the key owns.
#[utoipa::path(get, path = paths::TAG_HOLDERS, operation_id = "list_tag_holders", tag = "datasets",
    params(NamedTag),
    responses((status = 200, description = "All holders", body = Envelope<HolderBody>)))]
pub(super) async fn list_holders(
    Caller { app, key }: Caller,
    PathParams(tag_name): PathParams<String>,
) -> Result<Json<Envelope<HolderBody>>> {
    let holders = app.datasets.holders(key, &tag_name).await?;
    Ok(Json(single_page(holders.into_iter().map(|key| HolderBody { key: key.get() }).collect())))
}

/// Gives a tag that the key owns to another key.
///
/// Keys are named by their numbers, which only the machine knows that keeps them: where keys are
/// checked on another machine (`--accounts`), nothing is given, and the answer is 503.
#[utoipa::path(post, path = paths::TAG_HOLDERS, operation_id = "give_tag", tag = "producing",
    params(NamedTag), request_body = HolderBody,
    responses((status = 201, description = "It holds the tag now", body = MessageBody),
        (status = 200, description = "It held the tag before", body = MessageBody)))]
pub(super) async fn give(
    Caller { app, key }: Caller,
    PathParams(tag_name): PathParams<String>,
    request: Request,
) -> Result<Response> {
    let HolderBody { key: other } = web::extract::json(request).await?;
    let other = KeyId::new(other);
    // A number without a key would be that of another person's key one day.
    if !app.gate.keys().knows(other).await? {
        return Err(OperationError::KEY_UNKNOWN.into());
    }
    let is_new = app.datasets.give_tag(key, &tag_name, other).await?;
    Ok(added_response(is_new, ["Tag given successfully", "Tag was held already"]))
}

/// Takes a tag that the key owns back from another key.
#[utoipa::path(delete, path = paths::TAG_HOLDER, operation_id = "take_tag", tag = "producing",
    params(NamedTag,
        ("key" = i64, Path, description = "The key's number, which is no secret.")),
    responses((status = 200, description = "It is taken", body = MessageBody)))]
pub(super) async fn take(
    Caller { app, key }: Caller,
    PathParams((tag_name, other)): PathParams<(String, String)>,
) -> Result<Json<MessageBody>> {
    let other = other.parse().map_err(|_| OperationError::KEY_UNKNOWN)?;
    app.datasets.take_tag(key, &tag_name, KeyId::new(other)).await?;
    Ok(Json(MessageBody { message: "Tag taken successfully".to_owned() }))
}
