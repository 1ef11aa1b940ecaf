//! Draws a frame of the past in place of the live screen.

use ratatui::prelude::*;

use crate::state::frames::Past;
use crate::view::{Frame, footer, split_columns, split_rows};
use crate::widget::{format, paint};

/// Draws `past` as it was drawn then. The last row shows its time, its age and the keys instead of the
/// footer.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, past: &Past) {
    let theme = frame.theme;
    for position in area.intersection(past.content.area).positions() {
        if let (Some(cell), Some(then)) = (buf.cell_mut(position), past.content.cell(position)) {
            cell.clone_from(then);
        }
    }
    let [_, last] = split_rows(area, area.height.saturating_sub(1));
    paint::text(buf, last, (0, 0), &" ".repeat(last.width.into()), theme.text);
    buf.set_style(last, theme.bar);
    let now = frame.state.now;
    let age = format::span(now.since(past.at));
    let text = format!(" ◂ past: {}, {age} ago ", format::clock_as_of(past.at, now));
    let end = paint::text(buf, last, (0, 0), &text, theme.tag(theme.warn));
    let [_, room] = split_columns(last, end);
    footer::draw_keys(room, buf, frame);
}
