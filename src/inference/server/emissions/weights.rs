//! Weights, as they follow from the regrets that were learned last.

use axum::Json;
use model::bundle::decimal;
use wire::{
    inference::chain::{ValueResponse, WeightResponse},
    paths::emissions::weights as of,
};

use super::{ApiError, Asked};
use crate::math::regret::Role;

queries! {
    "losses";

    /// The scale of regrets that weights are reckoned with; 0 before there is one.
    REGRET_STDNORM[TopicPart] latest_regret_stdnorm(asked) -> ValueResponse = {
        let learned = asked.service.inference.learned(asked.topic_id()?).await?;
        Ok(Json(ValueResponse { value: decimal(learned.regret_scale.unwrap_or_default()) }))
    };

    /// An inferer's share, as it follows from the newest regrets.
    ///
    /// 0 to 1; those of all actors of a topic sum to 1. 0 for who has none.
    INFERER_WEIGHT[TopicPart; Path "actor_id" = "The actor's address."]
    latest_inferer_weight(asked) -> WeightResponse = weight(&asked, Role::Inferer).await;

    /// A forecaster's share, as it follows from the newest regrets.
    ///
    /// 0 to 1; those of all actors of a topic sum to 1. 0 for who has none.
    FORECASTER_WEIGHT[TopicPart; Path "actor_id" = "The actor's address."]
    latest_forecaster_weight(asked) -> WeightResponse = weight(&asked, Role::Forecaster).await;
}

async fn weight(asked: &Asked, role: Role) -> Result<Json<WeightResponse>, ApiError> {
    let (topic, name) = (asked.topic()?, asked.address("actor_id")?);
    let shares = asked.service.inference.learned_shares(topic.id).await?;
    let weight = shares[role].get(&name).copied().unwrap_or_default();
    Ok(Json(WeightResponse { weight: decimal(weight) }))
}
