//! Scores: of one epoch, and their moving averages. Nobody scores the dataset, the one reputer
//! here: its score is 0.

use axum::{
    Json,
    extract::{Path, State},
};
use model::bundle::decimal;
use model::topic::{Address, BlockHeight};
use wire::inference::chain::{CountResponse, ScoreBody, ScoreResponse, Scores, ScoresAtBlock};

use super::{Service, address, height, topic, whitelist::active};
use crate::{
    math::{
        regret::{ByActor, Losses},
        score,
    },
    network::{learned::Experience, topic::Topic},
    server::error::ApiError,
};

/// The most epochs of scores up to a block that are served: as many as the chain keeps.
const EPOCHS_MAX: u32 = 25;

type OfEpoch = fn(&Losses) -> ByActor<f64>;

pub(super) async fn inferer_ema(
    State(service): State<Service>,
    Path((version, id, name)): Path<(String, String, String)>,
) -> Result<Json<ScoreResponse>, ApiError> {
    let (topic, name) = (topic(&service.inference, &version, &id)?, address("inferer", &name)?);
    let learned = service.inference.learned(topic.id).await?;
    let nonce = learned.inferers.get(&name).map_or(0, |seen| seen.last_nonce);
    let score = learned.scores.inferer.get(&name).copied().unwrap_or_default();
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &name, score) }))
}

pub(super) async fn forecaster_ema(
    State(service): State<Service>,
    Path((version, id, name)): Path<(String, String, String)>,
) -> Result<Json<ScoreResponse>, ApiError> {
    let (topic, name) = (topic(&service.inference, &version, &id)?, address("forecaster", &name)?);
    let learned = service.inference.learned(topic.id).await?;
    let nonce = learned.forecasters.get(&name).map_or(0, |seen| seen.last_nonce);
    let score = learned.scores.forecaster.get(&name).copied().unwrap_or_default();
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &name, score) }))
}

pub(super) async fn reputer_ema(
    State(service): State<Service>,
    Path((version, id, name)): Path<(String, String, String)>,
) -> Result<Json<ScoreResponse>, ApiError> {
    let (topic, name) = (topic(&service.inference, &version, &id)?, address("reputer", &name)?);
    let nonce = service.inference.learned(topic.id).await?.nonce.unwrap_or_default();
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &name, 0.0) }))
}

pub(super) async fn inferers_until(
    State(service): State<Service>,
    Path(parts): Path<(String, String, String)>,
) -> Result<Json<Scores>, ApiError> {
    read_scores_until(&service, parts, score::inferers).await
}

pub(super) async fn forecasters_until(
    State(service): State<Service>,
    Path(parts): Path<(String, String, String)>,
) -> Result<Json<Scores>, ApiError> {
    read_scores_until(&service, parts, score::forecasters).await
}

pub(super) async fn inferers_at(
    State(service): State<Service>,
    Path(parts): Path<(String, String, String)>,
) -> Result<Json<ScoresAtBlock>, ApiError> {
    read_scores_at(&service, parts, score::inferers).await
}

pub(super) async fn forecasters_at(
    State(service): State<Service>,
    Path(parts): Path<(String, String, String)>,
) -> Result<Json<ScoresAtBlock>, ApiError> {
    read_scores_at(&service, parts, score::forecasters).await
}

pub(super) async fn reputers_at(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
) -> Result<Json<ScoresAtBlock>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = height(&nonce)?;
    let reputer = crate::network::addresses::of_reputer(&topic.source.dataset)?;
    let epochs = service.inference.losses_until(topic.id, nonce, 1).await?;
    let exact = epochs.iter().filter(|(of, _)| *of == nonce);
    let scores = exact.map(|(nonce, _)| body(&topic, *nonce, &reputer, 0.0)).collect();
    Ok(Json(ScoresAtBlock { scores: Scores { scores } }))
}

