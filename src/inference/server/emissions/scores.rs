//! Scores and their moving averages. The score of the dataset, the only reputer, is 0.

use axum::Json;
use model::topic::{Address, BlockHeight, decimal};
use wire::inference::chain::{
    CountResponse, InitialScore, ScoreBody, ScoreResponse, Scores, ScoresAtBlock, ValueResponse,
};

use super::windows::active;
use super::{Answer, ApiError, App, OpenApiRouter, Params, Result, routes};
use crate::math::regret::{ByActor, Role};
use crate::network::addresses;
use crate::network::topic::Topic;

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(inferer_score_ema))
        .routes(routes!(forecaster_score_ema))
        .routes(routes!(reputer_score_ema))
        .routes(routes!(inference_scores_until_block))
        .routes(routes!(forecast_scores_until_block))
        .routes(routes!(worker_inference_scores_at_block))
        .routes(routes!(worker_forecast_scores_at_block))
        .routes(routes!(reputers_scores_at_block))
        .routes(routes!(current_lowest_inferer_score))
        .routes(routes!(current_lowest_forecaster_score))
        .routes(routes!(current_lowest_reputer_score))
        .routes(routes!(count_inferer_inclusions_in_topic))
        .routes(routes!(count_forecaster_inclusions_in_topic))
        .routes(routes!(topic_quantile_inferer_score_ema))
        .routes(routes!(topic_quantile_forecaster_score_ema))
        .routes(routes!(initial_inferer_ema_score))
        .routes(routes!(initial_forecaster_ema_score))
}

/// Maximum number of epochs of scores up to a block, as on the chain.
const EPOCHS_MAX: u32 = 25;

/// Returns the moving average of an inferer's scores.
///
/// `merit_sortition_alpha` is the weight of the latest score. In an epoch in which the actor
/// submits but is inactive, the average moves towards the topic's quantile of the latest scores. 0
/// by default.
#[utoipa::path(get, path = "/inferer_score_ema/{topic_id}/{inferer}",
    tag = "scores", responses((status = 200, body = ScoreResponse)))]
async fn inferer_score_ema(params: Params) -> Answer<ScoreResponse> {
    average(&params, Role::Inferer).await
}

/// Returns the moving average of a forecaster's scores.
///
/// `merit_sortition_alpha` is the weight of the latest score. In an epoch in which the actor
/// submits but is inactive, the average moves towards the topic's quantile of the latest scores. 0
/// by default.
#[utoipa::path(get, path = "/forecaster_score_ema/{topic_id}/{forecaster}",
    tag = "scores", responses((status = 200, body = ScoreResponse)))]
async fn forecaster_score_ema(params: Params) -> Answer<ScoreResponse> {
    average(&params, Role::Forecaster).await
}

/// Returns the moving average of a reputer's scores, always 0.
#[utoipa::path(get, path = "/reputer_score_ema/{topic_id}/{reputer}",
    tag = "scores", responses((status = 200, body = ScoreResponse)))]
async fn reputer_score_ema(params: Params) -> Answer<ScoreResponse> {
    let (topic, name) = (params.topic()?, params.address("reputer")?);
    let nonce = params.service.inference.learned(topic.id).await?.nonce.unwrap_or_default();
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &name, 0.0) }))
}

/// Returns inferers' scores of the latest 25 epochs up to a block, newest first.
///
/// A score is the increase of the network's loss without the actor.
#[utoipa::path(get, path = "/inference_scores_until_block/{topic_id}/{block_height}",
    tag = "scores", responses((status = 200, body = Scores)))]
async fn inference_scores_until_block(params: Params) -> Answer<Scores> {
    Ok(Json(scores_until(&params, Role::Inferer).await?))
}

/// Returns forecasters' scores of the latest 25 epochs up to a block, newest first.
///
/// A score is the increase of the network's loss without the actor.
#[utoipa::path(get, path = "/forecast_scores_until_block/{topic_id}/{block_height}",
    tag = "scores", responses((status = 200, body = Scores)))]
async fn forecast_scores_until_block(params: Params) -> Answer<Scores> {
    Ok(Json(scores_until(&params, Role::Forecaster).await?))
}

/// Returns inferers' scores of an epoch.
///
/// A score is the increase of the network's loss without the actor.
#[utoipa::path(get, path = "/worker_inference_scores_at_block/{topic_id}/{block_height}",
    tag = "scores", responses((status = 200, body = ScoresAtBlock)))]
