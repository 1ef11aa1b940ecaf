//! The frames that the screen has shown in the last hour. The user can go back to them.
//!
//! At most one frame per second is stored: the last one of that second. A frame is stored as the cells
//! that differ from the frame before. Frames are grouped in segments. A segment begins with a complete
//! frame, so that old segments can be dropped, and stores equal cells only once.

use std::collections::{HashMap, VecDeque};
use std::mem::size_of;
use std::time::Duration;

use model::timestamp::Timestamp;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

/// Minimum time between two stored frames.
const EVERY: Duration = Duration::from_secs(1);

/// Age from which frames are dropped.
const KEPT_FOR: Duration = Duration::from_hours(1);

/// Maximum memory of all frames. An hour of a live chart needs about two thirds of it. If nearly all cells of a
/// large terminal change each second, it is enough for some minutes.
const BYTES_MAX: usize = 24 * 1024 * 1024;

/// Maximum number of frames of a segment. Restoring a frame applies up to this number of changes.
const SEGMENT_FRAMES: usize = 120;

/// Memory from which a segment is complete. Frames are dropped in units of segments.
const SEGMENT_BYTES: usize = BYTES_MAX / 16;

/// A stored frame.
#[derive(Debug)]
struct Frame {
    /// Time at which the first frame of the second was drawn.
    at: Timestamp,
    /// Changed cells: the index of each in the frame, and of its content in [`Segment::cells`].
    changes: Box<[(u32, u32)]>,
}

/// Consecutive frames of the same size.
#[derive(Debug, Default)]
struct Segment {
    area: Rect,
    /// Distinct cells of all frames.
    cells: Vec<Cell>,
    /// The frames. The first frame contains the changes from a blank frame.
    frames: Vec<Frame>,
}

/// The frame of the past that is in view.
#[derive(Debug)]
pub(crate) struct Past {
    /// Index of the frame among all stored frames.
    idx: usize,
    pub(crate) at: Timestamp,
    pub(crate) content: Buffer,
}

/// The stored frames, and the frame of the past that is in view, if any.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Segments, oldest first.
    segments: VecDeque<Segment>,
    /// Content of the last frame of the last segment.
    before: Buffer,
    /// The frame in view, and the time at which the first frame of its second was drawn. It is stored
    /// when a later one replaces it.
    last: Option<(Timestamp, Buffer)>,
    /// Indices of the cells of the last segment.
    indices: HashMap<Cell, u32>,
    past: Option<Past>,
}

impl Segment {
    fn bytes(&self) -> usize {
        let n_changes: usize = self.frames.iter().map(|frame| frame.changes.len()).sum();
        n_changes * size_of::<(u32, u32)>()
            + self.frames.len() * size_of::<Frame>()
            + self.cells.len() * size_of::<Cell>()
    }

    fn apply(&self, frame: &Frame, content: &mut Buffer) {
        for (place, idx) in &frame.changes {
            let old = content.content.get_mut(*place as usize);
            if let Some((old, new)) = old.zip(self.cells.get(*idx as usize)) {
                old.clone_from(new);
            }
        }
    }
}

impl Frames {
    /// Returns the frame of the past that is in view. `None` if the live screen is in view.
    pub(crate) const fn past(&self) -> Option<&Past> {
        self.past.as_ref()
    }

    /// Returns to the live screen.
    pub(crate) fn show_live(&mut self) {
        self.past = None;
    }

    /// Stores a frame that was drawn at `now`, unless it is a frame of the past.
    pub(crate) fn record(&mut self, content: &Buffer, now: Timestamp) {
        if self.past.is_some() {
            return;
        }
        match &mut self.last {
            // The frame replaces the last one, which was in view for less than a second.
            Some((at, last)) if now.since(*at) < EVERY => last.clone_from(content),
            last => {
                if let Some((at, stored)) = last.replace((now, content.clone())) {
                    self.push(stored, at);
                }
            }
        }
    }

    /// Appends a frame to the last segment, or to a new one if that is complete.
    fn push(&mut self, content: Buffer, at: Timestamp) {
        let is_open = |it: &Segment| {
            it.area == content.area
                && it.frames.len() < SEGMENT_FRAMES
                && it.bytes() < SEGMENT_BYTES
        };
        if !self.segments.back().is_some_and(is_open) {
            self.before = Buffer::empty(content.area);
            self.indices.clear();
            self.segments.push_back(Segment { area: content.area, ..Segment::default() });
        }
        let Some(segment) = self.segments.back_mut() else { return };
        let cells = (0..).zip(self.before.content.iter().zip(&content.content));
        let changes = cells.filter(|(_, (old, new))| old != new).map(|(place, (_, new))| {
            let idx = *self.indices.entry(new.clone()).or_insert_with(|| {
                segment.cells.push(new.clone());
                u32::try_from(segment.cells.len() - 1).unwrap_or(u32::MAX)
            });
            (place, idx)
        });
        let changes = changes.collect();
        segment.frames.push(Frame { at, changes });
        self.before = content;
        let is_old = |it: &Segment| it.frames.last().is_none_or(|it| it.at + KEPT_FOR < at);
        while self.segments.len() > 1
            && (self.bytes() > BYTES_MAX || self.segments.front().is_some_and(is_old))
        {
            self.segments.pop_front();
        }
    }

