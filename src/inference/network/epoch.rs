//! The life of an epoch, as a rule: what is due at a height.
//!
//! An epoch opens at its nonce, takes submissions for its window, closes once, and is learned from
//! once its truth is known. Absent on purpose: doing any of it, which is the
//! [runner's](crate::network::runner).

use std::time::Duration;

use model::topic::BlockHeight;

use crate::network::topic::Timing;

/// Where a topic stands: what its store says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// The newest epoch ever opened.
    pub last_nonce: Option<BlockHeight>,
    /// Epochs that opened and have not closed, oldest first.
    pub open: Vec<BlockHeight>,
    /// Epochs that closed with a bundle and have not been learned from, oldest first.
    pub unlearned: Vec<BlockHeight>,
}

/// Something that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Close the epoch: its window is over.
    Close {
        /// The block at which the epoch opened.
        nonce: BlockHeight,
    },
    /// Learn from the epoch: its truth may be known.
    Learn {
        /// The block at which the epoch opened.
        nonce: BlockHeight,
        /// Whether to stop waiting if the truth is still not known.
        is_last_try: bool,
    },
    /// Open an epoch.
    Open {
        /// The block at which the epoch opened.
        nonce: BlockHeight,
        /// How many epochs were missed before it, and are not made up for.
        n_skipped: u64,
    },
}

/// How a topic's epochs are looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Care {
    /// The topic's blocks.
    pub timing: Timing,
    /// How many blocks after its lag an epoch's truth is waited for.
    pub patience: BlockHeight,
    /// Whether epochs open. Those that are open close all the same.
    pub opens: bool,
}

/// How many blocks of `block_time` a truth that lies `horizon` ahead is waited for after its lag:
/// twice as long as the horizon takes in the time of a clock, and at least the lag again. A dataset
/// that replays its past reaches the horizon sooner, until it is in the present.
pub fn patience(timing: Timing, horizon: Duration, block_time: Duration) -> BlockHeight {
    let n_blocks = horizon.as_micros().div_ceil(block_time.as_micros().max(1));
    let twice = u64::try_from(n_blocks).unwrap_or(u64::MAX).saturating_mul(2);
    timing.ground_truth_lag.max(twice)
}

/// Returns what is due at `height`, in the order to do it: close, learn, open.
///
/// The first epoch opens at once. After that one opens every epoch length; where so many blocks
/// were missed that one's window is over, the missed ones are skipped and the next opens at once.
/// Epochs are learned from in their order, so only the oldest is due.
pub fn due(care: Care, progress: &Progress, height: BlockHeight) -> Vec<Step> {
    let timing = care.timing;
    let mut steps = Vec::new();
    for nonce in &progress.open {
        if height >= close_height(timing, *nonce) {
            steps.push(Step::Close { nonce: *nonce });
        }
    }
    if let Some(nonce) = progress.unlearned.first() {
        let asked_from = nonce.saturating_add(timing.ground_truth_lag);
        // Rows may be late, but not forever.
        let given_up_at = asked_from.saturating_add(care.patience);
        if height >= asked_from {
            steps.push(Step::Learn { nonce: *nonce, is_last_try: height >= given_up_at });
        }
    }
    let next = next_nonce(timing, progress.last_nonce, height);
    if care.opens && height >= next {
        let late = height.saturating_sub(next);
        if is_open(timing, next, height) {
            steps.push(Step::Open { nonce: next, n_skipped: 0 });
        } else {
            let n_skipped = 1 + late / timing.epoch_length.max(1);
            steps.push(Step::Open { nonce: height, n_skipped });
        }
    }
    steps
}

/// The height at which the next epoch opens: an epoch length after `last_nonce`, now without one.
pub fn next_nonce(
    timing: Timing,
    last_nonce: Option<BlockHeight>,
    height: BlockHeight,
) -> BlockHeight {
    last_nonce.map_or(height, |nonce| nonce.saturating_add(timing.epoch_length.max(1)))
}

