//! `PUT /api/v1/topics/{topic_id}/active`: puts a topic to rest, or wakes it.

use axum::{
    Json,
    extract::{Path, Request, State},
};
use web::extract::json;
use wire::inference::{TopicResponse, network::TopicActive};

use super::{
    Holder,
    error::{ApiError, topic_id},
    topic,
};
use crate::Inference;

pub(super) async fn put(
    State(inference): State<Inference>,
    Path(topic): Path<String>,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let TopicActive { active } = json(request).await?;
    let by = holder.address(None)?;
    let topic = inference.set_active(topic_id(&topic)?, active, &by).await?;
    topic::answer(&inference, &topic).await
}
