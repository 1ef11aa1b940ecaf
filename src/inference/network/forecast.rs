//! Built-in forecasters of a topic.
//!
//! Forecasters predict the losses of an epoch's inferers from the current inferences and from the
//! inferences and losses of past epochs. They use neither ground truths nor rows of the dataset, since
//! inferences reflect the state of the source well enough. A forecast omits inferers without past
//! losses.
//!
//! If a topic uses logarithmic losses, [`STEADY`] averages logarithms, as regrets do. So this forecaster
//! prefers inferers that are often very close to the ground truth. The other forecasters take the
//! logarithm of an average, so they prefer inferers that are rarely far from the ground truth.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::topic::Address;

use crate::math::loss::LossRule;
use crate::math::regret::ByActor;
use crate::math::statistics::{count, deviation, mean, median, moving_average};
use crate::math::synthesis::Values;
use crate::network::addresses;

/// Weight of the latest loss in the moving averages of [`STEADY`] and [`MEAN`]. The averages cover
/// about twenty epochs, four times as many as the regrets of the demo's topics, so that the forecasts
/// contain other information than the regrets.
pub(crate) const LOSS_AVERAGE_ALPHA: f64 = 0.05;

/// Predicts the moving average of each inferer's past losses, which are logarithmic if the topic uses
/// logarithms.
pub const STEADY: &str = "steady";

/// Predicts the moving average of each inferer's past losses before the logarithm.
pub const MEAN: &str = "mean";

/// Predicts each inferer's mean loss in the past epochs with the most similar inferences.
pub const SIMILAR: &str = "similar";

/// Predicts each inferer's loss from its distance to the other inferers, with a linear model of past
/// losses.
pub const WARY: &str = "wary";

/// Predicts each inferer's mean loss in the latest one or two epochs, since the state of the source
/// persists.
pub const RECENT: &str = "recent";

/// Forecast of a built-in forecaster.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Name of the forecaster: [`STEADY`], [`MEAN`], [`SIMILAR`], [`WARY`] or [`RECENT`].
    pub name: &'static str,
    /// Address of the forecaster on the chain.
    pub address: Address,
    /// Predicted loss of each inferer that has past losses.
    pub losses: ByActor<f64>,
}

/// Returns the forecast of each built-in forecaster for `inferences`, with losses as defined by `rule`.
/// Omits empty forecasts. All are empty until the losses of a first epoch are known. Omits [`MEAN`] if
/// losses are not logarithmic, since it would equal [`STEADY`].
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
    // With this weight of the latest loss, the average covers two epochs. The demo's source stays in a
    // state for a dozen epochs, so this average follows its changes.
    let recent = average(0.9);
    let similar = by_rule(expect_similar(past, &judged));
    let wary = by_rule(expect_wary(past, &offsets, &judged));
    let all = [(STEADY, steady), (MEAN, mean), (SIMILAR, similar), (WARY, wary), (RECENT, recent)];
    all.into_iter()
        .filter(|(_, losses)| !losses.is_empty())
        .map(|(name, losses)| Forecast { name, address: addresses::of_forecaster(name), losses })
        .collect()
}

/// Returns the moving average of each inferer's plain losses, in which the latest loss has the weight
/// `alpha`.
fn expect_average(judged: &[Judged<'_>], alpha: f64) -> ByActor<f64> {
    let average = |judged: &Judged<'_>| {
        let losses = judged.samples.iter().map(|sample| sample.plain_loss);
        losses.fold(None, |mean, loss| Some(moving_average(mean, loss, alpha)))
    };
    judged.iter().filter_map(|one| Some((one.name.clone(), average(one)?))).collect()
}

/// Number of past epochs that are considered similar: few enough to distinguish states of the source,
/// but enough to average out luck.
const N_SIMILAR: usize = 20;

/// Weight of an inferer's mean loss, compared with a weight of 1 for each similar epoch.
const MEAN_COUNTS: f64 = 5.0;

/// Distance between a past epoch and the current epoch, as a sum over the inferers that took part in
/// both.
#[derive(Clone, Copy, Default)]
struct Unlikeness {
    sum: f64,
    n_inferers: usize,
}

