//! Scores: of one epoch, and their moving averages. Nobody scores the dataset, the one reputer
//! here: its score is 0.

use axum::Json;
use model::topic::{Address, BlockHeight, decimal};
use wire::{
    inference::chain::{
        CountResponse, InitialScore, ScoreBody, ScoreResponse, Scores, ScoresAtBlock, ValueResponse,
    },
    paths::emissions::scores as of,
};

use super::{
    ActorAddress, Answer, ApiError, Asked, FOUND, HeightPart, TopicPart, Version, whitelist::active,
};
use crate::{
    math::regret::{ByActor, Role},
    network::{addresses, topic::Topic},
};

/// The most epochs of scores up to a block that are served: as many as the chain keeps.
const EPOCHS_MAX: u32 = 25;

/// The moving average of an inferer's scores.
///
/// The topic's `merit_sortition_alpha` is the share of the newest score. In an epoch in which
/// the actor submits and rests, it moves likewise toward the topic's quantile of the newest scores.
/// 0 for an actor without one.
#[utoipa::path(get, path = of::INFERER_EMA, tag = "scores", params(Version, TopicPart,
    ("inferer" = inline(ActorAddress), Path,
        description = "The inferer's address.")),
    responses((status = 200, description = FOUND, body = ScoreResponse)))]
pub(super) async fn inferer_score_ema(asked: Asked) -> Answer<ScoreResponse> {
    average(&asked, Role::Inferer).await
}

/// The moving average of a forecaster's scores.
///
/// The topic's `merit_sortition_alpha` is the share of the newest score. In an epoch in which
/// the actor submits and rests, it moves likewise toward the topic's quantile of the newest scores.
/// 0 for an actor without one.
#[utoipa::path(get, path = of::FORECASTER_EMA, tag = "scores", params(Version, TopicPart,
    ("forecaster" = inline(ActorAddress), Path,
        description = "The forecaster's address.")),
    responses((status = 200, description = FOUND, body = ScoreResponse)))]
pub(super) async fn forecaster_score_ema(asked: Asked) -> Answer<ScoreResponse> {
    average(&asked, Role::Forecaster).await
}

/// The moving average of a reputer's scores: 0, since nobody scores the dataset.
#[utoipa::path(get, path = of::REPUTER_EMA, tag = "scores", params(Version, TopicPart,
    ("reputer" = inline(ActorAddress), Path,
        description = "The reputer's address.")),
    responses((status = 200, description = FOUND, body = ScoreResponse)))]
pub(super) async fn reputer_score_ema(asked: Asked) -> Answer<ScoreResponse> {
    let (topic, name) = (asked.topic()?, asked.address("reputer")?);
    let nonce = asked.service.inference.learned(topic.id).await?.nonce.unwrap_or_default();
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &name, 0.0) }))
}

/// Inferers' scores of the 25 newest epochs up to a block, newest first.
///
/// By how much the network would have lost more without the actor, in the unit of the topic's
/// losses.
#[utoipa::path(get, path = of::INFERERS_UNTIL, tag = "scores", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = Scores)))]
pub(super) async fn inference_scores_until_block(asked: Asked) -> Answer<Scores> {
    Ok(Json(scores_until(&asked, Role::Inferer).await?))
}

/// Forecasters' scores of the 25 newest epochs up to a block, newest first.
///
/// By how much the network would have lost more without the actor, in the unit of the topic's
/// losses.
#[utoipa::path(get, path = of::FORECASTERS_UNTIL, tag = "scores", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = Scores)))]
pub(super) async fn forecast_scores_until_block(asked: Asked) -> Answer<Scores> {
    Ok(Json(scores_until(&asked, Role::Forecaster).await?))
}

/// Inferers' scores of one epoch.
///
/// By how much the network would have lost more without the actor, in the unit of the topic's
/// losses.
#[utoipa::path(get, path = of::INFERERS_AT, tag = "scores", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = ScoresAtBlock)))]
pub(super) async fn worker_inference_scores_at_block(asked: Asked) -> Answer<ScoresAtBlock> {
    scores_at(&asked, Role::Inferer).await
}

