//! The help: every key that would do something on the screen beneath, by the table of keys.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Modifier,
    text::{Line, Span},
};

use super::{Frame, centered};
use crate::{
    action::Action,
    keymap::{self, Layer},
    widget::{
        format, paint,
        pane::{self, Focus},
    },
};

/// The widest the help is.
const WIDTH_MAX: u16 = 120;

/// The width of the keys.
const KEYS_WIDTH: usize = 14;

/// The narrowest area in which two columns stand side by side.
const TWO_COLUMNS_WIDTH: u16 = 76;

/// How far from the middle a gap may be to be where the columns part.
const GAP_ROWS_MAX: usize = 6;

/// Draws the help over `area`, from its row `scroll` on.
pub(super) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, scroll: usize) {
    let Frame { state, theme, .. } = frame;
    let lines = lines(frame);
    let (left, right) = columns(&lines, area.width);
    let n_rows = left.len().max(right.len());
    let height = u16::try_from(n_rows + 2).unwrap_or(u16::MAX);
    let width = WIDTH_MAX.min(area.width.saturating_sub(4));
    let place = centered(area, width, height.min(area.height));
    theme.clear(place, buf);
    buf.set_style(place, theme.bar);
    let inside = pane::padded(
        pane::Pane::new(format!("Keys — {}", state.screen.name()))
            .info("esc closes")
            .focus(Focus::Here)
            .draw(place, buf, theme),
    );
    let shown = usize::from(inside.height);
    let first = scroll.min(n_rows.saturating_sub(shown));
    for (x, column) in [(0, left), (inside.width / 2, right)] {
        for (y, line) in (0..inside.height).zip(column.iter().skip(first)) {
            paint::line(buf, inside, (x, y), line);
        }
    }
}

/// The lines in two columns where there is room. A section is not torn apart where there is a gap
/// near the middle.
fn columns<'a, 'b>(lines: &'a [Line<'b>], width: u16) -> (&'a [Line<'b>], &'a [Line<'b>]) {
    if width < TWO_COLUMNS_WIDTH {
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

fn lines(frame: Frame<'_>) -> Vec<Line<'static>> {
    let Frame { state, theme, .. } = frame;
    let layers = state.layers_beneath();
    let bindings = keymap::in_force(layers);
    let bold = theme.focus.add_modifier(Modifier::BOLD);
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut section = "";
    let mut listed: Vec<Action> = Vec::new();
    for binding in &bindings {
        let action = binding.action;
        if listed.contains(&action) {
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
        // Whatever layer they are in, all keys of an action stand beside it.
        let same = bindings.iter().filter(|other| other.action == action);
        let keys: Vec<String> = same.map(|other| other.keys_text()).collect();
        lines.push(Line::from(vec![
            Span::styled(format::right(&keys.join("  "), KEYS_WIDTH), theme.key),
            Span::raw("  "),
            Span::styled(action.title(), theme.text),
        ]));
    }
    if !layers.contains(&Layer::Global) {
        lines.push(Line::default());
        lines.push(Line::styled("Everything else you type is text.", theme.muted));
    }
    lines
}

/// Asks whether to quit although a run is awaited.
pub(super) fn draw_confirm(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let theme = frame.theme;
    let place = centered(area, 48, 5);
    theme.clear(place, buf);
    buf.set_style(place, theme.bar);
    let inside = pane::padded(pane::Pane::new("Quit?").focus(Focus::Here).draw(place, buf, theme));
    let runs = match frame.state.runs.n_waiting() {
        1 => "1 run is awaited.".to_owned(),
        n => format!("{n} runs are awaited."),
    };
    paint::text(buf, inside, (0, 0), &runs, theme.text);
    let keys = Line::from(vec![
        Span::styled("y", theme.key),
        Span::styled(" quit all the same   ", theme.muted),
        Span::styled("n", theme.key),
        Span::styled(" stay", theme.muted),
    ]);
    paint::line(buf, inside, (0, 2), &keys);
}
