//! Calibration of predicted probabilities.

use wire::inference::network::{Calibration, ReliabilityBin};

use super::number;
use crate::math::statistics::count;

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
    use super::*;

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
