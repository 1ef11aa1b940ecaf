//! Weights, as they follow from the regrets that were learned last.

use axum::Json;
use model::bundle::decimal;
use wire::{
    inference::chain::{ValueResponse, WeightResponse},
    paths::emissions::weights as of,
};

use super::super::{
    error::ApiError,
    openapi::parameters::{ActorAddress, TopicPart, Version},
    request::Asked,
};
use crate::math::regret::Role;

/// The scale of regrets that weights are reckoned with; 0 before there is one.
#[utoipa::path(get, path = of::REGRET_STDNORM, tag = "losses", params(Version, TopicPart),
    responses((status = 200, description = "What was asked for", body = ValueResponse)))]
pub(super) async fn latest_regret_stdnorm(asked: Asked) -> Result<Json<ValueResponse>, ApiError> {
    let learned = asked.service.inference.learned(asked.topic_id()?).await?;
    Ok(Json(ValueResponse { value: decimal(learned.regret_scale.unwrap_or_default()) }))
}

/// An inferer's share, as it follows from the newest regrets.
///
/// 0 to 1; those of all actors of a topic sum to 1. 0 for who has none.
#[utoipa::path(get, path = of::INFERER_WEIGHT, tag = "losses", params(Version, TopicPart,
        ("actor_id" = inline(ActorAddress), Path, description = "The actor's address.")),
    responses((status = 200, description = "What was asked for", body = WeightResponse)))]
pub(super) async fn latest_inferer_weight(asked: Asked) -> Result<Json<WeightResponse>, ApiError> {
    weight(&asked, Role::Inferer).await
}

/// A forecaster's share, as it follows from the newest regrets.
///
/// 0 to 1; those of all actors of a topic sum to 1. 0 for who has none.
#[utoipa::path(get, path = of::FORECASTER_WEIGHT, tag = "losses", params(Version, TopicPart,
        ("actor_id" = inline(ActorAddress), Path, description = "The actor's address.")),
    responses((status = 200, description = "What was asked for", body = WeightResponse)))]
pub(super) async fn latest_forecaster_weight(
    asked: Asked,
) -> Result<Json<WeightResponse>, ApiError> {
    weight(&asked, Role::Forecaster).await
}

async fn weight(asked: &Asked, role: Role) -> Result<Json<WeightResponse>, ApiError> {
    let (topic, name) = (asked.topic()?, asked.address("actor_id")?);
    let shares = asked.service.inference.learned_shares(topic.id).await?;
    let weight = shares[role].get(&name).copied().unwrap_or_default();
    Ok(Json(WeightResponse { weight: decimal(weight) }))
}
