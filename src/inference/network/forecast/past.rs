//! Past epochs for the built-in forecasters: inferences and losses of inferers.
//!
//! Inferences are stored as offsets from the crowd, which is the median of all inferences, so that
//! epochs at different prices can be compared.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::topic::Address;

use crate::math::loss::LossRule;
use crate::math::regret::ByActor;
use crate::math::statistics::median;
use crate::math::synthesis::Values;

/// Maximum number of stored epochs: enough for each state of a source to occur several times, but few
/// enough to forget outdated patterns.
const EPOCHS_MAX: usize = 256;

/// Maximum size of a topic's stored epochs, in bytes: [`EPOCHS_MAX`] of a dozen inferers with three
/// labels, or the latest five of a thousand with a single label. They are written with each learned
/// epoch.
const BYTES_MAX: usize = 128 * 1024;

/// Past epochs of a topic, oldest first: at most 256 epochs and 128 KiB.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Past {
    epochs: VecDeque<PastEpoch>,
}

/// A past epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct PastEpoch {
    /// Inferers in order. Epochs with the same inferers share them.
    pub names: Arc<[Address]>,
    /// Loss of each inferer.
    pub losses: Vec<f64>,
    /// Offset of each inferer from the crowd, by label.
    pub offsets: Vec<f64>,
}

/// A current inferer with past losses.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged<'p> {
    /// Address of the inferer on the chain.
    pub name: &'p Address,
    /// Current offset from the crowd, by label.
    pub offset: &'p [f64],
    /// Past epochs with this inferer and the same number of labels, oldest first.
    pub samples: Vec<Sample<'p>>,
}

/// An inferer in a past epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample<'p> {
    /// Index of the epoch, oldest first.
    pub epoch_idx: usize,
    /// Offset of the inferer from the crowd, by label.
    pub offset: &'p [f64],
    /// Loss of the inferer, not logarithmic.
    pub plain_loss: f64,
}

impl Past {
    /// Creates a history of `epochs`, oldest first. The oldest epochs beyond the limits are dropped.
    pub fn new(epochs: impl IntoIterator<Item = PastEpoch>) -> Self {
        let mut past = Self { epochs: epochs.into_iter().collect() };
        past.trim();
        past
    }

    /// Returns the epochs, oldest first.
    pub fn epochs(&self) -> impl ExactSizeIterator<Item = &PastEpoch> {
        self.epochs.iter()
    }

    /// Adds an epoch with these `inferences` and `losses`. Inferers without a loss are omitted.
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

    /// Returns the size of the epochs in bytes. Shared names count once.
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

    /// Returns the inferers of `offsets` that have past losses, in order.
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

    /// Returns the epochs with `name` and `n_labels` labels, oldest first.
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
    /// Returns the number of labels.
    pub fn n_labels(&self) -> usize {
        self.offsets.len() / self.names.len().max(1)
    }
}

/// Returns the offset of each inference from the crowd, which is the median of all, by label.
pub(super) fn offsets(inferences: &BTreeMap<Address, Values>) -> BTreeMap<Address, Values> {
    let n_labels = inferences.values().map(Vec::len).max().unwrap_or_default();
    let of_label = |label_idx: usize| {
        let all: Vec<f64> =
            inferences.values().filter_map(|values| values.get(label_idx)).copied().collect();
        median(&all).unwrap_or_default()
    };
    let crowd: Values = (0..n_labels).map(of_label).collect();
    let offset = |values: &Values| -> Values {
        // The difference of two very large numbers can overflow.
        let apart = values.iter().zip(&crowd).map(|(value, crowd)| value - crowd);
        apart.map(|offset| offset.clamp(f64::MIN, f64::MAX)).collect()
    };
    let whole = inferences.iter().filter(|(_, values)| values.len() == n_labels);
    whole.map(|(name, values)| (name.clone(), offset(values))).collect()
}

/// Returns the distance of an inference from the crowd: the length of its offset.
pub(super) fn distance(offset: &[f64]) -> f64 {
    offset.iter().map(|part| part * part).sum::<f64>().sqrt()
}
