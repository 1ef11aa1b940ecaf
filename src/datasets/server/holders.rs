//! `/api/tags/{tag_name}/holders/`: lists the keys that hold a tag; its owner gives and takes it.

use axum::{
    Json,
    extract::{Request, State},
    response::Response,
};
use model::key::KeyId;
use wire::datasets::{Envelope, HolderBody, MessageBody};

use super::{App, Caller, PathParams, added_response, error::ApiError, single_page};
use crate::error::OperationError;

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams(tag_name): PathParams<String>,
) -> Result<Json<Envelope<HolderBody>>, ApiError> {
    let holders = app.datasets.holders(key, &tag_name).await?;
    Ok(Json(single_page(holders.into_iter().map(|key| HolderBody { key: key.get() }).collect())))
}

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams(tag_name): PathParams<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let HolderBody { key: other } = web::extract::json(request).await?;
    let other = KeyId::new(other);
    // A number without a key would be that of another person's key one day.
    if !app.gate.knows(other).await? {
        return Err(OperationError::KeyUnknown.into());
    }
    let is_new = app.datasets.give_tag(key, &tag_name, other).await?;
    Ok(added_response(is_new, ["Tag given successfully", "Tag was held already"]))
}

pub(super) async fn delete(
    State(app): State<App>,
    Caller(key): Caller,
    PathParams((tag_name, other)): PathParams<(String, String)>,
) -> Result<Json<MessageBody>, ApiError> {
    let other = other.parse().map_err(|_| OperationError::KeyUnknown)?;
    app.datasets.take_tag(key, &tag_name, KeyId::new(other)).await?;
    Ok(Json(MessageBody { message: "Tag taken successfully".to_owned() }))
}
