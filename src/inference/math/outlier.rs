//! Outliers: inferences of a topic with a single output that are too far from the epoch's median.
//!
//! As on the chain, the inferences of a closing epoch first update the topic's median and average
//! spread, and are then compared with the updated values. A comparison with the previous median would
//! exclude every actor that follows a moving market. The value without outliers is the
//! [synthesis](crate::math::synthesis) of the remaining inferences.

use std::collections::BTreeMap;

use model::topic::Address;

use crate::math::statistics::{median, moving_average};
use crate::math::synthesis::Values;

/// Maximum distance from the median in units of the spread: the chain's parameter
/// `inference_outlier_detection_threshold`.
pub const THRESHOLD: f64 = 11.0;

/// Weight of the latest spread in the moving average of spreads: the chain's parameter
/// `inference_outlier_detection_alpha`.
pub const ALPHA: f64 = 0.2;

/// Median and spread of a topic's inferences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Baseline {
    /// Median of the latest epoch's values.
    pub median: f64,
    /// Moving average of the epochs' median absolute deviations.
    pub spread: f64,
}

impl Baseline {
    /// Returns the baseline updated with the `values` of an epoch, including outliers. As on the chain,
    /// the new spread is not averaged with a previous spread of 0. Returns `previous` if the epoch has
    /// no values.
    #[must_use]
    pub fn after(previous: Option<Self>, values: &[f64]) -> Option<Self> {
        let Some(middle) = median(values) else { return previous };
        let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        let newest = median(&distances)?;
        let average = previous.map(|previous| previous.spread).filter(|spread| *spread != 0.0);
        let spread = moving_average(average, newest, ALPHA);
        Some(Self { median: middle, spread })
    }

    /// Returns true if `value` is an outlier. Always false if the median or the spread is 0.
    #[must_use]
    pub fn is_outlier(&self, value: f64) -> bool {
        let knows = self.median != 0.0 && self.spread != 0.0;
        knows && (value - self.median).abs() > THRESHOLD * self.spread
    }

    /// Returns true if `value` must not be signed: if it is an outlier, or if the spread is 0 and the
    /// distance between `value` and the median exceeds the absolute median.
    #[must_use]
    pub fn is_unsignable(&self, value: f64) -> bool {
        if self.spread == 0.0 { self.is_far_off(value) } else { self.is_outlier(value) }
    }

    /// Returns true if the distance between `value` and the median exceeds both the absolute median and
    /// [`THRESHOLD`] spreads. Always false if both median and spread are 0.
    #[must_use]
    pub fn is_far_off(&self, value: f64) -> bool {
        let bound = (THRESHOLD * self.spread).max(self.median.abs());
        bound > 0.0 && (value - self.median).abs() > bound
    }

    /// Returns `inferences` without outliers, or `None` if all or no inferences are outliers. Only the
    /// first value of each inference is considered.
    #[must_use]
    pub fn without_outliers(
        &self,
        inferences: &BTreeMap<Address, Values>,
    ) -> Option<BTreeMap<Address, Values>> {
        Self::without(inferences, |value| self.is_outlier(value))
    }

    /// Returns `inferences` without [unsignable](Self::is_unsignable) values, or `None` if all or no
    /// inferences are unsignable.
    #[must_use]
    pub fn signable(
        &self,
        inferences: &BTreeMap<Address, Values>,
    ) -> Option<BTreeMap<Address, Values>> {
        Self::without(inferences, |value| self.is_unsignable(value))
    }

    fn without(
        inferences: &BTreeMap<Address, Values>,
        is_left_out: impl Fn(f64) -> bool,
    ) -> Option<BTreeMap<Address, Values>> {
        let is_kept = |values: &Values| values.first().is_some_and(|value| !is_left_out(*value));
        let kept: BTreeMap<Address, Values> = inferences
            .iter()
            .filter(|(_, values)| is_kept(values))
            .map(|(name, values)| (name.clone(), values.clone()))
            .collect();
        (!kept.is_empty() && kept.len() < inferences.len()).then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferences(values: &[f64]) -> BTreeMap<Address, Values> {
        let named =
            |(idx, value): (usize, &f64)| (format!("allo1{idx}").parse().unwrap(), vec![*value]);
        values.iter().enumerate().map(named).collect()
    }

    #[test]
    fn spread_is_updated_as_a_moving_average() {
        let first = Baseline::after(None, &[9.0, 10.0, 12.0]).unwrap();
        assert_eq!(first, Baseline { median: 10.0, spread: 1.0 });
        let second = Baseline::after(Some(first), &[20.0, 26.0, 32.0]).unwrap();
        assert!((second.spread - 2.0).abs() < 1e-12);
        assert!((second.median - 26.0).abs() < 1e-12);
        assert_eq!(Baseline::after(Some(first), &[]), Some(first));
        assert_eq!(Baseline::after(None, &[]), None);
    }

    #[test]
    fn spread_of_zero_is_replaced_by_the_next_spread_without_averaging() {
        let equal = Baseline::after(None, &[100.0; 5]).unwrap();
        assert_eq!(equal, Baseline { median: 100.0, spread: 0.0 });
        let next = Baseline::after(Some(equal), &[99.0, 100.0, 101.0, 104.0, 100.0]).unwrap();
        assert_eq!(next, Baseline { median: 100.0, spread: 1.0 });
        assert!(!next.is_outlier(104.0) && next.is_outlier(111.5));
    }

    #[test]
    fn value_more_than_eleven_spreads_from_the_median_is_an_outlier() {
        let baseline = Baseline { median: 10.0, spread: 1.0 };
        assert!(!baseline.is_outlier(21.0) && !baseline.is_outlier(-1.0));
        assert!(baseline.is_outlier(21.001) && baseline.is_outlier(-1.001));
        let kept = baseline.without_outliers(&inferences(&[9.0, 500.0, 11.0])).unwrap();
        assert_eq!(kept.into_values().flatten().collect::<Vec<_>>(), [9.0, 11.0]);
    }

    #[test]
    fn distant_value_among_equal_values_is_an_outlier() {
        let alike = Baseline { median: 4.3, spread: 0.0 };
        assert!(!alike.is_outlier(1e6) && alike.is_unsignable(1e6) && alike.is_unsignable(-0.1));
        assert!(!alike.is_unsignable(8.5));
        let apart = Baseline { median: 4.3, spread: 0.1 };
        assert!(apart.is_unsignable(5.5) && !apart.is_far_off(5.5) && apart.is_far_off(8.7));
        assert_eq!(alike.signable(&inferences(&[4.3, 4.3, 1e6])).unwrap().len(), 2);
        let nothing = Baseline { median: 0.0, spread: 0.0 };
        assert!(!nothing.is_unsignable(1e6) && !nothing.is_far_off(1e6));
    }

    #[test]
    fn no_inference_is_excluded_without_a_baseline_or_if_all_inferences_are_outliers() {
        for baseline in
            [Baseline { median: 0.0, spread: 1.0 }, Baseline { median: 10.0, spread: 0.0 }]
        {
            assert_eq!(baseline.without_outliers(&inferences(&[9.0, 500.0])), None);
        }
        let baseline = Baseline { median: 10.0, spread: 1.0 };
        assert_eq!(baseline.without_outliers(&inferences(&[9.0, 11.0])), None);
        assert_eq!(baseline.without_outliers(&inferences(&[900.0, 1100.0])), None, "all are");
    }
}
