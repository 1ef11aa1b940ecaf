//! Checks of a topic's settings. Each describes the first invalid setting.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use model::text::is_unprintable;
use model::topic::{BlockHeight, SINGLE_LABEL};
use wire::inference::network::PredictorModelSettings;

use super::{
    DAY, EPOCH_LENGTH_MIN, Judging, LABELS_MAX, Retention, STRING_BYTES_MAX, SUBMISSIONS_MAX,
    Timing, Topic, ValueRange, is_valid_label,
};
use crate::math::loss::LossMethod;
use crate::network::topic::truth::Truth;

/// Maximum horizon in days. It is longer than the history of a typical dataset.
const HORIZON_DAYS_MAX: u32 = 366;

/// Maximum duration in blocks: more than a century with blocks of a second. Heights fit the chain's 64-bit
/// integers.
const BLOCKS_MAX: BlockHeight = 1 << 32;

/// Maximum number of workers on a whitelist.
const WHITELIST_MAX: usize = 2048;

/// Maximum number of models of a predictor, since each is executed in every epoch.
const MODELS_MAX: usize = 64;

/// Range of `p_norm` that the chain accepts since v0.17.
const P_NORM_RANGE: RangeInclusive<f64> = 2.5..=4.5;

impl Topic {
    /// Returns a description of the first settings that are inconsistent, or `None`.
    pub(super) fn find_misfit(&self) -> Option<String> {
        let Timing { epoch_length, worker_submission_window, ground_truth_lag } = self.timing;
        let mut sorted = self.labels.clone();
        sorted.sort();
        sorted.dedup();
        let are_valid = self.labels.iter().all(|label| is_valid_label(label, self.labeling));
        let has_single_label = !self.is_single() || self.labels == [SINGLE_LABEL];
        let are_few = self.labels.len() <= LABELS_MAX && sorted.len() == self.labels.len();
        let is_direction = matches!(self.truth, Truth::Direction { .. });
        let are_directions = sorted == ["down", "flat", "up"];
        let horizon = self.source.horizon;
        Some(if ground_truth_lag < epoch_length {
            "ground truth lag is shorter than the epoch".to_owned()
        } else if worker_submission_window == 0 || worker_submission_window > epoch_length {
            "submission window is not between 1 and the epoch length".to_owned()
        } else if !are_valid || !are_few || !has_single_label {
            format!(
                "labels must be at most {LABELS_MAX} distinct short names, and only `y` for a single output"
            )
        } else if self.unity_tolerance.is_some() && self.is_single() {
            "a single output cannot be required to sum to 1".to_owned()
        } else if self.unity_tolerance.is_some() && self.labeling.default != 0.0 {
            "values that sum to 1 need a default of 0".to_owned()
        } else if is_direction && (self.is_single() || !are_directions) {
            "a direction must have the labels up, down and flat".to_owned()
        } else if !is_direction && self.labels.len() != 1 {
            "the value of a column can be the ground truth of only one label".to_owned()
        } else if horizon < Duration::from_secs(1) || horizon > DAY * HORIZON_DAYS_MAX {
            format!(
                "horizon_seconds is missing, or not between 1 second and {HORIZON_DAYS_MAX} days"
            )
        } else {
            return None;
        })
    }

    /// Returns a description of the first text that is empty, too long, or not printable, or `None`.
    pub(super) fn find_invalid_text(&self) -> Option<String> {
        let predictor = self.predictor.as_ref();
        let texts = [
            ("metadata", Some(&self.name)),
            ("dataset", Some(&self.source.dataset)),
            ("column", Some(&self.source.column)),
            ("function", predictor.map(|predictor| &predictor.function)),
            ("method", predictor.map(|predictor| &predictor.method)),
        ];
        let is_invalid = |text: &String| {
            text.trim().is_empty()
                || text.len() > STRING_BYTES_MAX
                || text.chars().any(is_unprintable)
        };
        let (what, _) = texts.into_iter().find(|(_, text)| text.is_some_and(is_invalid))?;
        Some(format!(
            "{what} is missing, empty, longer than {STRING_BYTES_MAX} bytes, or has control or invisible \
             characters"
        ))
    }

    /// Returns a description of the first number outside the chain's range, or `None`. An experimental topic
    /// can have such numbers.
    pub(super) fn find_off_chain(&self) -> Option<String> {
        let on_chain = |what, range| {
            Some(format!(
                "{what} must be {range} as on the chain; `experimental` allows other values"
            ))
        };
        let (least, most) = (P_NORM_RANGE.start(), P_NORM_RANGE.end());
        if self.is_experimental {
            None
        } else if self.timing.epoch_length < EPOCH_LENGTH_MIN {
            on_chain("epoch_length", format!("at least {EPOCH_LENGTH_MIN} blocks"))
        } else if !P_NORM_RANGE.contains(&self.judging.p_norm) {
            on_chain("p_norm", format!("from {least} to {most}"))
        } else {
            None
        }
    }