async fn worker_inference_scores_at_block(params: Params) -> Answer<ScoresAtBlock> {
    scores_at(&params, Role::Inferer).await
}

/// Returns forecasters' scores of an epoch.
///
/// A score is the increase of the network's loss without the actor.
#[utoipa::path(get, path = "/worker_forecast_scores_at_block/{topic_id}/{block_height}",
    tag = "scores", responses((status = 200, body = ScoresAtBlock)))]
async fn worker_forecast_scores_at_block(params: Params) -> Answer<ScoresAtBlock> {
    scores_at(&params, Role::Forecaster).await
}

/// Returns the reputer's score of an epoch, always 0.
#[utoipa::path(get, path = "/reputers_scores_at_block/{topic_id}/{block_height}",
    tag = "scores", responses((status = 200, body = ScoresAtBlock)))]
async fn reputers_scores_at_block(params: Params) -> Answer<ScoresAtBlock> {
    let (topic, nonce) = (params.topic()?, params.height()?);
    let reputer = addresses::of_reputer(&topic.source.dataset);
    let losses = params.service.inference.losses_at(topic.id, nonce).await?;
    let scores = losses.iter().map(|_| body(&topic, nonce, &reputer, 0.0)).collect();
    Ok(Json(ScoresAtBlock { scores: Scores { scores } }))
}

/// Returns the lowest moving average of an active inferer of the latest closed epoch.
#[utoipa::path(get, path = "/current_lowest_inferer_score/{topic_id}",
    tag = "scores", responses((status = 200, body = ScoreResponse)))]
async fn current_lowest_inferer_score(params: Params) -> Answer<ScoreResponse> {
    lowest(&params, Role::Inferer).await
}

/// Returns the lowest moving average of an active forecaster of the latest closed epoch.
#[utoipa::path(get, path = "/current_lowest_forecaster_score/{topic_id}",
    tag = "scores", responses((status = 200, body = ScoreResponse)))]
async fn current_lowest_forecaster_score(params: Params) -> Answer<ScoreResponse> {
    lowest(&params, Role::Forecaster).await
}

/// Returns the lowest moving average of a reputer, always 0.
#[utoipa::path(get, path = "/current_lowest_reputer_score/{topic_id}",
    tag = "scores", responses((status = 200, body = ScoreResponse)))]
async fn current_lowest_reputer_score(params: Params) -> Answer<ScoreResponse> {
    let topic = params.topic()?;
    let nonce = params.service.inference.learned(topic.id).await?.nonce;
    let nonce = nonce.ok_or_else(|| no_scores(&topic))?;
    let reputer = addresses::of_reputer(&topic.source.dataset);
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &reputer, 0.0) }))
}

/// Returns the number of epochs in which an inferer was active.
#[utoipa::path(get, path = "/count_inferer_inclusions_in_topic/{topic_id}/{address}",
    tag = "scores", responses((status = 200, body = CountResponse)))]
async fn count_inferer_inclusions_in_topic(params: Params) -> Answer<CountResponse> {
    count(&params, Role::Inferer).await
}

/// Returns the number of epochs in which a forecaster was active.
#[utoipa::path(get, path = "/count_forecaster_inclusions_in_topic/{topic_id}/{address}",
    tag = "scores", responses((status = 200, body = CountResponse)))]
async fn count_forecaster_inclusions_in_topic(params: Params) -> Answer<CountResponse> {
    count(&params, Role::Forecaster).await
}

/// Returns the quantile of active inferers' latest scores, towards which scores of inactive
/// inferers move.
///
/// 0 before the first learned epoch.
#[utoipa::path(get, path = "/topic_quantile_inferer_score_ema/{topic_id}",
    tag = "scores", responses((status = 200, body = ValueResponse)))]
async fn topic_quantile_inferer_score_ema(params: Params) -> Answer<ValueResponse> {
    quantile(&params, Role::Inferer).await
}

/// Returns the quantile of active forecasters' latest scores, towards which scores of inactive
/// forecasters move.
///
/// 0 before the first learned epoch.
#[utoipa::path(get, path = "/topic_quantile_forecaster_score_ema/{topic_id}",
    tag = "scores", responses((status = 200, body = ValueResponse)))]
async fn topic_quantile_forecaster_score_ema(params: Params) -> Answer<ValueResponse> {
    quantile(&params, Role::Forecaster).await
}

