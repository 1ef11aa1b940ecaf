//! `PUT` and `DELETE /api/v1/topics/{topic_id}/whitelist/{worker}`: adds a worker to a topic's
//! whitelist, or takes it away, for the key that created the topic. Both answer with the topic.

use axum::Json;
use wire::{error::InferenceError, inference::TopicResponse, paths};

use super::{
    Holder,
    error::ApiError,
    openapi::{
        DENIED, OF_TOPIC,
        parameters::{ActorAddress, TopicPart},
    },
    request::Asked,
    topic,
};
use crate::network::{addresses, topics::ListChange};

/// Adds a worker to the whitelist of a topic that the key created.
#[utoipa::path(put, path = paths::TOPIC_WHITELISTED, operation_id = "add_to_whitelist",
    tag = "taking part", params(TopicPart,
        ("worker" = inline(ActorAddress), Path, description = "The worker's address.")),
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn put(asked: Asked, holder: Holder) -> Result<Json<TopicResponse>, ApiError> {
    change(asked, holder, ListChange::Add).await
}

/// Takes a worker off the whitelist of a topic that the key created.
#[utoipa::path(delete, path = paths::TOPIC_WHITELISTED, operation_id = "remove_from_whitelist",
    tag = "taking part", params(TopicPart,
        ("worker" = inline(ActorAddress), Path, description = "The worker's address.")),
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn delete(asked: Asked, holder: Holder) -> Result<Json<TopicResponse>, ApiError> {
    change(asked, holder, ListChange::Remove).await
}

async fn change(
    asked: Asked,
    holder: Holder,
    change: ListChange,
) -> Result<Json<TopicResponse>, ApiError> {
    let id = asked.topic_id()?;
    let worker = match change {
        ListChange::Add => addresses::checked(&asked.text("worker")?)
            .map_err(|why| ApiError::mismatch("worker", why))?,
        ListChange::Remove => asked.address("worker")?,
    };
    let inference = &asked.service.inference;
    let changed = inference.change_whitelist(id, worker, change, &holder.address(None)).await?;
    topic::respond(inference, &changed, false).await
}
