//! Draws the help: all keys of the screen beneath.

use ratatui::prelude::*;

use crate::keymap::{Action, Layer};
use crate::overlay::view::raise;
use crate::screens::Screen;
use crate::state::overlay::Help;
use crate::view::{Frame, centered, draw_search, split_rows};
use crate::widget::pane::Pane;
use crate::widget::{format, paint};

/// Maximum width of the help.
const WIDTH_MAX: u16 = 120;

/// Width of the keys.
const KEYS_WIDTH: usize = 14;

/// Maximum distance in rows from the middle of the lines to a gap between two sections. If no gap
/// is that close, the lines are split into columns exactly in the middle.
const GAP_ROWS_MAX: usize = 10;

/// Draws the bindings that match the filter.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, help: &Help) {
    let Frame { state, theme, .. } = frame;
    let all = lines(frame, &Help::default());
    let width = WIDTH_MAX.min(area.width.saturating_sub(4));
    // Each of two columns needs space for the longest line, a gap and half of the border.
    let longest = all.iter().map(Line::width).max().unwrap_or_default();
    let n_columns = if longest + 2 <= usize::from(width / 2) { 2 } else { 1 };
    let (left, right) = columns(&all, n_columns);
    // The box has the height of the unfiltered help, so that the box does not move while a filter is
    // typed.
    let n_rows = left.len().max(right.len());
    let height = u16::try_from(n_rows + 4).unwrap_or(u16::MAX).min(area.height);
    let place = centered(area, width, height);
    let of = Pane::new(format!("Keys — {}", state.screen.name())).info(format!(
        "type to filter · {} runs the first · {} closes",
        frame.key(Layer::Help, Action::Open),
        frame.key(Layer::Help, Action::Back)
    ));
    let inside = raise(place, buf, frame, of);
    let [top, inside] = split_rows(inside, 2);
    draw_search(top, buf, theme, &help.filter, "");
    let lines = lines(frame, help);
    let (left, right) = columns(&lines, n_columns);
    let n_rows = left.len().max(right.len());
    let shown = usize::from(inside.height);
    let first = help.scroll.min(n_rows.saturating_sub(shown));
    for (x, column) in [(0, left), (inside.width / 2, right)] {
        for (y, line) in (0..inside.height).zip(column.iter().skip(first)) {
            paint::line_cut(buf, inside, (x, y), line);
        }
    }
    if lines.is_empty() {
        paint::text(buf, inside, (2, 0), "no key matches", theme.muted);
    }
}

/// Divides the lines into one or two columns. Two columns are split at a gap between sections near
/// the middle.
fn columns<'a, 'b>(lines: &'a [Line<'b>], n: usize) -> (&'a [Line<'b>], &'a [Line<'b>]) {
    if n < 2 {
        return (lines, &[]);
    }
    let middle = lines.len().div_ceil(2);
    let gap = (0..lines.len())
        .filter(|row| lines.get(*row).is_some_and(|line| line.width() == 0))
        .min_by_key(|row| row.abs_diff(middle))
        .filter(|row| row.abs_diff(middle) <= GAP_ROWS_MAX);
    let (left, right) = lines.split_at(gap.unwrap_or(middle).min(lines.len()));
    (left, right.get(usize::from(gap.is_some())..).unwrap_or_default())
}

fn lines(frame: Frame<'_>, help: &Help) -> Vec<Line<'static>> {
    let Frame { state, theme, .. } = frame;
    let layers = state.layers_beneath();
    let bindings = state.keys.in_force(&layers);
    let bold = theme.focus.add_modifier(Modifier::BOLD);
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut section = "";
    let mut listed: Vec<Action> = Vec::new();
    for binding in &bindings {
        let action = binding.action;
        if listed.contains(&action) || !help.shows(binding, &state.keys) {
            continue;
        }
        listed.push(action);
        let title = binding.layer.title();
        if title != section {
            section = title;
            if !lines.is_empty() {
                lines.push(Line::default());
            }
            lines.push(Line::styled(section, bold));
        }
        // An action is listed once, with its keys from all layers.
        let same = bindings.iter().filter(|other| other.action == action);
        let keys: Vec<String> = same.map(|other| state.keys.keys_text(other)).collect();
        lines.push(frame.key_line(&keys.join("  "), KEYS_WIDTH, action));
    }
    if help.filter.value().is_empty() {
        lines.extend(legend(frame));
    }
    if !layers.contains(&Layer::Global) && help.filter.value().is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled("Everything else you type is text.", theme.muted));
    }
    lines
}

/// Returns the legend of the symbols in the header and on the current screen.
fn legend(frame: Frame<'_>) -> Vec<Line<'static>> {
    let theme = frame.theme;
    let mut lines = Vec::new();
    let mut section = |title: &'static str, parts: &[(char, Style, &'static str)]| {
        lines.extend([
            Line::default(),
            Line::styled(title, theme.focus.add_modifier(Modifier::BOLD)),
        ]);
        lines.extend(parts.iter().map(|(symbol, style, words)| {
            let symbol = format::right(&symbol.to_string(), KEYS_WIDTH);
            let words = Span::styled(format!("  {words}"), theme.text);
            Line::from(vec![Span::styled(symbol, *style), words])
        }));
    };
    section(
        "Services",
        &[
            ('●', theme.up, "live: a stream of it is open"),
            ('◉', theme.up, "up: it responds"),
            ('◌', theme.muted, "no response yet"),
            ('!', theme.down, "not responding"),
            ('✗', theme.down, "down: connections fail"),
            ('⊘', theme.down, "it refuses the key"),
            ('◐', theme.warn, "it limits the rate, or some are down"),
            ('○', theme.faint, "no address"),
        ],
    );
    match frame.state.screen {
        Screen::Cluster => section(
            "Nodes",
            &[
                ('●', theme.up, "connected"),
                ('!', theme.down, "does not respond to its head"),
                ('○', theme.warn, "gets no work"),
                ('○', theme.muted, "not connected"),
                ('◌', theme.warn, "as last listed by its head, which is away"),
                ('✗', theme.down, "its process exited"),
            ],
        ),
        Screen::Data => section(
            "Datasets",
            &[
                ('●', theme.up, "followed by its stream"),
                ('○', theme.up, "has new rows"),
                ('·', theme.faint, "has no new rows"),
                ('◌', theme.warn, "the service is away"),
                ('★', theme.key, "pinned"),
            ],
        ),
        _ => {}
    }
    lines
}
