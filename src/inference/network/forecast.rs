//! Built-in forecasters of a topic.
//!
//! They expect losses of inferers from the inferences of an epoch and from the inferences and losses of
//! past epochs. They see neither the ground truth nor the rows, since inferences reflect the state of
//! the source well enough. Inferers without a past loss are not part of a forecast.
//!
//! If a topic uses logarithmic losses, [`STEADY`] averages logarithms, as regrets do, while the others
//! use the logarithm of an average. [`STEADY`] prefers inferers that are often very close. The others
//! prefer inferers that are rarely far off.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::topic::Address;

use crate::math::loss::LossRule;
use crate::math::regret::ByActor;
use crate::math::statistics::{count, deviation, median, moving_average};
use crate::math::synthesis::Values;
use crate::network::addresses;

/// Weight of the latest loss in the moving average for [`STEADY`] and [`MEAN`]. It remembers about twenty
/// epochs, four times as long as the demo's regrets, so that it adds information.
pub(crate) const LOSS_AVERAGE_ALPHA: f64 = 0.05;

/// Expects the moving average of each inferer's past losses, as counted by the topic.
pub const STEADY: &str = "steady";

/// Expects the moving average of each inferer's past losses before any logarithm.
pub const MEAN: &str = "mean";

/// Expects each inferer's loss in the past epochs with the most similar inferences.
pub const SIMILAR: &str = "similar";

/// Expects each inferer's loss in the past when it was as far from the others as now.
pub const WARY: &str = "wary";

/// Expects each inferer's loss in the latest epochs, since the state of the source persists.
pub const RECENT: &str = "recent";

/// Forecast of a built-in forecaster.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Name of the forecaster: [`STEADY`], [`MEAN`], [`SIMILAR`], [`WARY`] or [`RECENT`].
    pub name: &'static str,
    /// Address of the forecaster on the chain.
    pub address: Address,
    /// Expected loss of each inferer with past losses.
    pub losses: ByActor<f64>,
}

/// Returns the forecast of each built-in forecaster for `inferences`, in losses as `rule` defines them.
/// Empty forecasts are omitted. Before the losses of an epoch are known, all are empty. If losses are not
/// logarithmic, [`MEAN`] is omitted, since it would equal [`STEADY`].
pub fn built_in(
    inferences: &BTreeMap<Address, Values>,
    past: &Past,
    loss_averages: &ByActor<f64>,
    rule: LossRule,
) -> Vec<Forecast> {
    let offsets = offsets(inferences);
    let judged = past.judged(&offsets, rule);
    let known = |name: &Address| Some((name.clone(), *loss_averages.get(name)?));
    let steady: ByActor<f64> = inferences.keys().filter_map(known).collect();
    let by_rule = |plain: ByActor<f64>| -> ByActor<f64> {
        plain.into_iter().map(|(name, loss)| (name, rule.of_plain(loss))).collect()
    };
    let average = |alpha| by_rule(expect_average(&judged, alpha));
    let mean = if rule.allow_negative { ByActor::new() } else { average(LOSS_AVERAGE_ALPHA) };
    // This average forgets within two epochs, while states of the demo last a dozen epochs.
    let recent = average(0.9);
    let similar = by_rule(expect_similar(past, &judged));
    let wary = by_rule(expect_wary(past, &offsets, &judged));
    let all = [(STEADY, steady), (MEAN, mean), (SIMILAR, similar), (WARY, wary), (RECENT, recent)];
    all.into_iter()
        .filter(|(_, losses)| !losses.is_empty())
        .map(|(name, losses)| Forecast { name, address: addresses::of_forecaster(name), losses })
        .collect()
}

/// Returns the moving average of the plain losses of each inferer, with the weight `alpha` of the
/// latest.
fn expect_average(judged: &[Judged<'_>], alpha: f64) -> ByActor<f64> {
    let average = |judged: &Judged<'_>| {
        let losses = judged.samples.iter().map(|sample| sample.plain_loss);
        losses.fold(None, |mean, loss| Some(moving_average(mean, loss, alpha)))
    };
    judged.iter().filter_map(|one| Some((one.name.clone(), average(one)?))).collect()
}

/// Number of past epochs considered similar: few enough to distinguish states, enough to average
/// out luck.
const N_SIMILAR: usize = 20;

/// Weight of an inferer's mean loss. Each similar epoch has the weight 1.
const MEAN_COUNTS: f64 = 5.0;

/// Distance of an epoch from the current one: a sum over the inferers of both.
#[derive(Clone, Copy, Default)]
struct Unlikeness {
    sum: f64,
    n_inferers: usize,
}

