//! Submissions: what an actor hands in for one epoch, checked against its topic.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use model::topic::{Address, SINGLE_LABEL};

use wire::inference::LabeledValue;

use crate::{
    math::{regret::ByActor, sortition::Record, synthesis::Values},
    network::topic::{Topic, canonical_label},
};

/// The longest number taken, in bytes. A double has at most 17 significant digits; exact decimals
/// of the chain have 34.
const NUMBER_BYTES_MAX: usize = 64;

/// The largest absolute number that is accepted: the chain carries values and losses of payloads as
/// `BoundedExp40Dec` (`math/bounded_exp40dec.go`), which reaches from -1e40 to 1e40.
const NUMBER_MAX: f64 = 1e40;

/// The most inferers a forecast may be about: as many as an epoch takes.
pub const FORECAST_MAX: usize = 1024;

/// How many workers of one submitter an epoch takes; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerQuota(pub u32);

impl WorkerQuota {
    /// A few models side by side, and far from all that an epoch takes.
    pub const USUAL: Self = Self(16);

    /// Whether an epoch takes `n_workers` of one submitter.
    pub const fn allows(self, n_workers: u32) -> bool {
        self.0 == 0 || n_workers <= self.0
    }
}

/// Whose submissions count together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitter {
    /// The network itself: the nodes that run the topic's predictor. They are not counted.
    Network,
    /// An API key that the operator made, by its number.
    Key(i64),
    /// Somebody who signed up, by the account's number: all their keys count together.
    Account(i64),
}

impl Submitter {
    /// Whether the operator submits.
    pub const fn is_operators(self) -> bool {
        matches!(self, Self::Network | Self::Key(_))
    }

    /// What its workers are counted under; none where they are not.
    pub fn counter(self) -> Option<String> {
        match self {
            Self::Network => None,
            Self::Key(key) => Some(format!("key:{key}")),
            Self::Account(account) => Some(format!("account:{account}")),
        }
    }
}

/// Where a submission comes from: what it is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The account or key behind the payload.
    pub submitter: Submitter,
    /// How many workers the submitter may have.
    pub quota: WorkerQuota,
    /// What is known of the worker.
    pub record: Record,
    /// Whether it is checked, and not kept.
    pub is_dry_run: bool,
}

impl Origin {
    /// A worker of the network itself.
    pub const NETWORK: Self = Self {
        submitter: Submitter::Network,
        quota: WorkerQuota(0),
        record: Record::Trusted,
        is_dry_run: false,
    };
}

/// What an actor hands in, as it came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// Its values by label, as decimal texts; empty if it does not infer.
    pub values: Vec<(String, String)>,
    /// The losses it expects of inferers, as decimal texts; empty if it does not forecast.
    pub forecast: BTreeMap<Address, String>,
}

/// What an actor handed in, fit for its topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The worker's address on the chain.
    pub worker: Address,
    /// Who is behind the address, where that is known.
    pub name: Option<String>,
    /// The value of a topic with one output. Otherwise the submitted values that differ from the
    /// default: without ids until the labels of their epoch are known. Empty if it does not infer.
    pub inference: Vec<LabeledValue>,
    /// The losses it expects, by inferer. Shared, since there may be a thousand.
    pub forecast: Arc<ByActor<f64>>,
}

/// A payload is unfit for its topic, as the text says.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct PayloadError(String);

impl Submission {
    /// Checks the payload of `worker` against `topic`. Labels are trimmed and compared without
    /// regard to case; those with the default value count as missing.
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
            let text = "cannot take a submission without an inference or a forecast";
            return Err(PayloadError(text.to_owned()));
        }
        if forecast.len() > FORECAST_MAX {
            let text = format!("cannot take a forecast about more than {FORECAST_MAX} inferers");
            return Err(PayloadError(text));
        }
        let loss = |(name, text): (Address, String)| Ok((name, number(&text)?));
        let forecast = forecast.into_iter().map(loss).collect::<Result<_, _>>()?;
        let inference = if values.is_empty() { Vec::new() } else { labeled(topic, values)? };
        Ok(Self { worker, name, inference, forecast: Arc::new(forecast) })
    }

    /// Whether it neither infers nor forecasts.
    pub fn is_empty(&self) -> bool {
        self.inference.is_empty() && self.forecast.is_empty()
    }

    /// The values as numbers, in the order of `labels`, each of those that is missing as `default`;
    /// none if it does not infer.
    pub fn values(&self, labels: &[String], default: f64) -> Option<Values> {
        (!self.inference.is_empty()).then(|| numbers(&self.dense(labels, default)))
    }

    /// The values under `labels`, each of those that is missing as `default`.
    pub fn dense(&self, labels: &[String], default: f64) -> Vec<LabeledValue> {
        dense(&self.inference, labels, default)
    }
}

/// The numbers of `values`, in their order.
pub fn numbers(values: &[LabeledValue]) -> Values {
    values.iter().map(|value| value.value).collect()
}

/// `values` under `labels`, with the labels' ids.
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

fn labeled(
    topic: &Topic,
    values: Vec<(String, String)>,
) -> Result<Vec<LabeledValue>, PayloadError> {
    let n_max = topic.labeling.per_submission_max;
    if u32::try_from(values.len()).unwrap_or(u32::MAX) > n_max {
        let text = format!("cannot take {} values: the topic takes {n_max} at most", values.len());
        return Err(PayloadError(text));
    }
    let mut came = Vec::new();
    for (label, text) in values {
        let value = number(&text)?;
        let label_name = find_label(topic, &label)?;
        if came.iter().any(|value: &LabeledValue| value.label_name == label_name) {
            return Err(PayloadError(format!("cannot take label `{label_name}` more than once")));
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
        return Err(PayloadError("cannot take values that are all the default".to_owned()));
    }
    if let Some(tolerance) = topic.unity_tolerance {
        let sum: f64 = came.iter().map(|value| value.value).sum();
        if (sum - 1.0).abs() > tolerance {
            let text = format!("require_unity violated: sum={sum} tol={tolerance}");
            return Err(PayloadError(format!("cannot take the values: {text}")));
        }
    }
    if topic.is_single() {
        return Ok(dense(&came, &topic.labels, default));
    }
    came.retain(says);
    Ok(came)
}

/// `values` under `labels`, each of those that is missing as `default`.
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

/// The label that `label` means on `topic`. An empty one means the only one.
fn find_label(topic: &Topic, label: &str) -> Result<String, PayloadError> {
    let unknown = || {
        let label: String = label.chars().take(64).collect();
        PayloadError(format!("cannot take label `{label}`, which the topic does not have"))
    };
    if label.trim().is_empty() && topic.is_single() {
        return Ok(SINGLE_LABEL.to_owned());
    }
    let canonical = canonical_label(label, topic.labeling).ok_or_else(unknown)?;
    if topic.takes_any_label() || topic.labels.contains(&canonical) {
        Ok(canonical)
    } else {
        Err(unknown())
    }
}

/// The number that `text` is, if it is a decimal one of reasonable size.
fn number(text: &str) -> Result<f64, PayloadError> {
    let trimmed = text.trim();
    let number: Option<f64> =
        if trimmed.len() <= NUMBER_BYTES_MAX { trimmed.parse().ok() } else { None };
    number.filter(|number| number.abs() <= NUMBER_MAX).ok_or_else(|| {
        let text: String = text.chars().take(80).collect();
        PayloadError(format!("cannot read `{text}` as a decimal number"))
    })
}

#[cfg(test)]
mod tests;
