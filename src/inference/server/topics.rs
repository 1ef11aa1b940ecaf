//! Topics: their settings as on the chain, or with their schedule, actors and health.
//!
//! The actors of a topic are serialized once for each bundle and update, since they are most of the
//! list.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use model::dataset::DatasetId;
use model::topic::{BlockHeight, decimal};
use wire::inference::network::{RetentionBody, TopicHealth};
use wire::inference::{
    NextTopicId, TopicBody, TopicLabeling, TopicList, TopicResponse, TopicSummary,
};
use wire::paths;

use super::App;
use super::bundle_body::json;
use super::error::Result;
use super::request::Params;
use crate::Inference;
use crate::network::epoch;
use crate::network::queries::Overview;
use crate::network::retention::DAY;
use crate::network::topic::{Topic, TopicKind};

/// JSON before a topic's actors. Texts cannot contain it, since their quotes are escaped.
const PLACE: &str = "\"actors\":[";

/// Returns all topics with their schedule and actors.
#[utoipa::path(get, path = paths::TOPICS, operation_id = "list_topics", tag = "network",
    responses((status = 200, description = "Topics by id", body = TopicList)))]
pub(super) async fn list(State(service): State<App>) -> Result<Response> {
    let inference = &service.inference;
    let overviews = inference.overviews().await?;
    let block_height = inference.chain().height();
    let block_time_ms =
        u64::try_from(inference.chain().block_time().as_millis()).unwrap_or(u64::MAX);
    let summary = |overview: &Overview| {
        let problems = inference.problems(overview.topic.id).into_iter();
        let problem = problems.map(|p| format!("fails to {}: {}", p.failing, p.reason));
        summary(overview, block_height, problem.reduce(|all, next| format!("{all}; {next}")))
    };
    let topics = overviews.iter().map(summary).collect();
    let list = TopicList { block_height, block_time_ms, topics };
    let list = serde_json::to_string(&list)?;
    let mut body = String::new();
    let mut overviews_left = overviews.iter();
    for part in list.split_inclusive(PLACE) {
        body.push_str(part);
        if let Some(Overview { actors, .. }) = overviews_left.next() {
            body.push_str(&actors.elements);
        }
    }
    Ok(json(body))
}

/// Returns a topic without its actors.
fn summary(overview: &Overview, height: BlockHeight, problem: Option<String>) -> TopicSummary {
    let Overview { topic, progress, actors } = overview;
    let timing = topic.timing;
    let open = progress.open.last().copied();
    TopicSummary {
        topic_id: topic.id.get(),
        name: topic.name.clone(),
        topic_type: type_name(topic.kind),
        labels: topic.labels.clone(),
        dataset: topic.source.dataset.clone(),
        dataset_id: topic.source.dataset_id.map(DatasetId::get),
        column: topic.source.column.clone(),
        subgroup: topic
            .predictor
            .as_ref()
            .and_then(|predictor| predictor.subgroup.as_ref())
            .map(ToString::to_string),
        is_paused: !topic.is_active,
        problem,
        epoch_length: timing.epoch_length,
        worker_submission_window: timing.worker_submission_window,
        ground_truth_lag: timing.ground_truth_lag,
        next_epoch_height: epoch::next_nonce(timing, progress.last_nonce, height),
        open_nonce: open,
        close_height: open.map(|nonce| epoch::close_height(timing, nonce)),
        last_nonce: actors.last_nonce,
        n_learned: actors.n_learned,
        actors: Vec::new(),
    }
}

/// Returns the settings of a topic in the chain's format.
///
/// Stakes and rewards do not exist. The weight is 1 if the topic is active, otherwise 0.
#[utoipa::path(get, path = paths::TOPIC, operation_id = "topic", tag = "windows",
    responses((status = 200, description = "Topic", body = TopicResponse)))]
pub(super) async fn get(params: Params) -> Result<Json<TopicResponse>> {
    respond(&params.service.inference, &*params.topic()?, params.is_old()).await
}

/// Returns a response with `topic`, as up to v9 if `is_old`.
pub(super) async fn respond(
    inference: &Inference,
    topic: &Topic,
    is_old: bool,
) -> Result<Json<TopicResponse>> {
    Ok(Json(TopicResponse {
        topic: body(inference, topic, is_old).await?,
        weight: if topic.is_active { "1" } else { "0" }.to_owned(),
        effective_revenue: "0".to_owned(),
        topic_stake: "0".to_owned(),
    }))
}

/// Returns the name of a topic kind on the chain.
pub(super) fn type_name(kind: TopicKind) -> String {
    format!("TOPIC_TYPE_{}", kind.to_string().to_uppercase())
}

/// Returns the settings of a topic, with what it learned.
pub(super) async fn body(inference: &Inference, topic: &Topic, is_old: bool) -> Result<TopicBody> {
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

/// Returns the id of the next topic.
#[utoipa::path(get, path = paths::NEXT_TOPIC_ID, tag = "windows",
    responses((status = 200, description = "Id", body = NextTopicId)))]
pub(super) async fn next_topic_id(params: Params) -> Result<Json<NextTopicId>> {
    params.check_version()?;
    let next_topic_id = params.service.inference.next_topic_id().to_string();
    Ok(Json(NextTopicId { next_topic_id }))
}

/// Returns the state of a topic, its problems, and the size of its stored epochs.
#[utoipa::path(get, path = paths::TOPIC_HEALTH, operation_id = "topic_health", tag = "network",
    responses((status = 200, description = "State", body = TopicHealth)))]
pub(super) async fn health(params: Params) -> Result<Json<TopicHealth>> {
    let (topic, inference) = (params.topic()?, &params.service.inference);
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
