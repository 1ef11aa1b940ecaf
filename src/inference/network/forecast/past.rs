//! Past epochs, as built-in forecasters remember them: what inferers said and what they lost.
//!
//! An inference is kept as its offset from the crowd, which is the median of all inferences: so
//! epochs at different prices compare.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use model::topic::Address;

use crate::math::{loss::LossRule, regret::ByActor, statistics::median, synthesis::Values};

/// The most epochs that are remembered: enough to have seen each state of a source several times,
/// and few enough to forget what no longer holds.
const EPOCHS_MAX: usize = 256;

/// The most bytes that the remembered epochs of one topic take: [`EPOCHS_MAX`] of a dozen inferers
/// with three labels, and the newest five of a thousand with one. They are written in each lesson.
const BYTES_MAX: usize = 128 * 1024;

/// Past epochs of a topic, oldest first: at most 256 of them, and at most 128 KiB.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Past {
    epochs: VecDeque<PastEpoch>,
}

/// One past epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct PastEpoch {
    /// The inferers, in order. Epochs of the same inferers share them.
    pub names: Arc<[Address]>,
    /// What each lost, in the order of the names.
    pub losses: Vec<f64>,
    /// How far each was from the crowd, in the order of the names: label by label.
    pub offsets: Vec<f64>,
}

/// An inferer that is present and has past losses.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged<'p> {
    /// The inferer's address on the chain.
    pub name: &'p Address,
    /// How far it is from the crowd today, label by label.
    pub offset: &'p [f64],
    /// The past epochs that it took part in, with as many labels as today, oldest first.
    pub samples: Vec<Sample<'p>>,
}

/// One inferer in one past epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample<'p> {
    /// The epoch's place, oldest first.
    pub epoch_idx: usize,
    /// How far the inferer was from the crowd, label by label.
    pub offset: &'p [f64],
    /// Its loss, never a logarithm.
    pub plain_loss: f64,
}

impl Past {
    /// `epochs`, oldest first, within the limits: the oldest ones are left out.
    pub fn new(epochs: impl IntoIterator<Item = PastEpoch>) -> Self {
        let mut past = Self { epochs: epochs.into_iter().collect() };
        past.trim();
        past
    }

    /// The epochs, oldest first.
    pub fn epochs(&self) -> impl ExactSizeIterator<Item = &PastEpoch> {
        self.epochs.iter()
    }

    /// Remembers an epoch in which `inferences` lost `losses`. Inferers without a loss are left out.
    pub fn remember(&mut self, inferences: &BTreeMap<Address, Values>, losses: &ByActor<f64>) {
        let offsets = offsets(inferences);
        let judged = || offsets.iter().filter_map(|(name, o)| Some((name, o, *losses.get(name)?)));
        let names: Vec<Address> = judged().map(|(name, ..)| name.clone()).collect();
        let last = self.epochs.back().filter(|last| *last.names == *names);
        let names = last.map_or_else(|| names.into(), |last| Arc::clone(&last.names));
        if names.is_empty() {
            return;
        }
        self.epochs.push_back(PastEpoch {
            names,
            losses: judged().map(|(_, _, loss)| loss).collect(),
            offsets: judged().flat_map(|(_, offset, _)| offset).copied().collect(),
        });
        self.trim();
    }

    fn trim(&mut self) {
        while self.epochs.len() > EPOCHS_MAX || self.bytes() > BYTES_MAX {
            self.epochs.pop_front();
        }
    }

    /// How many bytes the epochs take: names count where they are not those of the epoch before.
    fn bytes(&self) -> usize {
        let mut before: Option<&Arc<[Address]>> = None;
        let mut n_bytes = 0;
        for epoch in &self.epochs {
            n_bytes += size_of::<f64>() * (epoch.losses.len() + epoch.offsets.len());
            if before.is_none_or(|before| before != &epoch.names) {
                n_bytes += epoch.names.iter().map(|name| name.as_str().len()).sum::<usize>();
            }
            before = Some(&epoch.names);
        }
        n_bytes
    }

    /// The inferers of `offsets`, in order, that have past losses by `rule`.
    pub(super) fn judged<'p>(
        &'p self,
        offsets: &'p BTreeMap<Address, Values>,
        rule: LossRule,
    ) -> Vec<Judged<'p>> {
        let all = offsets.iter().map(|(name, offset)| {
            let samples = self.samples(name, offset.len(), rule);
            Judged { name, offset, samples }
        });
        all.filter(|one| !one.samples.is_empty()).collect()
    }

    /// The epochs with `n_labels` labels that `name` took part in, oldest first.
    fn samples(&self, name: &Address, n_labels: usize, rule: LossRule) -> Vec<Sample<'_>> {
        let epochs = self.epochs.iter().enumerate();
        let comparable = epochs.filter(|(_, epoch)| epoch.n_labels() == n_labels);
        comparable
            .filter_map(|(epoch_idx, epoch)| {
                let place = epoch.names.binary_search(name).ok()?;
                let offset = epoch.offsets.get(place * n_labels..(place + 1) * n_labels)?;
                let plain_loss = rule.plain(*epoch.losses.get(place)?);
                Some(Sample { epoch_idx, offset, plain_loss })
            })
            .collect()
    }
}

impl PastEpoch {
    /// How many labels it had.
    pub fn n_labels(&self) -> usize {
        self.offsets.len() / self.names.len().max(1)
    }
}

/// How far each of `inferences` is from the crowd, which is the median of all, label by label.
pub(super) fn offsets(inferences: &BTreeMap<Address, Values>) -> BTreeMap<Address, Values> {
    let n_labels = inferences.values().map(Vec::len).max().unwrap_or_default();
    let of_label = |label_idx: usize| {
        let all: Vec<f64> =
            inferences.values().filter_map(|values| values.get(label_idx)).copied().collect();
        median(&all).unwrap_or_default()
    };
    let crowd: Values = (0..n_labels).map(of_label).collect();
    let offset = |values: &Values| -> Values {
        // The difference of two numbers near the largest there is would be no number.
        let apart = values.iter().zip(&crowd).map(|(value, crowd)| value - crowd);
        apart.map(|offset| offset.clamp(f64::MIN, f64::MAX)).collect()
    };
    let whole = inferences.iter().filter(|(_, values)| values.len() == n_labels);
    whole.map(|(name, values)| (name.clone(), offset(values))).collect()
}

/// How far an inference is from the crowd: the length of its offset.
pub(super) fn distance(offset: &[f64]) -> f64 {
    offset.iter().map(|part| part * part).sum::<f64>().sqrt()
}
