//! `GET /health`: whether the service's files answer and take writes, and which topics fail. Needs no
//! key.

use accounts::gate::Gate;
use axum::{Extension, Json, extract::State};
use wire::{inference::network::ServiceHealth, paths};

use super::{App, error::ApiError};

/// Whether the service answers.
#[utoipa::path(get, path = paths::HEALTH, operation_id = "health", tag = "service", security(()),
    responses((status = 200, description = "It does", body = ServiceHealth)))]
pub(super) async fn get(
    State(service): State<App>,
    Extension(gate): Extension<Gate>,
) -> Result<Json<ServiceHealth>, ApiError> {
    let inference = &service.inference;
    let check = async {
        inference.check_file().await?;
        Ok(gate.keys().check_file().await?)
    };
    service.health.get(check).await?;
    let is_read_only = inference.is_read_only();
    let failing_topics = inference.failing_topics().iter().map(|topic| topic.get()).collect();
    Ok(Json(ServiceHealth { failing_topics, is_read_only }))
}
