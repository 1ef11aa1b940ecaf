//! `GET /api/v1/topics/{topic_id}/history?limit=`: a topic's newest epochs, oldest first. Ours.

use axum::Json;
use wire::{inference::TopicHistory, paths};

use super::{error::ApiError, openapi::parameters::TopicPart, request::Asked};

/// How many epochs are returned where the request does not say.
const LIMIT_DEFAULT: u32 = 100;

/// The most epochs returned at once: enough for a line across any screen.
const LIMIT_MAX: u32 = 1000;

/// A topic's newest past epochs, oldest first, with what came true and what it cost.
#[utoipa::path(get, path = paths::TOPIC_HISTORY, operation_id = "history", tag = "network",
    params(TopicPart, ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
        description = "How many of them; 100 where it is left out.")),
    responses((status = 200, description = "Epochs", body = TopicHistory)))]
pub(super) async fn get(asked: Asked) -> Result<Json<TopicHistory>, ApiError> {
    let (id, limit) = (asked.topic_id()?, asked.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?);
    let epochs = asked.service.inference.history(id, 0..=u64::MAX, limit).await?;
    Ok(Json(TopicHistory { topic_id: id.get(), epochs }))
}