/// The first height at which nothing is taken for `nonce` any more: after its window, of which the
/// last block counts, or when the next epoch opens.
pub fn close_height(timing: Timing, nonce: BlockHeight) -> BlockHeight {
    nonce.saturating_add(timing.open_blocks())
}

/// Whether the window of `nonce` is open at `height`.
pub fn is_open(timing: Timing, nonce: BlockHeight, height: BlockHeight) -> bool {
    nonce <= height && height < close_height(timing, nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing =
        Timing { epoch_length: 12, worker_submission_window: 6, ground_truth_lag: 60 };

    const CARE: Care = Care { timing: TIMING, patience: 60, opens: true };

    fn progress(last: BlockHeight, open: &[BlockHeight], unlearned: &[BlockHeight]) -> Progress {
        Progress { last_nonce: Some(last), open: open.to_vec(), unlearned: unlearned.to_vec() }
    }

    #[track_caller]
    fn check(progress: &Progress, height: BlockHeight, want: &[Step]) {
        assert_eq!(due(CARE, progress, height), want);
    }

    #[test]
    fn the_first_epoch_opens_at_once() {
        check(&Progress::default(), 5, &[Step::Open { nonce: 5, n_skipped: 0 }]);
    }

    #[test]
    fn a_window_closes_after_its_last_block() {
        check(&progress(5, &[5], &[]), 11, &[]);
        check(&progress(5, &[5], &[]), 12, &[Step::Close { nonce: 5 }]);
        check(&progress(5, &[], &[]), 16, &[]);
        assert!(is_open(TIMING, 5, 5) && is_open(TIMING, 5, 11));
        assert!(!is_open(TIMING, 5, 4) && !is_open(TIMING, 5, 12));
    }

    #[test]
    fn a_window_as_long_as_its_epoch_ends_with_it() {
        let timing = Timing { worker_submission_window: 12, ..TIMING };
        assert_eq!(close_height(timing, 5), 17);
    }

    #[test]
    fn the_next_epoch_keeps_its_nonce_while_its_window_lasts() {
        check(&progress(5, &[], &[]), 17, &[Step::Open { nonce: 17, n_skipped: 0 }]);
        check(&progress(5, &[], &[]), 23, &[Step::Open { nonce: 17, n_skipped: 0 }]);
    }

    #[test]
    fn missed_epochs_are_skipped_and_counted() {
        check(&progress(5, &[], &[]), 24, &[Step::Open { nonce: 24, n_skipped: 1 }]);
        check(&progress(5, &[], &[]), 17 + 36, &[Step::Open { nonce: 53, n_skipped: 4 }]);
    }

    #[test]
    fn an_epoch_left_open_by_a_stop_closes_before_the_next_opens() {
        let steps = [Step::Close { nonce: 5 }, Step::Open { nonce: 500, n_skipped: 41 }];
        check(&progress(5, &[5], &[]), 500, &steps);
    }

    #[test]
    fn the_oldest_epoch_is_learned_from_after_the_lag_and_given_up_on_in_the_end() {
        let progress = progress(60, &[], &[5, 17]);
        check(&progress, 64, &[]);
        check(&progress, 65, &[Step::Learn { nonce: 5, is_last_try: false }]);
        let last = due(CARE, &progress, 125);
        assert_eq!(last.first(), Some(&Step::Learn { nonce: 5, is_last_try: true }));
    }

    #[test]
    fn at_rest_nothing_opens_and_what_is_open_closes() {
        let rest = Care { opens: false, ..CARE };
        assert_eq!(due(rest, &progress(5, &[5], &[]), 500), [Step::Close { nonce: 5 }]);
    }

    #[test]
    fn a_truth_half_an_hour_ahead_is_waited_for_in_the_present_too() {
        let timing = Timing { ground_truth_lag: 36, ..TIMING };
        let second = Duration::from_secs(1);
        assert_eq!(patience(timing, Duration::from_mins(30), second), 3600);
        assert_eq!(patience(timing, Duration::from_secs(1), second), 36);
    }

    #[test]
    fn a_clock_that_goes_back_makes_nothing_due() {
        check(&progress(100, &[100], &[40]), 50, &[]);
    }
}
