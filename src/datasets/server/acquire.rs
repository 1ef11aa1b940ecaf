//! `POST /api/tags/acquire/`: a key takes a tag.

use axum::{Json, extract::Request};
use wire::{
    datasets::{MessageBody, TagName},
    paths,
};

use super::{Caller, error::Result};
/// Takes a public tag, whose datasets the key sees from then on.
///
/// 409 where the key holds it already, which may be ignored.
#[utoipa::path(post, path = paths::TAGS_ACQUIRE, operation_id = "acquire_tag", tag = "datasets",
    request_body = TagName,
    responses((status = 200, description = "The key holds the tag", body = MessageBody)))]
pub(super) async fn post(
    Caller { app, key }: Caller,
    request: Request,
) -> Result<Json<MessageBody>> {
    let TagName { tag_name } = web::extract::json(request).await?;
    app.datasets.acquire(key, &tag_name).await?;
    Ok(Json(MessageBody { message: "Tag acquired successfully".to_owned() }))
}
