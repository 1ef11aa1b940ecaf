//! Weights: how much an actor counts, by how much the network would regret not to have it.
//!
//! Both generations of the chain take the gradient of the potential ln(1 + e^(p(x − c))) at the
//! actor's regret, measured in units of a common scale. They differ in the scale and in what they
//! do far from the center.

use crate::math::statistics::{deviation, robust_deviation};

/// From this far above the center (over p) on, the 2024 weights no longer grow.
const CEILING_2024: f64 = 6.75;

/// The 2024 weights lift everybody so that the best is at most this far below the center (over p).
const BEST_2024: f64 = 8.25;

/// Below the center by more than this (over p), a 2024 weight is nothing.
const FLOOR_2024: f64 = 17.25;

/// Which of the chain's two weight functions is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
pub enum Generation {
    /// Since version 0.17: a robust scale that is stored when losses are learned, and the best
    /// actor's weight is exactly 1.
    #[strum(serialize = "mad-v0.17")]
    MadV017,
    /// October 2024: the sample deviation of the regrets at hand, clamped at both ends.
    #[strum(serialize = "stdev-oct2024")]
    StdevOct2024,
}

/// The settings that turn regrets into weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// Which weight function.
    pub generation: Generation,
    /// The topic's `p_norm`: how sharply the best are preferred.
    pub p_norm: f64,
    /// The topic's `c_norm`: the center, in units of the scale.
    pub c_norm: f64,
    /// The topic's `epsilon`: what keeps the scale from zero.
    pub epsilon: f64,
    /// What keeps a sum of weights from zero.
    pub epsilon_safe_div: f64,
    /// The scale stored when losses were last learned; without it [`weights`] takes that of the
    /// regrets it is given, and [`synthesize`](super::synthesize) one for the whole epoch.
    /// [`Generation::StdevOct2024`] always takes its own.
    pub regret_scale: Option<f64>,
}

impl Params {
    /// The stored scale, where this generation uses it and there is one.
    pub(crate) fn common_scale(&self) -> Option<f64> {
        match self.generation {
            Generation::MadV017 => self.regret_scale.filter(|scale| *scale > 0.0),
            Generation::StdevOct2024 => None,
        }
    }
}

/// Returns the scale of `regrets`: their spread, plus the topic's epsilon. Never 0.
pub fn scale(regrets: &[f64], params: &Params) -> f64 {
    let spread = match params.generation {
        Generation::MadV017 => robust_deviation(regrets),
        Generation::StdevOct2024 => deviation(regrets),
    };
    spread + params.epsilon
}

/// Returns a weight for each of `regrets`, in their order; 0 or more, and not summing to anything.
pub fn weights(regrets: &[f64], params: &Params) -> Vec<f64> {
    let mut line = regrets.to_vec();
    weigh(&mut line, params);
    line
}

/// Puts its weight in the place of each regret of `line`. One that is -∞ has no weight, and no say
/// in a scale of the line's own.
pub fn weigh(line: &mut [f64], params: &Params) {
    let scale = params.common_scale().unwrap_or_else(|| {
        let counting: Vec<f64> = line.iter().copied().filter(|r| r.is_finite()).collect();
        scale(&counting, params)
    });
    let best = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if best == f64::NEG_INFINITY {
        return line.fill(0.0);
    }
    let weight = weight_beside(best, scale, params);
    for place in line {
        *place = weight(*place);
    }
}

/// Returns the function that gives the weight of a regret beside the `best` one, where regrets are
/// measured by `scale`.
///
/// Heights in proportion to 1 / (1 + e^z) are multiplied by a factor that keeps the greatest of them
/// from vanishing.
pub fn weight_beside(best: f64, scale: f64, params: &Params) -> impl Fn(f64) -> f64 {
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

/// The sum of the products of `values` and `weights`, as far as both go. Four sums run side by side,
/// so that none waits for another.
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

/// Returns `weights` divided by their sum; none where they sum to nothing.
pub fn normalized(weights: &[f64]) -> Option<Vec<f64>> {
    let sum: f64 = weights.iter().sum();
    (sum > 0.0 && sum.is_finite()).then(|| weights.iter().map(|weight| weight / sum).collect())
}

#[cfg(test)]
mod tests;
