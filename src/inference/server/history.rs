//! `GET /api/v1/topics/{topic_id}/history?from=&to=&limit=`: a topic's newest epochs, oldest first.
//! Ours.

use axum::Json;
use model::topic::BlockHeight;
use wire::{inference::TopicHistory, paths};

use super::{error::ApiError, openapi::parameters::TopicPart, request::Asked};

/// How many epochs are returned where the request does not say.
const LIMIT_DEFAULT: u32 = 100;

/// The most epochs returned at once: enough for a line across any screen.
const LIMIT_MAX: u32 = 1000;

/// A topic's newest past epochs from one nonce to another, oldest first, with what came true and what
/// it cost.
///
/// One response has 1 000 epochs at most. The ones before them are those up to the nonce before the
/// first one, as `to`.
#[utoipa::path(get, path = paths::TOPIC_HISTORY, operation_id = "history", tag = "network",
    params(TopicPart,
        ("from" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "The first nonce, itself included; 0 where it is left out."),
        ("to" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "The last nonce, itself included; the newest where it is left out."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "The number of epochs, of which the newest are returned; 100 where it is \
                           left out.")),
    responses((status = 200, description = "Epochs", body = TopicHistory)))]
pub(super) async fn get(asked: Asked) -> Result<Json<TopicHistory>, ApiError> {
    let (id, limit) = (asked.topic_id()?, asked.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?);
    let nonces = asked.read_or("from", 0)?..=asked.read_or("to", BlockHeight::MAX)?;
    let epochs = asked.service.inference.history(id, nonces, limit).await?;
    Ok(Json(TopicHistory { topic_id: id.get(), epochs }))
}
