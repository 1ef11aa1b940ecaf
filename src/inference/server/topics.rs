//! Topics: their settings in the form of the chain, their schedule, actors and health, and requests
//! that create and change them.
//!
//! The actors of a topic are serialized only when they change and then inserted into each list of
//! topics, since they are most of its size.

mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use model::dataset::DatasetId;
use model::topic::{BlockHeight, TopicId, decimal};
use task::causes::chain;
use tokio::sync::oneshot;
use tokio::time::timeout;
use web::extract::json;
use wire::error::InferenceError;
use wire::inference::network::{
    RelearnBody, RelearnedBody, RetentionBody, TopicActive, TopicBatch, TopicHealth, TopicSettings,
};
use wire::inference::{
    NextTopicId, TopicBatchResponse, TopicBody, TopicLabeling, TopicList, TopicResponse,
    TopicSummary,
};
use wire::paths;

use self::source::check_source;
use super::App;
use super::bundle_body;
use super::error::{ApiError, Result};
use super::openapi::{DENIED, OF_TOPIC, UNCHECKED, UNFIT};
use super::request::Params;
use crate::Inference;
use crate::network::queries::Overview;
use crate::network::runner::ROWS_WITHIN;
use crate::network::topic::{DAY, Topic, TopicKind, settings};
use crate::network::upstream::{Cause, OutcomeError, outcome_after};
use crate::network::{addresses, epoch};

/// Maximum number of topics that are created together. The dataset of each is checked.
const BATCH_MAX: usize = 64;

/// JSON text after which a topic's actors are inserted. This text cannot occur within a string, since
/// quotes in strings are escaped.
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
    Ok(bundle_body::json(body))
}

/// Returns the entry of a topic in the list, with an empty list of actors.
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
        subgroup: topic.predictor.as_ref().and_then(|predictor| predictor.subgroup.clone()),
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

/// Returns a response with `topic`, in the format of versions up to v9 if `is_old`.
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

/// Returns the chain's name for a kind of topic.
pub(super) fn type_name(kind: TopicKind) -> String {
    format!("TOPIC_TYPE_{}", kind.to_string().to_uppercase())
}

/// Returns the settings of a topic and its learned values in the form of the chain.
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

/// Returns the id that the next created topic will get.
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

/// Creates a topic that belongs to the key. Its first epoch opens at the next block.
///
/// `metadata`, `dataset`, `column` and `horizon_seconds` are required. The other settings default to
/// those of most topics of the chain. The dataset and the column must exist, and the interval between
/// rows with the column must not exceed the horizon. The ground truth is the column's value
/// `horizon_seconds` after the row with the column that was the latest at the opening of the epoch, or
/// the `target` over that time. The ground truth is read once `ground_truth_lag` blocks have passed. The
/// horizon must be longer than the submission window, so that workers cannot read the ground truth
/// before they submit. Only an `experimental` topic can have a shorter one.
#[utoipa::path(post, path = paths::TOPICS, operation_id = "create_topic", tag = "participation",
    request_body = TopicSettings,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 400, description = UNFIT, body = InferenceError),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 409, body = InferenceError,
            description = "Code 10: the maximum number of topics is reached, of this key or in total"),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn create(params: Params, request: Request) -> Result<Json<TopicResponse>> {
    let inference = &params.service.inference;
    let described = described(&params, json(request).await?, inference.next_topic_id())?;
    check_source(&params.service.rows, &described).await?;
    let created = inference.create_topics(vec![described]).await?;
    #[expect(clippy::expect_used, reason = "each topic of the request is returned")]
    let created = created.first().expect("a topic was created");
    respond(inference, created, false).await
}

/// Creates several topics that belong to the key, or no topic if one topic is refused.
///
/// For example, the topics can have the same prediction at several horizons. See `POST /api/v1/topics`
/// for the settings.
#[utoipa::path(post, path = paths::TOPIC_BATCH, operation_id = "create_topics",
    tag = "participation", request_body = TopicBatch,
    responses((status = 200, description = "Topics in the chain's format", body = TopicBatchResponse),
        (status = 400, description = UNFIT, body = InferenceError),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 409, body = InferenceError,
            description = "Code 10: the maximum number of topics is reached, of this key or in total"),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn create_batch(
    params: Params,
    request: Request,
) -> Result<Json<TopicBatchResponse>> {
    let inference = &params.service.inference;
    let TopicBatch { topics } = json(request).await?;
    if topics.is_empty() || topics.len() > BATCH_MAX {
        return Err(ApiError::invalid(format!("topics must be 1 to {BATCH_MAX}")));
    }
    let mut described_topics = Vec::new();
    let ids = (inference.next_topic_id().get()..).filter_map(TopicId::new);
    for (id, settings) in ids.zip(topics) {
        let name = settings.metadata.clone();
        let checked = async {
            let topic = described(&params, settings, id)?;
            check_source(&params.service.rows, &topic).await?;
            Ok(topic)
        };
        described_topics.push(checked.await.map_err(|error: ApiError| error.about(&name))?);
    }
    let mut created = Vec::new();
    for topic in inference.create_topics(described_topics).await? {
        created.push(respond(inference, &topic, false).await?.0);
    }
    Ok(Json(TopicBatchResponse { topics: created }))
}

