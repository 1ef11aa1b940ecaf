//! Losses: distances of values from the ground truth.

/// Largest error that the Huber loss squares. The loss of larger errors is linear.
const HUBER_DELTA: f64 = 1.0;

/// Loss function.
///
/// With several labels, the loss is the sum over the labels. The ground truth of a classification is 1
/// for one label and 0 for the others, so the squared error is the Brier score (0 to 2), and the cross
/// entropy is the negative logarithm of the true label's probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum LossMethod {
    /// `mse`: squared error.
    Mse,
    /// `mae`: absolute error.
    Mae,
    /// `huber`: squared for errors up to 1, linear for larger errors.
    Huber,
    /// `logcosh`: smooth variant of `huber`.
    LogCosh,
    /// `ce`: cross entropy of a distribution.
    #[strum(serialize = "ce")]
    CrossEntropy,
}

/// Loss function and scale of a topic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossRule {
    /// Loss function.
    pub method: LossMethod,
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
        let loss: f64 = pairs.map(|(value, truth)| self.method.of_label(*value, *truth)).sum();
        if self.allow_negative { loss } else { loss.max(self.floor).log10() }
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
}

impl LossMethod {
    fn of_label(self, value: f64, truth: f64) -> f64 {
        let error = (value - truth).abs();
        match self {
            Self::Mse => error * error,
            Self::Mae => error,
            Self::Huber if error <= HUBER_DELTA => error * error / 2.0,
            Self::Huber => HUBER_DELTA * (error - HUBER_DELTA / 2.0),
            // Equals ln(cosh(error)), but does not overflow.
            Self::LogCosh => error + (-2.0 * error).exp().ln_1p() - std::f64::consts::LN_2,
            // Bounds the probability from below, so that a probability of 0 for the true label has a
            // high but finite loss.
            Self::CrossEntropy => -truth * value.max(1e-9).ln(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: LossMethod, values: &[f64], truth: &[f64], want: f64) {
        let got = LossRule { method, allow_negative: true, floor: 1e-3 }.loss(values, truth);
        assert!((got - want).abs() < 1e-9, "{got} is not {want}");
        let log = LossRule { method, allow_negative: false, floor: 1e-3 }.loss(values, truth);
        assert!((log - want.max(1e-3).log10()).abs() < 1e-9);
        assert_eq!(method.to_string().parse(), Ok(method));
    }

    #[test]
    fn loss_of_a_value_is_computed_by_each_method() {
        check(LossMethod::Mse, &[5.0], &[2.0], 9.0);
        check(LossMethod::Mae, &[5.0], &[2.0], 3.0);
        check(LossMethod::Huber, &[5.0], &[2.0], 2.5);
        check(LossMethod::Huber, &[2.5], &[2.0], 0.125);
        check(LossMethod::LogCosh, &[2.5], &[2.0], 0.5_f64.cosh().ln());
        check(LossMethod::Mse, &[2.0], &[2.0], 0.0);
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
