//! Weights, as they follow from the regrets that were learned last.

use axum::{
    Json,
    extract::{Path, State},
};
use model::bundle::decimal;
use wire::inference::chain::{ValueResponse, WeightResponse};

use super::{Service, address, topic};
use crate::server::error::ApiError;

pub(super) async fn regret_stdnorm(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<ValueResponse>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let learned = service.inference.learned(topic.id).await?;
    Ok(Json(ValueResponse { value: decimal(learned.regret_scale.unwrap_or_default()) }))
}

pub(super) async fn inferer_weight(
    State(service): State<Service>,
    Path((version, id, actor)): Path<(String, String, String)>,
) -> Result<Json<WeightResponse>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let name = address("actor_id", &actor)?;
    let weight = service.inference.learned_shares(topic.id).await?.inferer.get(&name).copied();
    Ok(Json(WeightResponse { weight: decimal(weight.unwrap_or_default()) }))
}

pub(super) async fn forecaster_weight(
    State(service): State<Service>,
    Path((version, id, actor)): Path<(String, String, String)>,
) -> Result<Json<WeightResponse>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let name = address("actor_id", &actor)?;
    let weight = service.inference.learned_shares(topic.id).await?.forecaster.get(&name).copied();
    Ok(Json(WeightResponse { weight: decimal(weight.unwrap_or_default()) }))
}
