//! Notices, in the footer's place and in rows above it that the screen gives up while they show:
//! they cover no figure.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};
use unicode_width::UnicodeWidthStr as _;

use super::{Frame, wrap::wrapped};
use crate::{
    action::Action,
    keymap::Layer,
    local::Level,
    state::notices::Notice,
    theme::Theme,
    widget::{format, paint},
};

/// The most rows of a notice, the footer's included: on a small screen two thirds stay for the rest.
const ROWS_MAX: usize = 4;

/// The columns before the text: an edge, the glyph and a space.
const INDENT: u16 = 3;

/// The glyph and the color of a notice of `level`.
pub(crate) fn mark(level: Level, theme: &Theme) -> (char, Style) {
    match level {
        Level::Error => ('✗', theme.down),
        Level::Warn => ('!', theme.warn),
        _ => ('✓', theme.up),
    }
}

/// The lines of the newest notice for `width` columns, of which the last gives up `right` columns;
/// none without a notice.
pub(crate) fn lines(frame: Frame<'_>, width: u16, right: u16) -> Vec<Line<'static>> {
    let theme = frame.theme;
    let Some(notice) = frame.state.notices.iter().last() else { return Vec::new() };
    let n_more = frame.state.notices.iter().count().saturating_sub(1);
    let more = match n_more {
        0 => String::new(),
        n => format!("  +{n} more: {}", frame.key(Layer::Global, Action::Notices)),
    };
    let Notice { text, detail, .. } = notice;
    let room = width.saturating_sub(INDENT + right);
    let gap = if detail.is_empty() { "" } else { "  " };
    let whole = format!("{text}{gap}{detail}{more}");
    if whole.width() <= room.into() && !whole.contains('\n') {
        return vec![Line::from(vec![
            Span::styled(text.clone(), theme.text),
            Span::styled(format!("{gap}{detail}"), theme.muted),
            Span::styled(more, theme.muted),
        ])];
    }
    let joint = if detail.is_empty() { "" } else { ": " };
    let mut lines = wrapped(&format!("{text}{joint}{detail}{more}"), room.max(1));
    if lines.len() > ROWS_MAX {
        lines.truncate(ROWS_MAX);
        if let Some(last) = lines.last_mut() {
            *last = format::fit(&format!("{last}…"), room.into()).into_owned();
        }
    }
    lines.into_iter().map(|line| Line::from(Span::styled(line, theme.text))).collect()
}

/// Draws `lines` into `area`, which has a row for each.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, lines: &[Line<'_>]) {
    let Some(notice) = frame.state.notices.iter().last() else { return };
    let (glyph, style) = mark(notice.level, frame.theme);
    paint::put(buf, area, (1, 0), glyph, style);
    for (y, line) in (0..area.height).zip(lines) {
        paint::line(buf, area, (INDENT, y), line);
    }
}
