//! Bundles: the values a network infers for a topic at one nonce.

use crate::topic::{Address, BlockHeight, TopicId};

/// One labelled value.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledValue {
    /// The label's number within its nonce, from 1.
    pub label_id: u32,
    /// The label, `y` on a topic with a single output.
    pub label_name: String,
    /// The value; not a number where nothing is known.
    pub value: f64,
}

/// The values of one worker, one for each label.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerValues {
    /// The address of the worker.
    pub worker: Address,
    /// What it inferred.
    pub values: Vec<LabeledValue>,
}

/// The combined values without one inferer.
#[derive(Debug, Clone, PartialEq)]
pub struct WithheldInferer {
    /// Who is left out.
    pub withheld_inferer: Address,
    /// What the others combine to.
    pub combined_inference: Vec<LabeledValue>,
}

/// The combined values without one forecaster.
#[derive(Debug, Clone, PartialEq)]
pub struct WithheldForecaster {
    /// Who is left out.
    pub withheld_forecaster: Address,
    /// What the others combine to.
    pub combined_inference: Vec<LabeledValue>,
}

/// The inferers' values combined with those of one forecaster alone.
#[derive(Debug, Clone, PartialEq)]
pub struct OneInForecaster {
    /// The one forecaster.
    pub forecaster: Address,
    /// What they combine to.
    pub combined_inference: Vec<LabeledValue>,
}

/// Everything a network infers for a topic at one nonce.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// The topic's number.
    pub topic_id: TopicId,
    /// The block at which the epoch opened.
    pub nonce: BlockHeight,
    /// Inferers and forecasters, weighted by their regrets.
    pub combined_value: Vec<LabeledValue>,
    /// What each inferer submitted.
    pub inferer_values: Vec<WorkerValues>,
    /// What each forecaster's expected losses imply.
    pub forecaster_values: Vec<WorkerValues>,
    /// The inferers alone, weighted by their naive regrets.
    pub naive_value: Vec<LabeledValue>,
    /// The combined value without each inferer in turn.
    pub one_out_inferer_values: Vec<WithheldInferer>,
    /// The combined value without each forecaster in turn; empty with fewer than two.
    pub one_out_forecaster_values: Vec<WithheldForecaster>,
    /// The inferers with each forecaster alone; empty with fewer than two.
    pub one_in_forecaster_values: Vec<OneInForecaster>,
}

/// The shortest decimal text that reads back as `number`. Without an exponent or a negative zero.
#[must_use]
pub fn decimal(number: f64) -> String {
    format!("{}", number + 0.0)
}
