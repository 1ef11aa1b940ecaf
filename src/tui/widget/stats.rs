//! Statistics of sets and of series: quartiles, outliers, moving averages.

use std::time::Duration;

use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

/// Quartiles of a set of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quartiles {
    /// Value that a quarter of the values are below.
    pub(crate) lower: f64,
    /// Value that half of the values are below.
    pub(crate) median: f64,
    /// Value that three quarters of the values are below.
    pub(crate) upper: f64,
}

/// Distance from the median at which a value is an outlier, as a multiple of the median distance. The
/// network's rule uses the same multiple.
const OUTLIER_DEVIATIONS: f64 = 3.0;

impl Quartiles {
    /// Returns the quartiles of all finite values. Returns `None` if there are none.
    pub(crate) fn compute(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            lower: quantile(&sorted, 1, 4)?,
            median: quantile(&sorted, 1, 2)?,
            upper: quantile(&sorted, 3, 4)?,
        })
    }
}

/// Returns the quantile `part / whole` of numbers that are sorted. Interpolates linearly.
fn quantile(sorted: &[f64], part: usize, whole: usize) -> Option<f64> {
    let steps = sorted.len().checked_sub(1)?.saturating_mul(part);
    let (idx, rest) = (steps / whole, steps % whole);
    let lower = sorted.get(idx)?;
    let upper = sorted.get(idx + 1).unwrap_or(lower);
    let share = f64::from(u8::try_from(rest).unwrap_or(0)) / f64::from(u8::try_from(whole).ok()?);
    Some(lower * (1.0 - share) + upper * share)
}

/// Returns the share of `part` in `whole` in percent. Returns `None` if `whole` is zero.
#[expect(clippy::cast_precision_loss, reason = "a percentage needs no more")]
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

/// Returns the median interval between `times`, which are sorted. Returns zero if there are fewer
/// than two.
pub(crate) fn usual_distance(times: impl Iterator<Item = Timestamp> + Clone) -> Duration {
    let pairs = times.clone().zip(times.skip(1));
    let mut apart: Vec<_> = pairs.map(|(one, next)| next.since(one)).collect();
    apart.sort_unstable();
    apart.get(apart.len() / 2).copied().unwrap_or_default()
}

/// Returns true for each value that is an outlier: its distance from the median exceeds
/// [`OUTLIER_DEVIATIONS`] times the median of all distances. NaN is not an outlier.
pub(crate) fn outliers(values: &[f64]) -> Vec<bool> {
    let Some(Quartiles { median, .. }) = Quartiles::compute(values) else {
        return vec![false; values.len()];
    };
    let distances: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    let deviation = Quartiles::compute(&distances).map_or(0.0, |distances| distances.median);
    distances
        .iter()
        .map(|distance| deviation > 0.0 && *distance > OUTLIER_DEVIATIONS * deviation)
        .collect()
}

/// Returns for each candle the mean of the last `n` closing values. `None` for the first `n - 1`
/// candles and if the mean is not finite.
pub(crate) fn moving_average(candles: &[Bucket], n: usize) -> Vec<Option<f64>> {
    if n == 0 {
        return vec![None; candles.len()];
    }
    let mut means = vec![None; candles.len().min(n - 1)];
    means.extend(candles.windows(n).map(|window| {
        #[expect(clippy::cast_precision_loss, reason = "a window is short")]
        let mean = window.iter().map(|candle| candle.close / n as f64).sum::<f64>();
        mean.is_finite().then_some(mean)
    }));
    means
}

/// Returns for each candle the exponential mean of the closing values, with a decay of
/// `1 - 2 / (n + 1)`. `None` for the first `n - 1` candles.
pub(crate) fn exponential_average(candles: &[Bucket], n: usize) -> Vec<Option<f64>> {
    #[expect(clippy::cast_precision_loss, reason = "a window is short")]
    let share = 2.0 / (n as f64 + 1.0);
    let (mut mean, mut n_seen) = (None, 0);
    candles
        .iter()
        .map(|candle| {
            if candle.close.is_finite() {
                let before = mean.unwrap_or(candle.close);
                mean = Some(before * (1.0 - share) + candle.close * share);
                n_seen += 1;
            }
            mean.filter(|mean: &f64| n_seen >= n && mean.is_finite())
        })
        .collect()
}

/// Returns for each candle the mean of the last `n` closing values plus `deviations` standard
/// deviations. `None` where [`moving_average`] returns `None`.
pub(crate) fn band(candles: &[Bucket], n: usize, deviations: f64) -> Vec<Option<f64>> {
    let means = moving_average(candles, n);
    let band_at = |idx: usize, mean: f64| {
        let window = candles.get(idx.checked_sub(n.checked_sub(1)?)?..=idx)?;
        #[expect(clippy::cast_precision_loss, reason = "a window is short")]
        let variance =
            window.iter().map(|candle| (candle.close - mean).powi(2) / n as f64).sum::<f64>();
        Some(mean + deviations * variance.sqrt()).filter(|value| value.is_finite())
    };
    means.iter().enumerate().map(|(idx, mean)| band_at(idx, (*mean)?)).collect()
}

/// Returns for each candle the volume-weighted mean price since the start of its day. `None` until
/// the day has a volume.
pub(crate) fn volume_weighted_average(candles: &[Bucket]) -> Vec<Option<f64>> {
    let (mut paid, mut volume, mut day) = (0.0, 0.0, None);
    candles
        .iter()
        .map(|candle| {
            let today = Some(Resolution::Day.bucket_start(candle.timestamp));
            if day != today {
                (paid, volume, day) = (0.0, 0.0, today);
            }
            let price = candle.high / 3.0 + candle.low / 3.0 + candle.close / 3.0;
            if price.is_finite() && candle.volume.is_finite() && candle.volume > 0.0 {
                paid += price * candle.volume;
                volume += candle.volume;
            }
            let mean: f64 = paid / volume;
            mean.is_finite().then_some(mean)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::flat_candle;

    fn closes(values: &[f64]) -> Vec<Bucket> {
        values.iter().map(|close| flat_candle(Timestamp::default(), *close)).collect()
    }

    #[track_caller]
    fn check(have: &[Option<f64>], want: &[Option<f64>]) {
        assert_eq!(have.len(), want.len());
        for (have, want) in have.iter().zip(want) {
            let difference = have.zip(*want).map_or(0.0, |(have, want)| (have - want).abs());
            assert!(have.is_some() == want.is_some() && difference < 1e-9, "{have:?} {want:?}");
        }
    }

    #[test]
    fn newer_values_weigh_more_in_an_exponential_average() {
        let candles = closes(&[1.0, 2.0, f64::NAN, 4.0]);
        let want = [None, Some(1.0 + 2.0 / 3.0), Some(1.0 + 2.0 / 3.0), Some(3.0 + 2.0 / 9.0)];
        check(&exponential_average(&candles, 2), &want);
        check(&exponential_average(&candles, 9), &[None; 4]);
    }

    #[test]
    fn bollinger_bands_are_two_deviations_from_the_mean() {
        let candles = closes(&[1.0, 3.0, 3.0, f64::INFINITY]);
        check(&band(&candles, 2, 2.0), &[None, Some(4.0), Some(3.0), None]);
        check(&band(&candles, 2, -2.0), &[None, Some(0.0), Some(3.0), None]);
        check(&band(&candles, 0, 2.0), &[None; 4]);
        check(&band(&[], 2, 2.0), &[]);
    }
}
