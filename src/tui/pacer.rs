//! Schedules frames: soon after input, at a limited rate for new data, and none without a change.

use std::time::Duration;

use tokio::time::Instant;

use crate::state::Dirty;

/// Minimum time between two frames. A held key repeats less often, and a burst of pasted keys is
/// over sooner.
const INPUT_EVERY: Duration = Duration::from_millis(8);

/// Minimum time between two frames for new data. At ten frames per second, values are still
/// readable.
const DATA_EVERY: Duration = Duration::from_millis(100);

/// Like [`DATA_EVERY`], for a remote terminal. A frame in which a chart moves has dozens of
/// kilobytes.
const DATA_EVERY_FAR: Duration = Duration::from_millis(250);

/// Time between two symbols of a spinner.
pub(crate) const ANIMATION_EVERY: Duration = Duration::from_millis(125);

/// A frame for new data is checked for changes before it is drawn if the last frame is at least
/// this old. The check costs as much as drawing, so the more frequent frames of streams are not
/// checked.
const CHECKED_AFTER: Duration = Duration::from_millis(900);

/// Time for which frames are drawn without a check after a check has found a change. A check
/// before each frame would double the cost of a live chart.
const UNCHECKED_FOR: Duration = Duration::from_secs(30);

/// Expected time between two frames for new data: a live chart gets one row per second. Frames for
/// ages and polls wait for the next such frame, since separate frames would triple the cost.
const DATA_WITHIN: Duration = Duration::from_millis(1_250);

/// Decides when the next frame is drawn.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    pub(crate) dirty: Dirty,
    last_frame: Option<Instant>,
    /// Time of the last frame for new data.
    last_data: Option<Instant>,
    /// Time of the last check that found no change, so its frame was skipped.
    last_check: Option<Instant>,
    /// Time of the last check that found a change.
    pub(crate) changed_at: Option<Instant>,
    /// True if a frame was requested because ages in view have changed since the last frame. A check
    /// ignores ages, so this frame is drawn without one.
    has_aged: bool,
    data_every: Duration,
}

impl Pacer {
    /// Returns a pacer for a local terminal, or for a remote one if `is_far` is true.
    pub(crate) fn new(is_far: bool) -> Self {
        let data_every = if is_far { DATA_EVERY_FAR } else { DATA_EVERY };
        Self { data_every, ..Self::default() }
    }

    /// Requests a frame for the reason `dirty`. A more urgent reason replaces a less urgent one.
    pub(crate) fn mark_dirty(&mut self, dirty: Dirty) {
        self.dirty = self.dirty.max(dirty);
        self.has_aged |= dirty == Dirty::Age;
    }

    /// Returns the time of the next frame, or `None` if none is requested.
    pub(crate) fn next(&self) -> Option<Instant> {
        let after =
            |last: Option<Instant>, wait| last.map_or_else(Instant::now, |last| last + wait);
        // A check costs as much as a frame, so the minimum time also applies after a check.
        let data_due = || after(self.last_frame.max(self.last_check), self.data_every);
        match self.dirty {
            Dirty::Clean => None,
            Dirty::Age | Dirty::Poll => Some(
                self.last_data.map_or_else(data_due, |last| data_due().max(last + DATA_WITHIN)),
            ),
            Dirty::Animation => Some(after(self.last_frame, ANIMATION_EVERY)),
            Dirty::Data => Some(data_due()),
            Dirty::Input => Some(after(self.last_frame, INPUT_EVERY)),
        }
    }

