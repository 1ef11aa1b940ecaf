//! Confidence intervals: weighted percentiles of the values of an epoch.

use super::Values;

/// Percentiles of a confidence interval on the chain: the median of a normal distribution plus or minus
/// zero, one and two deviations.
pub const PERCENTILES: [f64; 5] = [2.28, 15.87, 50.0, 84.13, 97.72];

/// Returns the values at `percentiles` (0 to 100) of weighted `values`. Empty if no value has a weight.
///
/// The percentile of a value is the sum of all smaller values' weights plus half of its own weight.
/// Other percentiles are interpolated linearly between neighboring values. Below the lowest value's
/// percentile the result is the lowest value, and above the highest value's percentile it is the
/// highest value.
pub fn percentiles(values: &[f64], weights: &[f64], percentiles: &[f64]) -> Values {
    let mut sorted: Vec<(f64, f64)> = values
        .iter()
        .copied()
        .zip(weights.iter().copied())
        .filter(|(_, weight)| *weight > 0.0 && weight.is_finite())
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Values that differ only by rounding are ordered by weight, so that rounding does not affect the
    // result. A forecaster's value is that close to an inference if the forecaster gives this inference
    // nearly all of the weight.
    for equals in sorted.chunk_by_mut(|a, b| (b.0 - a.0) <= 1e-15 * b.0.abs()) {
        equals.sort_by(|a, b| a.1.total_cmp(&b.1));
    }
    let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    if sorted.is_empty() || !total.is_finite() {
        return Vec::new();
    }
    let mut reached = 0.0;
    let places: Vec<(f64, f64)> = sorted
        .iter()
        .map(|(value, weight)| {
            reached += weight;
            ((reached - weight / 2.0) / total, *value)
        })
        .collect();
    percentiles.iter().map(|percent| interpolate(&places, percent / 100.0)).collect()
}

/// Interpolates the value at `share` from `places`: pairs of a share and a value, sorted by share.
fn interpolate(places: &[(f64, f64)], share: f64) -> f64 {
    let above = places.partition_point(|(place, _)| *place < share);
    let below = above.checked_sub(1).and_then(|idx| places.get(idx));
    match (below, places.get(above)) {
        (Some((from, low)), Some((to, high))) => low + (high - low) * (share - from) / (to - from),
        (None, Some((_, value))) | (Some((_, value)), None) => *value,
        (None, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], weights: &[f64], at: &[f64], want: &[f64]) {
        let got = percentiles(values, weights, at);
        assert_eq!(got.len(), want.len(), "{got:?}");
        assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-12), "{got:?}");
    }

    #[test]
    fn percentile_of_a_value_is_the_midpoint_of_its_share_of_weight() {
        check(&[5.0, 1.0, 3.0], &[1.0; 3], &[0.0, 50.0, 100.0], &[1.0, 3.0, 5.0]);
        check(&[0.0, 10.0], &[1.0, 3.0], &[12.5, 62.5, 37.5], &[0.0, 10.0, 5.0]);
    }

    #[test]
    fn equal_values_of_a_percentile_are_ordered_by_weight() {
        let (low, high) = (30_301.895_570_042_664, 30_301.895_570_042_667);
        for equals in [[low, high], [high, low], [high, high]] {
            let got = percentiles(&[0.0, equals[0], equals[1]], &[5.0, 4.0, 1.0], &[40.0]);
            assert!((got[0] - high * 0.5).abs() < 1e-6, "{got:?}");
        }
    }

    #[test]
    fn values_without_weight_are_excluded_from_percentiles() {
        check(&[1.0, 900.0, 2.0], &[1.0, 0.0, 1.0], &[100.0], &[2.0]);
        check(&[1.0], &[0.0], &PERCENTILES, &[]);
        check(&[], &[], &PERCENTILES, &[]);
        check(&[7.0], &[f64::NAN], &PERCENTILES, &[]);
        check(&[7.0], &[2.0], &PERCENTILES, &[7.0; 5]);
    }
}
