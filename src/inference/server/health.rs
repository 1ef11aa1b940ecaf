//! `GET /health`: whether the service's files answer and take writes, and which topics fail. Needs no
//! key.

use std::sync::Arc;

use accounts::gate::Gate;
use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use wire::{inference::network::ServiceHealth, paths};

use super::error::ApiError;
use crate::{Inference, network::topic::Topic};

/// Whether the service answers.
#[utoipa::path(get, path = paths::HEALTH, operation_id = "health", tag = "service", security(()),
    responses((status = 200, description = "It does", body = ServiceHealth)))]
pub(super) async fn get(
    State(inference): State<Inference>,
    Extension(gate): Extension<Gate>,
) -> Response {
    if let Err(error) = inference.check_file().await {
        return ApiError::from(error).into_response();
    }
    if let Err(error) = gate.keys().check_file().await {
        return ApiError::from(error).into_response();
    }
    let fails = |topic: &Arc<Topic>| topic.is_active && !inference.problems(topic.id).is_empty();
    let topics = inference.topics().into_iter();
    let failing_topics = topics.filter(fails).map(|topic| topic.id.get()).collect();
    Json(ServiceHealth { failing_topics }).into_response()
}
