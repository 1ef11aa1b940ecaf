//! Draws the notices there were, newest first.

use crate::{
    overlay::view::{List, Surface, raise},
    view::{centered, notices, split_rows, wrap::wrapped},
    widget::{format, paint, pane::Pane},
};

/// The widest the list is.
const WIDTH_MAX: u16 = 110;

/// Rows for the whole text of the notice selected.
const DETAIL_ROWS: u16 = 4;

pub(crate) fn draw(on: Surface<'_>, selected: usize) {
    let Surface { area, buf, frame, hits } = on;
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
    let [upper, below] = split_rows(inside, inside.height.saturating_sub(DETAIL_ROWS + 1));
    let list = List { n_rows, selected, pitch: 1 };
    list.draw(upper, buf, frame, hits, |buf, place, row| {
        let Some(notice) = past.past().nth(row) else { return };
        let (glyph, style) = notices::mark(notice.level, theme);
        paint::text(buf, place, (2, 0), &format::clock(notice.at), theme.muted);
        paint::put(buf, place, (11, 0), glyph, style);
        let x = paint::text(buf, place, (13, 0), &notice.text, theme.text);
        paint::text(buf, place, (x.saturating_add(2), 0), &notice.detail, theme.muted);
    });
    let Some(notice) = past.past().nth(selected) else { return };
    let whole = format!("{} · {}", notice.text, notice.detail);
    for (y, line) in (1..below.height).zip(wrapped(&whole, below.width)) {
        paint::text(buf, below, (0, y), &line, theme.text);
    }
}
