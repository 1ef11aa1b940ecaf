//! Draws the latest notice in the footer and in rows above it, which are taken from the screen.

use ratatui::prelude::*;
use unicode_width::UnicodeWidthStr as _;

use super::Frame;
use super::wrap::wrapped;
use crate::keymap::{Action, Layer};
use crate::local::Level;
use crate::state::notices::Notice;
use crate::theme::Theme;
use crate::widget::{format, paint};

/// Maximum height of a notice, including the footer, so that a small screen keeps most of its rows.
const ROWS_MAX: usize = 4;

/// Columns before the text: a margin, the symbol and a space.
const INDENT: u16 = 3;

/// Returns symbol and style of a notice.
pub(crate) fn mark(level: Level, theme: &Theme) -> (char, Style) {
    match level {
        Level::Error => ('✗', theme.down),
        Level::Warn => ('!', theme.warn),
        _ => ('✓', theme.up),
    }
}

/// Returns the lines of the latest notice for `width` columns, `right` of which are reserved in the last
/// line. Without a notice, returns no lines.
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
