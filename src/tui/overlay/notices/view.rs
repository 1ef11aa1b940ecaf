//! Draws the notices there were, newest first.

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    event::Target,
    local::Level,
    overlay::view::{mark, raise, window},
    view::{Frame, centered, hits::Hits, wrap::wrapped},
    widget::{format, paint, pane::Pane},
};

/// The widest the list is.
const WIDTH_MAX: u16 = 110;

/// Rows for the whole text of the notice selected.
const DETAIL_ROWS: u16 = 4;

pub(crate) fn draw(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    selected: usize,
    hits: &mut Hits,
) {
    let (theme, past) = (frame.theme, &frame.state.notices);
    let n_rows = past.past().len();
    let height = u16::try_from(n_rows).unwrap_or(u16::MAX).max(1);
    let height = height.saturating_add(DETAIL_ROWS + 3).min(area.height.saturating_sub(2));
    let place = centered(area, WIDTH_MAX.min(area.width.saturating_sub(4)), height);
    let of = Pane::new("Notices").info(format!("{n_rows} · newest first"));
    let inside = raise(place, buf, frame, of, hits);
    if n_rows == 0 {
        paint::text(buf, inside, (0, 0), "No notices yet.", theme.muted);
        return;
    }
    let list = Rect { height: inside.height.saturating_sub(DETAIL_ROWS + 1), ..inside };
    for (y, row) in (0..list.height).zip(window(selected, n_rows, list.height)) {
        let Some(notice) = past.past().nth(row) else { continue };
        let (glyph, style) = match notice.level {
            Level::Error => ("✗", theme.down),
            Level::Warn => ("!", theme.warn),
            _ => ("✓", theme.up),
        };
        paint::text(buf, list, (2, y), &format::clock(notice.at), theme.muted);
        paint::text(buf, list, (11, y), glyph, style);
        let x = paint::text(buf, list, (13, y), &notice.text, theme.text);
        paint::text(buf, list, (x.saturating_add(2), y), &notice.detail, theme.muted);
        if row == selected {
            mark(list, buf, y, frame);
        }
        let place = Rect { y: list.y.saturating_add(y), height: 1, ..list };
        hits.add(place, Target::Row { pane: 0, row });
    }
    let Some(notice) = past.past().nth(selected) else { return };
    let whole = format!("{} · {}", notice.text, notice.detail);
    let from = list.height.saturating_add(1);
    for (y, line) in (from..inside.height).zip(wrapped(&whole, inside.width)) {
        paint::text(buf, inside, (0, y), &line, theme.text);
    }
}
