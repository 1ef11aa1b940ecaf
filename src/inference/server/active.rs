//! `PUT /api/v1/topics/{topic_id}/active`: puts a topic to rest, or wakes it.

use axum::{Json, extract::Request};
use web::extract::json;
use wire::{
    error::InferenceError,
    inference::{TopicResponse, network::TopicActive},
    paths,
};

use super::{
    Holder,
    error::ApiError,
    openapi::{DENIED, OF_TOPIC, parameters::TopicPart},
    request::Asked,
    topic,
};

/// Has epochs of a topic that the key created open, or not.
#[utoipa::path(put, path = paths::TOPIC_ACTIVE, operation_id = "set_active", tag = "taking part",
    params(TopicPart), request_body = TopicActive,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn put(
    asked: Asked,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let TopicActive { active } = json(request).await?;
    let (inference, by) = (&asked.service.inference, holder.address(None));
    let topic = inference.set_active(asked.topic_id()?, active, &by).await?;
    topic::respond(inference, &topic, false).await
}
