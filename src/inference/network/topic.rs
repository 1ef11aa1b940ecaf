//! Topics: what is predicted, from which data, when, and how the predictions are judged.

pub mod settings;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::RangeInclusive,
    time::Duration,
};

use model::{
    dataset::DatasetId,
    node::Subgroup,
    text::is_unprintable,
    topic::{Address, BlockHeight, SINGLE_LABEL, TopicId},
};
use wire::inference::network::PredictorModelSettings;

use crate::{
    math::{
        loss::{LossMethod, LossRule},
        regret::ByRole,
        synthesis::weights::{Generation, Params},
    },
    network::retention::{DAY, Retention},
};

/// What keeps a sum of weights from zero, by the chain's parameters.
const EPSILON_SAFE_DIV: f64 = 1e-7;

/// How many labels one payload may have where a topic does not say.
const LABELS_PER_SUBMISSION_MAX: u32 = 256;

/// The longest name, by the chain's parameter `max_string_length`.
pub const STRING_BYTES_MAX: usize = 255;

/// The farthest a topic may look ahead: further than any dataset of a laptop reaches back.
const HORIZON_DAYS_MAX: u32 = 366;

/// The shortest epoch, by the chain's parameter `min_epoch_length`.
pub const EPOCH_LENGTH_MIN: BlockHeight = 12;

/// How sharply the best may be preferred, by the chain's rules as of v0.17.
const P_NORM_RANGE: RangeInclusive<f64> = 2.5..=4.5;

/// The most labels a topic may have, by the chain's parameters.
pub const LABELS_MAX: usize = 256;

/// The most models of one predictor: each costs an execution in every epoch.
const MODELS_MAX: usize = 64;

/// The most payloads of one kind of worker that are taken for one nonce: of scored ones, and of
/// trusted ones. Far more than there are places.
pub const SUBMISSIONS_MAX: u32 = 1024;

/// The most workers that a topic's whitelist may have.
pub const WHITELIST_MAX: usize = 2048;

/// What a topic's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
pub enum TopicKind {
    /// One number for each epoch.
    #[strum(to_string = "regression", serialize = "TOPIC_TYPE_REGRESSION")]
    Regression,
    /// A belief for each label.
    #[strum(to_string = "classification", serialize = "TOPIC_TYPE_CLASSIFICATION")]
    Classification,
}

/// When a topic's epochs open, close and are judged, all in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From the opening of one epoch to that of the next.
    pub epoch_length: BlockHeight,
    /// How many blocks after the opening workers may still submit.
    pub worker_submission_window: BlockHeight,
    /// From an epoch's opening until its truth is asked for.
    pub ground_truth_lag: BlockHeight,
}

/// How a topic judges its actors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judging {
    /// Which weight function.
    pub generation: Generation,
    /// How losses are measured.
    pub loss: LossRule,
    /// How sharply the best are preferred.
    pub p_norm: f64,
    /// The center of the weights' potential.
    pub c_norm: f64,
    /// The share of the newest loss in a regret.
    pub alpha_regret: f64,
    /// The share of the newest score in its moving average.
    pub merit_sortition_alpha: f64,
    /// What keeps the scale of regrets from zero.
    pub epsilon: f64,
    /// How many experienced actors it takes to set the regret of newcomers. 10 on the chain, where
    /// topics have dozens; a network on one machine has two or three, and would never learn it.
    pub n_experienced_min: usize,
}

/// Where a topic's inputs and truth come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The dataset's name.
    pub dataset: String,
    /// Its number; none until it was found by its name. From then on the topic reads that dataset, even
    /// if another one gets the name.
    pub dataset_id: Option<DatasetId>,
    /// The column that is predicted.
    pub column: String,
    /// How far ahead, in the time of the dataset, counted from the newest row there was when the
    /// epoch opened. A sped-up dataset reaches it sooner than a clock would.
    pub horizon: Duration,
}

