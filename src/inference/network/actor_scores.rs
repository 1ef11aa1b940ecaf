//! Scores of actors on the leaderboard that need the values of past epochs: directional accuracy and the
//! correlation with the combined value.

use std::collections::{BTreeMap, BTreeSet};

use model::topic::BlockHeight;
use wire::inference::LabeledValue;

use crate::math::regret::Role;
use crate::math::statistics::{count, mean};
use crate::network::topic::Truth;
use crate::store::EpochActor;

/// Minimum number of epochs for a correlation.
const CORRELATED_EPOCHS_MIN: usize = 3;

/// Values of an actor in an epoch by label, each with the combined value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct EpochValues {
    own: BTreeMap<String, f64>,
    combined: BTreeMap<String, f64>,
}

/// Values of each actor by epoch, and the latest name of each worker.
#[derive(Debug, Default)]
pub(super) struct PastValues {
    by_actor: BTreeMap<(Role, String), BTreeMap<BlockHeight, EpochValues>>,
    names: BTreeMap<String, String>,
}

/// Scores of an actor. `None` without epochs that they can be computed from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ValueScores {
    /// Share of epochs in which the direction, or the most probable label, was right, 0 to 1.
    pub(super) directional_accuracy: Option<f64>,
    /// Correlation of the actor's changes or probabilities with the combined ones, −1 to 1.
    pub(super) correlation: Option<f64>,
}

/// Ground truths by epoch, each with the latest ground truth that was known when the epoch opened.
pub(super) type Truths<'a> =
    BTreeMap<BlockHeight, (&'a [LabeledValue], Option<&'a [LabeledValue]>)>;

impl PastValues {
    /// Collects the values of `rows`, oldest first.
    pub(super) fn new(rows: Vec<EpochActor>) -> Self {
        let mut values = Self::default();
        for row in rows {
            if let Some(name) = row.name {
                values.names.insert(row.worker.clone(), name);
            }
            let epochs = values.by_actor.entry((row.role, row.worker)).or_default();
            let epoch = epochs.entry(row.nonce).or_default();
            if let Some(combined) = row.combined_value {
                epoch.combined.insert(row.label.clone(), combined);
            }
            epoch.own.insert(row.label, row.value);
        }
        values
    }

    /// Returns the latest name of `worker`, if known.
    pub(super) fn name(&self, worker: &str) -> Option<String> {
        self.names.get(worker).cloned()
    }

    /// Returns the scores of an actor over the epochs `counted`.
    pub(super) fn scores(
        &self,
        (role, worker): (Role, &str),
        counted: &BTreeSet<BlockHeight>,
        truth: &Truth,
        truths: &Truths<'_>,
    ) -> ValueScores {
        let Some(epochs) = self.by_actor.get(&(role, worker.to_owned())) else {
            return ValueScores::default();
        };
        let (mut n_right, mut n_judged) = (0_usize, 0_usize);
        let (mut own, mut combined) = (Vec::new(), Vec::new());
        let mut n_compared = 0;
        for (nonce, values) in epochs.iter().filter(|(nonce, _)| counted.contains(nonce)) {
            let Some((outcome, before)) = truths.get(nonce) else { continue };
            let is_right = match truth {
                Truth::Direction { .. } => is_label_right(values, outcome),
                Truth::Value => is_direction_right(values, outcome, *before),
            };
            n_judged += usize::from(is_right.is_some());
            n_right += usize::from(is_right == Some(true));
            // Values follow the latest ground truth, so that only their changes from it are compared.
            let base = match truth {
                Truth::Direction { .. } => Some(0.0),
                Truth::Value => before.and_then(|before| before.first()).map(|value| value.value),
            };
            let pairs = values.own.iter().filter_map(|(label, value)| {
                Some((value - base?, values.combined.get(label)? - base?))
            });
            let (of_actor, of_network): (Vec<f64>, Vec<f64>) = pairs.unzip();
            n_compared += usize::from(!of_actor.is_empty());
            own.extend(of_actor);
            combined.extend(of_network);
        }
        ValueScores {
            directional_accuracy: (n_judged > 0).then(|| count(n_right) / count(n_judged)),
            correlation: correlation(&own, &combined)
                .filter(|_| n_compared >= CORRELATED_EPOCHS_MIN),
        }
    }
}

