//! `GET /health`: whether the service's files answer and take writes, and which topics fail. Needs no
//! key.

use std::sync::Arc;

use accounts::gate::Gate;
use axum::{Extension, Json, extract::State};
use wire::{inference::network::ServiceHealth, paths};

use super::{Service, error::ApiError};
use crate::network::topic::Topic;

/// Whether the service answers.
#[utoipa::path(get, path = paths::HEALTH, operation_id = "health", tag = "service", security(()),
    responses((status = 200, description = "It does", body = ServiceHealth)))]
pub(super) async fn get(
    State(service): State<Service>,
    Extension(gate): Extension<Gate>,
) -> Result<Json<ServiceHealth>, ApiError> {
    let inference = service.inference;
    inference.check_file().await?;
    gate.keys().check_file().await?;
    let fails = |topic: &Arc<Topic>| topic.is_active && !inference.problems(topic.id).is_empty();
    let topics = inference.topics().into_iter();
    let failing_topics = topics.filter(fails).map(|topic| topic.id.get()).collect();
    Ok(Json(ServiceHealth { failing_topics }))
}
