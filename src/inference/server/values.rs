//! Values of a topic beyond the chain's queries: weights, intervals, past epochs and the
//! leaderboard.

use std::time::Duration;

use axum::Json;
use axum::response::Response;
use model::topic::decimal;
use wire::inference::TopicHistory;
use wire::inference::network::{EpochBody, IntervalBody, LatestBody, Leaderboard, WeightsBody};
use wire::paths;

use super::bundle_body::{self, PairBody};
use super::emissions::loss_body;
use super::error::{ApiError, Result};
use super::request::Params;
use crate::math::regret::{ByActor, Role, RoleValues};
use crate::math::synthesis::interval::PERCENTILES;
use crate::network::close::Interval;
use crate::network::leaderboard::{self, Period};

/// Returns the newest bundle with all arrays, weights and confidence intervals.
#[utoipa::path(get, path = paths::TOPIC_LATEST, operation_id = "latest", tag = "network",
    responses((status = 200, description = "Bundle", body = LatestBody)))]
pub(super) async fn latest(params: Params) -> Result<Response> {
    let bundles = params.service.inference.latest(params.topic_id()?).await?;
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

/// Default number of epochs of a response.
const LIMIT_DEFAULT: u32 = 100;

/// Maximum number of epochs of a response.
const LIMIT_MAX: u32 = 1000;

/// Returns past epochs of a topic with their truth and losses, oldest first.
///
/// A response has 1000 epochs at most. Set `to` to the nonce before the first one to get earlier
/// epochs.
#[utoipa::path(get, path = paths::TOPIC_HISTORY, operation_id = "history", tag = "network",
    params(("from" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "First nonce, inclusive; 0 by default."),
        ("to" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "Last nonce, inclusive; the newest by default."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum number of epochs, of which the newest are returned; 100 by default.")),
    responses((status = 200, description = "Epochs", body = TopicHistory)))]
pub(super) async fn history(params: Params) -> Result<Json<TopicHistory>> {
    let (id, limit) = (params.topic_id()?, params.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?);
    let nonces = params.nonces()?;
    let epochs = params.service.inference.history(id, nonces, limit).await?;
    Ok(Json(TopicHistory { topic_id: id.get(), epochs }))
}

/// Returns a topic's actors ranked by their mean loss, and the losses of its values with a
/// baseline.
///
/// Ranked actors are compared in the epochs that all of them have in common. An actor needs 10 of
/// the newest 20 epochs to be ranked.
#[utoipa::path(get, path = paths::TOPIC_LEADERBOARD, operation_id = "leaderboard",
    tag = "network", params(("epochs" = Option<u32>, Query, minimum = 1, maximum = 500,
        description = "Number of newest learned epochs to average; fewer for a topic with many actors, \
                       100 by default."),
        ("period" = Option<String>, Query,
            description = "`24h`, `7d`, `30d` or `all`: the epochs that opened since then, at most \
                       10 000, instead of `epochs`.")),
    responses((status = 200, description = "Leaderboard", body = Leaderboard)))]
pub(super) async fn leaderboard(params: Params) -> Result<Json<Leaderboard>> {
    let (id, inference) = (params.topic_id()?, &params.service.inference);
    let n_epochs = params.limit("epochs", leaderboard::EPOCHS_DEFAULT, leaderboard::EPOCHS_MAX)?;
    let period = match params.find("period")?.as_deref() {
        None => Period::Latest(n_epochs),
        Some("24h") => Period::Last(Duration::from_hours(24)),
        Some("7d") => Period::Last(Duration::from_hours(7 * 24)),
        Some("30d") => Period::Last(Duration::from_hours(30 * 24)),
        Some("all") => Period::All,
        Some(_) => {
            return Err(ApiError::mismatch("period", format_args!("expected 24h, 7d, 30d or all")));
        }
    };
    Ok(Json(inference.ranking(id, period).await?))
}

/// Returns a past epoch with its bundle, weights, truth, losses and scores.
#[utoipa::path(get, path = paths::TOPIC_EPOCH, operation_id = "epoch", tag = "network",
    responses((status = 200, description = "Epoch", body = EpochBody)))]
pub(super) async fn epoch(params: Params) -> Result<Response> {
    let (topic, nonce) = (params.topic_id()?, params.read("nonce")?);
    let (settings, inference) = (params.topic()?, &params.service.inference);
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
