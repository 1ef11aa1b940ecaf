//! Draws the Logs screen, and log lines on other screens.

use ratatui::prelude::*;
use unicode_width::UnicodeWidthStr as _;

use super::state::{Edge, Line as LogLine, OWN_SOURCE};
use crate::keymap::{Action, Layer};
use crate::local::{Level, LocalLog};
use crate::state::State;
use crate::theme::Theme;
use crate::view::{
    Frame, draw_empty, draw_search, highlighted, split_columns, split_rows, wrapped_line,
};
use crate::widget::{format, paint, pane};

/// Width of the column of sources.
const SOURCE_WIDTH: usize = 9;

/// Extent to which a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineLook {
    /// The line as the Logs screen shows it: with all fields, and with a time in milliseconds
    /// unless times are hidden.
    Whole,
    /// A short form for other screens.
    Tail { has_fields: bool },
}

/// Draws the Logs screen into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let logs = &state.logs;
    let pane = pane::Pane::new("Logs").info(info(frame)).focus(true);
    let [sources, rest] = split_rows(pane.draw(area, buf, theme), 1);
    draw_sources(sources, buf, frame);
    let [filter, rest] = split_rows(rest, 1);
    if logs.filter.is_edited() || !logs.filter.value().is_empty() {
        let key = frame.key(Layer::Logs, Action::OnlyMatches);
        let words = if logs.is_filtered { "shows all lines" } else { "shows only matches" };
        let hint = format!("  {key} {words}");
        let width = u16::try_from(hint.len()).unwrap_or(u16::MAX).min(filter.width / 2);
        let [field, right] = split_columns(filter, filter.width - width);
        draw_search(field, buf, theme, &logs.filter, "search…");
        paint::text_before(buf, right, (right.width, 0), &hint, theme.muted);
    }
    let open = logs.line().filter(|_| logs.is_open);
    let n_rows = open.map_or(0, |open| open.log.fields.len().saturating_add(4));
    let fields_height = u16::try_from(n_rows).unwrap_or(u16::MAX).min(rest.height / 2);
    let [lines, fields] = split_rows(rest, rest.height - fields_height);
    draw_lines(lines, buf, frame);
    if let Some(open) = open {
        draw_fields(fields, buf, &open.log, frame);
    }
}

/// Draws a line in full, with a row for each of its fields.
fn draw_fields(area: Rect, buf: &mut Buffer, log: &LocalLog, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let title = format!("{} {}", log.level.short(), log.process);
    let hints = [(Action::Back, "closes"), (Action::Copy, "copies")]
        .map(|(action, words)| format!("{} {words}", frame.key(Layer::Global, action)));
    let pane = pane::Pane::new(Span::styled(title, source_style(&log.process, state, theme)))
        .info(log.time.to_string())
        .footer(hints.join(" · "));
    let inside = pane.draw(area, buf, theme);
    paint::text(buf, inside, (0, 0), &log.message, theme.text.bold());
    let widest = log.fields.pairs().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let end = u16::try_from(widest.min(24)).unwrap_or(0);
    let room = inside.width.saturating_sub(end + 2);
    let mut y = 1;
    for (name, value) in log.fields.pairs() {
        paint::text_before(buf, inside, (end, y), name, theme.muted);
        for part in broken(&Line::from(Span::styled(value, theme.text)), room) {
            paint::line(buf, inside, (end + 2, y), &part);
            y += 1;
        }
    }
}

fn info(frame: Frame<'_>) -> String {
    let logs = &frame.state.logs;
    let follow = match (logs.selected, logs.n_held()) {
        (None, _) => "follow ●".to_owned(),
        (Some(_), 0) => "paused ○".to_owned(),
        (Some(_), n) => format!("paused ○ · {n} new"),
    };
    let follow = match logs.edge {
        Some(Edge::Above) => format!("no match above · {follow}"),
        Some(Edge::Below) => format!("no match below · {follow}"),
        None => follow,
    };
    let n_sources = if logs.source.is_some() { "1" } else { "all" };
    format!(
        "{follow} · level ≥ {} · {n_sources} of {} · {} · {} dropped",
        logs.level.short(),
        format::counted(logs.sources.len(), "source"),
        format::counted(logs.lines.len(), "line"),
        logs.n_dropped()
    )
}

fn draw_sources(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let mut x = 0;
    for (idx, source) in state.logs.sources.iter().enumerate() {
        let n_more = state.logs.sources.len() - idx;
        // Space for the number of sources that do not fit.
        let needed = source.width() + 4 + if n_more > 1 { " +99".len() + 2 } else { 0 };
        if usize::from(area.width.saturating_sub(x)) < needed {
            paint::text(buf, area, (x, 0), &format!("+{n_more}"), theme.muted);
            break;
        }
        let is_shown = state.logs.source.as_ref().is_none_or(|shown| shown == source);
        let mark = if is_shown { "[x]" } else { "[ ]" };
        let style = if is_shown { source_style(source, state, theme) } else { theme.muted };
        x = paint::text(buf, area, (x, 0), &format!("{mark} {source}"), style) + 2;
    }
}

