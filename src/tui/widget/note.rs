//! A few lines in the middle of an area that has nothing else to show: why, and what to do.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{format, paint};
use crate::{state::loadable::Failure, theme::Theme};

/// Draws what failed, why, and what to do about it; `what` is the style of the first.
pub(crate) fn failed(buf: &mut Buffer, area: Rect, why: &Failure, what: Style, theme: &Theme) {
    let first = format!("failed to {}", why.what);
    let lines = [(&*first, what), (&*why.why, theme.text), (&*why.next, theme.muted)];
    centered(buf, area, &lines);
}

/// Draws `lines` in the middle of `area`, each cut to its width.
pub fn centered(buf: &mut Buffer, area: Rect, lines: &[(&str, Style)]) {
    let n_lines = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let top = area.height.saturating_sub(n_lines) / 2;
    for (y, (text, style)) in (top..area.height).zip(lines) {
        let text = format::fit(text, area.width.into());
        let width = u16::try_from(ratatui::text::Line::raw(&*text).width()).unwrap_or(u16::MAX);
        paint::text(buf, area, (area.width.saturating_sub(width) / 2, y), &text, *style);
    }
}
