//! Losses: distances of values from the ground truth.
//!
//! The definitions and defaults come from the chain's reputers, in the repository
//! `allora-network/allora-sdk-py`: `src/allora_sdk/loss_methods/` (`squared_error.py`,
//! `absolute_error.py`, `huber.py`, `log_cosh.py`, `binary_cross_entropy.py`, `poisson.py`, `ztae.py`,
//! `zptae.py`), and `example_reputer_realistic/czar.py` for CZAR. `ce` is not from there.

use std::convert::Infallible;
use std::f64::consts::LN_2;
use std::ops::RangeInclusive;

use super::statistics::population_deviation;

/// Number of latest ground truths whose standard deviation scales a loss, as the `window` in the chain's
/// `example_reputer_realistic/ground_truth.py`.
pub const TRUTHS_MAX: usize = 100;

/// Minimum number of ground truths for an estimate of their standard deviation. Fewer ground truths can
/// be close together by chance, which would make losses very large.
const TRUTHS_MIN: usize = 10;

/// Largest loss, like the squared error of the largest accepted value, so that powers do not overflow.
const LOSS_MAX: f64 = 1e80;

/// Range of scales.
const SCALE: RangeInclusive<f64> = 1e-12..=1e40;

/// Range of shares.
const SHARE: RangeInclusive<f64> = 0.0..=1.0;

/// Range of the parameter `mean`: the range of accepted values.
const CENTER: RangeInclusive<f64> = -1e40..=1e40;

/// Name and range of a parameter.
type Parameter = (&'static str, RangeInclusive<f64>);

/// Loss function.
///
/// With several labels, the loss is the sum over the labels. The ground truth of a classification is 1
/// for one label and 0 for the other labels, so the squared error is the Brier score (0 to 2), and the
/// cross entropy is the negative logarithm of the true label's probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum LossMethod {
    /// `mse`, or `sqe`: squared error. Shown as `mse`.
    #[strum(to_string = "mse", serialize = "sqe")]
    Mse,
    /// `mae`, or `abse`: absolute error. Shown as `mae`.
    #[strum(to_string = "mae", serialize = "abse")]
    Mae,
    /// `huber`: squared for errors up to `delta`, linear for larger errors.
    Huber,
    /// `logcosh`: smooth variant of `huber`.
    LogCosh,
    /// `ce`: cross entropy of a distribution.
    #[strum(serialize = "ce")]
    CrossEntropy,
    /// `bce`: binary cross entropy of a probability.
    Bce,
    /// `poisson`: negative logarithm of the likelihood of a count, without its constant. Can be negative.
    Poisson,
    /// `ztae`: absolute error of the hyperbolic tangents of z-scores.
    Ztae,
    /// `zptae`: absolute error like that of `ztae`, but with a power law instead of the hyperbolic
    /// tangent, plus a penalty for large errors.
    Zptae,
    /// `czar`: composite zero-agnostic return loss.
    Czar,
}

/// Parameters of a loss function; `None` for the default. By default, the standard deviation of the
/// ground truth is estimated from the latest [`TRUTHS_MAX`] ground truths, and its mean is 0, which suits
/// returns.
pub type LossParameters = wire::inference::network::LossParameters<f64>;

/// Loss function and scale of a topic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossRule {
    /// Function that compares a value with the ground truth.
    pub method: LossMethod,
    /// Parameters of the loss function.
    pub parameters: LossParameters,
    /// True to use losses as they are, and false to use their base-10 logarithms, as on the chain.
    pub allow_negative: bool,
    /// Lower bound of a loss before the logarithm, since actors with smaller losses differ only by
    /// luck.
    pub floor: f64,
}

impl LossRule {
    /// Returns the loss of `values`, given the ground truth.
    pub fn loss(&self, values: &[f64], truth: &[f64]) -> f64 {
        let pairs = values.iter().zip(truth);
        let loss: f64 = pairs.map(|(value, truth)| self.of_label(*value, *truth)).sum();
        // Unlike `max`, `clamp` does not replace NaN.
        if self.allow_negative { loss } else { loss.clamp(self.floor, f64::INFINITY).log10() }
    }

