//! `GET /emissions/{version}/topics/{topic_id}`: a topic's settings.

use axum::Json;
use model::bundle::decimal;
use wire::{
    inference::{TopicBody, TopicLabeling, TopicResponse},
    paths,
};

use super::{
    error::ApiError,
    openapi::parameters::{TopicPart, Version},
    request::Asked,
};
use crate::{
    Inference,
    network::topic::{Topic, TopicKind},
};

/// A topic's settings.
///
/// Nothing is staked or paid here: the weight is 1 where epochs open and 0 where not.
#[utoipa::path(get, path = paths::TOPIC, operation_id = "topic", tag = "windows",
    params(Version, TopicPart),
    responses((status = 200, description = "What was asked for", body = TopicResponse)))]
pub(super) async fn get(asked: Asked) -> Result<Json<TopicResponse>, ApiError> {
    respond(&asked.service.inference, &*asked.topic()?, asked.is_old()).await
}

/// Answers with `topic`; as up to v9 where it `is_old`.
pub(super) async fn respond(
    inference: &Inference,
    topic: &Topic,
    is_old: bool,
) -> Result<Json<TopicResponse>, ApiError> {
    Ok(Json(TopicResponse {
        topic: body(inference, topic, is_old).await?,
        weight: if topic.is_active { "1" } else { "0" }.to_owned(),
        effective_revenue: "0".to_owned(),
        topic_stake: "0".to_owned(),
    }))
}

/// The name of a topic's kind on the chain.
pub(super) fn type_name(kind: TopicKind) -> String {
    format!("TOPIC_TYPE_{}", kind.to_string().to_uppercase())
}

/// A topic's settings, with what they have come to.
pub(super) async fn body(
    inference: &Inference,
    topic: &Topic,
    is_old: bool,
) -> Result<TopicBody, ApiError> {
    let last_nonce = inference.progress(topic.id).await?.last_nonce.unwrap_or_default();
    let initial_regret = inference.learned(topic.id).await?.initial_regret;
    let labeling = (!is_old).then(|| labeling(topic));
    Ok(TopicBody { labeling, ..written(topic, last_nonce, initial_regret) })
}

fn written(topic: &Topic, last_nonce: u64, initial_regret: f64) -> TopicBody {
    let Topic { timing, judging, active_quantiles, .. } = topic;
    TopicBody {
        id: topic.id.to_string(),
        creator: topic.creator.as_ref().map(ToString::to_string).unwrap_or_default(),
        metadata: topic.name.clone(),
        loss_method: judging.loss.method.to_string(),
        epoch_last_ended: last_nonce.to_string(),
        epoch_length: timing.epoch_length.to_string(),
        ground_truth_lag: timing.ground_truth_lag.to_string(),
        p_norm: decimal(judging.p_norm),
        c_norm: decimal(judging.c_norm),
        alpha_regret: decimal(judging.alpha_regret),
        allow_negative: judging.loss.allow_negative,
        epsilon: decimal(judging.epsilon),
        initial_regret: decimal(initial_regret),
        worker_submission_window: timing.worker_submission_window.to_string(),
        merit_sortition_alpha: decimal(judging.merit_sortition_alpha),
        active_inferer_quantile: decimal(active_quantiles.inferer),
        active_forecaster_quantile: decimal(active_quantiles.forecaster),
        active_reputer_quantile: decimal(topic.active_reputer_quantile),
        labeling: None,
    }
}

fn labeling(topic: &Topic) -> TopicLabeling {
    let labeling = topic.labeling;
    let arity = if topic.is_single() { "SINGLE" } else { "MULTI" };
    TopicLabeling {
        topic_type: type_name(topic.kind),
        output_arity: format!("TOPIC_OUTPUT_ARITY_{arity}"),
        require_unity: topic.unity_tolerance.is_some(),
        label_whitelist: topic.labels.clone(),
        unity_tolerance: decimal(topic.unity_tolerance.unwrap_or_default()),
        max_labels_per_submission: labeling.per_submission_max.to_string(),
        label_default_value: decimal(labeling.default),
        label_case_sensitive: labeling.is_case_sensitive,
    }
}