/// What counts as true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Truth {
    /// The value itself, at the horizon.
    Value,
    /// Whether the value went `up`, went `down` or stayed `flat`, compared with the newest one
    /// there was when the epoch opened.
    Direction {
        /// The relative move that still counts as flat.
        threshold: f64,
    },
}

/// The function that workers of the cluster run to infer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predictor {
    /// The function's name or content id.
    pub function: String,
    /// The file to run inside it.
    pub method: String,
    /// The subgroup whose workers run it; none for any worker.
    pub subgroup: Option<Subgroup>,
    /// How many workers are asked. Where they are not to be had, those are asked that are there.
    pub n_nodes: u32,
    /// How many of the newest rows they read from standard input.
    pub n_rows: u32,
    /// Environment variables of the function, by name.
    pub env: BTreeMap<String, String>,
    /// The models it stands for, each run on one worker. Without any, each worker that runs it is an
    /// inferer.
    pub models: Vec<PredictorModelSettings>,
}

impl Predictor {
    /// The environment of `model`: its own, and that of the predictor.
    pub fn env_of(&self, model: &PredictorModelSettings) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        env.extend(model.env.clone());
        env
    }

    /// Whether its models have names, each its own, and are few enough.
    fn has_fit_models(&self) -> bool {
        let names: BTreeSet<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
        let is_fit = |name: &&str| {
            !name.is_empty() && name.len() <= STRING_BYTES_MAX && !name.chars().any(is_unprintable)
        };
        names.len() == self.models.len() && names.len() <= MODELS_MAX && names.iter().all(is_fit)
    }
}

/// Which labels a topic takes, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Labeling {
    /// Whether it has several outputs. One label of several says the same as one output.
    pub is_multi: bool,
    /// Whether `Up` is another label than `up`. Otherwise all are in small letters.
    pub is_case_sensitive: bool,
    /// What a label that was not submitted is. One submitted with this value was not.
    pub default: f64,
    /// How many labels one payload may have.
    pub per_submission_max: u32,
}

/// Range of the values that a topic takes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ValueRange {
    /// Smallest value; `None` if there is no limit.
    pub min: Option<f64>,
    /// Largest value; `None` if there is no limit.
    pub max: Option<f64>,
}

/// What a topic keeps of its past epochs; none where the service's own setting counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// The most bytes of them.
    pub bytes: Option<u64>,
    /// The most days.
    pub days: Option<u32>,
}

/// Whose submissions a topic takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerWhitelist {
    /// Whether those of `workers` alone are taken, besides those of the topic's predictor.
    pub is_enabled: bool,
    /// The workers that are listed.
    pub workers: BTreeSet<Address>,
}

/// The settings of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// The number of the topic.
    pub id: TopicId,
    /// What it predicts, for people.
    pub name: String,
    /// What its values are.
    pub kind: TopicKind,
    /// The labels that can be submitted: only [`SINGLE_LABEL`] on a topic with one output, any label if
    /// empty. Ids are given in each epoch, in first-seen order.
    pub labels: Vec<String>,
    /// Which labels it takes, and how.
    pub labeling: Labeling,
    /// Who created it; none for one that the program came with.
    pub creator: Option<Address>,
    /// Whether epochs open. A topic at rest still ends the ones that are open.
    pub is_active: bool,
    /// What newcomers get of an epoch's places.
    pub active_quantiles: ByRole<f64>,
    /// The same of reputers. There is one.
    pub active_reputer_quantile: f64,
    /// How many places an epoch has.
    pub active_max: ByRole<u32>,
    /// Whose submissions are taken.
    pub whitelist: WorkerWhitelist,
    /// What is kept of its past.
    pub keep: Keep,
    /// Whether settings may be out of the chain's ranges.
    pub is_experimental: bool,
    /// Whether the built-in forecasters take part.
    pub has_built_in_forecasters: bool,
    /// Range of the values of a submission.
    pub value_range: ValueRange,
    /// How far the sum of a submission may be from 1; none where sums are free.
    pub unity_tolerance: Option<f64>,
    /// When epochs open, close and are learned from, in blocks.
    pub timing: Timing,
    /// How actors are judged.
    pub judging: Judging,
    /// Where inputs and truth come from.
    pub source: Source,
    /// What counts as true.
    pub truth: Truth,
    /// Who infers by itself; none on a topic that lives on what is submitted.
    pub predictor: Option<Predictor>,
}

