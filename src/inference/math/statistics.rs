//! Means, quantiles and measures of spread.

/// Returns the mean of `values`, or 0 without values.
pub fn mean(values: &[f64]) -> f64 {
    // The sum of no values would be -0.
    values.iter().fold(0.0, |sum, value| sum + value) / count(values.len().max(1))
}

/// Returns the median of `values`, or `None` without values. For an even number of values, it is the
/// mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns the quantile `share` (0 to 1) of `values` by linear interpolation, or `None` without values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = share.clamp(0.0, 1.0) * count(sorted.len().saturating_sub(1));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of values"
    )]
    let below = position.floor() as usize;
    let low = *sorted.get(below)?;
    let high = *sorted.get(below + 1).unwrap_or(&low);
    Some(low + (high - low) * (position - position.floor()))
}

/// Returns the sample standard deviation of `values` (n − 1), or 0 for fewer than two.
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    (sum_of_squares(values) / count(values.len() - 1)).sqrt()
}

/// Returns the standard deviation of `values` as a whole population (n), or 0 without values.
pub fn population_deviation(values: &[f64]) -> f64 {
    (sum_of_squares(values) / count(values.len().max(1))).sqrt()
}

/// Returns the sum of the squared distances of `values` from their mean.
fn sum_of_squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// Returns an estimate of the standard deviation from the median absolute deviation, or 0 without
/// values. Unlike [`deviation`], it is not affected by a few outliers.
pub fn robust_deviation(values: &[f64]) -> f64 {
    let Some(middle) = median(values) else { return 0.0 };
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    // The factor converts a median absolute deviation to the standard deviation of a normal
    // distribution.
    1.4826 * median(&distances).unwrap_or_default()
}

/// Returns the moving average of `previous` and `newest`, in which `newest` has the weight `alpha`.
/// Returns `newest` if there is no previous average.
pub fn moving_average(previous: Option<f64>, newest: f64, alpha: f64) -> f64 {
    previous.map_or(newest, |previous| alpha * newest + (1.0 - alpha) * previous)
}

/// Converts a count to a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "counts of actors are far below 2^52")]
pub const fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-12, "{got} is not {want}");
    }

    #[test]
    fn quantiles_are_interpolated() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        check(quantile(&values, 0.25).unwrap(), 3.25);
        check(median(&values).unwrap(), 5.5);
        check(median(&[9.0, 1.0, 5.0]).unwrap(), 5.0);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn median_absolute_deviation_is_robust_to_outliers() {
        check(robust_deviation(&[0.1, 0.2, 0.3]), 0.14826);
        check(robust_deviation(&[0.1, 0.2, 300.0]), 0.14826);
        check(robust_deviation(&[]), 0.0);
    }

    #[test]
    fn standard_deviation_of_one_value_is_zero() {
        check(deviation(&[7.0]), 0.0);
        check(deviation(&[1.0, 3.0]), std::f64::consts::SQRT_2);
    }
}
