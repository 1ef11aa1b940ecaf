//! `POST /api/v1/topics`, `PUT` and `DELETE /api/v1/topics/{topic_id}`: creates a topic, and replaces
//! or deletes one that the same key created. The first two answer with the topic as the chain writes
//! it.

use axum::{
    Json,
    extract::{Path, Request, State},
    http::StatusCode,
};
use model::topic::TopicId;
use web::extract::json;
use wire::inference::{TopicResponse, network::TopicSettings};

use super::{
    Holder, Service,
    error::{ApiError, topic_id},
    source, topic,
};
use crate::{
    Inference,
    network::{
        topic::{Topic, settings},
        topics::TopicChangeError,
    },
};

pub(super) async fn create(
    State(service): State<Service>,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let inference = service.inference;
    let described = described(request, inference.next_topic_id(), &holder).await?;
    source::check(&service.rows.0, &described).await?;
    let created = inference.create_topic(described).await?;
    topic::answer(&inference, &created).await
}

pub(super) async fn update(
    State(service): State<Service>,
    Path(topic): Path<String>,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let inference = service.inference;
    let described = described(request, topic_id(&topic)?, &holder).await?;
    source::check(&service.rows.0, &described).await?;
    let updated = inference.update_topic(described, &holder.address(None)?).await?;
    topic::answer(&inference, &updated).await
}

pub(super) async fn delete(
    State(inference): State<Inference>,
    Path(topic): Path<String>,
    holder: Holder,
) -> Result<StatusCode, ApiError> {
    inference.delete_topic(topic_id(&topic)?, &holder.address(None)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn described(request: Request, id: TopicId, holder: &Holder) -> Result<Topic, ApiError> {
    let settings: TopicSettings = json(request).await?;
    // Topics read datasets and run functions with the rights of the service itself.
    if !holder.is_operators() {
        return Err(ApiError::Denied("topics are made with an operator's key".to_owned()));
    }
    let topic = settings::topic(id, Some(holder.address(None)?), settings);
    let topic = topic.map_err(|error| ApiError::Invalid(error.to_string()))?;
    topic.check().map_err(TopicChangeError::from)?;
    Ok(topic)
}