    /// Returns the unit of the losses: the function with its parameters, and the logarithm. Losses in
    /// different units cannot be compared.
    pub fn unit(&self) -> String {
        let parameters = given(self.parameters).into_iter();
        let parameters = parameters.map(|(name, value)| format!(" {name}={value}"));
        let scale = if self.allow_negative { "" } else { "log10 " };
        format!("{scale}{}{}", self.method, parameters.collect::<String>())
    }

    /// Converts a loss of this rule to a plain loss: reverts the logarithm if the rule uses one.
    pub fn plain(&self, loss: f64) -> f64 {
        if self.allow_negative { loss } else { 10.0_f64.powf(loss) }
    }

    /// Converts a plain loss to a loss of this rule: takes the logarithm if the rule uses one. The
    /// inverse of [`Self::plain`]. The result is always finite.
    pub fn of_plain(&self, plain: f64) -> f64 {
        if self.allow_negative {
            plain.clamp(f64::MIN, f64::MAX)
        } else {
            plain.clamp(self.floor, f64::MAX).log10()
        }
    }

    /// Returns true if losses depend on the standard deviation of past ground truths.
    pub const fn is_scaled(&self) -> bool {
        self.method.has_deviation() && self.parameters.std.is_none()
    }

    /// Returns this rule with the standard deviation of the latest `truths`. It is 1, the default of the
    /// SDK's functions, for fewer than ten ground truths or if all are equal.
    #[must_use]
    pub fn scaled_by(mut self, truths: &[f64]) -> Self {
        // The chain's reputer also uses the standard deviation of the population.
        let std = population_deviation(truths);
        let is_known = truths.len() >= TRUTHS_MIN && SCALE.contains(&std);
        self.parameters.std = Some(if is_known { std } else { 1.0 });
        self
    }

    /// Returns a description of the first parameter that is out of range or not a parameter of the
    /// method.
    pub fn find_fault(&self) -> Option<String> {
        let (method, known) = (self.method, self.method.parameters());
        given(self.parameters).into_iter().find_map(|(name, value)| {
            match known.iter().find(|(known, _)| *known == name) {
                Some((_, range)) if range.contains(&value) => None,
                Some((_, range)) => {
                    let (least, most) = (range.start(), range.end());
                    Some(format!("loss_parameters.{name} must be from {least:?} to {most:?}"))
                }
                None => {
                    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                    let names =
                        if names.is_empty() { "no parameters".into() } else { names.join(", ") };
                    Some(format!(
                        "loss_parameters.{name} does not apply to {method}, which has {names}"
                    ))
                }
            }
        })
    }

    /// Returns the loss of one label.
    fn of_label(&self, value: f64, truth: f64) -> f64 {
        let error = (value - truth).abs();
        let known = self.parameters;
        let mean = known.mean.unwrap_or(0.0);
        let score = |value: f64| (value - mean) / known.std.unwrap_or(1.0);
        match self.method {
            _ if self.method.takes_probabilities() && !SHARE.contains(&truth) => f64::NAN,
            LossMethod::Mse => error * error,
            LossMethod::Mae => error,
            LossMethod::Huber => match known.delta.unwrap_or(1.0) {
                delta if error <= delta => error * error / 2.0,
                delta => delta * (error - delta / 2.0),
            },
            // Equals ln(cosh(error)), but does not overflow.
            LossMethod::LogCosh => error + (-2.0 * error).exp().ln_1p() - LN_2,
            // Bounds the probability from below, so that a probability of 0 for the true label has a
            // high but finite loss.
            LossMethod::CrossEntropy => -truth * value.max(1e-9).ln(),
            LossMethod::Bce => binary_cross_entropy(value, truth, known.epsilon.unwrap_or(1e-15)),
            LossMethod::Poisson if truth < 0.0 => f64::NAN,
            LossMethod::Poisson => {
                let value = value.max(known.epsilon.unwrap_or(1e-7));
                value - truth * value.ln()
            }
            LossMethod::Ztae => (score(truth).tanh() - score(value).tanh()).abs(),
            LossMethod::Zptae => {
                let (alpha, beta) = (known.alpha.unwrap_or(0.25), known.beta.unwrap_or(2.0));
                let (truth, value) = (score(truth), score(value));
                let apart = power_tanh(truth, alpha, beta) - power_tanh(value, alpha, beta);
                let penalty = known.mse_norm.unwrap_or(0.01) * (value - truth).abs();
                (apart.abs() + penalty.powf(known.gamma.unwrap_or(4.0))).min(LOSS_MAX)
            }
            LossMethod::Czar => czar(score(value), score(truth), &known).min(LOSS_MAX),
        }
    }
}

