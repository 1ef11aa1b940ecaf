//! Draws the output of a result group, with matches of a search highlighted and a scrollbar.

use std::ops::Range;

use model::escape::escape_line;
use ratatui::prelude::*;
use ratatui::widgets::{Scrollbar, ScrollbarOrientation, ScrollbarState};
use strum::VariantArray as _;
use wire::functions::ExecuteResponse;

use super::field::draw_search;
use super::wrap::{highlighted, letters, push, wrapped_line};
use super::{Frame, strip};
use crate::event::Target;
use crate::state::pattern::Pattern;
use crate::state::results::{Output, ResultView};
use crate::theme::Theme;
use crate::widget::{format, paint};

/// Maximum number of lines that are drawn.
const TEXT_LINES_MAX: usize = 200_000;

/// Maximum number of characters of a line. So many characters fill more than a screen.
const LINE_CHARS_MAX: usize = 64 * 1024;

/// Width of the search field.
const SEARCH_WIDTH: u16 = 24;

/// Draws the output. Returns the height that it takes.
pub(crate) fn draw(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    response: &ExecuteResponse,
    look: ResultView,
) -> u16 {
    let theme = frame.theme;
    let (text, is_pretty) = look.shown_text(response);
    let lines: Vec<&str> = text.lines().take(TEXT_LINES_MAX).collect();
    let end = draw_tabs(area, buf, frame, look.output(response), is_pretty);
    if lines.is_empty() {
        paint::text(buf, area, (2, 1), "empty", theme.muted);
        return 2;
    }
    let height = usize::from(area.height.saturating_sub(1));
    let number_width = lines.len().to_string().len() + 1;
    // The last column is reserved for the scrollbar.
    let text_area = Rect { width: area.width.saturating_sub(1), ..area };
    let room = usize::from(text_area.width).saturating_sub(number_width).max(1);
    let rows_of = |line: &str| if look.is_wrapped { cut(line, room).len() } else { 1 };
    let first = first_line(&lines, look, height, rows_of);
    if lines.len() > height {
        let n = |number: usize| format::count(u64::try_from(number).unwrap_or(u64::MAX));
        let note = format!("line {} of {}", n(first + 1), n(lines.len()));
        if end + 1 + u16::try_from(note.len()).unwrap_or(u16::MAX) < area.width {
            paint::text_before(buf, area, (area.width, 0), &note, theme.muted);
        }
    }
    let wanted = Pattern::parse_phrase(frame.state.output_search.value());
    let mut y = 1;
    let mut n_seen = 0;
    for (number, line) in (first + 1..).zip(lines.iter().skip(first)) {
        if y >= area.height {
            break;
        }
        n_seen += 1;
        let lit = lit(line, &wanted, frame);
        let parts = if look.is_wrapped {
            wrapped_line(&lit, room, "")
        } else {
            vec![shift(&lit, look.n_hidden, room)]
        };
        let label = format!("{number:>width$} ", width = number_width - 1);
        for (idx, part) in parts.iter().enumerate() {
            if y >= area.height {
                break;
            }
            let x = u16::try_from(number_width).unwrap_or(u16::MAX);
            let label = if idx == 0 { label.as_str() } else { "" };
            paint::text(buf, area, (0, y), label, theme.faint);
            paint::line_cut(buf, text_area, (x, y), part);
            if look.found == Some(number - 1) {
                paint::row_style(buf, area, y, theme.sel);
            }
            y += 1;
        }
    }
    draw_scrollbar(area, buf, theme, first..first + n_seen, lines.len());
    y.min(area.height)
}

/// Draws the names of the outputs and highlights the visible one. Returns the column behind the
/// names.
fn draw_tabs(area: Rect, buf: &mut Buffer, frame: Frame<'_>, shown: Output, is_json: bool) -> u16 {
    let theme = frame.theme;
    let mut x = 0;
    for output in Output::VARIANTS.iter().copied() {
        let is_shown = output == shown;
        let style = if is_shown {
            theme.text.add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
        } else {
            theme.muted
        };
        let from = x;
        x = paint::text(buf, area, (x, 0), output.into_str(), style);
        frame.hits.add(strip(area, (from, 0), x.saturating_sub(from)), Target::Output(output));
        if is_shown && is_json && output != Output::Json {
            x = paint::text(buf, area, (x, 0), " as JSON", theme.muted);
        }
        x += 2;
    }
    let search = &frame.state.output_search;
    if search.is_edited() || !search.value().is_empty() {
        let width = SEARCH_WIDTH.min(area.width.saturating_sub(x));
        let place = Rect { x: area.x.saturating_add(x), width, height: area.height.min(1), ..area };
        draw_search(place, buf, theme, search, "search…");
        x += width;
    }
    x
}

/// Returns the index of the first visible line. The lines from there on fill `height` rows if
/// there are enough.
fn first_line(
    lines: &[&str],
    look: ResultView,
    height: usize,
    rows_of: impl Fn(&str) -> usize,
) -> usize {
    let mut n_rows = 0;
    let fits = lines.iter().rev().take_while(|line| {
        n_rows += rows_of(line);
        n_rows <= height
    });
    look.position.first(lines.len(), fits.count())
}

/// Draws a scrollbar at the right edge of `area`, if not all lines fit.
fn draw_scrollbar(area: Rect, buf: &mut Buffer, theme: &Theme, seen: Range<usize>, n_lines: usize) {
    if seen.len() >= n_lines || area.height < 3 {
        return;
    }
    let below_head = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let mut state = ScrollbarState::new(n_lines - seen.len() + 1)
        .position(seen.start)
        .viewport_content_length(seen.len());
    Scrollbar::new(ScrollbarOrientation::VerticalRight)
        .begin_symbol(None)
        .end_symbol(None)
        .track_symbol(Some("│"))
        .track_style(theme.faint)
        .thumb_style(theme.muted)
        .render(below_head.intersection(buf.area), buf, &mut state);
}

/// Escapes control characters in `text` and replaces tabs by spaces.
pub(crate) fn printable(text: &str) -> String {
    escape_line(&text.replace('\t', " ")).into()
}

/// Returns `line` with the matches of a search highlighted.
fn lit(line: &str, wanted: &Pattern, frame: Frame<'_>) -> Line<'static> {
    let theme = frame.theme;
    let found = theme.warn.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    let spans = highlighted(shown_part(line), theme.text, wanted, found).into_iter();
    spans.map(|span| Span::styled(printable(&span.content), span.style)).collect()
}

/// Returns the first [`LINE_CHARS_MAX`] characters of a line.
fn shown_part(line: &str) -> &str {
    let end = line.char_indices().nth(LINE_CHARS_MAX).map_or(line.len(), |(end, _)| end);
    line.get(..end).unwrap_or(line)
}

/// Returns the rows into which `line` is broken. A row has at most `width` columns.
fn cut(line: &str, width: usize) -> Vec<Line<'static>> {
    wrapped_line(&Line::raw(printable(shown_part(line))), width, "")
}

/// Returns the part of `line` that is visible if `n_hidden` columns are scrolled out on the left.
/// If the line does not fit into `width` columns, the returned part is also too long, so that
/// [`paint::line_cut`] marks it as cut.
fn shift(line: &Line<'_>, n_hidden: usize, width: usize) -> Line<'static> {
    let mut shown = Line::default();
    let mut column = 0;
    for (letter, style, columns) in letters(line) {
        if column > n_hidden + width {
            break;
        }
        if column >= n_hidden {
            push(&mut shown, letter, style);
        }
        column += columns;
    }
    shown
}
