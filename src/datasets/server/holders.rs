//! `/api/tags/{tag_name}/holders/`: the keys that hold a tag, given and taken by its owner.

use axum::{
    Json,
    extract::{Request, State},
    response::Response,
};
use model::key::KeyId;
use wire::datasets::{Envelope, HolderBody, MessageBody};

use super::{App, Caller, PathParams, added, error::ApiError, whole};
use crate::catalog::CatalogError;

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams(tag_name): PathParams<String>,
) -> Result<Json<Envelope<HolderBody>>, ApiError> {
    let holders = app.datasets.holders(key, &tag_name).await?;
    Ok(Json(whole(holders.into_iter().map(|key| HolderBody { key: key.get() }).collect())))
}

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams(tag_name): PathParams<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let HolderBody { key: other } = web::extract::json(request).await?;
    let other = KeyId::new(other);
    // A number that no key has yet would be that of a stranger one day.
    if !app.gate.knows(other).await? {
        return Err(CatalogError::KeyUnknown.into());
    }
    let is_new = app.datasets.give_tag(key, &tag_name, other).await?;
    Ok(added(is_new, ["Tag given successfully", "Tag was held already"]))
}

pub(super) async fn delete(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams((tag_name, other)): PathParams<(String, String)>,
) -> Result<Json<MessageBody>, ApiError> {
    let other = other.parse().map_err(|_| CatalogError::KeyUnknown)?;
    app.datasets.take_tag(key, &tag_name, KeyId::new(other)).await?;
    Ok(Json(MessageBody { message: "Tag taken successfully".to_owned() }))
}
