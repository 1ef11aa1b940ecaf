//! Submissions of actors and their validation.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::topic::{Address, SINGLE_LABEL};

use wire::inference::LabeledValue;

use crate::math::regret::ByActor;
use crate::math::sortition::Record;
use crate::math::synthesis::Values;
use crate::network::topic::{Topic, canonical_label};

/// Maximum absolute number in a payload, as in the chain's type `BoundedExp40Dec`
/// (`math/bounded_exp40dec.go`).
const NUMBER_MAX: f64 = 1e40;

/// Maximum rounding error of the sum of 256 values up to 1, which are converted from decimals to doubles.
const SUM_ERROR_MAX: f64 = 1e-13;

/// Maximum number of inferers in a forecast: the maximum number of submissions that an epoch accepts.
pub const FORECAST_MAX: usize = 1024;

/// Maximum number of workers under which a submitter can submit per epoch. 0 means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerQuota(pub u32);

impl WorkerQuota {
    /// Default quota: enough for a few models, but far below the maximum number of submissions per
    /// epoch.
    pub const USUAL: Self = Self(16);

    /// Returns true if a submitter can have `n_workers` in an epoch.
    pub const fn allows(self, n_workers: u32) -> bool {
        self.0 == 0 || n_workers <= self.0
    }
}

/// Unit to which a [`WorkerQuota`] applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitter {
    /// The network itself, which submits the outputs of the topic's predictor. The quota does not
    /// apply.
    Network,
    /// An API key of the operator, by its id.
    Key(i64),
    /// An account with all its API keys, by the account's id.
    Account(i64),
}

impl Submitter {
    /// Returns true if the submitter is the operator or the network itself.
    pub const fn is_operators(self) -> bool {
        matches!(self, Self::Network | Self::Key(_))
    }

    /// Returns the name under which the submitter's workers are counted, or `None` if the quota does
    /// not apply.
    pub fn counter(self) -> Option<String> {
        match self {
            Self::Network => None,
            Self::Key(key) => Some(format!("key:{key}")),
            Self::Account(account) => Some(format!("account:{account}")),
        }
    }
}

/// Origin of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Account or key that submits.
    pub submitter: Submitter,
    /// Quota of the submitter.
    pub quota: WorkerQuota,
    /// Standing of the worker.
    pub record: Record,
    /// True to only validate the payload, without storing it.
    pub is_dry_run: bool,
}

impl Origin {
    /// Origin of the network's own submissions.
    pub const NETWORK: Self = Self {
        submitter: Submitter::Network,
        quota: WorkerQuota(0),
        record: Record::Trusted,
        is_dry_run: false,
    };
}

/// Data received from an actor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// Inference: labels with their values as decimal texts. Empty if there is no inference.
    pub values: Vec<(String, String)>,
    /// Forecast: predicted loss of each inferer as decimal text. Empty if there is no forecast.
    pub forecast: BTreeMap<Address, String>,
}

/// A valid submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// Address of the worker on the chain.
    pub worker: Address,
    /// Name of the worker, if known.
    pub name: Option<String>,
    /// Values of the inference. If the topic has several labels, only the values that differ from the
    /// default, with label id 0 until the labels of the epoch are known. Empty if there is no
    /// inference.
    pub inference: Vec<LabeledValue>,
    /// Predicted loss of each inferer. Shared, since there can be a thousand. Empty if there is no
    /// forecast.
    pub forecast: Arc<ByActor<f64>>,
}

/// Reason why a payload does not match its topic.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct PayloadError(String);

impl Submission {
    /// Validates the payload of `worker` for `topic`. Trims labels, and normalizes their case unless
    /// the topic is case-sensitive. Labels with the default value are omitted.
    ///
    /// # Errors
    /// [`PayloadError`] with the first fault of the payload.
    pub fn checked(
        topic: &Topic,
        worker: Address,
        name: Option<String>,
        payload: Payload,
    ) -> Result<Self, PayloadError> {
        let Payload { values, forecast } = payload;
        if values.is_empty() && forecast.is_empty() {
            let text = "submission has neither an inference nor a forecast";
            return Err(PayloadError(text.to_owned()));
        }
        if forecast.len() > FORECAST_MAX {
            let text = format!("forecast has more than {FORECAST_MAX} inferers");
            return Err(PayloadError(text));
        }
        let loss = |(name, text): (Address, String)| Ok((name, number(&text)?));
        let forecast = forecast.into_iter().map(loss).collect::<Result<_, _>>()?;
        let inference = if values.is_empty() { Vec::new() } else { labeled(topic, values)? };
        Ok(Self { worker, name, inference, forecast: Arc::new(forecast) })
    }

    /// Returns true if there is neither an inference nor a forecast.
    pub fn is_empty(&self) -> bool {
        self.inference.is_empty() && self.forecast.is_empty()
    }

