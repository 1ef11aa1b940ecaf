//! A rounded frame with a title on its left and facts about its content on its right.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    text::Line,
};

use super::paint;
use crate::theme::Theme;

/// Whether keys go to a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focus {
    /// They do.
    Here,
    /// They do not.
    Elsewhere,
}

/// A frame: `╭─ Title ───── info ╮`.
#[derive(Debug, Clone)]
pub struct Pane<'a> {
    title: Line<'a>,
    info: Line<'a>,
    footer: Line<'a>,
    focus: Focus,
}

impl<'a> Pane<'a> {
    /// Returns a frame with this title, neither focused nor told about.
    #[must_use]
    pub fn new(title: impl Into<Line<'a>>) -> Self {
        Self {
            title: title.into(),
            info: Line::default(),
            footer: Line::default(),
            focus: Focus::Elsewhere,
        }
    }

    /// With facts about the content at the right of the upper border.
    #[must_use]
    pub fn info(self, info: impl Into<Line<'a>>) -> Self {
        Self { info: info.into(), ..self }
    }

    /// With a hint at the right of the lower border.
    #[must_use]
    pub fn footer(self, footer: impl Into<Line<'a>>) -> Self {
        Self { footer: footer.into(), ..self }
    }

    /// With or without the focus.
    #[must_use]
    pub fn focus(self, focus: Focus) -> Self {
        Self { focus, ..self }
    }

    /// Draws the frame along the edge of `area`, and returns what is inside of it.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: &Theme) -> Rect {
        let area = area.intersection(buf.area);
        let inside = Rect {
            x: area.x.saturating_add(1),
            y: area.y.saturating_add(1),
            width: area.width.saturating_sub(2),
            height: area.height.saturating_sub(2),
        };
        if area.width < 2 || area.height == 0 {
            return Rect { width: 0, height: 0, ..area };
        }
        let (border, title) = match self.focus {
            Focus::Here => (theme.focus, theme.text),
            Focus::Elsewhere => (theme.border, theme.muted),
        };
        let (last_x, last_y) = (area.width - 1, area.height - 1);
        for x in 1..last_x {
            paint::put(buf, area, (x, 0), '─', border);
            paint::put(buf, area, (x, last_y), '─', border);
        }
        for y in 1..last_y {
            paint::put(buf, area, (0, y), '│', border);
            paint::put(buf, area, (last_x, y), '│', border);
        }
        let corners = [(0, last_y, '╰'), (last_x, last_y, '╯'), (0, 0, '╭'), (last_x, 0, '╮')];
        for (x, y, symbol) in corners {
            paint::put(buf, area, (x, y), symbol, border);
        }
        // Without colors, a bold border is not enough to be seen.
        let is_plain = self.focus == Focus::Here && theme.focus.fg.is_none();
        let title = if is_plain { title.add_modifier(Modifier::REVERSED) } else { title };
        let title_style = title.add_modifier(Modifier::BOLD);
        let end = draw_title(buf, Rect { height: 1, ..area }, &self.title, title_style);
        draw_right(buf, area, (end, 0), &self.info, theme);
        draw_right(buf, area, (1, last_y), &self.footer, theme);
        inside
    }
}

/// Draws a rule with a title from border to border of a pane at row `y` of its whole area:
/// `├─ Title ─────┤`.
pub fn divider<'a>(
    buf: &mut Buffer,
    area: Rect,
    y: u16,
    title: impl Into<Line<'a>>,
    (focus, theme): (Focus, &Theme),
) {
    let border = if focus == Focus::Here { theme.focus } else { theme.border };
    let Some(last_x) = area.width.checked_sub(1).filter(|_| y < area.height) else { return };
    for x in 1..last_x {
        paint::put(buf, area, (x, y), '─', theme.border);
    }
    paint::put(buf, area, (0, y), '├', border);
    paint::put(buf, area, (last_x, y), '┤', border);
    let row = Rect { y: area.y.saturating_add(y), height: 1, ..area };
    draw_title(buf, row, &title.into(), theme.text.add_modifier(Modifier::BOLD));
}

/// The part of the inside of a pane that text goes to: a column less on both sides.
#[must_use]
pub fn padded(inside: Rect) -> Rect {
    Rect {
        x: inside.x.saturating_add(1).min(inside.right()),
        width: inside.width.saturating_sub(2),
        ..inside
    }
}

/// Writes ` Title ` from the third column of a one-row area; returns the column after it.
fn draw_title(buf: &mut Buffer, row: Rect, title: &Line<'_>, style: Style) -> u16 {
    if title.width() == 0 || row.width < 6 {
        return 2;
    }
    // The corner, a dash and a space on the left; a space and the corner on the right.
    let room = Rect { x: row.x.saturating_add(3), width: row.width - 5, ..row };
    let mut title = title.clone();
    title.style = style.patch(title.style);
    let end = paint::line(buf, room, (0, 0), &title);
    paint::put(buf, row, (2, 0), ' ', style);
    paint::put(buf, row, (end + 3, 0), ' ', style);
    end + 4
}

/// Writes ` text ` before the right corner of row `y`, if it fits after column `from`.
fn draw_right(buf: &mut Buffer, area: Rect, (from, y): (u16, u16), text: &Line<'_>, theme: &Theme) {
    let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
    let Some(x) = area.width.checked_sub(width.saturating_add(2)) else { return };
    if width == 0 || x <= from.saturating_add(1) {
        return;
    }
    let mut text = text.clone();
    text.style = theme.muted.patch(text.style);
    paint::put(buf, area, (x - 1, y), ' ', theme.muted);
    let end = paint::line(buf, area, (x, y), &text);
    paint::put(buf, area, (end, y), ' ', theme.muted);
}
