//! `GET /emissions/{version}/next_topic_id`: one more than the highest topic number.

use axum::Json;
use wire::{inference::NextTopicId, paths};

use super::{error::ApiError, openapi::parameters::Version, request::Asked};

/// The number that the next topic will get.
#[utoipa::path(get, path = paths::NEXT_TOPIC_ID, tag = "windows", params(Version),
    responses((status = 200, description = "What was asked for", body = NextTopicId)))]
pub(super) async fn next_topic_id(asked: Asked) -> Result<Json<NextTopicId>, ApiError> {
    asked.check_version()?;
    let next_topic_id = asked.service.inference.next_topic_id().to_string();
    Ok(Json(NextTopicId { next_topic_id }))
}
