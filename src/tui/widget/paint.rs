//! Writes cells and texts. Everything outside of an area or of the buffer is ignored.

use std::borrow::Cow;

use model::escape::escape_line;
use model::text::is_unprintable;
use ratatui::buffer::Cell;
use ratatui::prelude::*;

/// Returns the cell in column `x` and row `y` of `area`. Returns `None` outside of the area or the
/// buffer.
pub(crate) fn cell(buf: &mut Buffer, area: Rect, x: u16, y: u16) -> Option<&mut Cell> {
    if x >= area.width || y >= area.height {
        return None;
    }
    buf.cell_mut(Position::new(area.x.saturating_add(x), area.y.saturating_add(y)))
}

/// Writes `symbol`, which must be one column wide, at the position `at` in `area`.
///
/// If `style` has no background, the background of the cell remains. Modifiers are reset, so a row
/// must be written before it is inverted.
pub(crate) fn put(
    buf: &mut Buffer,
    area: Rect,
    at: impl Into<Position>,
    symbol: char,
    style: Style,
) {
    let Position { x, y } = at.into();
    if let Some(cell) = cell(buf, area, x, y) {
        cell.modifier = Modifier::empty();
        cell.set_char(symbol).set_style(style);
    }
}

/// Writes `text` at the position `at` in `area`, as far as it fits. Returns the column behind it.
///
/// Control characters are escaped. A wide character of which only a half fits is omitted.
pub(crate) fn text(
    buf: &mut Buffer,
    area: Rect,
    at: impl Into<Position>,
    text: &str,
    style: Style,
) -> u16 {
    let at = at.into();
    if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return line(buf, area, at, &Line::styled(text, style));
    }
    // Most texts are ASCII and need no segmentation into graphemes.
    let right = area.intersection(buf.area).right().saturating_sub(area.x);
    let mut end = at.x;
    for (x, letter) in (at.x..right).zip(text.chars()) {
        put(buf, area, (x, at.y), letter, style);
        end = x + 1;
    }
    end
}

/// Like [`text()`], for a text with several styles.
pub(crate) fn line(buf: &mut Buffer, area: Rect, at: impl Into<Position>, line: &Line<'_>) -> u16 {
    let Position { x, y } = at.into();
    let inside = area.intersection(buf.area);
    let (left, top) = (area.x.saturating_add(x), area.y.saturating_add(y));
    let line = &escaped(line);
    if !inside.contains(Position::new(left, top)) {
        return x;
    }
    for x in left..left.saturating_add(width(line)).min(inside.right()) {
        if let Some(cell) = buf.cell_mut(Position::new(x, top)) {
            cell.modifier = Modifier::empty();
        }
    }
    let (end, _) = buf.set_line(left, top, line, inside.right().saturating_sub(left));
    end.saturating_sub(area.x)
}

/// Returns the width of `line`.
pub(crate) fn width(line: &Line<'_>) -> u16 {
    u16::try_from(line.width()).unwrap_or(u16::MAX)
}

/// Returns `line` with control characters escaped, since the text can be untrusted.
pub(super) fn escaped<'a>(line: &'a Line<'a>) -> Cow<'a, Line<'a>> {
    if !line.spans.iter().any(|span| span.content.contains(is_unprintable)) {
        return Cow::Borrowed(line);
    }
    let spans = line.spans.iter().map(|span| Span::styled(escape_line(&span.content), span.style));
    Cow::Owned(Line { spans: spans.collect(), ..line.clone() })
}

/// Like [`line()`]. If the text does not fit, it is cut and ends with `…`.
pub(crate) fn line_cut(buf: &mut Buffer, area: Rect, at: impl Into<Position>, text: &Line<'_>) {
    let at = at.into();
    line(buf, area, at, text);
    let room = area.intersection(buf.area).width.saturating_sub(at.x);
    if width(text) > room
        && let Some(last) = area.width.checked_sub(1)
    {
        let style = text.spans.last().map_or(text.style, |span| span.style);
        put(buf, area, (last, at.y), '…', style);
    }
}

/// Like [`line()`]. The text ends at the last column of row `y`. Returns the column at which it
/// starts.
pub(crate) fn line_right(buf: &mut Buffer, area: Rect, y: u16, text: &Line<'_>) -> u16 {
    let x = area.width.saturating_sub(width(text));
    line(buf, area, (x, y), text);
    x
}

/// Like [`text()`]. The text ends before the position `end`. If it does not fit, its end is cut.
pub(crate) fn text_before(
    buf: &mut Buffer,
    area: Rect,
    end: impl Into<Position>,
    text: &str,
    style: Style,
) {
    let Position { x: end, y } = end.into();
    let area = Rect { width: area.width.min(end), ..area };
    line_right(buf, area, y, &Line::styled(text, style));
}

/// Applies a style to row `y` of `area`. The text remains.
pub(crate) fn row_style(buf: &mut Buffer, area: Rect, y: u16, style: Style) {
    if y < area.height {
        buf.set_style(Rect { y: area.y.saturating_add(y), height: 1, ..area }, style);
    }
}

/// Rounds `value` to a number of cells, at least 0 and at most `max`. NaN becomes 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range of the type"
)]
pub(crate) fn cells(value: f64, max: u16) -> u16 {
    if value.is_nan() { 0 } else { value.round().clamp(0.0, f64::from(max)) as u16 }
}

/// Like [`cells`], but rounds down.
pub(crate) fn cells_down(value: f64, max: u16) -> u16 {
    cells(value.floor(), max)
}
