//! Topics: settings of a predicted quantity, with its data, its schedule and the evaluation of its
//! actors.

mod checks;
pub mod settings;
pub mod truth;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use model::dataset::DatasetId;
use model::topic::{Address, BlockHeight, TopicId};
use wire::inference::LabeledValue;
use wire::inference::network::PredictorSettings;

use crate::math::loss::{LossMethod, LossParameters, LossRule};
use crate::math::regret::ByRole;
use crate::math::synthesis::weights::{Generation, Params};
use crate::network::topic::truth::Truth;

/// Default maximum number of labels per payload.
const LABELS_PER_SUBMISSION_MAX: u32 = 256;

/// Maximum length of a text in bytes: the chain's parameter `max_string_length`.
pub const STRING_BYTES_MAX: usize = 255;

/// Minimum epoch length in blocks: the chain's parameter `min_epoch_length`.
pub const EPOCH_LENGTH_MIN: BlockHeight = 12;

/// Maximum number of labels of a topic, as on the chain.
pub const LABELS_MAX: usize = 256;

/// Maximum number of submissions per nonce, which applies to scored and trusted workers separately. It
/// is far more than the number of active workers.
pub const SUBMISSIONS_MAX: u32 = 1024;

/// Kind of a topic's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
pub enum TopicKind {
    /// One number per epoch.
    #[strum(to_string = "regression", serialize = "TOPIC_TYPE_REGRESSION")]
    Regression,
    /// A probability for each label.
    #[strum(to_string = "classification", serialize = "TOPIC_TYPE_CLASSIFICATION")]
    Classification,
}

/// Durations of a topic's epochs, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Blocks from the opening of one epoch to the opening of the next.
    pub epoch_length: BlockHeight,
    /// Blocks after the opening of an epoch in which workers can submit.
    pub worker_submission_window: BlockHeight,
    /// Blocks from the opening of an epoch until its ground truth is read.
    pub ground_truth_lag: BlockHeight,
}

/// Evaluation of a topic's actors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judging {
    /// Form of the weight function.
    pub generation: Generation,
    /// Function that compares a value with the ground truth.
    pub loss: LossRule,
    /// Preference for the best actors, as in [`Params::p_norm`].
    pub p_norm: f64,
    /// Regret, in units of the scale, from which weights increase strongly, as in [`Params::c_norm`].
    pub c_norm: f64,
    /// Weight of the latest loss in a regret.
    pub alpha_regret: f64,
    /// Weight of the latest score in its moving average.
    pub merit_sortition_alpha: f64,
    /// Number added to the scale of regrets, as in [`Params::epsilon`].
    pub epsilon: f64,
    /// Minimum number of experienced actors for which the regret of newcomers is computed from the
    /// regrets of experienced actors only. It is 10 on the chain, where topics have dozens of actors. A
    /// network on one machine has only two or three.
    pub n_experienced_min: usize,
}

/// Source of a topic's inputs and ground truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSource {
    /// Name of the dataset.
    pub dataset: String,
    /// Id of the dataset, or `None` until the dataset has been found by its name. Afterwards the topic
    /// reads this dataset even if another dataset gets the name.
    pub dataset_id: Option<DatasetId>,
    /// Column whose values are predicted.
    pub column: String,
    /// Time, in the rows' timestamps, from the latest row at the opening of an epoch to the row that is
    /// predicted. A dataset that replays old rows faster than real time reaches it sooner.
    pub horizon: Duration,
}

/// Rules for a topic's labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Labeling {
    /// True if the topic has several outputs.
    pub is_multi: bool,
    /// True if labels such as `Up` and `up` are distinct. Otherwise all labels are converted to lower
    /// case.
    pub is_case_sensitive: bool,
    /// Value of a label that was not submitted. Submitting this value is the same as omitting the
    /// label.
    pub default: f64,
    /// Maximum number of labels per payload.
    pub per_submission_max: u32,
}

