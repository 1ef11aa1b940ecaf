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

/// Expected time between two frames for new data: a live chart gets one row per second. Frames for
/// ages and polls wait for the next such frame, since separate frames would triple the cost.
const DATA_WITHIN: Duration = Duration::from_millis(1_250);

/// Decides when the next frame is drawn.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// Time of the last frame.
    last_frame: Option<Instant>,
    /// Time of the last frame for new data.
    last_data: Option<Instant>,
    data_every: Duration,
}

impl Pacer {
    /// Returns a pacer for a local terminal, or for a remote one if `is_far` is true.
    pub(crate) fn new(is_far: bool) -> Self {
        let data_every = if is_far { DATA_EVERY_FAR } else { DATA_EVERY };
        Self { data_every, ..Self::default() }
    }

    /// Returns the time of the next frame if it is requested for the reason `dirty`.
    pub(crate) fn next(&self, dirty: Dirty) -> Option<Instant> {
        let wait = match dirty {
            Dirty::Clean => return None,
            Dirty::Animation => ANIMATION_EVERY,
            Dirty::Input => INPUT_EVERY,
            Dirty::Poll | Dirty::Age | Dirty::Data => self.data_every,
        };
        let due = self.last_frame.map_or_else(Instant::now, |last| last + wait);
        let is_deferred = matches!(dirty, Dirty::Poll | Dirty::Age);
        let data_due = self.last_data.filter(|_| is_deferred).map(|last| last + DATA_WITHIN);
        data_due.max(Some(due))
    }

    /// Records a frame that was drawn at `now` for the reason `dirty` and returns the reason for the
    /// frame after it. A frame for a poll shows the time of the last frame. If it has `output`, a frame
    /// with the current time follows.
    pub(crate) fn record_frame(&mut self, now: Instant, dirty: Dirty, output: &[u8]) -> Dirty {
        self.last_frame = Some(now);
        if dirty == Dirty::Data {
            self.last_data = Some(now);
        }
        if dirty == Dirty::Poll && !output.is_empty() { Dirty::Input } else { Dirty::Clean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_cause_of_a_redraw_has_its_own_delay() {
        let mut pacer = Pacer::new(false);
        let drawn_at = Instant::now();
        assert_eq!(pacer.next(Dirty::Data), Some(drawn_at), "the first frame is due at once");
        pacer.record_frame(drawn_at, Dirty::Data, &[]);
        assert_eq!(pacer.next(Dirty::Clean), None);
        assert_eq!(pacer.next(Dirty::Data), Some(drawn_at + DATA_EVERY));
        assert_eq!(pacer.next(Dirty::Input), Some(drawn_at + INPUT_EVERY));
        assert_eq!(pacer.next(Dirty::Animation), Some(drawn_at + ANIMATION_EVERY));
    }

    #[tokio::test(start_paused = true)]
    async fn redraws_for_ages_and_polls_wait_for_the_next_data_frame() {
        for cause in [Dirty::Age, Dirty::Poll] {
            let mut pacer = Pacer::new(false);
            let drawn_at = Instant::now();
            pacer.record_frame(drawn_at, Dirty::Input, &[]);
            assert_eq!(pacer.next(cause), Some(drawn_at + DATA_EVERY), "no data comes");
            pacer.record_frame(drawn_at, Dirty::Data, &[]);
            assert_eq!(pacer.next(cause), Some(drawn_at + DATA_WITHIN), "the next data may come");
            pacer.record_frame(drawn_at + 2 * DATA_WITHIN, Dirty::Poll, &[]);
            let want = drawn_at + 2 * DATA_WITHIN + DATA_EVERY;
            assert_eq!(pacer.next(cause), Some(want), "no data came");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frame_after_a_changed_poll_does_not_delay_the_next_poll() {
        let mut pacer = Pacer::new(false);
        let dirty = pacer.record_frame(Instant::now(), Dirty::Poll, b"changed");
        let drawn_at = pacer.next(dirty).unwrap();
        assert_eq!(pacer.record_frame(drawn_at, dirty, b"age"), Dirty::Clean);
        assert_eq!(pacer.next(Dirty::Poll), Some(drawn_at + DATA_EVERY));
    }

    /// Returns the number of frames in a second during which a row arrives every millisecond.
    async fn frames_of_a_burst(is_far: bool) -> u32 {
        let mut pacer = Pacer::new(is_far);
        let mut n_frames = 0;
        for _ in 0..1_000 {
            let now = Instant::now();
            if pacer.next(Dirty::Data).is_some_and(|due| due <= now) {
                n_frames += 1;
                pacer.record_frame(now, Dirty::Data, &[]);
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
