//! `POST /api/v1/topics`, `PUT` and `DELETE /api/v1/topics/{topic_id}`: creates a topic, and replaces
//! or deletes one that the same key created. The first two answer with the topic as the chain writes
//! it.

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use model::topic::TopicId;
use web::extract::json;
use wire::{
    error::InferenceError,
    inference::{TopicResponse, network::TopicSettings},
    paths,
};

use super::{
    App, Holder,
    error::ApiError,
    openapi::{DENIED, OF_TOPIC, UNCHECKED, UNFIT, parameters::TopicPart},
    request::Asked,
    source, topic,
};
use crate::{
    Inference,
    network::topic::{Topic, settings},
};

/// Creates a topic, which belongs to the key. Its first epoch opens with the next block.
///
/// Needed are `metadata`, `dataset`, `column` and `horizon_seconds`; what else is left out is as on
/// most topics of the chain. The dataset, the column and rows less than a horizon apart have to be
/// there. Its truth is the column's value that many seconds after the newest row there was when the
/// epoch opened, looked for once `ground_truth_lag` blocks have passed. The horizon has to be longer
/// than the submission window lasts, unless the topic is `experimental`: else workers could read the
/// truth before they submit.
#[utoipa::path(post, path = paths::TOPICS, operation_id = "create_topic", tag = "taking part",
    request_body = TopicSettings,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 400, description = UNFIT, body = InferenceError),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 409, body = InferenceError,
            description = "Code 10: there are as many topics as may be, of this key or in all"),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn create(
    State(service): State<App>,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let inference = &service.inference;
    let described = described(inference, request, inference.next_topic_id(), &holder).await?;
    source::check(&service.rows, &described).await?;
    let created = inference.create_topic(described).await?;
    topic::respond(inference, &created, false).await
}

/// Replaces all settings of a topic that the key created. Type, arity, unity and case stay.
///
/// Needed are `metadata`, `dataset`, `column` and `horizon_seconds`; what else is left out is as on
/// most topics of the chain. The dataset, the column and rows less than a horizon apart have to be
/// there. Its truth is the column's value that many seconds after the newest row there was when the
/// epoch opened, looked for once `ground_truth_lag` blocks have passed. The horizon has to be longer
/// than the submission window lasts, unless the topic is `experimental`: else workers could read the
/// truth before they submit.
#[utoipa::path(put, path = paths::TOPIC_SETTINGS, operation_id = "update_topic",
    tag = "taking part", params(TopicPart), request_body = TopicSettings,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn update(
    asked: Asked,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let inference = &asked.service.inference;
    let described = described(inference, request, asked.topic_id()?, &holder).await?;
    source::check(&asked.service.rows, &described).await?;
    let updated = inference.update_topic(described, &holder.address(None)).await?;
    topic::respond(inference, &updated, false).await
}

/// Deletes a topic that the key created.
///
/// Its epochs go with it, and its number is not given to another topic.
#[utoipa::path(delete, path = paths::TOPIC_SETTINGS, operation_id = "delete_topic",
    tag = "taking part", params(TopicPart),
    responses((status = 204, description = "It is gone"),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn delete(asked: Asked, holder: Holder) -> Result<StatusCode, ApiError> {
    let (topic, by) = (asked.topic_id()?, holder.address(None));
    asked.service.inference.delete_topic(topic, &by).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn described(
    inference: &Inference,
    request: Request,
    id: TopicId,
    holder: &Holder,
) -> Result<Topic, ApiError> {
    let settings: TopicSettings = json(request).await?;
    // Topics read datasets and run functions with the rights of the service itself.
    if !holder.is_operators() {
        return Err(ApiError::denied("topics are made with an operator's key"));
    }
    let topic = settings::topic(id, Some(holder.address(None)), settings);
    let topic = topic.map_err(|error| ApiError::invalid(error.to_string()))?;
    inference.check_topic(&topic)?;
    Ok(topic)
}