/// Returns the mean plain loss of each inferer in the [`N_SIMILAR`] past epochs that are most similar to
/// the current epoch. The distance between two epochs is the distance between their inferers' offsets,
/// normalized by each inferer's spread. The mean is shrunk toward the mean of all losses of the inferer.
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
        let similar =
            samples.iter().filter(|s| is_similar.get(s.epoch_idx).copied().unwrap_or(false));
        let n_similar = similar.clone().count();
        let sum: f64 = similar.map(|sample| sample.plain_loss).sum();
        (sum + MEAN_COUNTS * mean_loss(samples)) / (count(n_similar) + MEAN_COUNTS)
    };
    judged.iter().map(|one| (one.name.clone(), loss(&one.samples))).collect()
}

fn mean_loss(samples: &[Sample<'_>]) -> f64 {
    mean(&samples.iter().map(|sample| sample.plain_loss).collect::<Vec<_>>())
}

/// Returns the standard deviation of an inferer's past offsets by label.
fn spreads(samples: &[Sample<'_>], n_labels: usize) -> Values {
    let of_label = |label_idx: usize| {
        let all: Vec<f64> =
            samples.iter().filter_map(|sample| sample.offset.get(label_idx)).copied().collect();
        // Avoids a division by 0: the offset of an inferer can be the same in all past epochs.
        deviation(&all) + 1e-9
    };
    (0..n_labels).map(of_label).collect()
}

/// Regularization of the ridge regression, in epochs. With fewer past epochs than this, the prediction
/// is close to an inferer's mean loss.
const RIDGE: f64 = 5.0;

/// Bound of normalized distances, in standard deviations, since a linear model is unreliable beyond it.
const DEVIATIONS_MAX: f64 = 3.0;

/// Returns a function that normalizes a distance by the mean and the standard deviation of past
/// `distances`.
fn normalizer(distances: &[f64]) -> impl Fn(f64) -> f64 {
    // Avoids a division by 0: the distance of an inferer can be the same in all past epochs.
    let (mean, deviation) = (mean(distances), deviation(distances) + 1e-9);
    move |distance| (distance - mean) / deviation
}

/// Predicts the plain loss of each inferer by a linear model of its past losses. The variables are the
/// inferer's distance from the crowd and the mean distance of all inferers.
fn expect_wary(
    past: &Past,
    offsets: &BTreeMap<Address, Values>,
    judged: &[Judged<'_>],
) -> ByActor<f64> {
    let mean_distance = |offsets: &mut dyn Iterator<Item = &[f64]>| {
        mean(&offsets.map(distance).collect::<Vec<_>>())
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

/// Predicts the loss at the two distances `today`, by a ridge regression over the past `samples` of an
/// inferer. The variables are the inferer's own distance and the mean distance of all inferers, which
/// `all` contains for each epoch.
fn ridge_loss(samples: &[Sample<'_>], all: &[f64], today: [f64; 2]) -> f64 {
    let own: Vec<f64> = samples.iter().map(|sample| distance(sample.offset)).collect();
    let others = samples.iter().map(|s| all.get(s.epoch_idx).copied().unwrap_or_default());
    let others: Vec<f64> = others.collect();
    let mean = mean_loss(samples);
    let (normalize_own, normalize_others) = (normalizer(&own), normalizer(&others));
    let (mut xx, mut xy, mut yy, mut xl, mut yl) = (RIDGE, 0.0, RIDGE, 0.0, 0.0);
    for ((own, others), sample) in own.iter().zip(&others).zip(samples) {
        let (x, y) = (normalize_own(*own), normalize_others(*others));
        let loss = sample.plain_loss - mean;
        xx += x * x;
        xy += x * y;
        yy += y * y;
        xl += x * loss;
        yl += y * loss;
    }
    let determinant = xx * yy - xy * xy;
    let [x, y] = [normalize_own(today[0]), normalize_others(today[1])]
        .map(|measure| measure.clamp(-DEVIATIONS_MAX, DEVIATIONS_MAX));
    let moved = (x * (xl * yy - yl * xy) + y * (yl * xx - xl * xy)) / determinant;
    // Falls back to the mean if the squares of large distances overflowed.
    if moved.is_finite() { mean + moved } else { mean }
}

/// Maximum number of stored past epochs: enough for each state of a source to occur several times, but
/// few enough to forget outdated patterns.
const EPOCHS_MAX: usize = 256;

/// Maximum size of a topic's stored past epochs, in bytes. It is enough for [`EPOCHS_MAX`] epochs with
/// a dozen inferers and three labels, or for five epochs with a thousand inferers and one label. All
/// are written again whenever the network learns from an epoch.
const BYTES_MAX: usize = 128 * 1024;

/// Past epochs of a topic, oldest first: at most 256 epochs and 128 KiB.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Past {
    epochs: VecDeque<PastEpoch>,
}

/// A past epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct PastEpoch {
    /// Addresses of the inferers, sorted. Consecutive epochs with the same inferers share one list.
    pub names: Arc<[Address]>,
    /// Loss of each inferer.
    pub losses: Vec<f64>,
    /// Offset of each inference from the median of all, by inferer and label.
    pub offsets: Vec<f64>,
}

/// An inferer of the current epoch, with its past epochs.
#[derive(Debug, Clone, PartialEq)]
struct Judged<'p> {
    /// Address of the inferer on the chain.
    pub name: &'p Address,
    /// Current offset from the crowd, by label.
    pub offset: &'p [f64],
    /// Past epochs of this inferer with the same number of labels, oldest first.
    pub samples: Vec<Sample<'p>>,
}

/// An inferer in a past epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample<'p> {
    /// Index of the epoch, oldest first.
    pub epoch_idx: usize,
    /// Offset of the inferer from the crowd, by label.
    pub offset: &'p [f64],
    /// Loss of the inferer before the logarithm.
    pub plain_loss: f64,
}

impl Past {
    /// Creates a history of `epochs`, oldest first. Drops the oldest epochs if a limit is exceeded.
    pub fn new(epochs: impl IntoIterator<Item = PastEpoch>) -> Self {
        let mut past = Self { epochs: epochs.into_iter().collect() };
        past.trim();
        past
    }

    /// Returns the epochs, oldest first.
    pub fn epochs(&self) -> impl ExactSizeIterator<Item = &PastEpoch> {
        self.epochs.iter()
    }

    /// Adds an epoch. Omits inferers without a loss. Drops the oldest epochs if a limit is exceeded.
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

    /// Returns the size of the epochs in bytes. A list of names that consecutive epochs share is
    /// counted once.
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

    /// Returns the inferers in `offsets` that have past losses, sorted by address.
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

    /// Returns the past epochs of the inferer `name` with `n_labels` labels, oldest first.
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

/// Returns the offset of each inference from the crowd by label. The crowd is the median of all
/// inferences.
fn offsets(inferences: &BTreeMap<Address, Values>) -> BTreeMap<Address, Values> {
    let n_labels = inferences.values().map(Vec::len).max().unwrap_or_default();
    let of_label = |label_idx: usize| {
        let all: Vec<f64> =
            inferences.values().filter_map(|values| values.get(label_idx)).copied().collect();
        median(&all).unwrap_or_default()
    };
    let crowd: Values = (0..n_labels).map(of_label).collect();
    let offset = |values: &Values| -> Values {
        // Clamps the result, since the difference of two very large numbers can overflow.
        let apart = values.iter().zip(&crowd).map(|(value, crowd)| value - crowd);
        apart.map(|offset| offset.clamp(f64::MIN, f64::MAX)).collect()
    };
    let whole = inferences.iter().filter(|(_, values)| values.len() == n_labels);
    whole.map(|(name, values)| (name.clone(), offset(values))).collect()
}

/// Returns the distance of an inference from the crowd: the Euclidean length of its offset.
fn distance(offset: &[f64]) -> f64 {
    offset.iter().map(|part| part * part).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests;
