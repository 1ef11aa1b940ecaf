//! Schedule of epochs: the steps that are due at a block height.
//!
//! An epoch opens at its nonce, accepts submissions during its window, and closes once. The network
//! learns from it when its ground truth is known. The [runner](crate::network::runner) executes the
//! steps.

use std::time::Duration;

use model::topic::BlockHeight;

use crate::network::topic::Timing;

/// Progress of a topic's epochs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EpochProgress {
    /// Latest epoch that was ever opened.
    pub last_nonce: Option<BlockHeight>,
    /// Open epochs, oldest first.
    pub open: Vec<BlockHeight>,
    /// Epochs that closed with a bundle and are waiting for their ground truth, oldest first.
    pub unlearned: Vec<BlockHeight>,
}

/// A due step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochStep {
    /// Close the epoch after its window.
    Close {
        /// Block at which the epoch opened.
        nonce: BlockHeight,
    },
    /// Learn from the epoch if its ground truth is known.
    Learn {
        /// Block at which the epoch opened.
        nonce: BlockHeight,
        /// True to end the epoch without learning if the ground truth is still unknown.
        is_last_try: bool,
    },
    /// Open an epoch.
    Open {
        /// Block at which the epoch opens.
        nonce: BlockHeight,
        /// Number of missed epochs before this epoch. They are skipped.
        n_skipped: u64,
    },
}

/// Settings of a topic that determine its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Care {
    /// Durations in blocks.
    pub timing: Timing,
    /// Number of blocks, after the ground truth lag, for which a missing ground truth is awaited.
    pub patience: BlockHeight,
    /// True if new epochs open. Epochs that are already open close in any case.
    pub opens: bool,
}

/// Returns the number of blocks, after the ground truth lag, for which a ground truth at `horizon` is
/// awaited: twice the duration of the horizon, but at least the lag.
pub fn patience(timing: Timing, horizon: Duration, block_time: Duration) -> BlockHeight {
    let n_blocks = horizon.as_micros().div_ceil(block_time.as_micros().max(1));
    let twice = u64::try_from(n_blocks).unwrap_or(u64::MAX).saturating_mul(2);
    timing.ground_truth_lag.max(twice)
}

/// Returns the steps that are due at `height`: first those that close epochs, then learning, then
/// opening.
///
/// The first epoch opens immediately, and each later epoch an epoch length after its predecessor. If
/// the whole window of an epoch was missed, this epoch is skipped, and a new epoch opens immediately.
/// The network learns from epochs in order, so only the oldest of them is due.
pub fn due(care: Care, progress: &EpochProgress, height: BlockHeight) -> Vec<EpochStep> {
    let timing = care.timing;
    let mut steps = Vec::new();
    for nonce in &progress.open {
        if height >= close_height(timing, *nonce) {
            steps.push(EpochStep::Close { nonce: *nonce });
        }
    }
    if let Some(nonce) = progress.unlearned.first() {
        let asked_from = nonce.saturating_add(timing.ground_truth_lag);
        // The row with the ground truth can be late. The row is awaited for some time, and then given
        // up.
        let given_up_at = asked_from.saturating_add(care.patience);
        if height >= asked_from {
            steps.push(EpochStep::Learn { nonce: *nonce, is_last_try: height >= given_up_at });
        }
    }
    let next = next_nonce(timing, progress.last_nonce, height);
    if care.opens && height >= next {
        let late = height.saturating_sub(next);
        if is_open(timing, next, height) {
            steps.push(EpochStep::Open { nonce: next, n_skipped: 0 });
        } else {
            let n_skipped = late.div_ceil(timing.epoch_length.max(1));
            steps.push(EpochStep::Open { nonce: height, n_skipped });
        }
    }
    steps
}

/// Returns the height at which the next epoch opens: an epoch length after `last_nonce`, or the current
/// `height` if there was no epoch yet.
pub fn next_nonce(
    timing: Timing,
    last_nonce: Option<BlockHeight>,
    height: BlockHeight,
) -> BlockHeight {
    last_nonce.map_or(height, |nonce| nonce.saturating_add(timing.epoch_length.max(1)))
}

