//! Conversion of actors' regrets to weights.
//!
//! In both generations of the chain, a weight is the derivative of the potential ln(1 + e^(p(x − c))),
//! where x is the actor's regret divided by a scale. The generations differ in this scale and in the
//! weights far from the center c.

use std::ops::RangeInclusive;

use crate::math::statistics::{deviation, robust_deviation};

/// In the generation of 2024, the weight is constant for x above c + `CEILING_2024` / p.
const CEILING_2024: f64 = 6.75;

/// In the generation of 2024, if the highest x is below c − `BEST_2024` / p, the same number is added
/// to each x, so that the highest reaches this bound.
const BEST_2024: f64 = 8.25;

/// In the generation of 2024, the weight is zero for x below c − `FLOOR_2024` / p.
const FLOOR_2024: f64 = 17.25;

/// Weight function of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
pub enum Generation {
    /// Since version 0.17: the scale is a robust deviation, which is stored with the losses, and the
    /// best actor's weight is exactly 1.
    #[strum(serialize = "mad-v0.17")]
    MadV017,
    /// October 2024: the scale is the sample standard deviation of the current regrets, and weights are
    /// constant far from the center.
    #[strum(serialize = "stdev-oct2024")]
    StdevOct2024,
}

/// Settings of the weight function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// Form of the weight function.
    pub generation: Generation,
    /// Exponent p, with which the preference for the best actors increases: the topic's `p_norm`.
    pub p_norm: f64,
    /// Center c in units of the scale: the topic's `c_norm`.
    pub c_norm: f64,
    /// Number added to the spread of regrets, so that the scale is not 0: the topic's `epsilon`.
    pub epsilon: f64,
    /// Minimum divisor of a weighted mean.
    pub epsilon_safe_div: f64,
    /// Scale stored with the latest losses. If it is `None`, [`weights`] computes the scale of the
    /// given regrets, and [`synthesize`](super::synthesize) computes one scale for the whole epoch.
    /// [`Generation::StdevOct2024`] ignores it.
    pub regret_scale: Option<f64>,
}

impl Params {
    /// Returns the stored scale, or `None` if no scale is stored or the generation does not use it.
    pub(crate) fn common_scale(&self) -> Option<f64> {
        match self.generation {
            Generation::MadV017 => self.regret_scale.filter(|scale| *scale > 0.0),
            Generation::StdevOct2024 => None,
        }
    }
}

/// Returns the scale of `regrets`: their spread plus `epsilon`.
pub fn scale(regrets: &[f64], params: &Params) -> f64 {
    let spread = match params.generation {
        Generation::MadV017 => robust_deviation(regrets),
        Generation::StdevOct2024 => deviation(regrets),
    };
    spread + params.epsilon
}

/// Returns a non-negative weight for each of `regrets`, not normalized.
pub fn weights(regrets: &[f64], params: &Params) -> Vec<f64> {
    let mut line = regrets.to_vec();
    weigh(&mut line, params);
    line
}

/// Replaces each regret in `line` with its weight. A regret of -∞ excludes an actor: the weight is 0,
/// and the regret does not affect the scale.
pub fn weigh(line: &mut [f64], params: &Params) {
    let scale = params.common_scale().unwrap_or_else(|| {
        let counting: Vec<f64> = line.iter().copied().filter(|r| r.is_finite()).collect();
        scale(&counting, params)
    });
    let best = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if best == f64::NEG_INFINITY {
        return line.fill(0.0);
    }
    let weight = weight_function(best, scale, params);
    for place in line {
        *place = weight(*place);
    }
}

/// Returns the function that converts a regret to its weight, given the `best` regret and the `scale`.
///
/// Since version 0.17, a weight is 1 / (1 + e^(p(c − x))) divided by the same expression for the best
/// regret, where x is a regret divided by the scale. Both expressions are computed with a common factor,
/// so that the divisor does not underflow.
pub fn weight_function(best: f64, scale: f64, params: &Params) -> impl Fn(f64) -> f64 {
    let Params { generation, p_norm: p, c_norm: c, .. } = *params;
    let (center, slope) = (p * c, p / scale);
    let least = center - slope * best;
    let shift = least.max(0.0);
    let floor = (-shift).exp();
    let height = move |exponent: f64| 1.0 / (floor + (exponent - shift).exp());
    let top = height(least);
    let lift = (c - BEST_2024 / p - best / scale).max(0.0);
    move |regret| match generation {
        Generation::MadV017 => height(center - slope * regret) / top,
        Generation::StdevOct2024 => {
            let x = (regret / scale).min(c + CEILING_2024 / p) + lift;
            if x < c - FLOOR_2024 / p { 0.0 } else { p / ((p * (c - x)).exp() + 1.0) }
        }
    }
}

/// Returns the dot product of `values` and `weights`. If one slice is longer, its excess is ignored.
/// Four independent sums allow the processor to add in parallel.
pub fn dot(values: &[f64], weights: &[f64]) -> f64 {
    let n_common = values.len().min(weights.len());
    let (values, weights) = (values.split_at(n_common).0, weights.split_at(n_common).0);
    let (fours, rest) = values.as_chunks::<4>();
    let (weight_fours, weight_rest) = weights.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (four, weights) in fours.iter().zip(weight_fours) {
        sums = [0, 1, 2, 3].map(|idx| sums[idx] + four[idx] * weights[idx]);
    }
    let rest: f64 = rest.iter().zip(weight_rest).map(|(value, weight)| value * weight).sum();
    sums.iter().sum::<f64>() + rest
}

/// Returns the smallest and the largest of `values`.
pub fn range(values: &[f64]) -> RangeInclusive<f64> {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    min..=values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the weighted mean of values within `range`, from their weighted sum and the sum of their
/// weights. As on the chain, a `weight` below `weight_min` is replaced with it, which moves the mean
/// towards 0. Otherwise the mean is within the range, despite rounding errors.
pub fn mean_within(range: &RangeInclusive<f64>, sum: f64, weight: f64, weight_min: f64) -> f64 {
    let mean = sum / weight.max(weight_min);
    if weight < weight_min || range.is_empty() {
        return mean;
    }
    mean.clamp(*range.start(), *range.end())
}

/// Returns `weights` divided by their sum, or `None` if the sum is zero or not finite.
pub fn normalized(weights: &[f64]) -> Option<Vec<f64>> {
    let sum: f64 = weights.iter().sum();
    (sum > 0.0 && sum.is_finite()).then(|| weights.iter().map(|weight| weight / sum).collect())
}

#[cfg(test)]
mod tests;
