//! `GET /api/v1/topics/{topic_id}/latest`: the newest bundle with every array, and beside it what the
//! chain no longer tells: each actor's weight, and confidence intervals.

use axum::response::Response;
use model::bundle::decimal;
use wire::{
    inference::network::{IntervalBody, LatestBody, WeightsBody},
    paths,
};

use super::{
    bundle_body::{self, PairBody},
    error::ApiError,
    openapi::parameters::TopicPart,
    request::Asked,
};
use crate::{
    math::{
        regret::{ByActor, RoleValues},
        synthesis::interval::PERCENTILES,
    },
    network::close::Interval,
};

/// The newest bundle with every array, weights and confidence intervals.
#[utoipa::path(get, path = paths::TOPIC_LATEST, operation_id = "latest", tag = "network",
    params(TopicPart), responses((status = 200, description = "The bundle", body = LatestBody)))]
pub(super) async fn get(asked: Asked) -> Result<Response, ApiError> {
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

pub(super) fn weights(shares: &RoleValues) -> WeightsBody {
    let texts = |by_actor: &ByActor<f64>| {
        by_actor.iter().map(|(name, share)| (name.to_string(), decimal(*share))).collect()
    };
    WeightsBody { inferers: texts(&shares.inferer), forecasters: texts(&shares.forecaster) }
}

pub(super) fn intervals(intervals: &[Interval]) -> Vec<IntervalBody> {
    let texts = |numbers: &[f64]| numbers.iter().copied().map(decimal).collect();
    let body = |interval: &Interval| IntervalBody {
        label_name: interval.label.clone(),
        percentiles: texts(&PERCENTILES),
        values: texts(&interval.values),
    };
    intervals.iter().map(body).collect()
}
