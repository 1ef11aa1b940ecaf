//! `GET /api/v1/topics/{topic_id}/health`: whether a topic works, why not, and what it keeps.

use axum::Json;
use model::topic::BlockHeight;
use wire::{
    inference::network::{RetentionBody, TopicHealth},
    paths,
};

use super::{error::ApiError, openapi::parameters::TopicPart, request::Asked};
use crate::network::retention::DAY;

/// Whether a topic works, why not, and what it keeps of its past.
#[utoipa::path(get, path = paths::TOPIC_HEALTH, operation_id = "topic_health", tag = "network",
    params(TopicPart), responses((status = 200, description = "Its health", body = TopicHealth)))]
pub(super) async fn get(asked: Asked) -> Result<Json<TopicHealth>, ApiError> {
    let (topic, inference) = (asked.topic()?, &asked.service.inference);
    let id = topic.id;
    let problems = inference.problems(id);
    let retention = inference.retention_of(&topic);
    let holdings = inference.holdings(id).await?;
    let state = match (topic.is_active, problems.is_empty()) {
        (false, _) => "paused",
        (true, true) => "working",
        (true, false) => "failing",
    };
    let height = |nonce: Option<BlockHeight>| nonce.map(|nonce| nonce.to_string());
    Ok(Json(TopicHealth {
        topic_id: id.get(),
        state: state.to_owned(),
        problems,
        retention: RetentionBody {
            keep_bytes: retention.bytes,
            keep_days: retention.age.map(|age| age.as_secs() / DAY.as_secs()),
            n_epochs: holdings.n_epochs,
            n_bytes: holdings.n_bytes,
            oldest_nonce: height(holdings.oldest),
            oldest_full_nonce: height(holdings.oldest_full),
        },
    }))
}