pub(super) async fn lowest_inferer(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<ScoreResponse>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let learned = service.inference.learned(topic.id).await?;
    let (inferers, _) = active(&service.inference, &topic).await?;
    lowest(&topic, &inferers, &learned.scores.inferer, |name| learned.inferers.get(name))
}

pub(super) async fn lowest_forecaster(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<ScoreResponse>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let learned = service.inference.learned(topic.id).await?;
    let (_, forecasters) = active(&service.inference, &topic).await?;
    lowest(&topic, &forecasters, &learned.scores.forecaster, |name| learned.forecasters.get(name))
}

pub(super) async fn lowest_reputer(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<ScoreResponse>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = service.inference.learned(topic.id).await?.nonce;
    let nonce = nonce.ok_or_else(|| no_scores(&topic))?;
    let reputer = crate::network::addresses::of_reputer(&topic.source.dataset)?;
    Ok(Json(ScoreResponse { score: body(&topic, nonce, &reputer, 0.0) }))
}

pub(super) async fn inferer_inclusions(
    State(service): State<Service>,
    Path((version, id, name)): Path<(String, String, String)>,
) -> Result<Json<CountResponse>, ApiError> {
    let (topic, name) = (topic(&service.inference, &version, &id)?, address("inferer", &name)?);
    let learned = service.inference.learned(topic.id).await?;
    Ok(count(learned.inferers.get(&name)))
}

pub(super) async fn forecaster_inclusions(
    State(service): State<Service>,
    Path((version, id, name)): Path<(String, String, String)>,
) -> Result<Json<CountResponse>, ApiError> {
    let (topic, name) = (topic(&service.inference, &version, &id)?, address("forecaster", &name)?);
    let learned = service.inference.learned(topic.id).await?;
    Ok(count(learned.forecasters.get(&name)))
}

fn count(experience: Option<&Experience>) -> Json<CountResponse> {
    Json(CountResponse { count: experience.map_or(0, |seen| seen.n_epochs).to_string() })
}

async fn read_scores_until(
    service: &Service,
    parts: (String, String, String),
    of_epoch: OfEpoch,
) -> Result<Json<Scores>, ApiError> {
    let (version, id, nonce) = parts;
    let topic = topic(&service.inference, &version, &id)?;
    let epochs = service.inference.losses_until(topic.id, height(&nonce)?, EPOCHS_MAX).await?;
    let of = |(nonce, losses): &(BlockHeight, Losses)| bodies(&topic, *nonce, &of_epoch(losses));
    Ok(Json(Scores { scores: epochs.iter().flat_map(of).collect() }))
}

async fn read_scores_at(
    service: &Service,
    parts: (String, String, String),
    of_epoch: OfEpoch,
) -> Result<Json<ScoresAtBlock>, ApiError> {
    let (version, id, nonce) = parts;
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = height(&nonce)?;
    let epochs = service.inference.losses_until(topic.id, nonce, 1).await?;
    let exact = epochs.iter().filter(|(of, _)| *of == nonce);
    let scores = exact.flat_map(|(_, losses)| bodies(&topic, nonce, &of_epoch(losses))).collect();
    Ok(Json(ScoresAtBlock { scores: Scores { scores } }))
}

/// The lowest average among `active` actors.
fn lowest<'a>(
    topic: &Topic,
    active: &[Address],
    scores: &ByActor<f64>,
    experience: impl Fn(&Address) -> Option<&'a Experience>,
) -> Result<Json<ScoreResponse>, ApiError> {
    let scores = active.iter().filter_map(|name| scores.get_key_value(name));
    let lowest = scores.min_by(|a, b| a.1.total_cmp(b.1));
    let (name, score) = lowest.ok_or_else(|| no_scores(topic))?;
    let nonce = experience(name).map_or(0, |seen| seen.last_nonce);
    Ok(Json(ScoreResponse { score: body(topic, nonce, name, *score) }))
}

fn no_scores(topic: &Topic) -> ApiError {
    ApiError::NotFound(format!("no scores of topic {} yet", topic.id))
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
