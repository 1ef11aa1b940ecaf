//! Draws text fields: their text, fields of forms with a label, and search fields.

use ratatui::prelude::*;

use super::{split_columns, text_cut};
use crate::state::field::Field;
use crate::theme::Theme;
use crate::widget::{format, paint, pane};

/// Draws the text of a field. If `has_caret` is true, the text is scrolled so that the caret is
/// visible.
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
    // The last column is reserved for a caret behind the text.
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

/// A field of a form with a label to the left of it.
pub(crate) struct LabelledField<'a> {
    pub(crate) label: &'static str,
    /// Width of the label, without the gap that follows. 0 if there is no label.
    pub(crate) label_width: u16,
    /// Maximum width of the field.
    pub(crate) width: u16,
    pub(crate) is_focused: bool,
    pub(crate) has_caret: bool,
    /// Background of the field while it does not have the focus.
    pub(crate) ground: Style,
    /// Selected value, if the field is a choice and not a text.
    pub(crate) choice: Option<&'a str>,
    pub(crate) text: &'a Field,
}

impl LabelledField<'_> {
    /// Draws the field into the first row of `area`. Leaves the last column free. Returns the area
    /// of the field without its label.
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

/// Draws a search field, such as `⌕ text`.
pub(crate) fn draw_search(
    area: Rect,
    buf: &mut Buffer,
    theme: &Theme,
    field: &Field,
    placeholder: &str,
) {
    paint::text(buf, area, (0, 0), "⌕", theme.muted);
    let [_, text] = split_columns(area, 2);
    if field.value().is_empty() && !field.is_edited() {
        paint::text(buf, text, (0, 0), placeholder, theme.faint);
    } else {
        draw_field(text, buf, theme, field, field.is_edited());
    }
}
