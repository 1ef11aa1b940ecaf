//! Notices, over the lower right corner of the screen in view, the newest at the bottom.

use ratatui::{buffer::Buffer, layout::Rect};

use super::{Frame, wrap::wrapped};
use crate::{
    local::Level,
    widget::{paint, pane},
};

/// The widest notice.
const WIDTH_MAX: u16 = 64;

/// Draws the notices into the corner of `area`.
pub(super) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let theme = frame.theme;
    let width = WIDTH_MAX.min(area.width.saturating_sub(2));
    if width < 12 {
        return;
    }
    let mut bottom = area.bottom().saturating_sub(1);
    let notices: Vec<_> = frame.state.notices.iter().collect();
    for notice in notices.into_iter().rev() {
        let room = width - 4;
        let (glyph, style) = match notice.level {
            Level::Error => ("✗", theme.down),
            Level::Warn => ("!", theme.warn),
            _ => ("✓", theme.up),
        };
        let title = wrapped(&notice.text, room.saturating_sub(2));
        let detail = wrapped(&notice.detail, room.saturating_sub(2));
        let height = u16::try_from(title.len() + detail.len()).unwrap_or(u16::MAX).min(6);
        let height = height.saturating_add(2);
        let Some(y) = bottom.checked_sub(height).filter(|y| *y >= area.y) else { return };
        let place = Rect { x: area.right().saturating_sub(width + 1), y, width, height };
        theme.clear(place, buf);
        buf.set_style(place, theme.bar);
        let inside = pane::padded(pane::Pane::new("").draw(place, buf, theme));
        paint::text(buf, inside, (0, 0), glyph, style);
        let lines = title.iter().map(|line| (line, theme.text));
        let lines = lines.chain(detail.iter().map(|line| (line, theme.muted)));
        for (row, (line, style)) in (0..inside.height).zip(lines) {
            paint::text(buf, inside, (2, row), line, style);
        }
        bottom = place.y;
    }
}
