//! `POST /api/tags/acquire/`: a key takes a tag.

use axum::{
    Json,
    extract::{Request, State},
};
use wire::datasets::{MessageBody, TagName};

use super::{App, Caller, error::ApiError};

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    request: Request,
) -> Result<Json<MessageBody>, ApiError> {
    let TagName { tag_name } = web::extract::json(request).await?;
    app.datasets.acquire(key, &tag_name).await?;
    Ok(Json(MessageBody { message: "Tag acquired successfully".to_owned() }))
}