/// Draws the lines around the selected line. If none is selected, draws the latest lines.
fn draw_lines(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let height = usize::from(area.height);
    let window = state.logs.window(height);
    if window.lines.is_empty() {
        let text = if state.logs.lines.is_empty() {
            "No lines yet.".to_owned()
        } else {
            let key = frame.key(Layer::Global, Action::Back);
            format!("No line passes the filters; {key} clears them.")
        };
        return draw_empty(area, buf, theme, &[text]);
    }
    let (wanted, hit) = (state.logs.search_query(), theme.focus.bold());
    let mut rows: Vec<Line<'_>> = Vec::new();
    // Rows that the selected line takes.
    let mut marked = 0..0;
    for (idx, drawn) in window.lines.iter().enumerate() {
        let spans = line(&drawn.log, state, theme, LineLook::Whole).spans.into_iter();
        let spans = spans.flat_map(|it| highlighted(&it.content, it.style, &wanted, hit));
        let whole: Line<'_> = spans.collect();
        let first = rows.len();
        if state.logs.is_wrapped {
            rows.extend(broken(&whole, area.width));
        } else {
            rows.push(whole);
        }
        if window.selected == Some(idx) {
            marked = first..rows.len();
        }
    }
    // Wrapped lines can take more rows than there are. The selected line is then in the middle.
    let mut top = rows.len().saturating_sub(height);
    if !marked.is_empty() {
        let middle = usize::midpoint(marked.start, marked.end);
        top = middle.saturating_sub(height / 2).min(top).min(marked.start);
    }
    for (y, (idx, row)) in (0..area.height).zip(rows.iter().enumerate().skip(top)) {
        paint::line_cut(buf, area, (0, y), row);
        if marked.contains(&idx) {
            paint::row_style(buf, area, y, theme.sel);
        }
    }
}

/// Draws lines of local processes in short form.
pub(crate) fn draw_tail(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    lines: &[&LogLine],
    has_fields: bool,
) {
    let look = LineLook::Tail { has_fields };
    for (y, log) in (0..area.height).zip(lines) {
        paint::line_cut(buf, area, (0, y), &line(&log.log, frame.state, frame.theme, look));
    }
}

/// Wraps `line` at `width`. All rows except the first are indented.
fn broken(line: &Line<'_>, width: u16) -> Vec<Line<'static>> {
    wrapped_line(line, width.max(8).into(), "    ")
}

/// Formats a line, such as `14:02:29 INF head      roll call  peers=4`.
fn line<'a>(log: &'a LocalLog, state: &State, theme: &Theme, look: LineLook) -> Line<'a> {
    let mut line = Line::default();
    let is_whole = look == LineLook::Whole;
    if !(is_whole && state.logs.hides_times) {
        let millis = match log.time.micros().rem_euclid(1_000_000) {
            _ if !is_whole => String::new(),
            // Some processes log times in whole seconds. Spaces replace the milliseconds.
            0 => " ".repeat(4),
            micros => format!(".{:03}", micros / 1_000),
        };
        let time = format!("{}{millis} ", format::clock(log.time));
        line.push_span(Span::styled(time, theme.muted));
    }
    let bold = level_style(log.level, theme).add_modifier(Modifier::BOLD);
    line.push_span(Span::styled(log.level.short(), bold));
    let source = format!(" {} ", format::left(&log.process, SOURCE_WIDTH));
    line.push_span(Span::styled(source, source_style(&log.process, state, theme)));
    line.push_span(Span::styled(log.message.as_str(), theme.text));
    if is_whole || look == (LineLook::Tail { has_fields: true }) {
        for (idx, (name, value)) in log.fields.pairs().enumerate() {
            let gap = if idx == 0 { "  " } else { " " };
            // Long ids are shortened in the middle, since they differ in their last characters.
            // With wrapped lines, there is enough space for the whole id.
            let is_short = !(is_whole && state.logs.is_wrapped);
            // Content ids and peer ids have more than 32 characters.
            let is_id = is_short && !value.contains(' ') && value.len() > 32;
            let value = if is_id { format::shorten(value, 8, 6) } else { value.into() };
            line.push_span(Span::styled(format!("{gap}{name}={value}"), theme.muted));
        }
    }
    line
}

fn level_style(level: Level, theme: &Theme) -> Style {
    match level {
        Level::Error => theme.down,
        Level::Warn => theme.warn,
        Level::Info => theme.info,
        Level::Debug | Level::Trace => theme.muted,
    }
}

/// Returns the style of a source. The style depends on the position of the source in the list.
fn source_style(source: &str, state: &State, theme: &Theme) -> Style {
    if source == OWN_SOURCE {
        return theme.accent2;
    }
    let mut others = state.logs.sources.iter().filter(|name| *name != OWN_SOURCE);
    others.position(|name| name == source).map_or(theme.muted, |idx| theme.series(idx))
}
