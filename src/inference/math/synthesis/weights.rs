//! Weights of actors by their regrets.
//!
//! Both generations of the chain use the gradient of the potential ln(1 + e^(p(x − c))) at the actor's
//! regret, measured in units of a common scale. They differ in the scale and in the behavior far from
//! the center.

use crate::math::statistics::{deviation, robust_deviation};

/// The 2024 weights are constant above the center plus this number divided by p.
const CEILING_2024: f64 = 6.75;

/// If the best actor of 2024 is more than this number divided by p below the center, all actors are
/// lifted by the excess.
const BEST_2024: f64 = 8.25;

/// A 2024 weight is zero below the center minus this number divided by p.
const FLOOR_2024: f64 = 17.25;

/// Weight function of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
pub enum Generation {
    /// Since version 0.17: a robust scale that is stored with losses and a weight of exactly 1 for the
    /// best actor.
    #[strum(serialize = "mad-v0.17")]
    MadV017,
    /// October 2024: the sample deviation of the current regrets, clamped at both ends.
    #[strum(serialize = "stdev-oct2024")]
    StdevOct2024,
}

/// Settings of the weight function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// Weight function.
    pub generation: Generation,
    /// Preference for the best actors: the topic's `p_norm`.
    pub p_norm: f64,
    /// Center in units of the scale: the topic's `c_norm`.
    pub c_norm: f64,
    /// Minimum scale: the topic's `epsilon`.
    pub epsilon: f64,
    /// Minimum sum of weights.
    pub epsilon_safe_div: f64,
    /// Scale stored with the latest losses. Without it, [`weights`] uses the scale of its regrets.
    /// [`synthesize`](super::synthesize) uses a common scale for the whole epoch. Not used by
    /// [`Generation::StdevOct2024`].
    pub regret_scale: Option<f64>,
}

impl Params {
    /// Returns the stored scale, if this generation uses it.
    pub(crate) fn common_scale(&self) -> Option<f64> {
        match self.generation {
            Generation::MadV017 => self.regret_scale.filter(|scale| *scale > 0.0),
            Generation::StdevOct2024 => None,
        }
    }
}

/// Returns the scale of `regrets`: their spread plus the topic's epsilon, never 0.
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

/// Replaces each regret of `line` by its weight. A regret of -∞ has no weight and does not affect the
/// line's scale.
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

/// Returns the function from a regret to its weight, given the `best` regret and the `scale`.
///
/// Values proportional to 1 / (1 + e^z) are multiplied by a factor that prevents underflow of the
/// greatest.
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

/// Returns the dot product of `values` and `weights`, ignoring the excess of the longer one. Four
/// independent sums allow the processor to add in parallel.
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

/// Returns `weights` divided by their sum, or `None` if the sum is zero.
pub fn normalized(weights: &[f64]) -> Option<Vec<f64>> {
    let sum: f64 = weights.iter().sum();
    (sum > 0.0 && sum.is_finite()).then(|| weights.iter().map(|weight| weight / sum).collect())
}

#[cfg(test)]
mod tests;
