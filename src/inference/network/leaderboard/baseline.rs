//! Ground truths from which the uninformed baseline of a leaderboard is computed.

use std::time::Duration;

use model::timestamp::Timestamp;
use wire::inference::HistoryEpoch;

use crate::math::statistics::mean;

/// Number of epochs from whose ground truths the baseline of an epoch is computed.
const BASELINE_EPOCHS: u16 = 100;

/// Returns the number of epochs before an epoch that are needed for its baseline, if an epoch opens each
/// `epoch_time`.
pub(super) fn n_epochs_before(horizon: Duration, epoch_time: Duration) -> u32 {
    let n_unknown = horizon.as_micros().div_ceil(epoch_time.as_micros().max(1));
    u32::try_from(n_unknown).unwrap_or(u32::MAX).saturating_add(BASELINE_EPOCHS.into())
}

/// Returns for each epoch of `history`, oldest first, the mean ground truth of the latest
/// [`BASELINE_EPOCHS`] epochs whose `horizon` had passed when the epoch opened. The mean is `None` if
/// none of them has a ground truth.
pub(super) fn known_means(history: &[HistoryEpoch], horizon: Duration) -> Vec<Option<f64>> {
    let opened_at = |epoch: &HistoryEpoch| epoch.opened_at.parse().unwrap_or(Timestamp::MIN);
    let opened_at: Vec<Timestamp> = history.iter().map(opened_at).collect();
    let mean_at = |at: &Timestamp| {
        let n_known = opened_at.partition_point(|earlier| *earlier + horizon <= *at);
        let known = history.iter().take(n_known).rev().take(BASELINE_EPOCHS.into());
        let truths = known.filter_map(|epoch| Some(epoch.truth.first()?.value));
        let truths: Vec<f64> = truths.collect();
        (!truths.is_empty()).then(|| mean(&truths))
    };
    opened_at.iter().map(mean_at).collect()
}

#[cfg(test)]
mod tests {
    use wire::inference::LabeledValue;

    use super::*;

    #[test]
    fn baseline_is_the_mean_of_known_truths_of_the_latest_hundred_epochs() {
        let epoch = |idx: u32| {
            let opened_at = Timestamp::from_seconds(i64::from(idx) * 60).to_string();
            let truth = LabeledValue { label_id: 1, label_name: "y".to_owned(), value: idx.into() };
            // Every tenth epoch was given up.
            let truth = if idx.is_multiple_of(10) { Vec::new() } else { vec![truth] };
            HistoryEpoch { opened_at, truth, ..HistoryEpoch::default() }
        };
        let history: Vec<_> = (0..300).map(epoch).collect();
        let horizon = Duration::from_secs(90);
        let means = known_means(&history, horizon);
        assert_eq!(means[..6], [None, None, None, Some(1.0), Some(1.5), Some(2.0)]);
        // The truths of the epochs 98 to 197 without the multiples of ten: (14750 − 1450) / 90.
        assert_eq!(means[199], Some(13_300.0 / 90.0));
        let n_before = n_epochs_before(horizon, Duration::from_mins(1));
        let start = 199 - usize::try_from(n_before).unwrap();
        assert_eq!(known_means(&history[start..], horizon).get(199 - start), means.get(199));
    }
}
