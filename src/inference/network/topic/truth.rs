//! Ground truths: numbers that follow from a column after the opening of an epoch.
//!
//! Log returns and volatilities are defined as in the chain's topics: `get_logreturn` in
//! `example_reputer_realistic/ground_truth.py` of `allora-network/allora-sdk-py`, and
//! `compute_volatility_target_polars` in `allora_forge_builder_kit/workflow.py` of
//! `allora-network/allora-forge-builder-kit`, which has the reputer's definition.

use crate::math::statistics::{count, deviation};
use crate::math::synthesis::Values;

/// Labels of a direction.
pub const DIRECTIONS: [&str; 3] = ["up", "down", "flat"];

/// Definition of the ground truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Truth {
    /// The value of the column at the horizon.
    Value,
    /// The direction from the latest value at the opening to the value at the horizon: one of
    /// [`DIRECTIONS`].
    Direction {
        /// Maximum relative change that is still `flat`.
        threshold: f64,
    },
    /// The logarithm of the value at the horizon divided by the latest value at the opening.
    LogReturn,
    /// The standard deviation of the log returns from row to row until the horizon, times the square
    /// root of their number. This is the standard deviation of the return over the whole horizon.
    Volatility,
}

impl Truth {
    /// Returns the value of a topic's setting `target` that selects this definition, or `None` if the
    /// definition is selected without `target`.
    pub const fn target(self) -> Option<&'static str> {
        match self {
            Self::Value | Self::Direction { .. } => None,
            Self::LogReturn => Some("log_return"),
            Self::Volatility => Some("volatility"),
        }
    }

    /// Returns true if the ground truth follows from all values until the horizon.
    pub const fn has_path(self) -> bool {
        matches!(self, Self::Volatility)
    }

    /// Returns the result of an epoch. `before` is the latest value when the epoch opened, and `values`
    /// are the values from then until the horizon. The result for a direction is the last value, from
    /// which [`Self::of_labels`] derives the direction. Returns `None` if the result is undefined: a log
    /// return or volatility of values that are not above 0, or a volatility of fewer than two returns.
    pub fn outcome(self, before: f64, values: &[f64]) -> Option<f64> {
        match self {
            Self::Value | Self::Direction { .. } => values.last().copied(),
            Self::LogReturn => log_return(before, *values.last()?),
            Self::Volatility => {
                let pairs = std::iter::once(&before).chain(values).zip(values);
                let returns = pairs.map(|(before, after)| log_return(*before, *after));
                let returns: Vec<f64> = returns.collect::<Option<_>>()?;
                (returns.len() > 1).then(|| deviation(&returns) * count(returns.len()).sqrt())
            }
        }
    }

    /// Returns the ground truth for `labels` of an epoch with this `outcome`: the outcome itself, or 1
    /// for the right direction and 0 for the other directions.
    pub fn of_labels<'l>(
        self,
        labels: impl IntoIterator<Item = &'l str>,
        before: f64,
        outcome: f64,
    ) -> Values {
        let Self::Direction { threshold } = self else { return vec![outcome] };
        let step = if before == 0.0 { 0.0 } else { (outcome - before) / before.abs() };
        let direction = if step > threshold {
            "up"
        } else if step < -threshold {
            "down"
        } else {
            "flat"
        };
        labels.into_iter().map(|label| if label == direction { 1.0 } else { 0.0 }).collect()
    }

    /// Returns the prediction of an actor without information: equal probabilities of all labels, a log
    /// return of 0, or the `mean` of known ground truths for values and volatilities.
    pub fn uninformed(self, n_labels: usize, mean: Option<f64>) -> Option<Values> {
        match self {
            Self::Direction { .. } => Some(vec![1.0 / count(n_labels.max(1)); n_labels]),
            Self::LogReturn => Some(vec![0.0]),
            Self::Value | Self::Volatility => mean.map(|mean| vec![mean]),
        }
    }
}

/// Returns the logarithm of `after` divided by `before`, if both are above 0.
fn log_return(before: f64, after: f64) -> Option<f64> {
    let is_defined = before > 0.0 && after > 0.0;
    is_defined.then(|| (after / before).ln()).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(truth: Truth, before: f64, values: &[f64], want: Option<f64>) {
        let got = truth.outcome(before, values);
        let is_close = got.zip(want).is_some_and(|(got, want)| (got - want).abs() < 1e-12);
        assert!(is_close || got == want, "{got:?} is not {want:?}");
    }

    #[test]
    fn log_return_is_computed_from_the_last_value() {
        // ln (110 / 100), and ln (50 / 100) = −ln 2
        check(Truth::LogReturn, 100.0, &[90.0, 110.0], Some(0.095_310_179_804_324_87));
        check(Truth::LogReturn, 100.0, &[50.0], Some(-std::f64::consts::LN_2));
        check(Truth::LogReturn, 0.0, &[50.0], None);
        check(Truth::LogReturn, 5.0, &[-50.0], None);
        check(Truth::LogReturn, 5.0, &[], None);
    }

    #[test]
    fn volatility_is_the_deviation_of_returns_over_the_whole_horizon() {
        // The returns ln 1.1, −ln 1.1, ln 1.1 and −ln 1.1 have the mean 0 and the sample variance
        // 4 / 3 · (ln 1.1)². Times 4: 4 / √3 · ln 1.1.
        let values = [110.0, 100.0, 110.0, 100.0];
        let want = 4.0 / 3.0_f64.sqrt() * 0.095_310_179_804_324_87;
        check(Truth::Volatility, 100.0, &values, Some(want));
        // A steady growth has no volatility.
        check(Truth::Volatility, 1.0, &[2.0, 4.0, 8.0], Some(0.0));
        check(Truth::Volatility, 100.0, &[110.0], None);
        check(Truth::Volatility, 100.0, &[110.0, 0.0, 110.0], None);
    }

    #[test]
    fn uninformed_prediction_of_a_log_return_is_zero_and_of_volatility_is_the_past_volatility() {
        assert_eq!(Truth::LogReturn.uninformed(1, Some(0.3)), Some(vec![0.0]));
        assert_eq!(Truth::Volatility.uninformed(1, Some(0.3)), Some(vec![0.3]));
        assert_eq!(Truth::Volatility.uninformed(1, None), None);
    }
}