/// Returns true if the value differs from the ground truth `before` in the same direction as the outcome.
/// `None` if the ground truth did not change.
fn is_direction_right(
    values: &EpochValues,
    outcome: &[LabeledValue],
    before: Option<&[LabeledValue]>,
) -> Option<bool> {
    let (own, outcome) = (values.own.values().next()?, outcome.first()?.value);
    let before = before?.first()?.value;
    let change = outcome - before;
    (change.abs() > 0.0).then(|| (own - before) * change > 0.0)
}

/// Returns true if the most probable label is the right one, and no other label is as probable.
fn is_label_right(values: &EpochValues, outcome: &[LabeledValue]) -> Option<bool> {
    let likely = values.own.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let n_likely = values.own.values().filter(|value| value.total_cmp(likely.1).is_eq()).count();
    if n_likely > 1 {
        return Some(false);
    }
    let right = outcome.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    Some(*likely.0 == right.label_name)
}

/// Returns Pearson's correlation of pairs, or `None` without variation.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let products = a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b)).sum::<f64>();
    let squares =
        |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let correlation = products / (squares(a, mean_a) * squares(b, mean_b)).sqrt();
    correlation.is_finite().then(|| correlation.clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use model::timestamp::Timestamp;

    use super::*;

    fn actor(nonce: BlockHeight, label: &str, value: f64, combined: f64) -> EpochActor {
        EpochActor {
            opened_at: Timestamp::default(),
            nonce,
            worker: "allo1a".to_owned(),
            role: Role::Inferer,
            name: None,
            label: label.to_owned(),
            value,
            weight: None,
            loss: None,
            score: None,
            truth: None,
            combined_value: Some(combined),
            naive_value: None,
            combined_loss: None,
            naive_loss: None,
        }
    }

    fn labeled(values: &[(&str, f64)]) -> Vec<LabeledValue> {
        let value = |(id, (name, value)): (u32, &(&str, f64))| LabeledValue {
            label_id: id,
            label_name: (*name).to_owned(),
            value: *value,
        };
        (1..).zip(values).map(value).collect()
    }

    fn scores(rows: Vec<EpochActor>, truth: &Truth, outcomes: &[Vec<LabeledValue>]) -> ValueScores {
        let mut truths = Truths::new();
        let mut before = None;
        for (nonce, outcome) in (1..).zip(outcomes) {
            truths.insert(nonce, (outcome.as_slice(), before.replace(outcome.as_slice())));
        }
        let counted = truths.keys().copied().collect();
        PastValues::new(rows).scores((Role::Inferer, "allo1a"), &counted, truth, &truths)
    }

    #[test]
    fn direction_is_measured_from_the_previous_truth() {
        // Up, down and up again. The second prediction has the wrong direction.
        let outcomes = [100.0, 101.0, 99.0, 102.0].map(|value| labeled(&[("y", value)]));
        let rows = [(1, 100.0, 100.0), (2, 100.5, 100.25), (3, 101.5, 101.25), (4, 99.5, 99.25)];
        let rows = rows.map(|(nonce, value, combined)| actor(nonce, "y", value, combined));
        let scores = scores(rows.to_vec(), &Truth::Value, &outcomes);
        assert_eq!(scores.directional_accuracy, Some(2.0 / 3.0));
        // Changes that are always 0.5 and always 0.25 do not vary.
        assert_eq!(scores.correlation, None);
    }

    #[test]
    fn most_probable_label_counts_on_topics_with_labels() {
        let up = labeled(&[("up", 1.0), ("down", 0.0)]);
        let down = labeled(&[("up", 0.0), ("down", 1.0)]);
        let outcomes = [up.clone(), down, up];
        let row =
            |nonce, up: f64| [actor(nonce, "up", up, up), actor(nonce, "down", 1.0 - up, 1.0 - up)];
        let rows = [row(1, 0.75), row(2, 0.625), row(3, 0.5)].concat();
        let scores = scores(rows, &Truth::Direction { threshold: 0.0 }, &outcomes);
        assert_eq!(
            scores.directional_accuracy,
            Some(1.0 / 3.0),
            "equal probabilities are not right"
        );
        assert_eq!(scores.correlation, Some(1.0), "equal to the combined value");
    }

    #[test]
    fn correlation_needs_variation() {
        assert_eq!(correlation(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
    }
}