/// Returns the mean plain loss of each inferer in the [`N_SIMILAR`] past epochs whose offsets,
/// normalized by their spreads, are closest to the current offsets. The mean is shrunk toward the
/// overall mean of the inferer.
fn expect_similar(past: &Past, judged: &[Judged<'_>]) -> ByActor<f64> {
    let mut unlike = vec![Unlikeness::default(); past.epochs().len()];
    for Judged { offset, samples, .. } in judged {
        let spreads = spreads(samples, offset.len());
        for sample in samples {
            let pairs = sample.offset.iter().zip(offset.iter()).zip(&spreads);
            let sum: f64 = pairs.map(|((a, b), spread)| ((a - b) / spread).powi(2)).sum();
            if let Some(unlike) = unlike.get_mut(sample.epoch_idx) {
                unlike.sum += sum;
                unlike.n_inferers += 1;
            }
        }
    }
    let mut order: Vec<(f64, usize)> = (unlike.iter().enumerate())
        .filter(|(_, unlike)| unlike.n_inferers > 0)
        .map(|(idx, unlike)| (unlike.sum / count(unlike.n_inferers), idx))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut is_similar = vec![false; unlike.len()];
    for (_, idx) in order.into_iter().take(N_SIMILAR) {
        if let Some(is_similar) = is_similar.get_mut(idx) {
            *is_similar = true;
        }
    }
    let loss = |samples: &[Sample<'_>]| {
        let all = samples.iter().map(|sample| sample.plain_loss);
        let mean = all.sum::<f64>() / count(samples.len());
        let similar =
            samples.iter().filter(|s| is_similar.get(s.epoch_idx).copied().unwrap_or(false));
        let n_similar = similar.clone().count();
        let sum: f64 = similar.map(|sample| sample.plain_loss).sum();
        (sum + MEAN_COUNTS * mean) / (count(n_similar) + MEAN_COUNTS)
    };
    judged.iter().map(|one| (one.name.clone(), loss(&one.samples))).collect()
}

/// Returns the spread of an inferer's offsets by label.
fn spreads(samples: &[Sample<'_>], n_labels: usize) -> Values {
    let of_label = |label_idx: usize| {
        let all: Vec<f64> =
            samples.iter().filter_map(|sample| sample.offset.get(label_idx)).copied().collect();
        // Inferers that always infer the same have no spread.
        deviation(&all) + 1e-9
    };
    (0..n_labels).map(of_label).collect()
}

/// Strength of the ridge, in epochs: with fewer epochs, an inferer's mean loss dominates.
const RIDGE: f64 = 5.0;

/// Maximum distance from the mean, in deviations, since linear models are unreliable beyond it.
const DEVIATIONS_MAX: f64 = 3.0;

/// Mean and deviation of past distances, for normalizing them.
struct Scale {
    mean: f64,
    deviation: f64,
}

impl Scale {
    fn from_distances(distances: &[f64]) -> Self {
        Self {
            mean: distances.iter().sum::<f64>() / count(distances.len().max(1)),
            // Inferers that are always equally far from the crowd have no deviation.
            deviation: deviation(distances) + 1e-9,
        }
    }

    fn measure(&self, distance: f64) -> f64 {
        (distance - self.mean) / self.deviation
    }
}

/// Returns the plain loss of each inferer by a linear model of its past losses, at the distances of the
/// current `offsets`.
fn expect_wary(
    past: &Past,
    offsets: &BTreeMap<Address, Values>,
    judged: &[Judged<'_>],
) -> ByActor<f64> {
    let mean_distance = |offsets: &mut dyn Iterator<Item = &[f64]>| {
        let distances: Vec<f64> = offsets.map(distance).collect();
        distances.iter().sum::<f64>() / count(distances.len().max(1))
    };
    let all_today = mean_distance(&mut offsets.values().map(Vec::as_slice));
    let all: Vec<f64> = past
        .epochs()
        .map(|epoch| mean_distance(&mut epoch.offsets.chunks(epoch.n_labels().max(1))))
        .collect();
    let expected = |one: &Judged<'_>| {
        (one.name.clone(), ridge_loss(&one.samples, &all, [distance(one.offset), all_today]))
    };
    judged.iter().map(expected).collect()
}

/// Returns the loss at the distances `today` by a ridge regression of the losses of `samples` on
/// their own distance and that of `all` inferers in their epoch.
fn ridge_loss(samples: &[Sample<'_>], all: &[f64], today: [f64; 2]) -> f64 {
    let own: Vec<f64> = samples.iter().map(|sample| distance(sample.offset)).collect();
    let others = samples.iter().map(|s| all.get(s.epoch_idx).copied().unwrap_or_default());
    let others: Vec<f64> = others.collect();
    let mean = samples.iter().map(|sample| sample.plain_loss).sum::<f64>() / count(samples.len());
    let (own_scale, others_scale) = (Scale::from_distances(&own), Scale::from_distances(&others));
    let (mut xx, mut xy, mut yy, mut xl, mut yl) = (RIDGE, 0.0, RIDGE, 0.0, 0.0);
    for ((own, others), sample) in own.iter().zip(&others).zip(samples) {
        let (x, y) = (own_scale.measure(*own), others_scale.measure(*others));
        let loss = sample.plain_loss - mean;
        xx += x * x;
        xy += x * y;
        yy += y * y;
        xl += x * loss;
        yl += y * loss;
    }
    let determinant = xx * yy - xy * xy;
    let [x, y] = [own_scale.measure(today[0]), others_scale.measure(today[1])]
        .map(|measure| measure.clamp(-DEVIATIONS_MAX, DEVIATIONS_MAX));
    let moved = (x * (xl * yy - yl * xy) + y * (yl * xx - xl * xy)) / determinant;
    // The squares of large distances overflow and cannot be used.
    if moved.is_finite() { mean + moved } else { mean }
}

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
struct Judged<'p> {
    /// Address of the inferer on the chain.
    pub name: &'p Address,
    /// Current offset from the crowd, by label.
    pub offset: &'p [f64],
    /// Past epochs with this inferer and the same number of labels, oldest first.
    pub samples: Vec<Sample<'p>>,
}

/// An inferer in a past epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample<'p> {
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
    fn judged<'p>(
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
fn offsets(inferences: &BTreeMap<Address, Values>) -> BTreeMap<Address, Values> {
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
fn distance(offset: &[f64]) -> f64 {
    offset.iter().map(|part| part * part).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests;
