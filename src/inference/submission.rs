//! Submissions: what an actor hands in for one epoch, checked against its topic.

use std::collections::BTreeMap;

use model::{
    bundle::LabeledValue,
    topic::{Address, SINGLE_LABEL},
};

use crate::{synthesis::Values, topic::Topic};

/// The longest number taken, in bytes. A double has at most 17 significant digits; exact decimals
/// of the chain have 34.
const NUMBER_BYTES_MAX: usize = 64;

/// The largest number taken. Its square is still far from the largest double.
const NUMBER_MAX: f64 = 1e100;

/// The most inferers a forecast may be about: as many as an epoch takes.
pub const FORECAST_MAX: usize = 1024;

/// What an actor hands in, as it came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// Its values by label, as decimal texts; empty if it does not infer.
    pub values: Vec<(String, String)>,
    /// The losses it expects of inferers, as decimal texts; empty if it does not forecast.
    pub forecast: BTreeMap<Address, String>,
}

/// What an actor handed in, fit for its topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Whose.
    pub worker: Address,
    /// Who is behind the address, where that is known.
    pub name: Option<String>,
    /// One value for each label of the topic, in its order, as the texts that came; empty if it
    /// does not infer.
    pub inference: Vec<LabeledValue>,
    /// The losses it expects, by inferer, as the texts that came.
    pub forecast: BTreeMap<Address, String>,
}

/// Why a payload is unfit for its topic.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Neither an inference nor a forecast.
    #[error("take a submission without an inference or a forecast")]
    Empty,
    /// A label the topic does not have.
    #[error("take label `{label}`, which the topic does not have")]
    UnknownLabel {
        /// The label, shortened.
        label: String,
    },
    /// A label more than once.
    #[error("take label `{label}` more than once")]
    RepeatedLabel {
        /// The label.
        label: String,
    },
    /// Not a decimal number of reasonable size.
    #[error("read `{text}` as a decimal number")]
    Number {
        /// The text, shortened.
        text: String,
    },
    /// All values are the labels' default, 0.
    #[error("take values that are all 0")]
    NothingBelieved,
    /// Values that do not sum to 1.
    #[error("take the values: require_unity violated: sum={sum} tol={tolerance}")]
    Unity {
        /// Their sum.
        sum: f64,
        /// How far it may be from 1.
        tolerance: f64,
    },
    /// A forecast about too many.
    #[error("take a forecast about more than {FORECAST_MAX} inferers")]
    LongForecast,
}

impl Submission {
    /// Checks the payload of `worker` against `topic`. Labels are trimmed and compared without
    /// regard to case; those that are missing are 0.
    ///
    /// # Errors
    /// A [`PayloadError`] that names the first thing unfit.
    pub fn checked(
        topic: &Topic,
        worker: Address,
        name: Option<String>,
        payload: Payload,
    ) -> Result<Self, PayloadError> {
        let Payload { values, forecast } = payload;
        if values.is_empty() && forecast.is_empty() {
            return Err(PayloadError::Empty);
        }
        if forecast.len() > FORECAST_MAX {
            return Err(PayloadError::LongForecast);
        }
        for text in forecast.values() {
            number(text)?;
        }
        let inference = if values.is_empty() { Vec::new() } else { labeled(topic, values)? };
        Ok(Self { worker, name, inference, forecast })
    }

    /// The values as numbers, in the order of the topic's labels; none if it does not infer.
    pub fn values(&self) -> Option<Values> {
        if self.inference.is_empty() { None } else { numbers(&self.inference) }
    }

    /// The expected losses as numbers.
    pub fn expected_losses(&self) -> BTreeMap<Address, f64> {
        let known = |(name, text): (&Address, &String)| Some((name.clone(), number(text).ok()?));
        self.forecast.iter().filter_map(known).collect()
    }
}

/// The numbers of `values`, in their order; none if one is no number.
pub fn numbers(values: &[LabeledValue]) -> Option<Values> {
    values.iter().map(|value| number(&value.value).ok()).collect()
}

/// `values` under the labels of `topic`, as the shortest texts that read back as the same numbers.
pub fn with_labels(topic: &Topic, values: &[f64]) -> Vec<LabeledValue> {
    let ids = (1..).zip(&topic.labels);
    ids.zip(values)
        .map(|((label_id, label), value)| LabeledValue {
            label_id,
            label_name: label.clone(),
            value: decimal(*value),
        })
        .collect()
}

/// The shortest decimal text that reads back as `number`. Without an exponent or a negative zero.
pub fn decimal(number: f64) -> String {
    format!("{}", number + 0.0)
}

fn labeled(
    topic: &Topic,
    values: Vec<(String, String)>,
) -> Result<Vec<LabeledValue>, PayloadError> {
    let mut by_label = BTreeMap::new();
    for (label, text) in values {
        number(&text)?;
        let label = canonical(topic, &label)?;
        if by_label.insert(label.clone(), text.trim().to_owned()).is_some() {
            return Err(PayloadError::RepeatedLabel { label });
        }
    }
    let mut text_of = |label: &String| by_label.remove(label).unwrap_or_else(|| "0".to_owned());
    let value = |(label_id, label): (u32, &String)| LabeledValue {
        label_id,
        label_name: label.clone(),
        value: text_of(label),
    };
    let inference: Vec<LabeledValue> = (1..).zip(&topic.labels).map(value).collect();
    let values = numbers(&inference).unwrap_or_default();
    if !topic.is_single() && values.iter().all(|value| *value == 0.0) {
        return Err(PayloadError::NothingBelieved);
    }
    if let Some(tolerance) = topic.unity_tolerance {
        let sum: f64 = values.iter().sum();
        if (sum - 1.0).abs() > tolerance {
            return Err(PayloadError::Unity { sum, tolerance });
        }
    }
    Ok(inference)
}

/// The label of `topic` that `label` means. An empty one means the only one.
fn canonical(topic: &Topic, label: &str) -> Result<String, PayloadError> {
    let trimmed = label.trim();
    let wanted = if trimmed.is_empty() { SINGLE_LABEL } else { trimmed };
    let found = topic.labels.iter().find(|known| known.eq_ignore_ascii_case(wanted));
    found
        .cloned()
        .ok_or_else(|| PayloadError::UnknownLabel { label: label.chars().take(64).collect() })
}

/// The number that `text` is, if it is a decimal one of reasonable size.
fn number(text: &str) -> Result<f64, PayloadError> {
    let trimmed = text.trim();
    let number: Option<f64> =
        if trimmed.len() <= NUMBER_BYTES_MAX { trimmed.parse().ok() } else { None };
    number
        .filter(|number| number.abs() <= NUMBER_MAX)
        .ok_or_else(|| PayloadError::Number { text: text.chars().take(80).collect() })
}

#[cfg(test)]
mod tests;
