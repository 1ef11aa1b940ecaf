//! `GET /api/v1/topics/{topic_id}/epochs/{nonce}`: one past epoch with all that led to it and came
//! of it: submissions and weights, truth, losses and scores.

use axum::response::Response;
use model::bundle::decimal;
use wire::{inference::network::EpochBody, paths};

use super::{
    bundle_body::{self, PairBody},
    emissions::loss_body,
    error::ApiError,
    latest::{intervals, weights},
    openapi::parameters::TopicPart,
    request::Asked,
};
use crate::math::{
    regret::{ByActor, Role},
    score,
};

/// One past epoch with all that led to it and came of it.
#[utoipa::path(get, path = paths::TOPIC_EPOCH, operation_id = "epoch", tag = "network",
    params(TopicPart, ("nonce" = u64, Path, minimum = 0, format = "uint64",
        description = "The height at which it opened.")),
    responses((status = 200, description = "The epoch", body = EpochBody)))]
pub(super) async fn get(asked: Asked) -> Result<Response, ApiError> {
    let (topic, nonce) = (asked.topic_id()?, asked.read("nonce")?);
    let (settings, inference) = (asked.topic()?, &asked.service.inference);
    let bundles = inference.bundle_at(topic, nonce).await?;
    let truth = inference.history(topic, nonce..=nonce, 1).await?.pop();
    let losses = inference.losses_until(topic, nonce, 1).await?;
    let losses = losses.into_iter().find(|(of, _)| *of == nonce).map(|(_, losses)| losses);
    let texts = |by_actor: ByActor<f64>| {
        by_actor.into_iter().map(|(name, score)| (name.to_string(), decimal(score))).collect()
    };
    let scores = |role| losses.as_ref().map(|losses| score::of_role(role, losses));
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