    /// Returns true if a frame is due at `now`.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|due| due <= now)
    }

    /// Returns true if the frame at `now` must be checked for changes before it is drawn. New data
    /// can be out of view, so a frame for data is checked if the last frame is old.
    pub(crate) fn needs_check(&self, now: Instant) -> bool {
        let is_after = |at: Option<Instant>, wait| at.is_some_and(|at| now - at >= wait);
        let is_unchecked = self.changed_at.is_some() && !is_after(self.changed_at, UNCHECKED_FOR);
        matches!(self.dirty, Dirty::Poll | Dirty::Data)
            && is_after(self.last_frame, CHECKED_AFTER)
            && !is_unchecked
            && !self.has_aged
    }

    /// Skips the requested frame, which would show no change at `now`.
    pub(crate) fn skip(&mut self, now: Instant) {
        self.last_check = Some(now);
        self.dirty = Dirty::Clean;
    }

    /// Records a frame drawn at `now`. If `is_animated`, requests the next frame of the animation.
    pub(crate) fn record_frame(&mut self, now: Instant, is_animated: bool) {
        self.last_frame = Some(now);
        self.has_aged = false;
        if self.dirty == Dirty::Data {
            self.last_data = Some(now);
        }
        self.dirty = if is_animated { Dirty::Animation } else { Dirty::Clean };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_cause_of_a_redraw_has_its_own_delay() {
        let mut pacer = Pacer::new(false);
        pacer.mark_dirty(Dirty::Data);
        assert!(pacer.is_due(Instant::now()), "the first frame is due at once");
        let drawn_at = Instant::now();
        pacer.record_frame(drawn_at, false);
        assert_eq!(pacer.next(), None);
        pacer.mark_dirty(Dirty::Data);
        assert_eq!(pacer.next(), Some(drawn_at + DATA_EVERY));
        pacer.mark_dirty(Dirty::Input);
        assert_eq!(pacer.next(), Some(drawn_at + INPUT_EVERY));
        pacer.mark_dirty(Dirty::Data);
        assert_eq!(pacer.next(), Some(drawn_at + INPUT_EVERY), "input does not wait");
        pacer.record_frame(drawn_at, true);
        assert_eq!(pacer.next(), Some(drawn_at + ANIMATION_EVERY));
    }

    #[tokio::test(start_paused = true)]
    async fn redraws_for_ages_and_polls_wait_for_the_next_data_frame() {
        for cause in [Dirty::Age, Dirty::Poll] {
            let mut pacer = Pacer::new(false);
            let started_at = Instant::now();
            pacer.record_frame(started_at, false);
            pacer.mark_dirty(cause);
            assert_eq!(pacer.next(), Some(started_at + DATA_EVERY), "no data comes");
            pacer.mark_dirty(Dirty::Data);
            tokio::time::advance(DATA_EVERY).await;
            let drawn_at = Instant::now();
            pacer.record_frame(drawn_at, false);
            pacer.mark_dirty(cause);
            assert_eq!(pacer.next(), Some(drawn_at + DATA_WITHIN), "the next data may come");
            pacer.mark_dirty(Dirty::Data);
            assert_eq!(pacer.next(), Some(drawn_at + DATA_EVERY));
            pacer.record_frame(drawn_at + DATA_EVERY, true);
            assert_eq!(
                pacer.next(),
                Some(drawn_at + DATA_EVERY + ANIMATION_EVERY),
                "a spinner turns"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn checks_for_changes_out_of_view_are_no_more_frequent_than_frames() {
        let mut pacer = Pacer::new(false);
        pacer.record_frame(Instant::now(), false);
        tokio::time::advance(CHECKED_AFTER).await;
        let mut n_checks = 0;
        for _ in 0..1_000 {
            pacer.mark_dirty(Dirty::Data);
            if pacer.is_due(Instant::now()) {
                assert!(pacer.needs_check(Instant::now()));
                n_checks += 1;
                pacer.skip(Instant::now());
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(n_checks, 10);
        pacer.mark_dirty(Dirty::Input);
        assert!(pacer.is_due(Instant::now()), "input does not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn check_that_found_a_change_is_skipped_for_the_next_frames() {
        let mut pacer = Pacer::new(false);
        let needs_check_after = async |pacer: &mut Pacer, wait: Duration| {
            pacer.record_frame(Instant::now(), false);
            tokio::time::advance(wait).await;
            pacer.mark_dirty(Dirty::Data);
            pacer.needs_check(Instant::now())
        };
        assert!(needs_check_after(&mut pacer, CHECKED_AFTER).await);
        pacer.changed_at = Some(Instant::now());
        assert!(!needs_check_after(&mut pacer, CHECKED_AFTER).await);
        assert!(needs_check_after(&mut pacer, UNCHECKED_FOR).await);
    }

    #[tokio::test(start_paused = true)]
    async fn frame_for_changed_ages_is_drawn_even_if_a_poll_requests_it_too() {
        let mut pacer = Pacer::new(false);
        pacer.record_frame(Instant::now(), false);
        tokio::time::advance(CHECKED_AFTER).await;
        pacer.mark_dirty(Dirty::Age);
        pacer.mark_dirty(Dirty::Poll);
        assert!(!pacer.needs_check(Instant::now()), "a check ignores ages");
        pacer.record_frame(Instant::now(), false);
        tokio::time::advance(CHECKED_AFTER).await;
        pacer.mark_dirty(Dirty::Poll);
        assert!(pacer.needs_check(Instant::now()));
    }

    /// Returns the number of frames in a second during which a row arrives every millisecond.
    async fn frames_of_a_burst(is_far: bool) -> u32 {
        let mut pacer = Pacer::new(is_far);
        let mut n_frames = 0;
        for _ in 0..1_000 {
            pacer.mark_dirty(Dirty::Data);
            if pacer.is_due(Instant::now()) {
                n_frames += 1;
                pacer.record_frame(Instant::now(), false);
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        n_frames
    }

    #[tokio::test(start_paused = true)]
    async fn burst_of_rows_is_limited_to_ten_frames_per_second_or_four_over_network() {
        assert_eq!(frames_of_a_burst(false).await, 10);
        assert_eq!(frames_of_a_burst(true).await, 4);
    }
}
