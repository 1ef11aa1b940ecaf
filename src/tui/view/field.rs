//! Draws text fields: the text with its caret, a field of a form, the field of a search.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    text::Span,
};

use super::{split_columns, text_cut};
use crate::{
    state::field::Field,
    theme::Theme,
    widget::{format, paint, pane},
};

/// Draws a field's text, with its caret scrolled into view where it is edited.
pub(crate) fn draw_field(
    area: Rect,
    buf: &mut Buffer,
    theme: &Theme,
    field: &Field,
    has_caret: bool,
) {
    let style = theme.text;
    if area.width < 2 || area.height == 0 {
        return;
    }
    if !has_caret {
        text_cut(buf, area, (0, 0), field.value(), style);
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

/// A field of a form, with its label at the left.
pub(crate) struct LabelledField<'a> {
    pub(crate) label: &'static str,
    /// Columns of the label, without the gap after it; none where there is none.
    pub(crate) label_width: u16,
    /// Columns of the field, where there is room.
    pub(crate) width: u16,
    pub(crate) is_focused: bool,
    /// True if it is edited.
    pub(crate) has_caret: bool,
    /// What is behind it without the focus.
    pub(crate) ground: Style,
    /// What is chosen, where it is no text.
    pub(crate) choice: Option<&'static str>,
    pub(crate) text: &'a Field,
}

impl LabelledField<'_> {
    /// Draws it in the first row of `area`, but for the last column; returns the place of the field.
    pub(crate) fn draw(&self, area: Rect, buf: &mut Buffer, theme: &Theme) -> Rect {
        let bold = theme.text.add_modifier(Modifier::BOLD);
        let style = if self.is_focused { bold } else { theme.muted };
        paint::text(buf, area, (0, 0), &format::right(self.label, self.label_width.into()), style);
        let gap = u16::from(self.label_width > 0);
        let [_, room] = split_columns(area, (self.label_width + gap).min(area.width));
        let width = self.width.min(room.width.saturating_sub(1));
        let place = Rect { width, height: 1, ..room }.intersection(area);
        buf.set_style(place, if self.is_focused { theme.sel } else { self.ground });
        let inside = pane::padded(place);
        if let Some(choice) = self.choice {
            let x = paint::text(buf, inside, (0, 0), choice, theme.text);
            if self.has_caret {
                paint::text(buf, inside, (x + 1, 0), "↑↓", theme.key);
            }
        } else {
            draw_field(inside, buf, theme, self.text, self.has_caret);
        }
        place
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
        draw_field(text, buf, theme, field, field.is_edited());
    }
}
