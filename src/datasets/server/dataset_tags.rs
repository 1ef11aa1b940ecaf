//! `/api/datasets/{id}/tags/`: the tags of a dataset, and one more.

use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use model::dataset::DatasetId;
use web::answer::Created;
use wire::datasets::{Envelope, MessageBody, TagBody, TagName};

use super::{App, Caller, error::ApiError, tags::envelope};
use crate::catalog::CatalogError;

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Json<Envelope<TagBody>>, ApiError> {
    let tags = app.datasets.dataset_tags(key, dataset_id(&id)?).await?;
    Ok(Json(envelope(tags)))
}

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = dataset_id(&id)?;
    let TagName { tag_name } = web::extract::json(request).await?;
    let body = |message: &str| MessageBody { message: message.to_owned() };
    Ok(if app.datasets.add_tag(key, id, &tag_name).await? {
        Created(body("Tag added successfully")).into_response()
    } else {
        Json(body("Tag was there already")).into_response()
    })
}

fn dataset_id(text: &str) -> Result<DatasetId, CatalogError> {
    text.parse().map_err(|_| CatalogError::NotFound)
}