/// Returns the initial score of an inferer: two standard deviations below the lowest one.
#[utoipa::path(get, path = "/initial_inferer_ema_score/{topic_id}",
    tag = "scores", responses((status = 200, body = InitialScore)))]
async fn initial_inferer_ema_score(params: Params) -> Answer<InitialScore> {
    initial(&params, Role::Inferer).await
}

/// Returns the initial score of a forecaster: two standard deviations below the lowest one.
#[utoipa::path(get, path = "/initial_forecaster_ema_score/{topic_id}",
    tag = "scores", responses((status = 200, body = InitialScore)))]
async fn initial_forecaster_ema_score(params: Params) -> Answer<InitialScore> {
    initial(&params, Role::Forecaster).await
}

async fn quantile(params: &Params, role: Role) -> Answer<ValueResponse> {
    let learned = params.service.inference.learned(params.topic()?.id).await?;
    let value = decimal(learned.resting_targets[role].unwrap_or_default());
    Ok(Json(ValueResponse { value }))
}

async fn initial(params: &Params, role: Role) -> Answer<InitialScore> {
    let learned = params.service.inference.learned(params.topic()?.id).await?;
    Ok(Json(InitialScore { score: decimal(learned.initial_score(role)) }))
}

async fn average(params: &Params, role: Role) -> Answer<ScoreResponse> {
    let (topic, name) = (params.topic()?, params.address(role.name())?);
    let learned = params.service.inference.learned(topic.id).await?;
    let nonce = learned.experience[role].get(&name).map_or(0, |seen| seen.last_nonce);
    let score = learned.scores[role].get(&name).copied().unwrap_or_default();
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &name, score) }))
}

async fn count(params: &Params, role: Role) -> Answer<CountResponse> {
    let (topic, name) = (params.topic()?, params.address("address")?);
    let learned = params.service.inference.learned(topic.id).await?;
    let n_epochs = learned.experience[role].get(&name).map_or(0, |seen| seen.n_epochs);
    Ok(Json(CountResponse { count: n_epochs.to_string() }))
}

async fn scores_until(params: &Params, role: Role) -> Result<Scores> {
    let (topic, nonce) = (params.topic()?, params.height()?);
    let epochs = params.service.inference.losses_until(topic.id, nonce, EPOCHS_MAX).await?;
    let epochs = epochs.iter();
    let scores = epochs.flat_map(|(nonce, losses)| bodies(&topic, *nonce, &losses.scores(role)));
    Ok(Scores { scores: scores.collect() })
}

async fn scores_at(params: &Params, role: Role) -> Answer<ScoresAtBlock> {
    let (topic, nonce) = (params.topic()?, params.height()?);
    let losses = params.service.inference.losses_at(topic.id, nonce).await?;
    let scores = losses.map(|losses| bodies(&topic, nonce, &losses.scores(role)));
    Ok(Json(ScoresAtBlock { scores: Scores { scores: scores.unwrap_or_default() } }))
}

/// Returns the lowest average of active actors.
async fn lowest(params: &Params, role: Role) -> Answer<ScoreResponse> {
    let (topic, inference) = (params.topic()?, &params.service.inference);
    let learned = inference.learned(topic.id).await?;
    let active = active(inference, &topic).await?;
    let scores = active[role].iter().filter_map(|name| learned.scores[role].get_key_value(name));
    let lowest = scores.min_by(|a, b| a.1.total_cmp(b.1));
    let (name, score) = lowest.ok_or_else(|| no_scores(&topic))?;
    let nonce = learned.experience[role].get(name).map_or(0, |seen| seen.last_nonce);
    Ok(Json(ScoreResponse { score: body(&topic, nonce, name, *score) }))
}

fn no_scores(topic: &Topic) -> ApiError {
    ApiError::not_found(format!("no scores of topic {} yet", topic.id))
}

fn bodies(topic: &Topic, nonce: BlockHeight, scores: &ByActor<f64>) -> Vec<ScoreBody> {
    scores.iter().map(|(name, score)| body(topic, nonce, name, *score)).collect()
}

fn body(topic: &Topic, nonce: BlockHeight, name: &Address, score: f64) -> ScoreBody {
    ScoreBody {
        topic_id: topic.id.to_string(),
        block_height: nonce.to_string(),
        address: name.to_string(),
        score: decimal(score),
    }
}