    /// Returns the inferred numbers in the order of `labels`, with `default` for missing labels, or
    /// `None` if there is no inference.
    pub fn values(&self, labels: &[String], default: f64) -> Option<Values> {
        (!self.inference.is_empty()).then(|| numbers(&self.dense(labels, default)))
    }

    /// Returns the inferred values in the order of `labels`, with `default` for missing labels.
    pub fn dense(&self, labels: &[String], default: f64) -> Vec<LabeledValue> {
        dense(&self.inference, labels, default)
    }
}

/// Returns the numbers of `values`.
pub fn numbers(values: &[LabeledValue]) -> Values {
    values.iter().map(|value| value.value).collect()
}

fn labeled(
    topic: &Topic,
    values: Vec<(String, String)>,
) -> Result<Vec<LabeledValue>, PayloadError> {
    let n_max = topic.labeling.per_submission_max;
    if u32::try_from(values.len()).unwrap_or(u32::MAX) > n_max {
        let text = format!("{} values exceed the maximum of {n_max}", values.len());
        return Err(PayloadError(text));
    }
    let mut came = Vec::new();
    for (label, text) in values {
        let value = number(&text)?;
        let label_name = find_label(topic, &label)?;
        if came.iter().any(|value: &LabeledValue| value.label_name == label_name) {
            return Err(PayloadError(format!("duplicate label `{label_name}`")));
        }
        if !topic.value_range.contains(value) {
            let range = topic.value_range;
            let text =
                format!("value {value} of label `{label_name}` is outside the range {range}");
            return Err(PayloadError(text));
        }
        came.push(LabeledValue { label_id: 0, label_name, value });
    }
    let default = topic.labeling.default;
    let says = |value: &LabeledValue| value.value.partial_cmp(&default) != Some(Ordering::Equal);
    if topic.labeling.is_multi && !came.iter().any(says) {
        return Err(PayloadError("all values are the default".to_owned()));
    }
    if let Some(tolerance) = topic.unity_tolerance {
        let sum: f64 = came.iter().map(|value| value.value).sum();
        if (sum - 1.0).abs() > tolerance + SUM_ERROR_MAX {
            let text = format!("require_unity violated: sum={sum} tol={tolerance}");
            return Err(PayloadError(text));
        }
    }
    if topic.is_single() {
        return Ok(dense(&came, &topic.labels, default));
    }
    came.retain(says);
    Ok(came)
}

/// Returns `values` in the order of `labels`, with `default` for missing labels.
fn dense(values: &[LabeledValue], labels: &[String], default: f64) -> Vec<LabeledValue> {
    let by_label: BTreeMap<&String, f64> =
        values.iter().map(|value| (&value.label_name, value.value)).collect();
    let value = |(label_id, label): (u32, &String)| LabeledValue {
        label_id,
        label_name: label.clone(),
        value: by_label.get(label).copied().unwrap_or(default),
    };
    (1..).zip(labels).map(value).collect()
}

/// Returns the label of `topic` to which the submitted text `label` refers. If the topic has a single
/// output, an empty text refers to it.
fn find_label(topic: &Topic, label: &str) -> Result<String, PayloadError> {
    let unknown = || {
        let label: String = label.chars().take(64).collect();
        PayloadError(format!("unknown label `{label}`, expected {}", topic.labels.join(", ")))
    };
    if label.trim().is_empty() && topic.is_single() {
        return Ok(SINGLE_LABEL.to_owned());
    }
    match canonical_label(label, topic.labeling) {
        Some(canonical) if topic.labels.contains(&canonical) => Ok(canonical),
        // A value without a label came as this label.
        Some(canonical) if canonical == SINGLE_LABEL => Err(PayloadError(format!(
            "a single value does not fit the topic, expected values by label: {}",
            topic.labels.join(", ")
        ))),
        _ => Err(unknown()),
    }
}

/// Parses a decimal number of limited length and size.
fn number(text: &str) -> Result<f64, PayloadError> {
    let trimmed = text.trim();
    let fault = match trimmed.parse::<f64>() {
        // 64 characters are enough: a double has at most 17 significant digits, and a decimal of the
        // chain has 34.
        _ if trimmed.len() > 64 => "is longer than 64 characters".to_owned(),
        Ok(number) if number.abs() <= NUMBER_MAX => return Ok(number),
        // The texts `inf` and `nan` have no digits.
        Ok(_) if trimmed.contains(|c: char| c.is_ascii_digit()) => {
            format!("exceeds the maximum of {NUMBER_MAX:e}, with either sign")
        }
        _ => "is not a decimal number".to_owned(),
    };
    let text: String = text.chars().take(80).collect();
    Err(PayloadError(format!("`{text}` {fault}")))
}

#[cfg(test)]
mod tests;
