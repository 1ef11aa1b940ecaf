//! When to draw: soon for what a person did, seldom for what services tell, never for nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::state::Dirty;

/// The least time between two frames: a held key repeats slower, and a burst of pasted keys is one
/// frame.
const INPUT_EVERY: Duration = Duration::from_millis(8);

/// The least time from a frame to one for what services tell: ten a second can be read.
const DATA_EVERY: Duration = Duration::from_millis(100);

/// The time between two pictures of a spinner.
pub(crate) const ANIMATION_EVERY: Duration = Duration::from_millis(125);

/// Says when the next frame is due.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    dirty: Dirty,
    last_frame: Option<Instant>,
}

impl Pacer {
    /// The next frame is for this, too.
    pub(crate) fn soil(&mut self, dirty: Dirty) {
        self.dirty = self.dirty.max(dirty);
    }

    /// When the next frame is due; none if nothing is to be shown.
    pub(crate) fn next(&self) -> Option<Instant> {
        let wait = match self.dirty {
            Dirty::Clean => return None,
            Dirty::Animation => ANIMATION_EVERY,
            Dirty::Data => DATA_EVERY,
            Dirty::Input => INPUT_EVERY,
        };
        Some(self.last_frame.map_or_else(Instant::now, |last| last + wait))
    }

    /// Whether it is due at `now`.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|due| due <= now)
    }

    /// A frame was drawn, with something in it that moves by itself or not.
    pub(crate) fn drawn(&mut self, now: Instant, is_animated: bool) {
        self.last_frame = Some(now);
        self.dirty = if is_animated { Dirty::Animation } else { Dirty::Clean };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_change_has_its_pace_and_nothing_has_none() {
        let mut pacer = Pacer::default();
        pacer.soil(Dirty::Data);
        assert!(pacer.is_due(Instant::now()), "the first frame is due at once");
        let drawn_at = Instant::now();
        pacer.drawn(drawn_at, false);
        assert_eq!(pacer.next(), None);
        pacer.soil(Dirty::Data);
        assert_eq!(pacer.next(), Some(drawn_at + DATA_EVERY));
        pacer.soil(Dirty::Input);
        assert_eq!(pacer.next(), Some(drawn_at + INPUT_EVERY));
        pacer.soil(Dirty::Data);
        assert_eq!(pacer.next(), Some(drawn_at + INPUT_EVERY), "a key is not made to wait");
        pacer.drawn(drawn_at, true);
        assert_eq!(pacer.next(), Some(drawn_at + ANIMATION_EVERY));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_rows_is_ten_frames_a_second() {
        let mut pacer = Pacer::default();
        let mut n_frames = 0;
        for _ in 0..1_000 {
            pacer.soil(Dirty::Data);
            if pacer.is_due(Instant::now()) {
                n_frames += 1;
                pacer.drawn(Instant::now(), false);
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(n_frames, 10);
    }
}
