//! Closing of an epoch: the combination of its submissions into the served bundle.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::topic::{Address, BlockHeight};
use serde::{Deserialize, Serialize};
use wire::inference::{Bundle, LabeledValue, WorkerValues};

use crate::math::exact::Exact;
use crate::math::outlier::Baseline;
use crate::math::pair_values::FullBundle;
use crate::math::regret::{ByActor, RoleValues};
use crate::math::synthesis::interval::PERCENTILES;
use crate::math::synthesis::{Epoch, Synthesis, Values, synthesize};
use crate::network::forecast::{Forecast, built_in};
use crate::network::learned::Learned;
use crate::network::selection::Withdrawn;
use crate::network::submission::Submission;
use crate::network::topic::{Topic, TopicKind, with_labels};

/// Result of closing an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// Bundle as served.
    pub bundle: FullBundle,
    /// Weight of each actor in the combined value.
    pub shares: RoleValues,
    /// Forecasts of the built-in forecasters in the form of submissions.
    pub forecasts: Vec<Submission>,
    /// Bundle without outliers, or `None` if the epoch has no outliers or the topic has several labels.
    pub resistant: Option<FullBundle>,
    /// Value to sign, or `None` if the combined value is to be signed.
    pub signed: Option<Signed>,
    /// Median and spread of the topic's values, updated with this epoch.
    pub baseline: Option<Baseline>,
    /// Confidence intervals by label.
    pub intervals: Vec<Interval>,
    /// Submissions and labels that are removed from the epoch.
    pub withdrawn: Withdrawn,
    /// Learned state with updated scores of the resting actors, or `None` if no actor rested.
    pub moved_scores: Option<Arc<Learned>>,
}

/// Combined value without the inferences that are too far off to be signed.
#[derive(Debug, Clone, PartialEq)]
pub struct Signed {
    /// Value of each label.
    pub value: Vec<LabeledValue>,
    /// Confidence intervals without the same inferences.
    pub intervals: Vec<Interval>,
}

/// Weighted percentiles of the values of a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Name of the label.
    pub label: String,
    /// Values at the [`PERCENTILES`].
    #[serde(with = "Exact")]
    pub values: Values,
}

/// State of the topic that is needed to close an epoch, in addition to the submissions.
#[derive(Debug, Clone, Copy)]
pub struct CloseContext<'a> {
    /// Names of the labels, in the order of their ids.
    pub labels: &'a [String],
    /// Learned state before this epoch.
    pub learned: &'a Learned,
    /// Median and spread of earlier epochs, or `None` before the first.
    pub baseline: Option<Baseline>,
}

/// Combines `submissions` and the forecasts of built-in forecasters into the bundle of `nonce`.
/// Returns `None` if no submission has an inference.
pub fn close(
    topic: &Topic,
    nonce: BlockHeight,
    submissions: &[Submission],
    close_context: CloseContext<'_>,
) -> Option<Closing> {
    let CloseContext { labels, learned, baseline } = close_context;
    let default = topic.labeling.default;
    let inferring = submissions.iter().filter(|submission| !submission.inference.is_empty());
    let inferences: BTreeMap<Address, Values> = inferring
        .clone()
        .filter_map(|submission| {
            Some((submission.worker.clone(), submission.values(labels, default)?))
        })
        .collect();
    let forecasts = forecasts(&inferences, learned, topic);
    let expected: ByActor<&ByActor<f64>> = submissions
        .iter()
        .chain(&forecasts)
        .filter(|submission| !submission.forecast.is_empty())
        .map(|submission| (submission.worker.clone(), submission.forecast.as_ref()))
        .collect();
    let params = topic.params(learned.regret_scale);
    let combine = |inferences: &BTreeMap<Address, Values>| {
        synthesize(&Epoch {
            params: &params,
            inferences,
            forecasts: &expected,
            previous_loss: learned.combined_loss,
            regrets: &learned.regrets,
            newcomers: learned.newcomers(),
        })
    };
    let synthesis = combine(&inferences)?;
    let mut values: Vec<WorkerValues> = inferring
        .map(|submission| WorkerValues {
            worker: submission.worker.clone(),
            values: submission.dense(labels, default),
        })
        .collect();
    values.sort_by(|a, b| a.worker.cmp(&b.worker));
    let made = BundleMaker { topic, nonce, labels };
    let resists = labels.len() == 1 && topic.kind == TopicKind::Regression;
    let firsts: Vec<f64> = inferences.values().filter_map(|v| v.first()).copied().collect();
    // As on the chain, the baseline is updated with the values of this epoch before these values are
    // compared with the baseline. A comparison with the previous median would exclude all workers that
    // follow a moving market.
    let baseline = if resists { Baseline::after(baseline, &firsts) } else { baseline };
    let reference = baseline.filter(|_| resists);
    let resynthesize = |kept: &BTreeMap<Address, Values>| {
        let own = values.iter().filter(|value| kept.contains_key(&value.worker)).cloned();
        let synthesis = combine(kept)?;
        let intervals = intervals(labels, &synthesis);
        Some((made.bundle(own.collect(), &synthesis), intervals))
    };
    let kept = reference.and_then(|known| known.without_outliers(&inferences));
    let resistant = kept.as_ref().and_then(resynthesize);
    let signable = reference.and_then(|known| known.signable(&inferences));
    let signed = match &signable {
        signable if *signable == kept => resistant.clone(),
        signable => signable.as_ref().and_then(resynthesize),
    };
    Some(Closing {
        withdrawn: Withdrawn::default(),
        moved_scores: None,
        intervals: intervals(labels, &synthesis),
        shares: RoleValues {
            inferer: synthesis.inferer_weights.clone(),
            forecaster: synthesis.forecaster_weights.clone(),
        },
        bundle: made.bundle(values, &synthesis),
        forecasts,
        resistant: resistant.map(|(bundle, _)| bundle),
        signed: signed.map(|(resistant, intervals)| Signed {
            value: resistant.bundle.combined_value,
            intervals,
        }),
        baseline,
    })
}