/// A topic's settings are unfit, or do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot set topic {id}: {fault}")]
pub struct TopicSettingsError {
    /// The number of the topic.
    pub id: TopicId,
    /// What is wrong with which of them.
    pub fault: String,
}

impl Topic {
    /// Whether it has one output only, under the label [`SINGLE_LABEL`].
    pub const fn is_single(&self) -> bool {
        !self.labeling.is_multi
    }

    /// The same topic with the number of the dataset of `before`, if it is to read one of that name
    /// and says no number.
    #[must_use]
    pub fn with_dataset_of(mut self, before: &Self) -> Self {
        if self.source.dataset_id.is_none() && self.source.dataset == before.source.dataset {
            self.source.dataset_id = before.source.dataset_id;
        }
        self
    }

    /// Whether any label is taken.
    pub fn takes_any_label(&self) -> bool {
        self.labels.is_empty()
    }

    /// The settings of its weights, with the scale that was stored with its regrets, if any.
    pub fn params(&self, regret_scale: Option<f64>) -> Params {
        Params {
            generation: self.judging.generation,
            p_norm: self.judging.p_norm,
            c_norm: self.judging.c_norm,
            epsilon: self.judging.epsilon,
            epsilon_safe_div: EPSILON_SAFE_DIV,
            regret_scale,
        }
    }

    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// A [`TopicSettingsError`] that names what does not.
    pub fn check(&self) -> Result<(), TopicSettingsError> {
        let faults = [self.find_misfit(), self.find_unfit_text(), self.find_out_of_range()];
        let fault = faults.into_iter().flatten().next();
        fault.map_or(Ok(()), |fault| Err(TopicSettingsError { id: self.id, fault }))
    }

    /// Checks that the truth of an epoch lies after its submission window, where a block takes
    /// `block_time`. Otherwise a worker that waits could read the truth and submit it. Experimental
    /// topics are exempt.
    ///
    /// A dataset that replays its past faster than the clock reaches the horizon sooner. That speed is
    /// not known here.
    ///
    /// # Errors
    /// A [`TopicSettingsError`] that names the horizon and the end of the window.
    pub fn check_horizon(&self, block_time: Duration) -> Result<(), TopicSettingsError> {
        let n_blocks = self.timing.open_blocks();
        let window = block_time.saturating_mul(u32::try_from(n_blocks).unwrap_or(u32::MAX));
        let horizon = self.source.horizon;
        if self.is_experimental || horizon > window {
            return Ok(());
        }
        let fault = format!(
            "its horizon_seconds of {} ends within its submission window of {window:?} ({n_blocks} \
             blocks of {block_time:?}), so that workers could submit the truth itself; \
             `experimental` allows it",
            horizon.as_secs()
        );
        Err(TopicSettingsError { id: self.id, fault })
    }

