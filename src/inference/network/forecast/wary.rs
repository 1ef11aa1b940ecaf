//! The forecaster `wary`: what inferers lose when they stand apart, and when all of them do.
//!
//! For each inferer it fits its past losses by two numbers: how far it was from the crowd, and how
//! far all were on average. An inferer that is right when it stands apart differs from one that
//! errs then.

use std::collections::BTreeMap;

use model::topic::Address;

use super::past::{Judged, Past, Sample, distance};
use crate::math::{
    regret::ByActor,
    statistics::{count, deviation},
    synthesis::Values,
};

/// How many epochs speak against a slope: with fewer than that an inferer's mean loss counts most.
const RIDGE: f64 = 5.0;

/// How many deviations from its mean a distance counts for at most: lines lead astray further out.
const DEVIATIONS_MAX: f64 = 3.0;

/// What keeps a deviation from zero, for inferers that are always as far from the crowd.
const DEVIATION_MIN: f64 = 1e-9;

/// Past distances of one kind, measured in deviations from their mean.
struct Scale {
    mean: f64,
    deviation: f64,
}

impl Scale {
    fn from_distances(distances: &[f64]) -> Self {
        Self {
            mean: distances.iter().sum::<f64>() / count(distances.len().max(1)),
            deviation: deviation(distances) + DEVIATION_MIN,
        }
    }

    fn measure(&self, distance: f64) -> f64 {
        (distance - self.mean) / self.deviation
    }
}

/// The plain loss of each of `judged` by the line through its past ones, where all inferers are as
/// far from the crowd as `offsets`.
pub(super) fn expect(
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
        (one.name.clone(), loss(&one.samples, &all, [distance(one.offset), all_today]))
    };
    judged.iter().map(expected).collect()
}

/// The loss at the distances `today`, by a ridge regression of the losses of `samples` on their own
/// distance and that of `all` in their epoch.
fn loss(samples: &[Sample<'_>], all: &[f64], today: [f64; 2]) -> f64 {
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
    // Distances whose squares are no numbers teach nothing.
    if moved.is_finite() { mean + moved } else { mean }
}