/// Returns the forecasts of the built-in forecasters of `topic` in the form of submissions.
fn forecasts(
    inferences: &BTreeMap<Address, Values>,
    learned: &Learned,
    topic: &Topic,
) -> Vec<Submission> {
    if !topic.has_built_in_forecasters {
        return Vec::new();
    }
    let Learned { past, loss_averages, .. } = learned;
    let forecasts = built_in(inferences, past, loss_averages, topic.judging.loss).into_iter();
    let submission = |forecast: Forecast| Submission {
        worker: forecast.address,
        name: Some(format!("built-in: {}", forecast.name)),
        inference: Vec::new(),
        forecast: Arc::new(forecast.losses),
    };
    forecasts.map(submission).collect()
}

fn intervals(labels: &[String], synthesis: &Synthesis) -> Vec<Interval> {
    let values = synthesis.confidence_interval.iter().filter(|v| v.len() == PERCENTILES.len());
    let pairs = labels.iter().zip(values);
    pairs.map(|(label, values)| Interval { label: label.clone(), values: values.clone() }).collect()
}

/// Topic, epoch and labels that bundles of an epoch have in common.
#[derive(Clone, Copy)]
struct BundleMaker<'a> {
    topic: &'a Topic,
    nonce: BlockHeight,
    labels: &'a [String],
}

impl BundleMaker<'_> {
    fn bundle(&self, inferer_values: Vec<WorkerValues>, synthesis: &Synthesis) -> FullBundle {
        let bundle = Bundle {
            topic_id: self.topic.id,
            nonce: self.nonce,
            combined_value: with_labels(self.labels, &synthesis.combined),
            naive_value: with_labels(self.labels, &synthesis.naive),
            inferer_values,
            forecaster_values: self.each(&synthesis.implied),
            one_out_inferer_values: self.each(&synthesis.one_out_inferer),
            one_out_forecaster_values: self.each(&synthesis.one_out_forecaster),
            one_in_forecaster_values: self.each(&synthesis.one_in_forecaster),
            // The values of pairs are in `without_inferer`, since they would dominate the size of a
            // bundle.
            one_out_inferer_forecaster_values: Vec::new(),
        };
        let without_inferer = Arc::new(synthesis.one_out_inferer_forecaster.clone());
        FullBundle { bundle, without_inferer }
    }

    /// Creates a labeled entry for each actor in `values`.
    fn each<T: From<(Address, Vec<LabeledValue>)>>(
        &self,
        values: &BTreeMap<Address, Values>,
    ) -> Vec<T> {
        let entries =
            values.iter().map(|(name, own)| (name.clone(), with_labels(self.labels, own)));
        entries.map(T::from).collect()
    }
}