    /// What does not fit together, if something does not.
    fn find_misfit(&self) -> Option<String> {
        let Timing { epoch_length, worker_submission_window, ground_truth_lag } = self.timing;
        let mut sorted = self.labels.clone();
        sorted.sort();
        sorted.dedup();
        let are_fit = self.labels.iter().all(|label| is_fit_label(label, self.labeling));
        let is_single_fit = !self.is_single() || self.labels == [SINGLE_LABEL];
        let are_few = self.labels.len() <= LABELS_MAX && sorted.len() == self.labels.len();
        let is_direction = matches!(self.truth, Truth::Direction { .. });
        let are_directions = sorted.is_empty() || sorted == ["down", "flat", "up"];
        let horizon = self.source.horizon;
        Some(if ground_truth_lag < epoch_length {
            "its ground truth lag is shorter than its epoch".to_owned()
        } else if worker_submission_window == 0 || worker_submission_window > epoch_length {
            "its submission window is not within 1 and its epoch length".to_owned()
        } else if !are_fit || !are_few || !is_single_fit {
            format!(
                "its labels are up to {LABELS_MAX} different short names, `y` alone for one output"
            )
        } else if self.unity_tolerance.is_some() && self.is_single() {
            "a single output cannot be asked to sum to 1".to_owned()
        } else if self.unity_tolerance.is_some() && self.labeling.default != 0.0 {
            "values that sum to 1 need the default 0".to_owned()
        } else if is_direction && (self.is_single() || !are_directions) {
            "a direction has the labels up, down and flat".to_owned()
        } else if !is_direction && self.labels.len() != 1 {
            "the value of a column is the truth of one label only".to_owned()
        } else if horizon < Duration::from_secs(1) || horizon > DAY * HORIZON_DAYS_MAX {
            format!("its horizon is from 1 second to {HORIZON_DAYS_MAX} days")
        } else {
            return None;
        })
    }

    /// The first text that is empty, too long, or not printable.
    fn find_unfit_text(&self) -> Option<String> {
        let predictor = self.predictor.as_ref();
        let texts = [
            ("name", Some(&self.name)),
            ("dataset", Some(&self.source.dataset)),
            ("column", Some(&self.source.column)),
            ("function", predictor.map(|predictor| &predictor.function)),
            ("method", predictor.map(|predictor| &predictor.method)),
        ];
        let is_unfit = |text: &String| {
            text.is_empty() || text.len() > STRING_BYTES_MAX || text.chars().any(is_unprintable)
        };
        let (what, _) = texts.into_iter().find(|(_, text)| text.is_some_and(is_unfit))?;
        Some(format!(
            "its {what} is empty, has more than {STRING_BYTES_MAX} bytes, or has control or \
             invisible characters"
        ))
    }

    /// The first number that no topic of the chain has, unless the topic is experimental, or that
    /// nothing can be computed with.
    fn find_out_of_range(&self) -> Option<String> {
        let Judging { loss, p_norm, c_norm, alpha_regret, merit_sortition_alpha, epsilon, .. } =
            self.judging;
        let on_chain = |what, range| {
            Some(format!("its {what} is {range} on the chain; `experimental` allows others"))
        };
        let (least, most) = (P_NORM_RANGE.start(), P_NORM_RANGE.end());
        if !self.is_experimental && self.timing.epoch_length < EPOCH_LENGTH_MIN {
            return on_chain("epoch_length", format!("at least {EPOCH_LENGTH_MIN} blocks"));
        }
        if !self.is_experimental && !P_NORM_RANGE.contains(&p_norm) {
            return on_chain("p_norm", format!("from {least} to {most}"));
        }
        let has_logarithm = loss.floor > 0.0 && loss.floor.is_finite();
        if !loss.allow_negative && !has_logarithm {
            return Some("its least loss is not above 0".to_owned());
        }
        let of_one = 0.0..=1.0;
        let actors = 1..=SUBMISSIONS_MAX;
        let quantiles = self.active_quantiles;
        let threshold = match self.truth {
            Truth::Direction { threshold } => threshold,
            Truth::Value => 0.0,
        };
        let is_fit = [
            ("p_norm", (0.1..=100.0).contains(&p_norm)),
            ("c_norm", (-100.0..=100.0).contains(&c_norm)),
            ("alpha_regret", alpha_regret > 0.0 && alpha_regret <= 1.0),
            ("merit_sortition_alpha", of_one.contains(&merit_sortition_alpha)),
            ("epsilon", epsilon > 0.0 && epsilon.is_finite()),
            ("active_inferer_quantile", of_one.contains(&quantiles.inferer)),
            ("active_forecaster_quantile", of_one.contains(&quantiles.forecaster)),
            ("active_reputer_quantile", of_one.contains(&self.active_reputer_quantile)),
            ("max_top_inferers_to_reward", actors.contains(&self.active_max.inferer)),
            ("max_top_forecasters_to_reward", actors.contains(&self.active_max.forecaster)),
            ("worker_whitelist", self.whitelist.workers.len() <= WHITELIST_MAX),
            ("label_default_value", self.labeling.default.is_finite()),
            ("unity_tolerance", self.unity_tolerance.is_none_or(|t| of_one.contains(&t))),
            ("max_labels_per_submission", self.labeling.per_submission_max > 0),
            ("threshold", of_one.contains(&threshold)),
            ("keep_bytes", self.keep.bytes.is_none_or(|bytes| bytes >= Retention::BYTES_MIN)),
            ("keep_days", self.keep.days.is_none_or(|days| days > 0)),
            ("value_min", self.value_range.is_satisfiable()),
            ("models", self.predictor.as_ref().is_none_or(Predictor::has_fit_models)),
        ];
        let (what, _) = is_fit.into_iter().find(|(_, is_fit)| !is_fit)?;
        Some(format!("{what} is out of range"))
    }

