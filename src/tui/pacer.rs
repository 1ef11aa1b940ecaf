//! When to draw: soon for what a person did, seldom for what services tell, never for nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::state::Dirty;

/// The least time between two frames: a held key repeats slower, and a burst of pasted keys is one
/// frame.
const INPUT_EVERY: Duration = Duration::from_millis(8);

/// The least time from a frame to one for what services tell: ten a second can be read.
const DATA_EVERY: Duration = Duration::from_millis(100);

/// The same where frames go over a network: a chart that moves is a dozen kilobytes.
const DATA_EVERY_FAR: Duration = Duration::from_millis(250);

/// The time between two pictures of a spinner.
pub(crate) const ANIMATION_EVERY: Duration = Duration::from_millis(125);

/// The least time to a frame of which it is asked first whether it would show anything new: of
/// frames that follow one another faster the clock alone is new enough.
const LOOKED_AT_AFTER: Duration = Duration::from_millis(900);

/// Says when the next frame is due.
#[derive(Debug)]
pub(crate) struct Pacer {
    dirty: Dirty,
    last_frame: Option<Instant>,
    /// When a frame was spared.
    last_look: Option<Instant>,
    data_every: Duration,
}

impl Pacer {
    /// The pace for a terminal on this machine, or for one that `is_far`.
    pub(crate) const fn new(is_far: bool) -> Self {
        let data_every = if is_far { DATA_EVERY_FAR } else { DATA_EVERY };
        Self { dirty: Dirty::Clean, last_frame: None, last_look: None, data_every }
    }

    /// The next frame is for this, too.
    pub(crate) fn soil(&mut self, dirty: Dirty) {
        self.dirty = self.dirty.max(dirty);
    }

    /// When the next frame is due; none if nothing is to be shown.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (last, wait) = match self.dirty {
            Dirty::Clean => return None,
            Dirty::Animation => (self.last_frame, ANIMATION_EVERY),
            // A look costs as much as a frame.
            Dirty::Data => (self.last_frame.max(self.last_look), self.data_every),
            Dirty::Input => (self.last_frame, INPUT_EVERY),
        };
        Some(last.map_or_else(Instant::now, |last| last + wait))
    }

    /// Whether it is due at `now`.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|due| due <= now)
    }

    /// What the next frame is for.
    pub(crate) const fn cause(&self) -> Dirty {
        self.dirty
    }

    /// Whether to look at `now` if the next frame would show anything new: it is for what services
    /// told, and the last one is not of just now.
    pub(crate) fn is_doubtful(&self, now: Instant) -> bool {
        let is_late = |last: Instant| now.duration_since(last) >= LOOKED_AT_AFTER;
        self.dirty == Dirty::Data && self.last_frame.is_some_and(is_late)
    }

    /// There was nothing new to be drawn at `now`.
    pub(crate) fn spared(&mut self, now: Instant) {
        self.last_look = Some(now);
        self.dirty = Dirty::Clean;
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
        let mut pacer = Pacer::new(false);
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
    async fn what_changes_nothing_is_looked_at_as_seldom_as_frames_are_drawn() {
        let mut pacer = Pacer::new(false);
        pacer.drawn(Instant::now(), false);
        tokio::time::advance(LOOKED_AT_AFTER).await;
        let mut n_looks = 0;
        for _ in 0..1_000 {
            pacer.soil(Dirty::Data);
            if pacer.is_due(Instant::now()) {
                assert!(pacer.is_doubtful(Instant::now()));
                n_looks += 1;
                pacer.spared(Instant::now());
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(n_looks, 10);
        pacer.soil(Dirty::Input);
        assert!(pacer.is_due(Instant::now()), "a key is not made to wait");
    }

    /// How many frames a second of rows is, one row a millisecond.
    async fn frames_of_a_burst(is_far: bool) -> u32 {
        let mut pacer = Pacer::new(is_far);
        let mut n_frames = 0;
        for _ in 0..1_000 {
            pacer.soil(Dirty::Data);
            if pacer.is_due(Instant::now()) {
                n_frames += 1;
                pacer.drawn(Instant::now(), false);
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        n_frames
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_rows_is_ten_frames_a_second_and_four_over_a_network() {
        assert_eq!(frames_of_a_burst(false).await, 10);
        assert_eq!(frames_of_a_burst(true).await, 4);
    }
}