/// Range of accepted values.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ValueRange {
    /// Smallest accepted value, or `None` if there is no lower limit.
    pub min: Option<f64>,
    /// Largest accepted value, or `None` if there is no upper limit.
    pub max: Option<f64>,
}

/// Retention settings of a topic. A setting that is `None` has the service's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// Maximum size of the topic's epochs, in bytes.
    pub bytes: Option<u64>,
    /// Maximum age of an epoch, in days.
    pub days: Option<u32>,
}

/// Workers that can submit for a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerWhitelist {
    /// True to accept only `workers` and the workers of the topic's predictor.
    pub is_enabled: bool,
    /// Addresses of the workers on the list.
    pub workers: BTreeSet<Address>,
}

/// Settings of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// Id of the topic.
    pub id: TopicId,
    /// Human-readable description of the prediction.
    pub name: String,
    /// Kind of the topic's values.
    pub kind: TopicKind,
    /// Labels that can be submitted. Only [`SINGLE_LABEL`](model::topic::SINGLE_LABEL) for a topic with a
    /// single output. Each epoch numbers its labels in order of first submission.
    pub labels: Vec<String>,
    /// Rules for the topic's labels.
    pub labeling: Labeling,
    /// Address of the creator, or `None` for a built-in topic.
    pub creator: Option<Address>,
    /// True if new epochs open. False for a paused topic, which still closes its open epochs and learns
    /// from them.
    pub is_active: bool,
    /// Maximum share of newcomers among an epoch's active actors. The same number is the quantile of
    /// the active actors' scores toward which the scores of resting actors move.
    pub active_quantiles: ByRole<f64>,
    /// Like `active_quantiles`, for reputers. It has no effect, since a topic has only one reputer.
    pub active_reputer_quantile: f64,
    /// Maximum number of active inferers and forecasters per epoch.
    pub active_max: ByRole<u32>,
    /// Workers that can submit, and the setting that enables this restriction.
    pub whitelist: WorkerWhitelist,
    /// Retention of past epochs.
    pub keep: Keep,
    /// True to allow settings outside the chain's ranges.
    pub is_experimental: bool,
    /// True if the built-in forecasters take part.
    pub has_built_in_forecasters: bool,
    /// Range of accepted values of a label.
    pub value_range: ValueRange,
    /// Maximum difference between 1 and the sum of a submission's values, or `None` if any sum is
    /// accepted.
    pub unity_tolerance: Option<f64>,
    /// Durations in blocks.
    pub timing: Timing,
    /// Evaluation of actors.
    pub judging: Judging,
    /// Source of inputs and ground truth.
    pub source: TopicSource,
    /// Definition of the ground truth.
    pub truth: Truth,
    /// Function that runs on the cluster in each epoch and infers values, or `None` if only submissions
    /// are combined. The settings are complete: omitted numbers of nodes and rows have been replaced by
    /// their defaults, and the subgroup has been checked.
    pub predictor: Option<PredictorSettings>,
}

/// Error for invalid settings of a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid topic settings: {fault}")]
pub struct TopicSettingsError {
    /// Description of the invalid setting.
    pub fault: String,
}

impl Topic {
    /// Returns true if the topic has a single output.
    pub const fn is_single(&self) -> bool {
        !self.labeling.is_multi
    }

    /// Copies the dataset's id from the earlier settings `before` if these settings have none and the
    /// dataset's name is the same.
    #[must_use]
    pub fn with_dataset_of(mut self, before: &Self) -> Self {
        if self.source.dataset_id.is_none() && self.source.dataset == before.source.dataset {
            self.source.dataset_id = before.source.dataset_id;
        }
        self
    }

    /// Returns true if the same submissions are valid for this topic and for `other`, and have the same
    /// meaning.
    pub fn accepts_same(&self, other: &Self) -> bool {
        let rules = |topic: &Self| (topic.labeling, topic.unity_tolerance, topic.value_range);
        self.labels == other.labels
            && rules(self) == rules(other)
            && self.judging.loss.unit() == other.judging.loss.unit()
    }

