//! What a topic infers and inferred, beyond the chain's queries: values, weights, intervals, past epochs
//! and the leaderboard.

use axum::{Json, response::Response};
use model::topic::{BlockHeight, decimal};
use wire::{
    inference::{
        TopicHistory,
        network::{EpochBody, IntervalBody, LatestBody, Leaderboard, ScalarBody, WeightsBody},
    },
    paths,
};

use super::{
    bundle_body::{self, PairBody},
    emissions::loss_body,
    error::ApiError,
    openapi::parameters::TopicPart,
    request::Asked,
};
use crate::{
    math::{
        regret::{ByActor, Role, RoleValues},
        synthesis::interval::PERCENTILES,
    },
    network::{close::Interval, leaderboard},
};

/// The newest bundle with every array, weights and confidence intervals.
#[utoipa::path(get, path = paths::TOPIC_LATEST, operation_id = "latest", tag = "network",
    params(TopicPart), responses((status = 200, description = "The bundle", body = LatestBody)))]
pub(super) async fn latest(asked: Asked) -> Result<Response, ApiError> {
    let bundles = asked.service.inference.latest(asked.topic_id()?).await?;
    let head = LatestBody {
        network_inferences: bundles.bundle.bundle.clone(),
        weights: weights(&bundles.shares),
        confidence_intervals: intervals(&bundles.intervals),
        has_outliers: bundles.resistant.is_some(),
        closed_at: bundles.closed_at.to_string(),
    };
    bundle_body::answer(&head, vec![PairBody::new(&bundles.bundle, false)])
}

fn weights(shares: &RoleValues) -> WeightsBody {
    let texts = |by_actor: &ByActor<f64>| {
        by_actor.iter().map(|(name, share)| (name.to_string(), decimal(*share))).collect()
    };
    WeightsBody { inferers: texts(&shares.inferer), forecasters: texts(&shares.forecaster) }
}

fn intervals(intervals: &[Interval]) -> Vec<IntervalBody> {
    let texts = |numbers: &[f64]| numbers.iter().copied().map(decimal).collect();
    let body = |interval: &Interval| IntervalBody {
        label_name: interval.label.clone(),
        percentiles: texts(&PERCENTILES),
        values: texts(&interval.values),
    };
    intervals.iter().map(body).collect()
}

/// One number of the newest bundle, for who wants no array.
#[utoipa::path(get, path = paths::TOPIC_VALUE, operation_id = "value", tag = "network",
    params(TopicPart, ("label" = Option<String>, Query,
        description = "The label, on a topic with several.")),
    responses((status = 200, description = "The combined value", body = ScalarBody)))]
pub(super) async fn value(asked: Asked) -> Result<Json<ScalarBody>, ApiError> {
    let (topic, label) = (asked.topic_id()?, asked.find("label")?);
    let bundles = asked.service.inference.latest(topic).await?;
    let values = &bundles.bundle.combined_value;
    let found = match &label {
        Some(label) => values.iter().find(|value| value.label_name == *label),
        None => values.first().filter(|_| values.len() == 1),
    };
    let value = found.ok_or_else(|| {
        let labels: Vec<&str> = values.iter().map(|value| value.label_name.as_str()).collect();
        ApiError::invalid(format!(
            "topic {topic} has no such label: use ?label= {}",
            labels.join(", ")
        ))
    })?;
    Ok(Json(ScalarBody {
        topic_id: topic.get(),
        nonce: bundles.bundle.nonce,
        label_name: value.label_name.clone(),
        value: decimal(value.value),
    }))
}

/// How many epochs are returned where the request does not say.
const LIMIT_DEFAULT: u32 = 100;

/// The most epochs returned at once: enough for a line across any screen.
const LIMIT_MAX: u32 = 1000;

