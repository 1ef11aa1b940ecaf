//! Scores and their moving averages. The topic's dataset appears as the only reputer, with a score of
//! 0.

use model::topic::{Address, BlockHeight, decimal};
use wire::inference::chain::{ScoreBody, Scores};

use super::windows::active;
use super::{ApiError, App, OpenApiRouter, Params, Queries, Result};
use crate::math::regret::ByActor;
use crate::math::regret::Role::{self, Forecaster, Inferer};
use crate::network::addresses;
use crate::network::topic::Topic;

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    Queries::new("scores")
        .member("inferer_score_ema", "score", |params| average(params, Inferer))
        .member("forecaster_score_ema", "score", |params| average(params, Forecaster))
        .member("inference_scores_until_block", "scores", |params| scores_until(params, Inferer))
        .member("forecast_scores_until_block", "scores", |params| scores_until(params, Forecaster))
        .member("worker_inference_scores_at_block", "scores", |params| scores_at(params, Inferer))
        .member("worker_forecast_scores_at_block", "scores", |params| scores_at(params, Forecaster))
        .member("current_lowest_inferer_score", "score", |params| lowest(params, Inferer))
        .member("current_lowest_forecaster_score", "score", |params| lowest(params, Forecaster))
        .member("count_inferer_inclusions_in_topic", "count", |params| count(params, Inferer))
        .member("count_forecaster_inclusions_in_topic", "count", |params| count(params, Forecaster))
        .member("topic_quantile_inferer_score_ema", "value", |params| quantile(params, Inferer))
        .member("topic_quantile_forecaster_score_ema", "value", |params| {
            quantile(params, Forecaster)
        })
        .member("initial_inferer_ema_score", "score", |params| initial(params, Inferer))
        .member("initial_forecaster_ema_score", "score", |params| initial(params, Forecaster))
        .member("reputer_score_ema", "score", reputer_score_ema)
        .member("reputers_scores_at_block", "scores", reputers_scores_at_block)
        .member("current_lowest_reputer_score", "score", current_lowest_reputer_score)
        .router
}

/// Maximum number of epochs in a response with the scores up to a block, as on the chain.
const EPOCHS_MAX: u32 = 25;

async fn reputer_score_ema(params: Params) -> Result<ScoreBody> {
    let (topic, name) = (params.topic()?, params.address("reputer")?);
    let nonce = params.service.inference.learned(topic.id).await?.nonce.unwrap_or_default();
    Ok(body(&topic, nonce, &name, 0.0))
}

async fn reputers_scores_at_block(params: Params) -> Result<Scores> {
    let (topic, nonce) = (params.topic()?, params.height()?);
    let reputer = addresses::of_reputer(&topic.source.dataset);
    let losses = params.service.inference.losses_at(topic.id, nonce).await?;
    let scores = losses.iter().map(|_| body(&topic, nonce, &reputer, 0.0)).collect();
    Ok(Scores { scores })
}

async fn current_lowest_reputer_score(params: Params) -> Result<ScoreBody> {
    let topic = params.topic()?;
    let nonce = params.service.inference.learned(topic.id).await?.nonce;
    let nonce = nonce.ok_or_else(|| no_scores(&topic))?;
    let reputer = addresses::of_reputer(&topic.source.dataset);
    Ok(body(&topic, nonce, &reputer, 0.0))
}

async fn quantile(params: Params, role: Role) -> Result<String> {
    let learned = params.service.inference.learned(params.topic()?.id).await?;
    Ok(decimal(learned.resting_targets[role].unwrap_or_default()))
}

async fn initial(params: Params, role: Role) -> Result<String> {
    let learned = params.service.inference.learned(params.topic()?.id).await?;
    Ok(decimal(learned.initial_score(role)))
}

async fn average(params: Params, role: Role) -> Result<ScoreBody> {
    let (topic, name) = (params.topic()?, params.address(role.name())?);
    let learned = params.service.inference.learned(topic.id).await?;
    let nonce = learned.experience[role].get(&name).map_or(0, |seen| seen.last_nonce);
    let score = learned.scores[role].get(&name).copied().unwrap_or_default();
    Ok(body(&topic, nonce, &name, score))
}

async fn count(params: Params, role: Role) -> Result<String> {
    let (topic, name) = (params.topic()?, params.address("address")?);
    let learned = params.service.inference.learned(topic.id).await?;
    let n_epochs = learned.experience[role].get(&name).map_or(0, |seen| seen.n_epochs);
    Ok(n_epochs.to_string())
}

async fn scores_until(params: Params, role: Role) -> Result<Vec<ScoreBody>> {
    let (topic, nonce) = (params.topic()?, params.height()?);
    let epochs = params.service.inference.losses_until(topic.id, nonce, EPOCHS_MAX).await?;
    let epochs = epochs.iter();
    let scores = epochs.flat_map(|(nonce, losses)| bodies(&topic, *nonce, &losses.scores(role)));
    Ok(scores.collect())
}

async fn scores_at(params: Params, role: Role) -> Result<Scores> {
    let (topic, nonce) = (params.topic()?, params.height()?);
    let losses = params.service.inference.losses_at(topic.id, nonce).await?;
    let scores = losses.map(|losses| bodies(&topic, nonce, &losses.scores(role)));
    Ok(Scores { scores: scores.unwrap_or_default() })
}

/// Returns the lowest average score of the active actors in `role`.
async fn lowest(params: Params, role: Role) -> Result<ScoreBody> {
    let (topic, inference) = (params.topic()?, &params.service.inference);
    let learned = inference.learned(topic.id).await?;
    let active = active(inference, &topic).await?;
    let scores = active[role].iter().filter_map(|name| learned.scores[role].get_key_value(name));
    let lowest = scores.min_by(|a, b| a.1.total_cmp(b.1));
    let (name, score) = lowest.ok_or_else(|| no_scores(&topic))?;
    let nonce = learned.experience[role].get(name).map_or(0, |seen| seen.last_nonce);
    Ok(body(&topic, nonce, name, *score))
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