/// Forecasters' scores of one epoch.
///
/// By how much the network would have lost more without the actor, in the unit of the topic's
/// losses.
#[utoipa::path(get, path = of::FORECASTERS_AT, tag = "scores", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = ScoresAtBlock)))]
pub(super) async fn worker_forecast_scores_at_block(asked: Asked) -> Answer<ScoresAtBlock> {
    scores_at(&asked, Role::Forecaster).await
}

/// The reputer's score of one epoch: 0.
#[utoipa::path(get, path = of::REPUTERS_AT, tag = "scores", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = ScoresAtBlock)))]
pub(super) async fn reputers_scores_at_block(asked: Asked) -> Answer<ScoresAtBlock> {
    let (topic, nonce) = (asked.topic()?, asked.height()?);
    let reputer = addresses::of_reputer(&topic.source.dataset);
    let epochs = asked.service.inference.losses_until(topic.id, nonce, 1).await?;
    let exact = epochs.iter().filter(|(of, _)| *of == nonce);
    let scores = exact.map(|(nonce, _)| body(&topic, *nonce, &reputer, 0.0)).collect();
    Ok(Json(ScoresAtBlock { scores: Scores { scores } }))
}

/// The lowest moving average of an active inferer of the newest epoch that closed.
#[utoipa::path(get, path = of::LOWEST_INFERER, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ScoreResponse)))]
pub(super) async fn current_lowest_inferer_score(asked: Asked) -> Answer<ScoreResponse> {
    lowest(&asked, Role::Inferer).await
}

/// The lowest moving average of an active forecaster of the newest epoch that closed.
#[utoipa::path(get, path = of::LOWEST_FORECASTER, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ScoreResponse)))]
pub(super) async fn current_lowest_forecaster_score(asked: Asked) -> Answer<ScoreResponse> {
    lowest(&asked, Role::Forecaster).await
}

/// The lowest moving average of a reputer: 0.
#[utoipa::path(get, path = of::LOWEST_REPUTER, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ScoreResponse)))]
pub(super) async fn current_lowest_reputer_score(asked: Asked) -> Answer<ScoreResponse> {
    let topic = asked.topic()?;
    let nonce = asked.service.inference.learned(topic.id).await?.nonce;
    let nonce = nonce.ok_or_else(|| no_scores(&topic))?;
    let reputer = addresses::of_reputer(&topic.source.dataset);
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &reputer, 0.0) }))
}

/// In how many epochs an inferer took part.
#[utoipa::path(get, path = of::INFERER_INCLUSIONS, tag = "scores", params(Version, TopicPart,
    ("address" = inline(ActorAddress), Path,
        description = "The inferer's address.")),
    responses((status = 200, description = FOUND, body = CountResponse)))]
pub(super) async fn count_inferer_inclusions_in_topic(asked: Asked) -> Answer<CountResponse> {
    count(&asked, Role::Inferer).await
}

/// In how many epochs a forecaster took part.
#[utoipa::path(get, path = of::FORECASTER_INCLUSIONS, tag = "scores", params(Version, TopicPart,
    ("address" = inline(ActorAddress), Path,
        description = "The forecaster's address.")),
    responses((status = 200, description = FOUND, body = CountResponse)))]
pub(super) async fn count_forecaster_inclusions_in_topic(asked: Asked) -> Answer<CountResponse> {
    count(&asked, Role::Forecaster).await
}

/// The quantile of active inferers' newest scores, which the scores of resting ones move toward.
///
/// 0 before the first lesson.
#[utoipa::path(get, path = of::INFERER_QUANTILE, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ValueResponse)))]
pub(super) async fn topic_quantile_inferer_score_ema(asked: Asked) -> Answer<ValueResponse> {
    quantile(&asked, Role::Inferer).await
}

/// The quantile of active forecasters' newest scores, which the scores of resting ones move toward.
///
/// 0 before the first lesson.
#[utoipa::path(get, path = of::FORECASTER_QUANTILE, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ValueResponse)))]
pub(super) async fn topic_quantile_forecaster_score_ema(asked: Asked) -> Answer<ValueResponse> {
    quantile(&asked, Role::Forecaster).await
}