/// Returns the first height at which submissions for `nonce` are refused: after the last block of its
/// window, or when the next epoch opens if that is earlier.
pub fn close_height(timing: Timing, nonce: BlockHeight) -> BlockHeight {
    nonce.saturating_add(timing.open_blocks())
}

/// Returns true if the window of `nonce` is open at `height`.
pub fn is_open(timing: Timing, nonce: BlockHeight, height: BlockHeight) -> bool {
    nonce <= height && height < close_height(timing, nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing =
        Timing { epoch_length: 12, worker_submission_window: 6, ground_truth_lag: 60 };

    const CARE: Care = Care { timing: TIMING, patience: 60, opens: true };

    fn progress(
        last: BlockHeight,
        open: &[BlockHeight],
        unlearned: &[BlockHeight],
    ) -> EpochProgress {
        EpochProgress { last_nonce: Some(last), open: open.to_vec(), unlearned: unlearned.to_vec() }
    }

    #[track_caller]
    fn check(progress: &EpochProgress, height: BlockHeight, want: &[EpochStep]) {
        assert_eq!(due(CARE, progress, height), want);
    }

    #[test]
    fn first_epoch_opens_immediately() {
        check(&EpochProgress::default(), 5, &[EpochStep::Open { nonce: 5, n_skipped: 0 }]);
    }

    #[test]
    fn submission_window_closes_after_its_last_block() {
        check(&progress(5, &[5], &[]), 11, &[]);
        check(&progress(5, &[5], &[]), 12, &[EpochStep::Close { nonce: 5 }]);
        check(&progress(5, &[], &[]), 16, &[]);
        assert!(is_open(TIMING, 5, 5) && is_open(TIMING, 5, 11));
        assert!(!is_open(TIMING, 5, 4) && !is_open(TIMING, 5, 12));
    }

    #[test]
    fn submission_window_as_long_as_its_epoch_closes_with_the_epoch() {
        let timing = Timing { worker_submission_window: 12, ..TIMING };
        assert_eq!(close_height(timing, 5), 17);
    }

    #[test]
    fn nonce_of_an_epoch_that_opens_late_is_the_scheduled_block_height() {
        check(&progress(5, &[], &[]), 17, &[EpochStep::Open { nonce: 17, n_skipped: 0 }]);
        check(&progress(5, &[], &[]), 23, &[EpochStep::Open { nonce: 17, n_skipped: 0 }]);
    }

    #[test]
    fn missed_epochs_are_skipped_and_counted() {
        check(&progress(5, &[], &[]), 24, &[EpochStep::Open { nonce: 24, n_skipped: 1 }]);
        check(&progress(5, &[], &[]), 17 + 36, &[EpochStep::Open { nonce: 53, n_skipped: 3 }]);
    }

    #[test]
    fn open_epoch_is_closed_before_the_next_epoch_is_opened() {
        let steps = [EpochStep::Close { nonce: 5 }, EpochStep::Open { nonce: 500, n_skipped: 41 }];
        check(&progress(5, &[5], &[]), 500, &steps);
    }

    #[test]
    fn oldest_closed_epoch_is_learned_after_the_lag_and_abandoned_after_the_last_try() {
        let progress = progress(60, &[], &[5, 17]);
        check(&progress, 64, &[]);
        check(&progress, 65, &[EpochStep::Learn { nonce: 5, is_last_try: false }]);
        let last = due(CARE, &progress, 125);
        assert_eq!(last.first(), Some(&EpochStep::Learn { nonce: 5, is_last_try: true }));
    }

    #[test]
    fn paused_topic_closes_its_open_epoch_and_opens_no_epoch() {
        let rest = Care { opens: false, ..CARE };
        assert_eq!(due(rest, &progress(5, &[5], &[]), 500), [EpochStep::Close { nonce: 5 }]);
    }

    #[test]
    fn epoch_waits_for_its_truth_for_at_least_twice_the_horizon() {
        let timing = Timing { ground_truth_lag: 36, ..TIMING };
        let second = Duration::from_secs(1);
        assert_eq!(patience(timing, Duration::from_mins(30), second), 3600);
        assert_eq!(patience(timing, Duration::from_secs(1), second), 36);
    }

    #[test]
    fn decreasing_block_height_causes_no_steps() {
        check(&progress(100, &[100], &[40]), 50, &[]);
    }
}
