//! A border with rounded corners, a title on the left and facts about the content on the right.

use ratatui::prelude::*;
use ratatui::widgets::{Block, BorderType};

use super::{format, paint};
use crate::theme::Theme;

/// A border: `╭─ Title ───── info ╮`.
#[derive(Debug, Clone)]
pub(crate) struct Pane<'a> {
    title: Span<'a>,
    info: Line<'a>,
    footer: Line<'a>,
    is_focused: bool,
}

impl<'a> Pane<'a> {
    /// Returns a pane with this title that does not have the focus.
    pub(crate) fn new(title: impl Into<Span<'a>>) -> Self {
        Self {
            title: title.into(),
            info: Line::default(),
            footer: Line::default(),
            is_focused: false,
        }
    }

    /// Sets the facts about the content. They are on the right of the upper border if they fit.
    pub(crate) fn info(self, info: impl Into<Line<'a>>) -> Self {
        Self { info: info.into(), ..self }
    }

    /// Sets the text on the right of the lower border. It is omitted if it does not fit.
    pub(crate) fn footer(self, footer: impl Into<Line<'a>>) -> Self {
        Self { footer: footer.into(), ..self }
    }

    /// Sets whether the pane has the focus.
    pub(crate) fn focus(self, is_focused: bool) -> Self {
        Self { is_focused, ..self }
    }

    /// Draws the border around `area`. Returns the area within, without a margin of one column on
    /// both sides.
    pub(crate) fn draw(&self, area: Rect, buf: &mut Buffer, theme: &Theme) -> Rect {
        let area = area.intersection(buf.area);
        if area.width < 2 || area.height == 0 {
            return Rect { width: 0, height: 0, ..area };
        }
        let (border, title) =
            if self.is_focused { (theme.focus, theme.text) } else { (theme.border, theme.muted) };
        // Without colors, focus only makes the border bold, which is hardly visible. The title is
        // therefore inverted.
        let is_plain = self.is_focused && theme.focus.fg.is_none();
        let title = if is_plain { title.add_modifier(Modifier::REVERSED) } else { title };
        let title = left_title(&self.title, border, title.add_modifier(Modifier::BOLD), area.width);
        // Space for both corners, and for a column of the border between the title and the facts.
        let room = area.width.saturating_sub(3);
        let info = right_title(&self.info, theme, room.saturating_sub(paint::width(&title)));
        let footer = right_title(&self.footer, theme, room);
        let mut block = Block::bordered()
            .border_type(BorderType::Rounded)
            // The cells can still have modifiers of earlier content.
            .border_style(Style::new().remove_modifier(Modifier::all()).patch(border))
            .title_top(title);
        if let Some(info) = info {
            block = block.title_top(info);
        }
        if let Some(footer) = footer {
            block = block.title_bottom(footer);
        }
        let inside = padded(block.inner(area));
        block.render(area, buf);
        inside
    }
}

/// Draws a line with a title across a pane: `├─ Title ─────┤`. `area` is the whole pane, and `y`
/// is the row in it.
pub(crate) fn divider<'a>(
    buf: &mut Buffer,
    area: Rect,
    y: u16,
    title: impl Into<Span<'a>>,
    is_focused: bool,
    theme: &Theme,
) {
    let border = if is_focused { theme.focus } else { theme.border };
    let Some(last_x) = area.width.checked_sub(1).filter(|_| y < area.height) else { return };
    for x in 1..last_x {
        paint::put(buf, area, (x, y), '─', theme.border);
    }
    paint::put(buf, area, (0, y), '├', border);
    paint::put(buf, area, (last_x, y), '┤', border);
    let title = title.into();
    let style = theme.text.add_modifier(Modifier::BOLD);
    let title = left_title(&title, theme.border, style, area.width);
    paint::line(buf, area, (1, y), &title);
}

/// Returns `area` without its first and last column.
pub(crate) fn padded(area: Rect) -> Rect {
    area.inner(Margin::new(1, 0))
}

/// Returns the start of a border that is `width` columns wide: `─ Title `. Returns an empty line
/// if there is no title.
fn left_title(title: &Span<'_>, border: Style, style: Style, width: u16) -> Line<'static> {
    // Both corners, a column of the border before the title, and a space on each side of the title.
    let room = width.saturating_sub(5);
    if room == 0 || title.width() == 0 {
        return Line::default();
    }
    let text = format!(" {} ", format::fit(&title.content, room.into()));
    Line::from(vec![Span::styled("─", border), Span::styled(text, style.patch(title.style))])
}

/// Returns ` text ` for the end of a border. Returns `None` if it does not fit into `room`
/// columns.
fn right_title(text: &Line<'_>, theme: &Theme, room: u16) -> Option<Line<'static>> {
    let width = paint::width(text);
    if width == 0 || width.saturating_add(2) > room {
        return None;
    }
    let style = theme.muted.patch(text.style);
    let mut line = Line::styled(" ", style).right_aligned();
    for span in &paint::escaped(text).spans {
        line.push_span(Span::styled(span.content.to_string(), span.style));
    }
    line.push_span(Span::raw(" "));
    Some(line)
}