impl LossMethod {
    /// Returns true if the losses compare z-scores, for which a standard deviation is needed.
    pub const fn has_deviation(self) -> bool {
        matches!(self, Self::Ztae | Self::Zptae | Self::Czar)
    }

    /// Returns true if the losses compare probabilities, which are from 0 to 1.
    pub const fn takes_probabilities(self) -> bool {
        matches!(self, Self::CrossEntropy | Self::Bce)
    }

    /// Returns the parameters of the method.
    fn parameters(self) -> Vec<Parameter> {
        let mut known = match self {
            Self::Huber => vec![("delta", SCALE)],
            Self::Bce => vec![("epsilon", 1e-300..=0.1)],
            Self::Poisson => vec![("epsilon", 1e-300..=1.0)],
            Self::Zptae => vec![
                ("alpha", SHARE),
                ("beta", 0.01..=100.0),
                ("gamma", 0.01..=100.0),
                ("mse_norm", 0.0..=1e6),
            ],
            Self::Czar => vec![("alpha", SHARE), ("epsilon", 0.0..=100.0), ("tau", SHARE)],
            _ => Vec::new(),
        };
        if self.has_deviation() {
            known.extend([("std", SCALE), ("mean", CENTER)]);
        }
        known
    }
}

/// Returns the parameters that are not left to their defaults, by name.
fn given(parameters: LossParameters) -> Vec<(&'static str, f64)> {
    let mut given = Vec::new();
    let Ok(_) = parameters.try_map(|path, value| {
        given.push((path.trim_start_matches("loss_parameters."), value));
        Ok::<_, Infallible>(value)
    });
    given
}

/// Returns the binary cross entropy. A prediction of 0 for the ground truth 1, or the reverse, has an
/// infinite loss in the SDK. Here the minimum probability `epsilon` applies to these predictions, too,
/// since the network could not learn from an epoch with an infinite loss.
fn binary_cross_entropy(value: f64, truth: f64, epsilon: f64) -> f64 {
    let value = value.clamp(epsilon, 1.0 - epsilon);
    let loss = -(truth * value.ln() + (1.0 - truth) * (1.0 - value).ln());
    if loss <= epsilon { 0.0 } else { loss }
}

/// Returns `x` where it is small, and ±|x|^`alpha` where it is large.
fn power_tanh(x: f64, alpha: f64, beta: f64) -> f64 {
    let power = x.abs().powf(beta);
    if power.is_infinite() {
        return x.abs().powf(alpha).copysign(x);
    }
    x / (1.0 + power).powf((1.0 - alpha) / beta)
}

/// Returns the CZAR loss of z-scores: nearly linear for values of the wrong sign, an arctangent up to
/// the ground truth, and flatter beyond it. For ground truths close to zero, a softening term is added,
/// which does not depend on the value.
fn czar(value: f64, truth: f64, known: &LossParameters) -> f64 {
    // The second derivative of the arctangent is extreme at ±1/√3.
    let delta = known.alpha.unwrap_or(0.01) / 3.0_f64.sqrt();
    let base = czar_base(value, truth, delta);
    let epsilon = known.epsilon.unwrap_or(1.0);
    // The softening is at most epsilon, so it is negligible here. An epsilon of 0 would cause a division
    // by 0.
    if epsilon < 1e-9 {
        return base;
    }
    // Solves bend · x² + x = softening. The solution is the value whose loss for the ground truth 0
    // equals the loss of the value 0 for the ground truth epsilon.
    let bend = delta / (1.0 + delta * delta);
    let softening = arc(0.0, epsilon, delta);
    let effective = if bend == 0.0 {
        softening
    } else {
        ((1.0 + 4.0 * bend * softening).sqrt() - 1.0) / (2.0 * bend)
    };
    let full = effective + bend * effective * effective;
    let least = 1.0 - arc(0.0, truth.abs(), delta) / full;
    let tau = known.tau.unwrap_or(0.05);
    // The width of the transition is relative to the limit of `least` for large ground truths.
    let width = tau * (1.0 - arc(0.0, f64::INFINITY, delta) / full).abs();
    let share =
        if width < 1e-9 { least.max(0.0) } else { softplus(least / width) / softplus(1.0 / width) };
    base + share * czar_base(effective, 0.0, delta)
}