/// Returns the settings of a topic, including defaults.
///
/// Environment variables of a predictor and its models are returned only for an operator's key.
#[utoipa::path(get, path = paths::TOPIC_SETTINGS, operation_id = "topic_settings",
    tag = "participation",
    responses((status = 200, description = "Settings", body = TopicSettings)))]
pub(super) async fn settings(params: Params) -> Result<Json<TopicSettings>> {
    let topic = params.topic()?;
    let mut settings = settings::from_topic(&topic);
    settings.worker_whitelist = topic.whitelist.workers.iter().map(ToString::to_string).collect();
    if !params.holder.is_operators() {
        remove_environment(&mut settings);
    }
    Ok(Json(settings))
}

/// Removes the environment variables of a predictor and its models, since they can contain secrets.
fn remove_environment(settings: &mut TopicSettings) {
    let Some(predictor) = &mut settings.predictor else { return };
    predictor.env.clear();
    for model in &mut predictor.models {
        model.env.clear();
    }
}

/// Replaces all settings of a topic that the key created.
///
/// If `dataset`, `dataset_id`, `column`, `horizon_seconds`, `target` or `direction_threshold` changes,
/// the epochs whose ground truth is unknown end without a ground truth, since their submissions
/// predicted another quantity.
///
/// A paused topic stays paused. Labels, the unity tolerance, the value range and the loss cannot change
/// while an epoch is open.
///
/// The topic's type, its output arity, whether values must sum to 1, and whether labels are
/// case-sensitive cannot be changed. `metadata`, `dataset`, `column` and `horizon_seconds` are
/// required. The other settings default to those of most topics of the chain. The dataset and the
/// column must exist, and the interval between rows with the column must not exceed the horizon. The
/// horizon must be longer than the submission window, so that workers cannot read the ground truth
/// before they submit. Only an `experimental` topic can have a shorter one.
///
/// If `loss_method`, `loss_parameters` or `allow_negative` change, losses before and after cannot be
/// compared. Regrets and scores are then learned from the start, and the leaderboard leaves out the earlier
/// epochs, until `relearn` computes their losses again.
#[utoipa::path(put, path = paths::TOPIC_SETTINGS, operation_id = "update_topic",
    tag = "participation", request_body = TopicSettings,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn update(params: Params, request: Request) -> Result<Json<TopicResponse>> {
    let inference = &params.service.inference;
    let described = described(&params, json(request).await?, params.topic_id()?)?;
    check_source(&params.service.rows, &described).await?;
    let updated = inference.update_topic(described, &params.holder.address(None)).await?;
    respond(inference, &updated, false).await
}