    /// Returns a description of the first meaningless number, or `None`.
    pub(super) fn find_out_of_range(&self) -> Option<String> {
        let Judging { loss, p_norm, c_norm, alpha_regret, merit_sortition_alpha, epsilon, .. } =
            self.judging;
        let has_logarithm = loss.floor > 0.0 && loss.floor.is_finite();
        if !loss.allow_negative && !has_logarithm {
            return Some("loss_floor is not above 0".to_owned());
        }
        let of_one = 0.0..=1.0;
        let actors = 1..=SUBMISSIONS_MAX;
        let quantiles = self.active_quantiles;
        let threshold = match self.truth {
            Truth::Direction { threshold } => threshold,
            _ => 0.0,
        };
        let share = "must be from 0 to 1";
        let n_actors = &format!("must be from 1 to {SUBMISSIONS_MAX}");
        let lag = &format!("must be at most {BLOCKS_MAX} blocks");
        let n_workers = &format!("must have at most {WHITELIST_MAX} workers");
        let n_bytes = &format!("must be at least {}", Retention::BYTES_MIN);
        let n_models = &format!("must be at most {MODELS_MAX} with distinct printable names");
        let has_models = self.predictor.as_ref().is_none_or(|p| are_valid_models(&p.models));
        let has_bytes = self.keep.bytes.is_none_or(|bytes| bytes >= Retention::BYTES_MIN);
        let is_valid = [
            ("ground_truth_lag", lag.as_str(), self.timing.ground_truth_lag <= BLOCKS_MAX),
            ("p_norm", "must be from 0.1 to 100", (0.1..=100.0).contains(&p_norm)),
            ("c_norm", "must be from -100 to 100", (-100.0..=100.0).contains(&c_norm)),
            (
                "alpha_regret",
                "must be above 0 and at most 1",
                alpha_regret > 0.0 && alpha_regret <= 1.0,
            ),
            ("merit_sortition_alpha", share, of_one.contains(&merit_sortition_alpha)),
            ("epsilon", "must be above 0", epsilon > 0.0 && epsilon.is_finite()),
            ("active_inferer_quantile", share, of_one.contains(&quantiles.inferer)),
            ("active_forecaster_quantile", share, of_one.contains(&quantiles.forecaster)),
            ("active_reputer_quantile", share, of_one.contains(&self.active_reputer_quantile)),
            ("max_top_inferers_to_reward", n_actors, actors.contains(&self.active_max.inferer)),
            (
                "max_top_forecasters_to_reward",
                n_actors,
                actors.contains(&self.active_max.forecaster),
            ),
            ("worker_whitelist", n_workers, self.whitelist.workers.len() <= WHITELIST_MAX),
            ("label_default_value", "must be finite", self.labeling.default.is_finite()),
            ("unity_tolerance", share, self.unity_tolerance.is_none_or(|t| of_one.contains(&t))),
            (
                "max_labels_per_submission",
                "must be at least 1",
                self.labeling.per_submission_max > 0,
            ),
            ("direction_threshold", share, of_one.contains(&threshold)),
            ("keep_bytes", n_bytes, has_bytes),
            ("keep_days", "must be at least 1", self.keep.days.is_none_or(|days| days > 0)),
            ("value_min", "exceeds value_max", self.value_range.is_satisfiable()),
            ("models", n_models, has_models),
        ];
        let (what, want, _) = is_valid.into_iter().find(|(.., is_valid)| !is_valid)?;
        Some(format!("{what} {want}"))
    }

    /// Returns a description of the first setting that does not fit the loss.
    pub(super) fn find_loss_fault(&self) -> Option<String> {
        let (loss, ValueRange { min, max }) = (self.judging.loss, self.value_range);
        let is_count = min.is_some_and(|min| min >= 0.0);
        let is_probability = is_count && max.is_some_and(|max| max <= 1.0);
        let has_unity = self.unity_tolerance.is_some();
        if (has_unity || loss.method.takes_probabilities()) && !is_probability {
            let what = if has_unity { "require_unity" } else { &loss.method.to_string() };
            return Some(format!(
                "{what} needs a value_min of at least 0 and a value_max of at most 1"
            ));
        }
        match loss.method {
            LossMethod::CrossEntropy if !has_unity => Some(
                "ce needs require_unity, since a probability of 1 for each label would have no \
                 loss; mse and bce do not"
                    .to_owned(),
            ),
            LossMethod::Poisson if !is_count || !loss.allow_negative => Some(
                "poisson needs a value_min of at least 0, and allow_negative, since its losses can \
                 be negative"
                    .to_owned(),
            ),
            method if method.has_deviation() && !self.is_single() => {
                Some(format!("{method} compares single numbers, not labels"))
            }
            _ => loss.find_fault(),
        }
    }
}

/// Returns true if `models` have distinct valid names and do not exceed the limit.
fn are_valid_models(models: &[PredictorModelSettings]) -> bool {
    let names: BTreeSet<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let is_valid = |name: &&str| {
        !name.is_empty() && name.len() <= STRING_BYTES_MAX && !name.chars().any(is_unprintable)
    };
    names.len() == models.len() && names.len() <= MODELS_MAX && names.iter().all(is_valid)
}