    /// Returns the ground truth of an epoch with the labels `submitted` and this `outcome`. For a
    /// direction, the topic's labels that were not submitted follow.
    pub fn truth_of<'l>(
        &'l self,
        submitted: impl IntoIterator<Item = &'l str>,
        before: f64,
        outcome: f64,
    ) -> Vec<LabeledValue> {
        let mut labels: Vec<&str> = submitted.into_iter().collect();
        for label in &self.labels {
            if !labels.contains(&label.as_str()) {
                labels.push(label);
            }
        }
        with_labels(&labels, &self.truth.of_labels(labels.iter().copied(), before, outcome))
    }

    /// Returns the parameters of the weight function. `regret_scale` is the stored scale of regrets, if
    /// any.
    pub fn params(&self, regret_scale: Option<f64>) -> Params {
        Params {
            generation: self.judging.generation,
            p_norm: self.judging.p_norm,
            c_norm: self.judging.c_norm,
            epsilon: self.judging.epsilon,
            // Default of the chain's parameter `epsilon_safe_div`.
            epsilon_safe_div: 1e-7,
            regret_scale,
        }
    }

    /// Checks that the settings are valid and consistent.
    ///
    /// # Errors
    /// [`TopicSettingsError`] with the first invalid setting.
    pub fn check(&self) -> Result<(), TopicSettingsError> {
        let faults = [
            self.find_misfit(),
            self.find_invalid_text(),
            self.find_off_chain(),
            self.find_out_of_range(),
            self.find_loss_fault(),
        ];
        let fault = faults.into_iter().flatten().next();
        fault.map_or(Ok(()), |fault| Err(TopicSettingsError { fault }))
    }

    /// Checks that the horizon is longer than the submission window if blocks last `block_time`.
    /// Otherwise workers could wait until the ground truth is known and submit it. Experimental topics
    /// are exempt.
    ///
    /// A dataset that replays old rows or receives rows late can reach the horizon sooner. The server then
    /// refuses submissions.
    ///
    /// # Errors
    /// [`TopicSettingsError`] with the horizon and the length of the window.
    pub fn check_horizon(&self, block_time: Duration) -> Result<(), TopicSettingsError> {
        let n_blocks = self.timing.open_blocks();
        let window = block_time.saturating_mul(u32::try_from(n_blocks).unwrap_or(u32::MAX));
        let horizon = self.source.horizon;
        if self.is_experimental || horizon > window {
            return Ok(());
        }
        let fault = format!(
            "horizon_seconds of {} ends within the submission window of {window:?} ({n_blocks} \
             blocks of {block_time:?}), so that workers could submit the truth itself; \
             `experimental` allows it",
            horizon.as_secs()
        );
        Err(TopicSettingsError { fault })
    }
}

impl Timing {
    /// Returns the number of blocks in which an epoch accepts submissions: the blocks of its window
    /// including the last, but only the blocks before the next epoch opens.
    pub fn open_blocks(&self) -> BlockHeight {
        self.worker_submission_window.saturating_add(1).min(self.epoch_length)
    }
}

impl ValueRange {
    /// Returns true if `value` lies within the range.
    pub fn contains(self, value: f64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }

    /// Returns true if any value can lie within the range.
    fn is_satisfiable(self) -> bool {
        self.min.zip(self.max).is_none_or(|(min, max)| min <= max)
    }
}

impl fmt::Display for ValueRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
            (Some(min), None) => write!(f, "{min} and above"),
            (None, Some(max)) => write!(f, "up to {max}"),
            (None, None) => f.write_str("any"),
        }
    }
}

impl WorkerWhitelist {
    /// Returns true if submissions of `worker` are accepted.
    pub fn admits(&self, worker: &Address) -> bool {
        !self.is_enabled || self.workers.contains(worker)
    }
}

