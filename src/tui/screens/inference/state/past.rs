//! What a topic combined to, epoch by epoch: from the service's history, and from the bundles that
//! came while the screen was open.

use std::collections::BTreeMap;

use model::{
    timestamp::Timestamp,
    topic::{Address, BlockHeight},
};
use wire::inference::{Bundle, HistoryEpoch, LabeledValue, TopicHistory};

/// Epochs kept: more than a chart has columns of dots.
const EPOCHS_MAX: usize = 600;

/// Bundles whose actors' values are kept: as many as a narrow sparkline has columns.
pub(crate) const VALUES_MAX: usize = 24;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Epoch {
    /// When it opened, or when its bundle came.
    pub(crate) time: Timestamp,
    /// Label to combined value.
    pub(crate) combined: BTreeMap<String, f64>,
    /// Label to naive value.
    pub(crate) naive: BTreeMap<String, f64>,
    /// Label to ground truth; empty until known.
    pub(crate) truth: BTreeMap<String, f64>,
}

/// Epochs by their nonce.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History {
    epochs: BTreeMap<BlockHeight, Epoch>,
    /// The actors' values in the newest bundles.
    values: BTreeMap<BlockHeight, BTreeMap<Address, BTreeMap<String, f64>>>,
}

impl History {
    /// The epochs, oldest first.
    pub(crate) fn epochs(&self) -> impl DoubleEndedIterator<Item = &Epoch> {
        self.epochs.values()
    }

    /// The epochs, oldest first, and none in the place of each stretch that was not seen.
    pub(crate) fn epochs_with_gaps(&self) -> Vec<Option<&Epoch>> {
        let epochs = self.epochs.iter().map(|(nonce, epoch)| (*nonce, epoch));
        self.with_gaps(epochs).collect()
    }

    /// The combined values of `label`, oldest first; none where there is none, and in the place of
    /// each stretch that was not seen.
    pub(crate) fn combined_with_gaps(&self, label: &str) -> Vec<Option<f64>> {
        let epochs = self.epochs_with_gaps().into_iter();
        epochs.map(|epoch| epoch?.combined.get(label).copied()).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.epochs.len()
    }

    /// What `worker` said under `label` in the newest bundles, oldest first; none where it did not.
    pub(crate) fn values_of(&self, worker: &Address, label: &str) -> Vec<Option<f64>> {
        let of = |actors: &BTreeMap<Address, BTreeMap<String, f64>>| {
            actors.get(worker)?.get(label).copied()
        };
        self.values.values().map(of).collect()
    }

    /// The same with when, as far as that is known; not a number where it said nothing, and in the
    /// place of epochs that were not seen.
    pub(crate) fn timeline_of(&self, worker: &Address, label: &str) -> Vec<(Timestamp, f64)> {
        let told = self.values.iter().filter_map(|(nonce, actors)| {
            let value = actors.get(worker).and_then(|values| values.get(label)).copied();
            Some((*nonce, (self.epochs.get(nonce)?.time, value.unwrap_or(f64::NAN))))
        });
        let mut timeline: Vec<(Timestamp, f64)> = Vec::new();
        for told in self.with_gaps(told) {
            let gap = timeline.last().map(|(time, _)| (*time, f64::NAN));
            timeline.extend(told.or(gap));
        }
        timeline
    }

    /// Takes what the actors of a bundle said.
    pub(crate) fn take_values(&mut self, bundle: &Bundle) {
        let actors = bundle.inferer_values.iter().chain(&bundle.forecaster_values);
        let actors = actors.map(|actor| (actor.worker.clone(), values(&actor.values)));
        self.values.insert(bundle.nonce, actors.collect());
        while self.values.len() > VALUES_MAX {
            self.values.pop_first();
        }
    }

    /// Takes what the service remembers, over what was seen here.
    pub(crate) fn take_history(&mut self, history: TopicHistory) {
        for epoch in history.epochs {
            let HistoryEpoch { nonce, opened_at, combined_value, naive_value, truth, .. } = epoch;
            let Ok(time) = opened_at.parse() else { continue };
            let (combined, naive) = (values(&combined_value), values(&naive_value));
            self.epochs.insert(nonce, Epoch { time, combined, naive, truth: values(&truth) });
        }
        self.trim();
    }

    /// Takes a bundle that came at `now`, unless its epoch is known already.
    pub(crate) fn take_bundle(&mut self, bundle: &Bundle, now: Timestamp) {
        self.epochs.entry(bundle.nonce).or_insert_with(|| Epoch {
            time: now,
            combined: values(&bundle.combined_value),
            naive: values(&bundle.naive_value),
            truth: BTreeMap::new(),
        });
        self.trim();
    }

    /// `values` by rising nonces, and none in the place of each stretch that was not seen.
    fn with_gaps<T>(
        &self,
        values: impl Iterator<Item = (BlockHeight, T)>,
    ) -> impl Iterator<Item = Option<T>> {
        let step = step_max(self.epochs.keys().copied());
        let mut before = None;
        values.flat_map(move |(nonce, value)| {
            let before: Option<BlockHeight> = before.replace(nonce);
            let is_gap = before.is_some_and(|before| nonce.saturating_sub(before) > step);
            is_gap.then_some(None).into_iter().chain([Some(value)])
        })
    }

    fn trim(&mut self) {
        while self.epochs.len() > EPOCHS_MAX {
            self.epochs.pop_first();
        }
    }
}

/// The most blocks between two of `nonces`, in rising order, with no epoch missing in between: half
/// more than is usual, for epochs open a block early or late. No limit where fewer than two are known.
fn step_max(nonces: impl Iterator<Item = BlockHeight> + Clone) -> BlockHeight {
    let pairs = nonces.clone().zip(nonces.skip(1));
    let mut steps: Vec<BlockHeight> = pairs.map(|(one, next)| next.saturating_sub(one)).collect();
    steps.sort_unstable();
    // The lower middle, so that of two steps the longer one is the gap.
    let usual = steps.get(steps.len().saturating_sub(1) / 2);
    usual.map_or(BlockHeight::MAX, |usual| usual.saturating_add(usual / 2))
}

/// The number of a decimal text.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The value of `label` among `values`.
pub(crate) fn label_value(values: &[LabeledValue], label: &str) -> Option<f64> {
    let found = values.iter().find(|value| value.label_name == label)?;
    Some(found.value).filter(|value| value.is_finite())
}

fn values(values: &[LabeledValue]) -> BTreeMap<String, f64> {
    let finite = values.iter().filter(|value| value.value.is_finite());
    finite.map(|value| (value.label_name.clone(), value.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_a_gap_at_missing_epochs_and_none_at_late_ones() {
        let epochs = BTreeMap::from([1, 13, 26, 37, 73, 85].map(|nonce| (nonce, Epoch::default())));
        let seen = History { epochs, ..History::default() };
        let is_gap: Vec<bool> = seen.epochs_with_gaps().iter().map(Option::is_none).collect();
        assert_eq!(is_gap, [false, false, false, false, true, false, false]);
    }
}
