//! `/api/tags/{tag_name}/holders/`: lists the keys that hold a tag; its owner gives and takes it.

use axum::{Json, extract::Request, response::Response};
use model::key::KeyId;
use wire::{
    datasets::{Envelope, HolderBody, MessageBody},
    paths,
};

use super::{Caller, PathParams, added_response, error::Result, openapi::NamedTag, single_page};
use crate::error::OperationError;
/// Lists the keys that hold a tag, which the key owns.
#[utoipa::path(get, path = paths::TAG_HOLDERS, operation_id = "list_tag_holders", tag = "datasets",
    params(NamedTag),
    responses((status = 200, description = "All holders", body = Envelope<HolderBody>)))]
pub(super) async fn get(
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
pub(super) async fn post(
    Caller { app, key }: Caller,
    PathParams(tag_name): PathParams<String>,
    request: Request,
) -> Result<Response> {
    let HolderBody { key: other } = web::extract::json(request).await?;
    let other = KeyId::new(other);
    // A number without a key would be that of another person's key one day.
    if !app.gate.keys().knows(other).await? {
        return Err(OperationError::KeyUnknown.into());
    }
    let is_new = app.datasets.give_tag(key, &tag_name, other).await?;
    Ok(added_response(is_new, ["Tag given successfully", "Tag was held already"]))
}
/// Takes a tag that the key owns back from another key.
#[utoipa::path(delete, path = paths::TAG_HOLDER, operation_id = "take_tag", tag = "producing",
    params(NamedTag,
        ("key" = i64, Path, description = "The key's number, which is no secret.")),
    responses((status = 200, description = "It is taken", body = MessageBody)))]
pub(super) async fn delete(
    Caller { app, key }: Caller,
    PathParams((tag_name, other)): PathParams<(String, String)>,
) -> Result<Json<MessageBody>> {
    let other = other.parse().map_err(|_| OperationError::KeyUnknown)?;
    app.datasets.take_tag(key, &tag_name, KeyId::new(other)).await?;
    Ok(Json(MessageBody { message: "Tag taken successfully".to_owned() }))
}
