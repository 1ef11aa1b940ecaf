//! Values of actors in past epochs, and the scores that follow from them: directional accuracy,
//! correlation and calibration.

use std::collections::{BTreeMap, BTreeSet};

use model::topic::BlockHeight;
use wire::inference::network::{Calibration, ReliabilityBin};

use super::number;
use crate::math::regret::Role;
use crate::math::statistics::{count, mean};
use crate::network::topic::truth::Truth;
use crate::store::EpochActor;

/// Values of each actor by epoch and label, and the latest name of each worker.
#[derive(Debug, Default)]
pub(in crate::network) struct PastValues {
    by_actor: BTreeMap<(Role, String), Vec<EpochActor>>,
    names: BTreeMap<String, String>,
}

/// Scores of an actor by its values. A score is `None` if no epoch is suitable to compute it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ValueScores {
    /// Share of epochs in which the actor predicted the right direction, or gave the right label the
    /// highest probability, 0 to 1.
    pub(super) directional_accuracy: Option<f64>,
    /// Correlation of the changes or probabilities that the actor predicted with the changes or
    /// probabilities of the combined value, −1 to 1.
    pub(super) correlation: Option<f64>,
    /// Predicted probabilities, each with its outcome, 0 or 1. Empty on a topic without labels.
    pub(super) predictions: Vec<(f64, f64)>,
}

impl PastValues {
    /// Collects the values in `rows`, which are sorted from oldest to latest.
    pub(super) fn new(rows: Vec<EpochActor>) -> Self {
        let mut values = Self::default();
        for row in rows {
            if let Some(name) = &row.name {
                values.names.insert(row.worker.clone(), name.clone());
            }
            values.by_actor.entry((row.role, row.worker.clone())).or_default().push(row);
        }
        for rows in values.by_actor.values_mut() {
            rows.sort_by(|a, b| (a.nonce, &a.label).cmp(&(b.nonce, &b.label)));
        }
        values
    }

    /// Returns the latest name of `worker`, if known.
    pub(super) fn name(&self, worker: &str) -> Option<String> {
        self.names.get(worker).cloned()
    }

    /// Returns the scores of an actor over the epochs with the nonces `counted`.
    pub(super) fn scores(
        &self,
        role: Role,
        worker: &str,
        counted: &BTreeSet<BlockHeight>,
        truth: &Truth,
    ) -> ValueScores {
        let rows = self.by_actor.get(&(role, worker.to_owned())).map_or(&[][..], Vec::as_slice);
        let (mut n_right, mut n_judged) = (0_usize, 0_usize);
        let (mut own, mut combined) = (Vec::new(), Vec::new());
        let mut n_compared = 0;
        let mut predictions = Vec::new();
        let epochs = rows.chunk_by(|a, b| a.nonce == b.nonce);
        for (epoch, first) in epochs.filter_map(|epoch| Some((epoch, epoch.first()?))) {
            if !counted.contains(&first.nonce) {
                continue;
            }
            // Subtracts the value at the opening from both values. Without that, all actors would
            // correlate with the network, since their values are close to this value.
            let base = match truth {
                Truth::Value => first.input,
                Truth::Direction { .. } | Truth::LogReturn | Truth::Volatility => Some(0.0),
            };
            let is_right = match truth {
                Truth::Direction { .. } => is_label_right(epoch),
                Truth::Value | Truth::LogReturn => {
                    base.and_then(|base| is_direction_right(first, base))
                }
                // The opening has no volatility from which a direction could be measured.
                Truth::Volatility => None,
            };
            if let Truth::Direction { .. } = truth {
                predictions.extend(epoch.iter().filter_map(|row| Some((row.value, row.truth?))));
            }
            n_judged += usize::from(is_right.is_some());
            n_right += usize::from(is_right == Some(true));
            let pairs = epoch
                .iter()
                .filter_map(|row| Some((row.value - base?, row.combined_value? - base?)));
            let (of_actor, of_network): (Vec<f64>, Vec<f64>) = pairs.unzip();
            n_compared += usize::from(!of_actor.is_empty());
            own.extend(of_actor);
            combined.extend(of_network);
        }
        ValueScores {
            directional_accuracy: (n_judged > 0).then(|| count(n_right) / count(n_judged)),
            correlation: correlation(&own, &combined)
                // A correlation over fewer epochs is meaningless.
                .filter(|_| n_compared >= 3),
            predictions,
        }
    }
}

