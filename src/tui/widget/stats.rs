//! What a set or a series of numbers is like: quartiles, outliers, averages along the way.

use super::candles::Candle;

/// The middle half of a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    /// A quarter is below.
    pub lower: f64,
    /// Half is below.
    pub median: f64,
    /// A quarter is above.
    pub upper: f64,
}

/// An outlier is this many median deviations from the median, as in the network's own rule for
/// leaving values out.
const OUTLIER_DEVIATIONS: f64 = 3.0;

impl Quartiles {
    /// Returns the quartiles of the numbers among `values`; none if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            lower: quantile(&sorted, 1, 4)?,
            median: quantile(&sorted, 1, 2)?,
            upper: quantile(&sorted, 3, 4)?,
        })
    }
}

/// The value below which `part` of `whole` parts of the sorted numbers are, between neighbors in
/// proportion.
fn quantile(sorted: &[f64], part: usize, whole: usize) -> Option<f64> {
    let steps = sorted.len().checked_sub(1)?.saturating_mul(part);
    let (idx, rest) = (steps / whole, steps % whole);
    let lower = sorted.get(idx)?;
    let upper = sorted.get(idx + 1).unwrap_or(lower);
    let share = f64::from(u8::try_from(rest).unwrap_or(0)) / f64::from(u8::try_from(whole).ok()?);
    Some(lower * (1.0 - share) + upper * share)
}

/// Tells for each of `values` whether it is an outlier: further from the median than three times
/// the median of these distances. What is no number is none either.
#[must_use]
pub fn outliers(values: &[f64]) -> Vec<bool> {
    let Some(Quartiles { median, .. }) = Quartiles::of(values) else {
        return vec![false; values.len()];
    };
    let distances: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    let deviation = Quartiles::of(&distances).map_or(0.0, |distances| distances.median);
    distances
        .iter()
        .map(|distance| deviation > 0.0 && *distance > OUTLIER_DEVIATIONS * deviation)
        .collect()
}

/// Returns, for each candle, the mean of its close and the `n - 1` before it; none for the first
/// ones, and where a value is no number.
#[must_use]
pub fn moving_average(candles: &[Candle], n: usize) -> Vec<Option<f64>> {
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

/// Returns, for each candle, the mean price from the first one on, weighted by volume; none until
/// there is a volume.
#[must_use]
pub fn volume_weighted_average(candles: &[Candle]) -> Vec<Option<f64>> {
    let (mut paid, mut volume) = (0.0, 0.0);
    candles
        .iter()
        .map(|candle| {
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