    /// What came true where the column went from `before` to `after`: a number for each of `labels`.
    pub fn truth_of<L: AsRef<str>>(&self, labels: &[L], before: f64, after: f64) -> Vec<f64> {
        let Truth::Direction { threshold } = self.truth else { return vec![after] };
        let step = if before == 0.0 { 0.0 } else { (after - before) / before.abs() };
        let direction = if step > threshold {
            "up"
        } else if step < -threshold {
            "down"
        } else {
            "flat"
        };
        let is_true = |label: &L| if label.as_ref() == direction { 1.0 } else { 0.0 };
        labels.iter().map(is_true).collect()
    }
}

impl Timing {
    /// Returns the blocks during which an epoch takes submissions: its window, of which the last block
    /// counts, but no longer than until the next epoch opens.
    pub fn open_blocks(&self) -> BlockHeight {
        self.worker_submission_window.saturating_add(1).min(self.epoch_length)
    }
}

impl ValueRange {
    /// Returns true if `value` lies within the range.
    pub fn contains(self, value: f64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }

    /// Returns true if some value lies within the range.
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
    /// Whether submissions of `worker` are taken.
    pub fn admits(&self, worker: &Address) -> bool {
        !self.is_enabled || self.workers.contains(worker)
    }
}

impl Judging {
    /// What most topics of the chain use, with losses by `method` down to `floor`.
    pub const fn usual(method: LossMethod, floor: f64) -> Self {
        Self {
            generation: Generation::MadV017,
            loss: LossRule { method, allow_negative: false, floor },
            p_norm: 3.0,
            c_norm: 0.75,
            alpha_regret: 0.1,
            merit_sortition_alpha: 0.1,
            epsilon: 0.01,
            n_experienced_min: 10,
        }
    }
}

/// The settings of each topic, in the order of their numbers.
const FILES: [&str; 2] = [
    include_str!("../../../assets/topics/price.json"),
    include_str!("../../../assets/topics/direction.json"),
];

/// The two topics of the local stack.
#[expect(clippy::expect_used, reason = "the files are part of the program, and a test reads them")]
pub fn demo_topics() -> Vec<Topic> {
    let topic = |(number, text): (u64, &str)| {
        let settings = serde_json::from_str(text).expect("read the settings");
        let topic = settings::topic(TopicId::new(number)?, None, settings);
        Some(topic.expect("take the settings"))
    };
    (1..).zip(FILES).filter_map(topic).collect()
}

/// The longest label taken, in bytes, by the chain's parameters.
pub const LABEL_BYTES_MAX: usize = 64;

/// Returns `text` as a label is written: trimmed, and in small letters where case does not matter.
/// None where it is not 1 to [`LABEL_BYTES_MAX`] letters, digits, `_`, `-`, `/`, `.` or spaces.
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

/// Whether `label` is written as [`canonical_label`] writes it.
pub fn is_fit_label(label: &str, labeling: Labeling) -> bool {
    canonical_label(label, labeling).is_some_and(|canonical| canonical == label)
}

#[cfg(test)]
mod tests;