/// The same of reputers: 0, since nobody scores the dataset.
#[utoipa::path(get, path = of::REPUTER_QUANTILE, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ValueResponse)))]
pub(super) async fn topic_quantile_reputer_score_ema(asked: Asked) -> Answer<ValueResponse> {
    asked.topic()?;
    Ok(Json(ValueResponse { value: decimal(0.0) }))
}

/// The score that an inferer without one starts from: below the lowest by two deviations.
#[utoipa::path(get, path = of::INFERER_INITIAL, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = InitialScore)))]
pub(super) async fn initial_inferer_ema_score(asked: Asked) -> Answer<InitialScore> {
    initial(&asked, Role::Inferer).await
}

/// The score that a forecaster without one starts from: below the lowest by two deviations.
#[utoipa::path(get, path = of::FORECASTER_INITIAL, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = InitialScore)))]
pub(super) async fn initial_forecaster_ema_score(asked: Asked) -> Answer<InitialScore> {
    initial(&asked, Role::Forecaster).await
}

/// The same of reputers: 0, since nobody scores the dataset.
#[utoipa::path(get, path = of::REPUTER_INITIAL, tag = "scores", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = InitialScore)))]
pub(super) async fn initial_reputer_ema_score(asked: Asked) -> Answer<InitialScore> {
    asked.topic()?;
    Ok(Json(InitialScore { score: decimal(0.0) }))
}

async fn quantile(asked: &Asked, role: Role) -> Answer<ValueResponse> {
    let learned = asked.service.inference.learned(asked.topic()?.id).await?;
    let value = decimal(learned.resting_targets[role].unwrap_or_default());
    Ok(Json(ValueResponse { value }))
}

async fn initial(asked: &Asked, role: Role) -> Answer<InitialScore> {
    let learned = asked.service.inference.learned(asked.topic()?.id).await?;
    Ok(Json(InitialScore { score: decimal(learned.initial_score(role)) }))
}

async fn average(asked: &Asked, role: Role) -> Answer<ScoreResponse> {
    let (topic, name) = (asked.topic()?, asked.address(role.name())?);
    let learned = asked.service.inference.learned(topic.id).await?;
    let nonce = learned.experience[role].get(&name).map_or(0, |seen| seen.last_nonce);
    let score = learned.scores[role].get(&name).copied().unwrap_or_default();
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &name, score) }))
}

async fn count(asked: &Asked, role: Role) -> Answer<CountResponse> {
    let (topic, name) = (asked.topic()?, asked.address("address")?);
    let learned = asked.service.inference.learned(topic.id).await?;
    let n_epochs = learned.experience[role].get(&name).map_or(0, |seen| seen.n_epochs);
    Ok(Json(CountResponse { count: n_epochs.to_string() }))
}

async fn scores_until(asked: &Asked, role: Role) -> Result<Scores, ApiError> {
    let (topic, nonce) = (asked.topic()?, asked.height()?);
    let epochs = asked.service.inference.losses_until(topic.id, nonce, EPOCHS_MAX).await?;
    let epochs = epochs.iter();
    let scores = epochs.flat_map(|(nonce, losses)| bodies(&topic, *nonce, &losses.scores(role)));
    Ok(Scores { scores: scores.collect() })
}

async fn scores_at(asked: &Asked, role: Role) -> Answer<ScoresAtBlock> {
    let (topic, nonce) = (asked.topic()?, asked.height()?);
    let epochs = asked.service.inference.losses_until(topic.id, nonce, 1).await?;
    let exact = epochs.iter().filter(|(of, _)| *of == nonce);
    let scores = exact.flat_map(|(_, losses)| bodies(&topic, nonce, &losses.scores(role)));
    Ok(Json(ScoresAtBlock { scores: Scores { scores: scores.collect() } }))
}

/// The lowest average among active actors.
async fn lowest(asked: &Asked, role: Role) -> Answer<ScoreResponse> {
    let (topic, inference) = (asked.topic()?, &asked.service.inference);
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