/// Returns true if the actor's value and the ground truth differ from `before` in the same direction, or
/// `None` if the ground truth is unknown or equals `before`.
fn is_direction_right(row: &EpochActor, before: f64) -> Option<bool> {
    let change = row.truth? - before;
    (change.abs() > 0.0).then_some((row.value - before) * change > 0.0)
}

/// Returns true if the actor gave the right label a higher probability than all other labels, or `None`
/// without values or a ground truth.
fn is_label_right(epoch: &[EpochActor]) -> Option<bool> {
    let likely = epoch.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let n_likely = epoch.iter().filter(|row| row.value.total_cmp(&likely.value).is_eq()).count();
    Some(n_likely == 1 && likely.truth? > 0.0)
}

/// Returns Pearson's correlation of `a` and `b`, or `None` if either does not vary.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let products = a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b)).sum::<f64>();
    let squares =
        |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let correlation = products / (squares(a, mean_a) * squares(b, mean_b)).sqrt();
    correlation.is_finite().then(|| correlation.clamp(-1.0, 1.0))
}

/// Number of bins of probability, as in most reliability diagrams. More would have too few predictions.
const N_BINS: usize = 10;

/// Returns the calibration of `predictions`, each a probability with its outcome, 0 or 1. Ignores values
/// that are not probabilities. Returns `None` if no others exist.
pub(super) fn calibration(predictions: &[(f64, f64)]) -> Option<Calibration> {
    let is_probable = |(value, _): &&(f64, f64)| (0.0..=1.0).contains(value);
    let predictions: Vec<(f64, f64)> = predictions.iter().filter(is_probable).copied().collect();
    if predictions.is_empty() {
        return None;
    }
    let mut expected_error = 0.0;
    let bins = (0..N_BINS).map(|idx| {
        let (from, to) = (count(idx) / count(N_BINS), count(idx + 1) / count(N_BINS));
        let is_last = idx + 1 == N_BINS;
        let within = |value: f64| value >= from && (value < to || is_last);
        let within = predictions.iter().filter(|(value, _)| within(*value));
        let n_predictions = within.clone().count();
        let mean = |sum: f64| (n_predictions > 0).then(|| sum / count(n_predictions));
        let mean_probability = mean(within.clone().map(|(value, _)| value).sum());
        let observed_frequency = mean(within.map(|(_, outcome)| outcome).sum());
        if let Some((predicted, observed)) = mean_probability.zip(observed_frequency) {
            let share = count(n_predictions) / count(predictions.len());
            expected_error += share * (predicted - observed).abs();
        }
        let n_predictions = number(n_predictions);
        ReliabilityBin { from, to, n_predictions, mean_probability, observed_frequency }
    });
    let bins = bins.collect();
    Some(Calibration { expected_error, bins })
}

#[cfg(test)]
mod tests {
    use model::timestamp::Timestamp;

    use super::*;

    fn actor(
        nonce: BlockHeight,
        label: &str,
        [value, combined, truth]: [f64; 3],
        input: f64,
    ) -> EpochActor {
        EpochActor {
            opened_at: Timestamp::default(),
            nonce,
            worker: "allo1a".to_owned(),
            role: Role::Inferer,
            name: None,
            label: label.to_owned(),
            value,
            weight: None,
            loss: None,
            score: None,
            truth: Some(truth),
            input: Some(input),
            combined_value: Some(combined),
            naive_value: None,
            combined_loss: None,
            naive_loss: None,
        }
    }