impl Judging {
    /// Returns the usual settings of the chain's topics, with losses computed by `method` and bounded
    /// from below by `floor`.
    pub fn usual(method: LossMethod, floor: f64) -> Self {
        Self {
            generation: Generation::MadV017,
            loss: LossRule {
                method,
                parameters: LossParameters::default(),
                allow_negative: false,
                floor,
            },
            p_norm: 3.0,
            c_norm: 0.75,
            alpha_regret: 0.1,
            merit_sortition_alpha: 0.1,
            epsilon: 0.01,
            n_experienced_min: 10,
        }
    }
}

/// JSON settings of the built-in topics, in the order of their ids.
const FILES: [&str; 2] = [
    include_str!("../../../assets/topics/price.json"),
    include_str!("../../../assets/topics/direction.json"),
];

/// Returns the two topics of the local stack.
#[expect(clippy::expect_used, reason = "the files are part of the program, and a test reads them")]
pub fn demo_topics() -> Vec<Topic> {
    let topic = |(number, text): (u64, &str)| {
        let settings = serde_json::from_str(text).expect("read the settings");
        let topic = settings::topic(TopicId::new(number)?, None, settings);
        Some(topic.expect("take the settings"))
    };
    (1..).zip(FILES).filter_map(topic).collect()
}

/// Maximum length of a label in bytes, as on the chain.
pub const LABEL_BYTES_MAX: usize = 64;

/// Normalizes a label: trims it and converts it to lower case unless labels are case-sensitive. Returns
/// `None` if the label is empty, longer than [`LABEL_BYTES_MAX`], or has other characters than letters,
/// digits, `_`, `-`, `/`, `.` and spaces.
pub fn canonical_label(text: &str, labeling: Labeling) -> Option<String> {
    let trimmed = text.trim();
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | '/' | '.');
    let is_label =
        !trimmed.is_empty() && trimmed.len() <= LABEL_BYTES_MAX && trimmed.chars().all(is_taken);
    let cased = |label: &str| {
        if labeling.is_case_sensitive { label.to_owned() } else { label.to_ascii_lowercase() }
    };
    is_label.then(|| cased(trimmed))
}

/// Returns true if `label` is normalized as by [`canonical_label`].
pub fn is_valid_label(label: &str, labeling: Labeling) -> bool {
    canonical_label(label, labeling).is_some_and(|canonical| canonical == label)
}

/// Duration of a day, the unit of the setting `keep_days`.
pub const DAY: Duration = Duration::from_hours(24);

/// Limits on a topic's past epochs. If a limit is exceeded, the oldest epochs are deleted. Only the
/// latest epochs, up to half of the maximum size, are complete. Older epochs lose their largest parts:
/// forecasts and values of pairs of actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Maximum size of a topic's closed epochs, in bytes.
    pub bytes: u64,
    /// Maximum time since an epoch opened, or `None` for no limit.
    pub age: Option<Duration>,
}

impl Retention {
    /// Default limits: 2 GB, which is enough for 10 000 epochs with two hundred actors, or for less
    /// than a day with a thousand inferers and fifty forecasters.
    pub const USUAL: Self = Self { bytes: 2_000_000_000, age: None };

    /// Smallest valid size limit, in bytes. It is enough for several epochs with a few dozen actors, so
    /// that epochs are not deleted before their ground truth is known.
    pub const BYTES_MIN: u64 = 1_000_000;

    /// Returns the maximum total size of the complete epochs, in bytes.
    pub const fn full_bytes(self) -> u64 {
        self.bytes / 2
    }
}

/// Returns `values` with their `labels`, numbered from 1.
pub fn with_labels<L: AsRef<str>>(labels: &[L], values: &[f64]) -> Vec<LabeledValue> {
    let ids = (1..).zip(labels);
    ids.zip(values)
        .map(|((label_id, label), value)| LabeledValue {
            label_id,
            label_name: label.as_ref().to_owned(),
            value: *value,
        })
        .collect()
}

#[cfg(test)]
mod tests;
