//! Topics: what is predicted, from which data, when, and how the predictions are judged.

mod demo;

use std::{collections::BTreeMap, time::Duration};

use model::{
    node::Subgroup,
    topic::{BlockHeight, SINGLE_LABEL, TopicId},
};

pub use self::demo::demo_topics;
use crate::{
    loss::{LossMethod, LossRule},
    synthesis::weights::{Generation, Params},
};

/// What keeps a sum of weights from zero, by the chain's parameters.
const EPSILON_SAFE_DIV: f64 = 1e-7;

/// The longest label taken, in bytes, by the chain's parameters.
pub const LABEL_BYTES_MAX: usize = 64;

/// The most labels a topic may have, by the chain's parameters.
pub const LABELS_MAX: usize = 256;

/// What a topic's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicKind {
    /// Numbers.
    Regression,
    /// A belief for each label.
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
    /// Their environment.
    pub env: BTreeMap<String, String>,
}

/// One topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// Its number.
    pub id: TopicId,
    /// What it predicts, for people.
    pub name: String,
    /// What its values are.
    pub kind: TopicKind,
    /// Its labels, whose ids are their places from 1. [`SINGLE_LABEL`] alone on a topic with one
    /// output.
    pub labels: Vec<String>,
    /// How far the sum of a submission may be from 1; none where sums are free.
    pub unity_tolerance: Option<f64>,
    /// When.
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

/// Why a topic's settings do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicSettingsError {
    /// The truth would be asked for before the next epoch opens.
    #[error("set topic {id}: its ground truth lag is shorter than its epoch")]
    Lag {
        /// Which topic.
        id: TopicId,
    },
    /// The window is longer than the epoch, or one of them is nothing.
    #[error("set topic {id}: its submission window is not within 1 and its epoch length")]
    Window {
        /// Which topic.
        id: TopicId,
    },
    /// No labels, too many, one twice, or one that is unfit.
    #[error("set topic {id}: its labels are 1 to {LABELS_MAX} different short names")]
    Labels {
        /// Which topic.
        id: TopicId,
    },
    /// Unity asked of a single output.
    #[error("set topic {id}: a single output cannot be asked to sum to 1")]
    Unity {
        /// Which topic.
        id: TopicId,
    },
    /// A floor of losses that has no logarithm.
    #[error("set topic {id}: its least loss is not above 0")]
    Floor {
        /// Which topic.
        id: TopicId,
    },
    /// A direction asked of labels that are none.
    #[error("set topic {id}: a direction has the labels up, down and flat")]
    Direction {
        /// Which topic.
        id: TopicId,
    },
}

impl Topic {
    /// Whether it has one output only, under the label [`SINGLE_LABEL`].
    pub fn is_single(&self) -> bool {
        matches!(self.labels.as_slice(), [label] if label == SINGLE_LABEL)
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
        let id = self.id;
        let Timing { epoch_length, worker_submission_window, ground_truth_lag } = self.timing;
        if ground_truth_lag < epoch_length {
            return Err(TopicSettingsError::Lag { id });
        }
        if worker_submission_window == 0 || worker_submission_window > epoch_length {
            return Err(TopicSettingsError::Window { id });
        }
        let mut sorted = self.labels.clone();
        sorted.sort();
        sorted.dedup();
        let are_fit = self.labels.iter().all(|label| is_label(label));
        if sorted.is_empty()
            || self.labels.len() > LABELS_MAX
            || !are_fit
            || sorted.len() != self.labels.len()
        {
            return Err(TopicSettingsError::Labels { id });
        }
        if self.is_single() && self.unity_tolerance.is_some() {
            return Err(TopicSettingsError::Unity { id });
        }
        let LossRule { allow_negative, floor, .. } = self.judging.loss;
        let has_logarithm = floor > 0.0 && floor.is_finite();
        if !allow_negative && !has_logarithm {
            return Err(TopicSettingsError::Floor { id });
        }
        let is_direction = matches!(self.truth, Truth::Direction { .. });
        if is_direction && sorted != ["down", "flat", "up"] {
            return Err(TopicSettingsError::Direction { id });
        }
        Ok(())
    }

    /// What came true where `column` went from `before` to `after`: a number for each label.
    pub fn truth_of(&self, before: f64, after: f64) -> Vec<f64> {
        let Truth::Direction { threshold } = self.truth else { return vec![after] };
        let step = if before == 0.0 { 0.0 } else { (after - before) / before.abs() };
        let direction = if step > threshold {
            "up"
        } else if step < -threshold {
            "down"
        } else {
            "flat"
        };
        let is_true = |label: &String| if label == direction { 1.0 } else { 0.0 };
        self.labels.iter().map(is_true).collect()
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

/// Whether `label` is one that the chain takes: short, of letters, digits and `_ - space / .`.
fn is_label(label: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | '/' | '.');
    !label.is_empty()
        && label.len() <= LABEL_BYTES_MAX
        && label.chars().all(is_fit)
        && label.trim() == label
}

#[cfg(test)]
mod tests;