/// A topic's newest past epochs from one nonce to another, oldest first, with what came true and what
/// it cost.
///
/// One response has 1 000 epochs at most. The ones before them are those up to the nonce before the
/// first one, as `to`.
#[utoipa::path(get, path = paths::TOPIC_HISTORY, operation_id = "history", tag = "network",
    params(TopicPart,
        ("from" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "The first nonce, itself included; 0 where it is left out."),
        ("to" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "The last nonce, itself included; the newest where it is left out."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "The number of epochs, of which the newest are returned; 100 where it is \
                           left out.")),
    responses((status = 200, description = "Epochs", body = TopicHistory)))]
pub(super) async fn history(asked: Asked) -> Result<Json<TopicHistory>, ApiError> {
    let (id, limit) = (asked.topic_id()?, asked.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?);
    let nonces = asked.read_or("from", 0)?..=asked.read_or("to", BlockHeight::MAX)?;
    let epochs = asked.service.inference.history(id, nonces, limit).await?;
    Ok(Json(TopicHistory { topic_id: id.get(), epochs }))
}

/// Ranks a topic's actors by their mean loss, and has the losses of its values next to a baseline.
///
/// Actors are compared in the epochs that all ranked ones have in common, by the loss that the network
/// learns from. An actor needs 10 of the newest 20 epochs to be ranked.
#[utoipa::path(get, path = paths::TOPIC_LEADERBOARD, operation_id = "leaderboard",
    tag = "network", params(TopicPart, ("epochs" = Option<u32>, Query, minimum = 1, maximum = 500,
        description = "The newest epochs that were learned from to take means of; fewer of a topic \
                       with many actors, 100 where it is left out.")),
    responses((status = 200, description = "Actors and losses", body = Leaderboard)))]
pub(super) async fn leaderboard(asked: Asked) -> Result<Json<Leaderboard>, ApiError> {
    let (id, inference) = (asked.topic_id()?, &asked.service.inference);
    let n_epochs = asked.limit("epochs", leaderboard::EPOCHS_DEFAULT, leaderboard::EPOCHS_MAX)?;
    Ok(Json(inference.ranking(id, n_epochs).await?))
}

/// One past epoch with all that led to it and came of it.
#[utoipa::path(get, path = paths::TOPIC_EPOCH, operation_id = "epoch", tag = "network",
    params(TopicPart, ("nonce" = u64, Path, minimum = 0, format = "uint64",
        description = "The height at which it opened.")),
    responses((status = 200, description = "The epoch", body = EpochBody)))]
pub(super) async fn epoch(asked: Asked) -> Result<Response, ApiError> {
    let (topic, nonce) = (asked.topic_id()?, asked.read("nonce")?);
    let (settings, inference) = (asked.topic()?, &asked.service.inference);
    let bundles = inference.bundle_at(topic, nonce).await?;
    let truth = inference.history(topic, nonce..=nonce, 1).await?.pop();
    let losses = inference.losses_until(topic, nonce, 1).await?;
    let losses = losses.into_iter().find(|(of, _)| *of == nonce).map(|(_, losses)| losses);
    let texts = |by_actor: ByActor<f64>| {
        by_actor.into_iter().map(|(name, score)| (name.to_string(), decimal(score))).collect()
    };
    let scores = |role| losses.as_ref().map(|losses| losses.scores(role));
    let [inferers, forecasters] = Role::ALL.map(|role| texts(scores(role).unwrap_or_default()));
    let mut pairs = vec![PairBody::new(&bundles.bundle, false)];
    pairs.extend(losses.as_ref().map(PairBody::of_losses));
    let head = EpochBody {
        network_inferences: bundles.bundle.bundle,
        weights: weights(&bundles.shares),
        confidence_intervals: intervals(&bundles.intervals),
        truth: truth.map(|epoch| epoch.truth).unwrap_or_default(),
        losses: losses.map(|losses| loss_body(&settings, nonce, "", &losses)),
        inferer_scores: inferers,
        forecaster_scores: forecasters,
    };
    bundle_body::answer(&head, pairs)
}