/// Deletes a topic that the key created.
///
/// The topic's epochs are deleted, too. Its id is not used again.
#[utoipa::path(delete, path = paths::TOPIC_SETTINGS, operation_id = "delete_topic",
    tag = "participation",
    responses((status = 204, description = "Topic deleted"),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn delete(params: Params) -> Result<StatusCode> {
    let (topic, by) = (params.topic_id()?, params.holder.address(None));
    params.service.inference.delete_topic(topic, &by).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn described(params: &Params, settings: TopicSettings, id: TopicId) -> Result<Topic> {
    // Only operators can do this, since topics read datasets and run functions with the permissions of
    // the service.
    if !params.holder.is_operators() {
        return Err(ApiError::denied("only an operator's key can create or change a topic"));
    }
    let topic = settings::topic(id, Some(params.holder.address(None)), settings);
    let topic = topic.map_err(|error| ApiError::invalid(error.to_string()))?;
    params.service.inference.check_topic(&topic)?;
    Ok(topic)
}

/// Resumes or pauses a topic that the key created.
#[utoipa::path(put, path = paths::TOPIC_ACTIVE, operation_id = "set_active", tag = "participation",
    request_body = TopicActive,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn set_active(params: Params, request: Request) -> Result<Json<TopicResponse>> {
    let TopicActive { active } = json(request).await?;
    let (inference, by) = (&params.service.inference, params.holder.address(None));
    let topic = inference.set_active(params.topic_id()?, active, &by).await?;
    respond(inference, &topic, false).await
}

/// Adds a worker to the whitelist of a topic that the key created.
#[utoipa::path(put, path = paths::TOPIC_WHITELISTED, operation_id = "add_to_whitelist",
    tag = "participation",
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn add_to_whitelist(params: Params) -> Result<Json<TopicResponse>> {
    change_whitelist(params, true).await
}

/// Removes a worker from the whitelist of a topic that the key created.
#[utoipa::path(delete, path = paths::TOPIC_WHITELISTED, operation_id = "remove_from_whitelist",
    tag = "participation",
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn remove_from_whitelist(params: Params) -> Result<Json<TopicResponse>> {
    change_whitelist(params, false).await
}

async fn change_whitelist(params: Params, is_listed: bool) -> Result<Json<TopicResponse>> {
    let id = params.topic_id()?;
    let worker = if is_listed {
        addresses::checked(&params.text("worker")?)
            .map_err(|why| ApiError::mismatch("worker", why))?
    } else {
        params.address("worker")?
    };
    let inference = &params.service.inference;
    let changed =
        inference.change_whitelist(id, worker, is_listed, &params.holder.address(None)).await?;
    respond(inference, &changed, false).await
}

/// Learns again from past epochs of a topic that the key created, after its dataset was corrected.
///
/// The ground truth of these epochs is read again, and regrets, scores and losses are computed again,
/// with the topic's present settings. Epochs without a usable ground truth keep the earlier one.
/// Bundles do not change. Epochs that were thinned to save space cannot be relearned.
#[utoipa::path(post, path = paths::TOPIC_RELEARN, operation_id = "relearn", tag = "participation",
    request_body = RelearnBody,
    responses((status = 200, description = "Relearned epochs", body = RelearnedBody),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 409, description = "Code 10: the epochs were deleted or thinned",
            body = InferenceError),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn relearn(params: Params, request: Request) -> Result<Json<RelearnedBody>> {
    let id = params.topic_id()?;
    let body: RelearnBody = json(request).await?;
    let from = body.from_nonce.0.trim().parse();
    let from =
        from.map_err(|_| ApiError::mismatch("from_nonce", "expected a height, such as 120"))?;
    let service = params.service;
    let inference = service.inference.clone();
    let topic = inference.owned(id, &params.holder.address(None))?;
    let alone = Arc::clone(&service.relearning).try_lock_owned();
    let alone = alone
        .map_err(|_| ApiError::unavailable("epochs of a topic are being relearned; retry later"))?;
    let inputs = inference.inputs_since(id, from).await?;
    let (rows, worker) = (Arc::clone(&service.rows), inference.clone());
    let (sender, done) = oneshot::channel::<Result<RelearnedBody>>();
    service.group.spawn("relearn", async move {
        let learn = async {
            let source = &topic.source;
            let what = format!("dataset {} cannot be read", source.dataset);
            let dataset = match source.dataset_id {
                Some(dataset) => dataset,
                None => in_time(&what, rows.find(&source.dataset)).await?,
            };
            let mut outcomes = BTreeMap::new();
            for (nonce, input) in inputs {
                let outcome = async {
                    match outcome_after(rows.as_ref(), dataset, &topic, input).await {
                        // The epoch keeps its ground truth.
                        Err(cause) if cause.is::<OutcomeError>() => Ok(None),
                        found => found,
                    }
                };
                outcomes.extend(in_time(&what, outcome).await?.map(|outcome| (nonce, outcome)));
            }
            Ok(worker.relearn(id, from, outcomes).await?)
        };
        let learned = learn.await;
        drop(alone);
        // Sending fails only if the client has disconnected.
        sender.send(learned).ok();
    });
    let learned = done.await.map_err(|lost| {
        if service.group.is_stopped() { ApiError::stopping() } else { ApiError::broken(&lost) }
    });
    Ok(Json(learned??))
}

/// Waits for a response of the dataset service with a timeout. `what` describes the failure in errors.
pub(super) async fn in_time<T>(
    what: &str,
    response: impl Future<Output = Result<T, Cause>>,
) -> Result<T> {
    let failed = |why: String| ApiError::unavailable(format!("{what}: {why}"));
    let late = |_| failed(format!("no response within {ROWS_WITHIN:?}"));
    let response = timeout(ROWS_WITHIN, response).await.map_err(late)?;
    response.map_err(|cause| failed(chain(cause.as_ref())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn environment_variables_of_predictor_and_models_are_removed_from_settings() {
        let models = json!([{"name": "model", "env": {"TOKEN": "of a model"}}]);
        let predictor = json!({"function": "f", "method": "f.wasm", "env": {"TOKEN": "shared"},
            "models": models});
        let mut settings = serde_json::from_value(json!({"predictor": predictor})).unwrap();
        remove_environment(&mut settings);
        let text = serde_json::to_string(&settings).unwrap();
        assert!(text.contains("f.wasm") && !text.contains("TOKEN"), "{text}");
    }
}
