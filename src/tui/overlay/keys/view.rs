//! Draws the possible continuations of a key sequence.

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    keymap::sequence_text,
    overlay::view::raise,
    view::{Frame, centered, hits::Hits},
    widget::{paint, pane::Pane},
};

/// The width of the box.
const WIDTH: u16 = 44;

/// The width of the keys.
const KEYS_WIDTH: usize = 6;

/// Draws the continuations at the lower right of `area`; nothing without a pending sequence.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let state = frame.state;
    if state.pending.is_empty() {
        return;
    }
    let rows = state.keys.continuations(state.layers(), &state.pending);
    let n_rows = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    let place = centered(area, WIDTH, n_rows.saturating_add(2));
    let (x, y) = (area.right() - place.width, area.bottom() - place.height);
    let place = Rect { x, y, ..place };
    // It handles no input: what is beneath can be clicked as before.
    let of = Pane::new(format!("{} …", sequence_text(&state.pending)));
    let inside = raise(place, buf, frame, of, &mut Hits::default());
    for (y, (keys, action)) in (0..inside.height).zip(&rows) {
        paint::line(buf, inside, (0, y), &frame.key_line(keys, KEYS_WIDTH, *action));
    }
}
