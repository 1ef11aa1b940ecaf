//! Draws the palette: what is typed, what was found, and which letters leave one kind only.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Widget as _},
};
use strum::VariantArray as _;

use super::state::{Entry, Kind, Match, Palette};
use crate::{
    overlay::view::{List, Surface, raise},
    view::{Frame, centered, field::draw_field, strip},
    widget::{format, paint, pane::Pane},
};

/// The widest the palette is.
const WIDTH_MAX: u16 = 92;

/// The highest it is.
const HEIGHT_MAX: u16 = 20;

/// The width of an entry's group, with the mark before it and a space after it.
const GROUP_WIDTH: u16 = 12;

pub(crate) fn draw(on: Surface<'_>, palette: &Palette) {
    let Surface { area, buf, frame, hits } = on;
    let theme = frame.theme;
    let width = WIDTH_MAX.min(area.width.saturating_sub(4));
    let height = HEIGHT_MAX.min(area.height.saturating_sub(2));
    let y = area.y.saturating_add(area.height.saturating_sub(height).min(area.height / 12));
    let place = Rect { y, ..centered(area, width, height) };
    let inside = raise(place, buf, frame, Pane::new(""), hits);
    let count = format!("{} of {}", palette.matches.len(), palette.entries.len());
    let count = Line::styled(count, theme.muted);
    let x = paint::line_right(buf, inside, 0, &count);
    paint::put(buf, inside, (0, 0), '❯', theme.focus);
    let field = strip(inside, (2, 0), x.saturating_sub(3));
    if palette.input.value().is_empty() {
        paint::text(buf, field, (1, 0), "a command or a name", theme.faint);
    }
    draw_field(field, buf, theme, &palette.input, true);
    let rule = strip(inside, (0, 1), inside.width);
    Block::new().borders(Borders::TOP).border_style(theme.border).render(rule, buf);
    // A line for what is typed, a rule above and a blank below the list, a line for the signs.
    let list =
        Rect { y: inside.y.saturating_add(2), height: inside.height.saturating_sub(4), ..inside };
    if palette.matches.is_empty() {
        paint::text(buf, list, (2, 0), "no matches", theme.muted);
    }
    let rows = List { n_rows: palette.matches.len(), selected: palette.row, pitch: 1 };
    rows.draw(list, buf, frame, hits, |buf, place, row| {
        let found = palette.matches.get(row);
        let entry = found.and_then(|found| palette.entries.get(found.entry_idx));
        if let (Some(found), Some(entry)) = (found, entry) {
            draw_entry(place, buf, frame, entry, found);
        }
    });
    if inside.height > 4 {
        let y = inside.height - 1;
        let mut signs = Line::default();
        for kind in Kind::VARIANTS {
            signs.push_span(Span::styled(kind.sign().to_string(), theme.key));
            signs.push_span(Span::styled(format!(" {}s   ", kind.into_str()), theme.muted));
        }
        paint::line(buf, inside, (0, y), &signs);
    }
}

fn draw_entry(row: Rect, buf: &mut Buffer, frame: Frame<'_>, entry: &Entry, found: &Match) {
    let theme = frame.theme;
    let group = format::left(&entry.group, usize::from(GROUP_WIDTH) - 3);
    paint::text(buf, row, (2, 0), &group, theme.muted);
    let keys = Line::styled(entry.keys.as_str(), theme.key);
    let end = paint::line_right(buf, row, 0, &keys);
    let room = strip(row, (GROUP_WIDTH, 0), end.saturating_sub(GROUP_WIDTH + 1));
    let mut line = Line::default();
    let n_text = entry.text.chars().count();
    for (idx, letter) in entry.text.chars().enumerate() {
        line.push_span(found_or(letter, idx, found, theme.text, frame));
    }
    if !entry.detail.is_empty() {
        line.push_span(Span::raw("  "));
        for (idx, letter) in entry.detail.chars().enumerate() {
            line.push_span(found_or(letter, n_text + 1 + idx, found, theme.muted, frame));
        }
    }
    paint::line(buf, room, (0, 0), &line);
}

/// A character, highlighted if it matched the search.
fn found_or(
    letter: char,
    idx: usize,
    found: &Match,
    style: Style,
    frame: Frame<'_>,
) -> Span<'static> {
    let is_found = u32::try_from(idx).is_ok_and(|idx| found.letters.binary_search(&idx).is_ok());
    let style = if is_found { frame.theme.focus.add_modifier(Modifier::BOLD) } else { style };
    Span::styled(letter.to_string(), style)
}