    /// Goes forward by `n` frames, or back if it is negative, as far as there are frames. After the
    /// latest frame, the live screen is in view.
    pub(crate) fn step(&mut self, n: isize) {
        let live = self.len();
        let here = self.past.as_ref().map_or(live, |past| past.idx);
        let idx = here.saturating_add_signed(n);
        self.past = if idx < live { self.restore(idx) } else { None };
    }

    /// Returns the number of stored frames.
    fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.frames.len()).sum()
    }

    /// Returns the memory of the stored frames.
    fn bytes(&self) -> usize {
        self.segments.iter().map(Segment::bytes).sum()
    }

    fn restore(&self, idx: usize) -> Option<Past> {
        let mut rest = idx;
        for segment in &self.segments {
            let Some(frame) = segment.frames.get(rest) else {
                rest = rest.checked_sub(segment.frames.len())?;
                continue;
            };
            let mut content = Buffer::empty(segment.area);
            for frame in segment.frames.iter().take(rest + 1) {
                segment.apply(frame, &mut content);
            }
            return Some(Past { idx, at: frame.at, content });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    fn at(second: u32) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000) + Duration::from_secs(second.into())
    }

    fn frame(width: u16, text: &str) -> Buffer {
        let mut content = Buffer::empty(Rect::new(0, 0, width, 2));
        content.set_string(0, 1, text, Style::new());
        content
    }

    fn seen(frames: &Frames) -> Option<String> {
        let content = &frames.past()?.content.content;
        let text: String = content.iter().map(Cell::symbol).collect();
        Some(text.trim().to_owned())
    }

    #[test]
    fn steps_restore_the_last_frame_of_each_second_and_end_at_the_live_screen() {
        let mut frames = Frames::default();
        let drawn = [(0, "first"), (0, "loaded"), (2, "two"), (300, "three"), (301, "live")];
        for (second, text) in drawn {
            frames.record(&frame(20, text), at(second));
        }
        for want in ["three", "two", "loaded", "loaded"] {
            frames.step(-1);
            assert_eq!(seen(&frames).as_deref(), Some(want));
        }
        assert_eq!(frames.past().unwrap().at, at(0));
        frames.record(&frame(20, "a frame of the past"), at(310));
        frames.step(2);
        assert_eq!(seen(&frames).as_deref(), Some("three"), "the past is not recorded");
        frames.step(1);
        assert!(frames.past().is_none());
        frames.step(isize::MIN);
        assert_eq!(seen(&frames).as_deref(), Some("loaded"));
        frames.show_live();
        assert!(frames.past().is_none());
    }

    #[test]
    fn frames_are_restored_across_segments_and_sizes() {
        let mut frames = Frames::default();
        for second in 0..400 {
            let width = if second < 200 { 20 } else { 30 };
            frames.record(&frame(width, &format!("second {second}")), at(second));
        }
        for back in [1, 50, 200, 150, 398] {
            frames.show_live();
            frames.step(-back);
            assert_eq!(seen(&frames), Some(format!("second {}", 399 - back)));
        }
        assert_eq!(frames.past().unwrap().content.area.width, 20);
    }

    #[test]
    fn resizing_stores_one_frame_per_second() {
        let mut frames = Frames::default();
        for step in 0..100_u16 {
            frames.record(&frame(20 + step, "resized"), at(u32::from(step / 50)));
        }
        assert_eq!((frames.segments.len(), frames.len()), (1, 1));
    }

    #[test]
    fn frames_older_than_an_hour_are_dropped() {
        let mut frames = Frames::default();
        for second in 0..8_000 {
            frames.record(&frame(20, &format!("second {second}")), at(second));
        }
        assert!((3_600..3_800).contains(&frames.len()), "{}", frames.len());
    }

    #[test]
    fn memory_is_limited_if_all_cells_change() {
        let mut frames = Frames::default();
        for second in 0..160 {
            let mut content = Buffer::empty(Rect::new(0, 0, 100, 50));
            for (place, cell) in content.content.iter_mut().enumerate() {
                // Equal cells are stored once, so distinct cells reach the limit with fewer frames.
                cell.set_symbol(&format!("{second} {place}"));
            }
            frames.record(&content, at(second));
        }
        assert!(
            frames.bytes() <= BYTES_MAX && (20..160).contains(&frames.len()),
            "{}",
            frames.len()
        );
        frames.step(-1);
        assert!(seen(&frames).unwrap().starts_with("158 0"));
    }
}