/// Returns the CZAR loss without softening.
fn czar_base(value: f64, truth: f64, delta: f64) -> f64 {
    let scale = 1.0 + delta * delta;
    let slope = |x: f64| scale / (1.0 + x * x);
    let curve = |x: f64| scale * 2.0 * x / (1.0 + x * x).powi(2);
    // Losses for negative truths are mirrored.
    let value = if truth < 0.0 { -value } else { value };
    let truth = truth.abs();
    if value <= 0.0 {
        curve(delta) * value * value / 2.0 - value + arc(0.0, truth, delta)
    } else if value <= truth {
        arc(value, truth, delta)
    } else {
        let beyond = value - truth;
        let bend = curve(truth + delta).min(curve(delta));
        bend * beyond * beyond / 2.0 + slope(truth + delta) * beyond
    }
}

/// Returns the CZAR loss of a value that falls short of a positive truth: the arctangent from the value
/// to the truth.
fn arc(value: f64, truth: f64, delta: f64) -> f64 {
    (1.0 + delta * delta) * ((truth + delta).atan() - (value + delta).atan())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_PI_2;

    use super::*;

    fn rule(method: LossMethod) -> LossRule {
        LossRule {
            method,
            parameters: LossParameters::default(),
            allow_negative: true,
            floor: 1e-3,
        }
    }

    #[track_caller]
    fn check(method: LossMethod, values: &[f64], truth: &[f64], want: f64) {
        check_with(method, LossParameters::default(), values, truth, want);
    }

    #[track_caller]
    fn check_with(
        method: LossMethod,
        parameters: LossParameters,
        values: &[f64],
        truth: &[f64],
        want: f64,
    ) {
        let plain = LossRule { parameters, ..rule(method) };
        assert_eq!(plain.find_fault(), None);
        let got = plain.loss(values, truth);
        assert!((got - want).abs() < 1e-9, "{got} is not {want}");
        let log = LossRule { allow_negative: false, ..plain }.loss(values, truth);
        assert!((log - want.max(1e-3).log10()).abs() < 1e-9);
        assert_eq!(method.to_string().parse(), Ok(method));
    }

    fn z_scores(std: f64) -> LossParameters {
        LossParameters { std: Some(std), ..LossParameters::default() }
    }

    #[test]
    fn each_loss_method_for_single_values_returns_the_expected_loss() {
        check(LossMethod::Mse, &[5.0], &[2.0], 9.0);
        check(LossMethod::Mae, &[5.0], &[2.0], 3.0);
        check(LossMethod::Huber, &[5.0], &[2.0], 2.5);
        check(LossMethod::Huber, &[2.5], &[2.0], 0.125);
        // 2 · (3 − 2 / 2)
        let delta = LossParameters { delta: Some(2.0), ..LossParameters::default() };
        check_with(LossMethod::Huber, delta, &[5.0], &[2.0], 4.0);
        check(LossMethod::LogCosh, &[2.5], &[2.0], 0.5_f64.cosh().ln());
        check(LossMethod::Mse, &[2.0], &[2.0], 0.0);
        assert_eq!("sqe".parse(), Ok(LossMethod::Mse));
        assert_eq!("abse".parse(), Ok(LossMethod::Mae));
    }

    #[test]
    fn loss_of_a_probability_is_the_binary_cross_entropy() {
        // −ln 0.7, for the event and against it.
        check(LossMethod::Bce, &[0.7], &[1.0], 0.356_674_943_938_732_4);
        check(LossMethod::Bce, &[0.3], &[0.0], 0.356_674_943_938_732_4);
        // −0.25 · ln 0.5 − 0.75 · ln 0.5 = ln 2
        check(LossMethod::Bce, &[0.5], &[0.25], LN_2);
        check(LossMethod::Bce, &[1.0], &[1.0], 0.0);
        // −ln 1e-15 = 15 · ln 10. The wrong certainty of a worker has a finite loss.
        check(LossMethod::Bce, &[0.0], &[1.0], 34.538_776_394_910_684);
        // −ln 0.01 = 2 · ln 10
        let epsilon = LossParameters { epsilon: Some(0.01), ..LossParameters::default() };
        check_with(LossMethod::Bce, epsilon, &[0.0], &[1.0], 4.605_170_185_988_091);
    }

    #[test]
    fn loss_of_a_count_is_the_poisson_loss() {
        // 3 − 2 · ln 3, and 4 − 5 · ln 4
        check(LossMethod::Poisson, &[3.0], &[2.0], 0.802_775_422_663_780_6);
        check(LossMethod::Poisson, &[4.0], &[5.0], -2.931_471_805_599_453);
        // 1e-7 − ln 1e-7 = 1e-7 + 7 · ln 10
        check(LossMethod::Poisson, &[0.0], &[1.0], 16.118_095_750_958_32);
        assert!(rule(LossMethod::Poisson).loss(&[1.0], &[-1.0]).is_nan());
    }

    #[test]
    fn loss_of_a_truth_that_is_not_a_probability_is_nan_even_with_a_logarithm() {
        for method in [LossMethod::Bce, LossMethod::CrossEntropy] {
            let rule = LossRule { allow_negative: false, ..rule(method) };
            assert!(rule.loss(&[0.5], &[115.0]).is_nan(), "{method}");
        }
    }

    #[test]
    fn ztae_and_zptae_losses_are_computed_from_z_scores() {
        // tanh 1 − tanh 0.5 = 0.761594155956 − 0.462117157260
        check_with(LossMethod::Ztae, z_scores(0.02), &[0.02], &[0.01], 0.299_476_998_695_755_1);
        // (2 − 1) / 2 and (1 − 1) / 2: tanh 0.5 − tanh 0
        let mean = LossParameters { mean: Some(1.0), ..z_scores(2.0) };
        check_with(LossMethod::Ztae, mean, &[2.0], &[1.0], 0.462_117_157_260_009_8);
        // 1 / 2^0.375 − 0.5 / 1.25^0.375 + (0.01 · 0.5)^4
        check_with(LossMethod::Zptae, z_scores(0.02), &[0.02], &[0.01], 0.311_242_115_502_200_1);
        // 200 / 40001^0.375 + 5 / 26^0.375 + (0.01 · 205)^4, of which the penalty is 17.66100625
        check_with(LossMethod::Zptae, z_scores(0.02), &[-4.0], &[0.1], 22.895_090_572_882_96);
        // 1 / (1 + 1)^0.5 − 0 + (0.1 · 1)^2
        let all = LossParameters {
            mean: Some(1.0),
            alpha: Some(0.5),
            beta: Some(1.0),
            gamma: Some(2.0),
            mse_norm: Some(0.1),
            ..z_scores(2.0)
        };
        check_with(LossMethod::Zptae, all, &[3.0], &[1.0], 0.717_106_781_186_547_6);
        // Powers of the largest values do not overflow.
        let rule = LossRule { parameters: all, ..rule(LossMethod::Zptae) };
        assert!(rule.loss(&[1e40], &[-1e40]).is_finite());
    }

    #[test]
    fn czar_loss_differs_for_the_wrong_sign_and_for_values_below_or_beyond_the_truth() {
        let hard = LossParameters { alpha: Some(0.0), epsilon: Some(0.0), ..z_scores(1.0) };
        // The wrong sign: 1 + atan 1. Short of the truth: atan 2 − atan 1. Beyond it: 2 / (1 + 1²).
        for sign in [1.0, -1.0] {
            check_with(LossMethod::Czar, hard, &[-sign], &[sign], 1.785_398_163_397_448_3);
            check_with(LossMethod::Czar, hard, &[sign], &[2.0 * sign], 0.321_750_554_396_642_2);
            check_with(LossMethod::Czar, hard, &[3.0 * sign], &[sign], 1.0);
        }
        // For the truth 0, the softening adds atan 1, which is π / 4.
        let soft = LossParameters { epsilon: None, ..hard };
        check_with(LossMethod::Czar, soft, &[0.0], &[0.0], FRAC_PI_2 / 2.0);
    }

    #[test]
    fn czar_losses_equal_the_losses_of_the_reference_implementation() {
        // Results of `czar_loss` in `example_reputer_realistic/czar.py` with these arguments.
        let usual = z_scores(0.02);
        check_with(LossMethod::Czar, usual, &[0.02], &[0.01], 0.719_649_502_613_701_3);
        check_with(LossMethod::Czar, usual, &[-0.02], &[0.01], 1.788_313_522_890_596_6);
        check_with(LossMethod::Czar, usual, &[-0.01], &[-0.03], 0.516_585_316_281_888_3);
        check_with(LossMethod::Czar, usual, &[0.0], &[0.0], 0.782_529_242_342_903_2);
        check_with(LossMethod::Czar, usual, &[0.001], &[0.004], 0.732_585_249_385_722_8);
        let other = LossParameters {
            mean: Some(0.001),
            alpha: Some(1.0),
            epsilon: Some(0.5),
            tau: Some(0.0),
            ..usual
        };
        check_with(LossMethod::Czar, other, &[0.02], &[0.01], 0.437_034_382_638_007_5);
        check_with(LossMethod::Czar, other, &[-0.02], &[0.01], 1.926_086_180_393_706_6);
        check_with(LossMethod::Czar, other, &[-0.01], &[-0.03], 0.381_585_777_167_637_7);
        check_with(LossMethod::Czar, other, &[0.0], &[0.0], 0.349_771_228_549_692_5);
        check_with(LossMethod::Czar, other, &[0.001], &[0.004], 0.398_689_676_557_534_96);
    }

    #[test]
    fn losses_are_scaled_by_the_standard_deviation_of_past_truths() {
        let rule = rule(LossMethod::Ztae);
        assert!(rule.is_scaled());
        // Standard deviation of the population: five times 1 and five times 5 are 2 from their mean 3.
        let truths = [1.0, 5.0, 1.0, 5.0, 1.0, 5.0, 1.0, 5.0, 1.0, 5.0];
        assert_eq!(rule.scaled_by(&truths).parameters.std, Some(2.0));
        assert_eq!(rule.scaled_by(&truths[1..]).parameters.std, Some(1.0));
        assert_eq!(rule.scaled_by(&[7.0; 20]).parameters.std, Some(1.0));
    }

    #[track_caller]
    fn check_fault(method: LossMethod, parameters: LossParameters, want: &str) {
        let rule = LossRule { parameters, ..rule(method) };
        assert_eq!(rule.find_fault().as_deref(), Some(want));
    }

    #[test]
    fn invalid_parameters_are_rejected_by_name() {
        let alpha = LossParameters { alpha: Some(1.5), ..LossParameters::default() };
        check_fault(LossMethod::Czar, alpha, "loss_parameters.alpha must be from 0.0 to 1.0");
        let unknown = "loss_parameters.alpha does not apply to mse, which has no parameters";
        check_fault(LossMethod::Mse, alpha, unknown);
        let unknown = "loss_parameters.alpha does not apply to ztae, which has std, mean";
        check_fault(LossMethod::Ztae, alpha, unknown);
        let std = "loss_parameters.std must be from 1e-12 to 1e40";
        check_fault(LossMethod::Ztae, z_scores(0.0), std);
    }

    #[test]
    fn loss_of_a_distribution_is_its_brier_score_or_cross_entropy() {
        check(LossMethod::Mse, &[0.5, 0.3, 0.2], &[1.0, 0.0, 0.0], 0.38);
        check(LossMethod::CrossEntropy, &[0.5, 0.3, 0.2], &[1.0, 0.0, 0.0], -(0.5_f64.ln()));
    }

    #[test]
    fn unknown_loss_methods_are_rejected() {
        assert!("rmse".parse::<LossMethod>().is_err());
    }
}
