//! Draws text fields: the text with its caret, and the field of a search.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    text::Span,
};

use super::split_columns;
use crate::{
    state::field::Field,
    theme::Theme,
    widget::{format, paint},
};

/// Draws a field's text with its caret, scrolled so that the caret is in view.
pub(crate) fn draw_field(area: Rect, buf: &mut Buffer, theme: &Theme, field: &Field, style: Style) {
    if area.width < 2 || area.height == 0 {
        return;
    }
    if !field.is_edited() {
        paint::text(buf, area, (0, 0), &format::fit(field.value(), area.width.into()), style);
        return;
    }
    // The last column is the caret's, when it stands after the text.
    let scroll = field.scroll(usize::from(area.width - 1));
    let mut column = 0;
    let mut shown = String::new();
    for letter in field.value().chars() {
        let width = Span::raw(letter.to_string()).width();
        if column >= scroll {
            shown.push(letter);
        }
        column += width;
    }
    paint::text(buf, area, (0, 0), &shown, style);
    let x = u16::try_from(field.cursor_column().saturating_sub(scroll)).unwrap_or(0);
    if let Some(cell) = paint::cell(buf, area, x, 0) {
        cell.set_style(theme.focus.add_modifier(Modifier::REVERSED));
    }
}

/// Draws the field of a search: `⌕ text`.
pub(crate) fn draw_search(
    area: Rect,
    buf: &mut Buffer,
    theme: &Theme,
    field: &Field,
    placeholder: &str,
) {
    let (_, rest) = (paint::text(buf, area, (0, 0), "⌕", theme.muted), 2);
    let [_, text] = split_columns(area, rest);
    if field.value().is_empty() && !field.is_edited() {
        paint::text(buf, text, (0, 0), placeholder, theme.faint);
    } else {
        draw_field(text, buf, theme, field, theme.text);
    }
}
