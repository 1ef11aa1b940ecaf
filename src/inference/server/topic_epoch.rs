//! `GET /api/v1/topics/{topic_id}/epochs/{nonce}`: one past epoch with all that led to it and came
//! of it: submissions and weights, truth, losses and scores.

use axum::{
    extract::{Path, State},
    response::Response,
};
use model::bundle::decimal;
use wire::inference::network::EpochBody;

use super::{
    bundle_body::{self, PairBody},
    emissions::{loss_body, read},
    error::{ApiError, topic_id},
    latest::{intervals, weights},
};
use crate::{
    Inference, ReadError,
    math::{regret::ByActor, score},
};

pub(super) async fn get(
    State(inference): State<Inference>,
    Path((topic, nonce)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let (topic, nonce) = (topic_id(&topic)?, read("nonce", &nonce)?);
    let settings = inference.topic(topic).ok_or(ReadError::UnknownTopic { topic })?;
    let bundles = inference.bundle_at(topic, nonce).await?;
    let truth = inference.history(topic, nonce..=nonce, 1).await?.pop();
    let losses = inference.losses_until(topic, nonce, 1).await?;
    let losses = losses.into_iter().find(|(of, _)| *of == nonce).map(|(_, losses)| losses);
    let texts = |by_actor: ByActor<f64>| {
        by_actor.into_iter().map(|(name, score)| (name.to_string(), decimal(score))).collect()
    };
    let scores = losses.as_ref().map(|l| (score::inferers(l), score::forecasters(l)));
    let (inferers, forecasters) = scores.unwrap_or_default();
    let mut pairs = vec![PairBody::new(&bundles.bundle, false)];
    pairs.extend(losses.as_ref().map(PairBody::of_losses));
    let head = EpochBody {
        network_inferences: bundles.bundle.bundle,
        weights: weights(&bundles.shares),
        confidence_intervals: intervals(&bundles.intervals),
        truth: truth.map(|epoch| epoch.truth).unwrap_or_default(),
        losses: losses.map(|losses| loss_body(&settings, nonce, "", &losses)),
        inferer_scores: texts(inferers),
        forecaster_scores: texts(forecasters),
    };
    bundle_body::answer(&head, pairs)
}