    fn scores(rows: Vec<EpochActor>, truth: &Truth) -> ValueScores {
        let counted = rows.iter().map(|row| row.nonce).collect();
        PastValues::new(rows).scores(Role::Inferer, "allo1a", &counted, truth)
    }

    #[test]
    fn direction_is_measured_from_the_value_at_the_opening() {
        // The values at the opening are 100, 101, 99 and 102. The last epoch has no direction.
        let rows = [
            (1, [100.5, 100.25, 101.0], 100.0),
            (2, [101.5, 101.25, 99.0], 101.0),
            (3, [99.5, 99.25, 102.0], 99.0),
            (4, [102.5, 102.25, 102.0], 102.0),
        ];
        let rows = rows.map(|(nonce, values, input)| actor(nonce, "y", values, input));
        let found = scores(rows.to_vec(), &Truth::Value);
        assert_eq!(found.directional_accuracy, Some(2.0 / 3.0));
        // The actor always predicts a change of 0.5, and the combined value always changes by 0.25, so
        // neither varies.
        assert_eq!(found.correlation, None);
        let found = scores(rows.to_vec(), &Truth::Volatility);
        assert_eq!((found.directional_accuracy, found.correlation), (None, Some(1.0)));
    }

    #[test]
    fn directional_accuracy_of_labeled_topics_compares_the_most_probable_label() {
        let row = |nonce, up: f64, truth: [f64; 2]| {
            let down = 1.0 - up;
            [
                actor(nonce, "up", [up, up, truth[0]], 50.0),
                actor(nonce, "down", [down, down, truth[1]], 50.0),
            ]
        };
        let rows = [
            row(1, 0.75, [1.0, 0.0]),
            row(2, 0.625, [0.0, 1.0]),
            row(3, 0.5, [1.0, 0.0]),
            // The right label was not submitted.
            row(4, 0.25, [0.0, 0.0]),
        ];
        let scores = scores(rows.concat(), &Truth::Direction { threshold: 0.0 });
        assert_eq!(scores.directional_accuracy, Some(0.25), "equal probabilities are not right");
        assert_eq!(scores.correlation, Some(1.0), "equal to the combined value");
    }

    #[test]
    fn correlation_of_constant_values_is_undefined() {
        assert_eq!(correlation(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
    }

    /// Checks the bins with predictions: index, number, mean probability and observed frequency.
    #[track_caller]
    fn check(predictions: &[(f64, f64)], want: &[(usize, u64, f64, f64)], expected_error: f64) {
        let calibration = calibration(predictions).unwrap();
        let filled = calibration.bins.iter().enumerate().filter_map(|(idx, bin)| {
            Some((idx, bin.n_predictions, bin.mean_probability?, bin.observed_frequency?))
        });
        assert_eq!(filled.collect::<Vec<_>>(), want);
        assert!((calibration.expected_error - expected_error).abs() < 1e-12, "{calibration:?}");
    }

    #[test]
    fn probability_belongs_to_the_bin_that_begins_with_it() {
        check(
            &[(0.0, 0.0), (0.5, 1.0), (1.0, 1.0)],
            &[(0, 1, 0.0, 0.0), (5, 1, 0.5, 1.0), (9, 1, 1.0, 1.0)],
            0.5 / 3.0,
        );
    }

    #[test]
    fn calibration_error_is_weighted_by_the_number_of_predictions_per_bin() {
        let predictions = [(0.25, 0.0), (0.25, 1.0), (0.25, 0.0), (0.75, 1.0)];
        check(&predictions, &[(2, 3, 0.25, 1.0 / 3.0), (7, 1, 0.75, 1.0)], 0.0625 + 0.0625);
    }

    #[test]
    fn calibration_ignores_values_that_are_not_probabilities() {
        assert_eq!(calibration(&[(-0.5, 0.0), (1.5, 1.0), (f64::NAN, 1.0)]), None);
        check(&[(1.5, 1.0), (0.25, 0.0)], &[(2, 1, 0.25, 0.0)], 0.25);
    }
}
