//! The forecaster `similar`: what inferers lost in the past epochs that were most like today.

use super::past::{Judged, Past, Sample};
use crate::math::{
    regret::ByActor,
    statistics::{count, deviation},
    synthesis::Values,
};

/// How many past epochs are like today's: few enough to tell states apart, enough to see past luck.
const N_SIMILAR: usize = 20;

/// How many epochs an inferer's mean loss counts for beside those that are like today's.
const MEAN_COUNTS: f64 = 5.0;

/// What keeps a spread from zero, for inferers that always say the same.
const SPREAD_MIN: f64 = 1e-9;

/// How unlike today's an epoch is: a sum over the inferers of both.
#[derive(Clone, Copy, Default)]
struct Unlikeness {
    sum: f64,
    n_inferers: usize,
}

/// The plain loss that each of `judged` had on average in the [`N_SIMILAR`] past epochs whose offsets
/// were closest to these, each measured by its usual spread, drawn a little to its mean.
pub(super) fn expect(past: &Past, judged: &[Judged<'_>]) -> ByActor<f64> {
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

/// How far an inferer's offsets usually stray, label by label.
fn spreads(samples: &[Sample<'_>], n_labels: usize) -> Values {
    let of_label = |label_idx: usize| {
        let all: Vec<f64> =
            samples.iter().filter_map(|sample| sample.offset.get(label_idx)).copied().collect();
        deviation(&all) + SPREAD_MIN
    };
    (0..n_labels).map(of_label).collect()
}
