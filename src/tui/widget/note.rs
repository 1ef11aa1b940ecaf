//! A few lines in the middle of an area without content: the reason, and what to do.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    style::Style,
    text::{Line, Text},
    widgets::{Paragraph, Widget as _},
};

use super::format;
use crate::{state::loadable::Failure, theme::Theme};

/// Draws what failed, why, and what to do about it.
pub(crate) fn failed(buf: &mut Buffer, area: Rect, why: &Failure, theme: &Theme) {
    let first = format!("failed to {}", why.what);
    let lines = [(&*first, theme.down), (&*why.why, theme.text), (&*why.next, theme.muted)];
    centered(buf, area, &lines);
}

/// Draws `lines` in the middle of `area`, each cut to its width.
pub(crate) fn centered(buf: &mut Buffer, area: Rect, lines: &[(&str, Style)]) {
    let lines = lines
        .iter()
        .map(|(text, style)| Line::styled(format::fit(text, area.width.into()), *style));
    let text: Text<'_> = lines.collect();
    let n_lines = u16::try_from(text.height()).unwrap_or(u16::MAX);
    let area = area.centered_vertically(Constraint::Length(n_lines));
    Paragraph::new(text).centered().render(area.intersection(buf.area), buf);
}
