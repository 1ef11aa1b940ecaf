//! `/api/tags/…` and `/api/datasets/{id}/tags/…`: tags, the keys that hold them, and the
//! datasets that are marked with them.

use axum::Json;
use axum::extract::Request;
use axum::response::Response;
use model::dataset::DatasetId;
use model::key::KeyId;
use tsdb::catalog::{DatasetRef, Tag};
use wire::datasets::{Envelope, HolderBody, MessageBody, TagBody, TagName};
use wire::paths;

use super::openapi::{DatasetNumber, NamedTag};
use super::{Caller, PathParams, added_response, single_page};
use crate::error::{OperationError, Result};

/// Acquires a public tag, whose datasets become visible to the key.
///
/// 409 if the key already holds it, which is safe to ignore.
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

/// Gives up the tags of this name that the key holds: the public tag, or private tags that their owners
/// granted.
#[utoipa::path(post, path = paths::TAGS_RELEASE, operation_id = "release_tag", tag = "datasets",
    request_body = TagName,
    responses((status = 200, description = "The key no longer holds the tags", body = MessageBody)))]
pub(super) async fn release(
    Caller { app, key }: Caller,
    request: Request,
) -> Result<Json<MessageBody>> {
    let TagName { tag_name } = web::extract::json(request).await?;
    app.datasets.release_tag(key, &tag_name).await?;
    Ok(Json(MessageBody { message: "Tag released successfully".to_owned() }))
}

/// Lists the tags known to the key: public tags, which any key can acquire, its own, and those it
/// holds.
#[utoipa::path(get, path = paths::TAGS, operation_id = "list_tags", tag = "datasets",
    responses((status = 200, description = "The tags", body = Envelope<TagBody>)))]
pub(super) async fn list(Caller { app, key }: Caller) -> Result<Json<Envelope<TagBody>>> {
    Ok(Json(envelope(app.datasets.known_tags(key).await?)))
}

fn envelope(tags: Vec<Tag>) -> Envelope<TagBody> {
    let body = |Tag { name, is_public, .. }| TagBody { name, is_public };
    single_page(tags.into_iter().map(body).collect())
}

/// Lists the tags of a dataset. The owner sees all of them, other keys only the tags that they know.
#[utoipa::path(get, path = paths::DATASET_TAGS, operation_id = "list_dataset_tags", tag = "datasets",
    params(DatasetNumber),
    responses((status = 200, description = "The tags", body = Envelope<TagBody>)))]
pub(super) async fn list_of_dataset(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Envelope<TagBody>>> {
    let tags = app.datasets.dataset_tags(key, dataset_id(&id)?).await?;
    Ok(Json(envelope(tags)))
}

/// Lets the holders of a tag read a dataset that the key owns.
///
/// A name other than `public` refers to a private tag of the key itself, even if other keys use the same
/// name.
#[utoipa::path(post, path = paths::DATASET_TAGS, operation_id = "add_dataset_tag", tag = "producing",
    params(DatasetNumber), request_body = TagName,
    responses((status = 201, description = "The tag was added", body = MessageBody),
        (status = 200, description = "The dataset already had the tag", body = MessageBody)))]
pub(super) async fn add(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
    request: Request,
) -> Result<Response> {
    let id = dataset_id(&id)?;
    app.datasets.find_owned(key, DatasetRef::Id(id)).await?;
    let TagName { tag_name } = web::extract::json(request).await?;
    let is_new = app.datasets.add_tag(key, id, &tag_name).await?;
    Ok(added_response(is_new, ["Tag added successfully", "Tag was already there"]))
}

/// Removes a tag from a dataset that the key owns.
#[utoipa::path(delete, path = paths::DATASET_TAG, operation_id = "remove_dataset_tag", tag = "producing",
    params(DatasetNumber, NamedTag),
    responses((status = 200, description = "The tag was removed", body = MessageBody)))]
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

/// Lists the keys that hold a tag owned by the key.
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

/// Grants a tag owned by the key to another key.
///
/// Keys are identified by their numbers, which only the machine that stores them knows. If keys are
/// checked on another machine (`--accounts`), nothing is granted, and the response is a 503.
#[utoipa::path(post, path = paths::TAG_HOLDERS, operation_id = "give_tag", tag = "producing",
    params(NamedTag), request_body = HolderBody,
    responses((status = 201, description = "The key now holds the tag", body = MessageBody),
        (status = 200, description = "The key already held the tag", body = MessageBody)))]
pub(super) async fn give(
    Caller { app, key }: Caller,
    PathParams(tag_name): PathParams<String>,
    request: Request,
) -> Result<Response> {
    let HolderBody { key: other } = web::extract::json(request).await?;
    let other = KeyId::new(other);
    // Rejects a number that is not in use, since another person's key can get it later.
    if !app.gate.keys().knows(other).await? {
        return Err(OperationError::KEY_UNKNOWN);
    }
    let is_new = app.datasets.give_tag(key, &tag_name, other).await?;
    Ok(added_response(is_new, ["Tag given successfully", "Tag was already held"]))
}

/// Revokes a tag owned by the key from another key.
#[utoipa::path(delete, path = paths::TAG_HOLDER, operation_id = "take_tag", tag = "producing",
    params(NamedTag,
        ("key" = i64, Path, description = "The key's number, which is not secret.")),
    responses((status = 200, description = "The tag was revoked", body = MessageBody)))]
pub(super) async fn take(
    Caller { app, key }: Caller,
    PathParams((tag_name, other)): PathParams<(String, String)>,
) -> Result<Json<MessageBody>> {
    let other = other.parse().map_err(|_| OperationError::KEY_UNKNOWN)?;
    app.datasets.take_tag(key, &tag_name, KeyId::new(other)).await?;
    Ok(Json(MessageBody { message: "Tag taken successfully".to_owned() }))
}
