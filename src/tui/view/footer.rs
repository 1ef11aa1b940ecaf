//! The footer: hints for the active keys, and activity in the background. While a notice is
//! displayed, it replaces the hints and can take several rows.

use ratatui::prelude::*;
use unicode_width::UnicodeWidthStr as _;

use crate::event::Target;
use crate::keymap::{Action, Bound, Layer};
use crate::local::Level;
use crate::screens::Screen;
use crate::screens::cluster::state::Pane;
use crate::state::State;
use crate::state::notices::Notice;
use crate::state::overlay::Overlay;
use crate::theme::Theme;
use crate::view::{Frame, spinner, strip, wrapped};
use crate::widget::{format, paint};

/// Maximum number of keys that share a hint, such as the keys for two directions.
const KEYS_MAX: usize = 2;

/// Returns the number of rows of the footer on a screen that is `width` columns wide.
pub(crate) fn height(frame: Frame<'_>, width: u16) -> u16 {
    let n_lines = notice_lines(frame, width, right_width(frame)).len();
    u16::try_from(n_lines).unwrap_or(u16::MAX).max(1)
}

/// Draws the footer into `area`, which must have the height that [`height`] returns.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let theme = frame.theme;
    buf.set_style(area, theme.bar);
    let last = strip(area, (0, area.height.saturating_sub(1)), area.width);
    paint::line_right(buf, last, 0, &right(frame));
    let state = frame.state;
    let room = Rect { width: last.width.saturating_sub(right_width(frame)), ..last };
    if !state.pending.is_empty() {
        let presses = state.keys.sequence_text(&state.pending);
        paint::text(buf, room, (1, 0), &format!("{presses} …"), theme.key);
        return;
    }
    let Some(notice) = state.notices.iter().last() else { return draw_keys(room, buf, frame) };
    let (glyph, style) = notice_mark(notice.level, theme);
    paint::put(buf, area, (1, 0), glyph, style);
    let lines = notice_lines(frame, area.width, right_width(frame));
    for (y, line) in (0..area.height).zip(lines) {
        paint::line(buf, area, (INDENT, y), &line);
    }
}

/// A hint, and the bindings to which it applies.
struct Hint<'a> {
    words: &'static str,
    bindings: Vec<&'a Bound>,
}

/// Draws the hints of the active keys.
pub(crate) fn draw_keys(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (state, theme) = (frame.state, frame.theme);
    let layers = state.layers();
    let mut x = 1;
    if layers.contains(&Layer::List) {
        x = paint::text(buf, area, (x, 0), "↑↓", theme.key);
        x = paint::text(buf, area, (x + 1, 0), "move", theme.muted) + 2;
    }
    for hint in hints(state, &layers) {
        let keys: Vec<String> =
            hint.bindings.iter().map(|it| state.keys.first_key_text(it)).collect();
        let keys_width: usize = keys.iter().map(|key| key.chars().count() + 1).sum();
        let needed = keys_width + hint.words.chars().count();
        if usize::from(area.width.saturating_sub(x)) < needed {
            break;
        }
        for (key, binding) in keys.iter().zip(&hint.bindings) {
            let from = x;
            x = paint::text(buf, area, (x, 0), key, theme.key) + 1;
            let place = Rect { x: area.x.saturating_add(from), width: x - from, ..area };
            frame.hits.add(place, Target::Action(binding.action));
        }
        let from = x;
        x = paint::text(buf, area, (x, 0), hint.words, theme.muted);
        if let Some(binding) = hint.bindings.last() {
            let place = Rect { x: area.x.saturating_add(from), width: x - from, ..area };
            frame.hits.add(place, Target::Action(binding.action));
        }
        x += 2;
    }
}

/// Returns the hints of the active keys, in the order of the table.
fn hints<'a>(state: &'a State, layers: &[Layer]) -> Vec<Hint<'a>> {
    let mut hints: Vec<Hint<'a>> = Vec::new();
    for binding in state.keys.in_force(layers) {
        let words = words(binding, state);
        if words.is_empty() || binding.sequences.is_empty() {
            continue;
        }
        match hints.iter_mut().find(|hint| hint.words == words) {
            Some(hint) if hint.bindings.len() < KEYS_MAX => hint.bindings.push(binding),
            Some(_) => {}
            None => hints.push(Hint { words, bindings: vec![binding] }),
        }
    }
    hints
}

/// Returns the hint of `binding` in the current state. Empty if it has none.
fn words(binding: &Bound, state: &State) -> &'static str {
    let is_paused = match state.screen {
        Screen::Data => state.data.live.is_paused(),
        Screen::Logs => state.logs.selected.is_some(),
        Screen::Inference => state.inference.is_paused,
        _ => false,
    };
    let is_quitting = matches!(state.overlays.last(), Some(Overlay::ConfirmQuit));
    match (state.screen, binding.action) {
        (_, Action::QuitKeeping) if !is_quitting => "",
        (_, Action::Zoom) if state.is_zoomed => "unzoom",
        (_, Action::Pause) if is_paused => "resume",
        (Screen::Cluster | Screen::Execute, _) if binding.layer != Layer::Edit => {
            result_words(binding, state)
        }
        (Screen::Data, Action::RowsTable) if state.data.is_table => "chart",
        (Screen::Data, Action::Earlier | Action::Later) if state.data.is_table => "columns",
        _ if is_idle(binding.action, state, is_paused) => "",
        _ => binding.hint,
    }
}

/// Returns true if `action` would have no effect in the current state.
fn is_idle(action: Action, state: &State, is_paused: bool) -> bool {
    let State { data, logs, .. } = state;
    match (state.screen, action) {
        (Screen::Data, Action::NextChart | Action::Indicators) => {
            data.is_table || data.is_comparing()
        }
        (Screen::Data, Action::Forecasts) => {
            data.forecast.topic.is_none() || data.is_table || data.is_comparing()
        }
        (Screen::Data, Action::NextColumn | Action::ZoomIn | Action::ZoomOut) => data.is_table,
        (Screen::Data, Action::Follow) => data.crosshair.is_none() && !data.is_table,
        (Screen::Logs, Action::Follow) => !is_paused,
        (Screen::Logs, Action::NextMatch | Action::PreviousMatch) => logs.filter.value().is_empty(),
        _ => false,
    }
}

/// Returns the hint of `binding` on a screen that shows the results of a run.
fn result_words(binding: &Bound, state: &State) -> &'static str {
    let is_cluster = state.screen == Screen::Cluster;
    let focus = state.cluster.focus;
    let (run, look) = (state.results().selected(&state.runs), state.results().look);
    let response = run.and_then(|run| run.response());
    // Keys that affect an output have a hint only while an output has focus.
    let is_read = response.is_some() && (!is_cluster || focus == Pane::Groups);
    let is_searched = is_read && !state.output_search.value().is_empty();
    let is_idle = match binding.action {
        Action::FoldGroup | Action::FoldGroups => {
            focus != Pane::Nodes || state.cluster.grouped_by.is_none()
        }
        Action::Open if is_cluster => state.cluster.is_group_selected(state.cluster_context()),
        Action::Diff => response.is_none_or(|response| response.results.len() < 2),
        Action::NextOutput => response.is_none(),
        Action::Filter => !is_read && !is_cluster,
        Action::NextMatch | Action::PreviousMatch => !is_searched,
        Action::OutputLeft
        | Action::OutputRight
        | Action::Wrap
        | Action::Pretty
        | Action::Export
        | Action::OpenPager => !is_read,
        Action::Again | Action::CopyCurl | Action::OlderRun | Action::NewerRun => {
            !is_cluster && run.is_none()
        }
        _ => false,
    };
    match binding.action {
        _ if is_idle => "",
        Action::Open if is_cluster && focus == Pane::Runs => "results",
        Action::Diff if look.is_diff => "output",
        Action::Filter if is_read => "search",
        Action::Wrap if look.is_wrapped => "cut",
        _ => binding.hint,
    }
}

fn right_width(frame: Frame<'_>) -> u16 {
    u16::try_from(right(frame).width()).unwrap_or(u16::MAX).saturating_add(2)
}

fn right(frame: Frame<'_>) -> Line<'static> {
    let (state, theme) = (frame.state, frame.theme);
    let mut line = Line::default();
    if state.is_interrupted {
        let key = frame.key(Layer::Always, Action::Interrupt);
        line.push_span(Span::styled(format!("{key} again quits  "), theme.warn));
    }
    // The first active key for the help. This is `?`, except while it would be typed as text.
    let keys = state.keys.in_force(&state.layers());
    if let Some(help) = keys.iter().find(|binding| binding.action == Action::Help) {
        line.push_span(Span::styled(state.keys.first_key_text(help), theme.key));
        line.push_span(Span::styled(" help", theme.muted));
    }
    match state.runs.n_waiting() {
        0 => {}
        n => {
            let picture = spinner(state.now);
            let runs = if n == 1 { "run" } else { "runs" };
            line.push_span(Span::styled(format!("  {picture} {n} {runs}"), theme.info));
        }
    }
    line.push_span(Span::raw(" "));
    line
}

/// Maximum number of rows of a notice in the footer. A small screen retains most of its rows.
const NOTICE_ROWS_MAX: usize = 4;

/// Number of columns before the text: a margin, the symbol and a space.
const INDENT: u16 = 3;

/// Returns the symbol and the style of a notice.
pub(crate) fn notice_mark(level: Level, theme: &Theme) -> (char, Style) {
    match level {
        Level::Error => ('✗', theme.down),
        Level::Warn => ('!', theme.warn),
        _ => ('✓', theme.up),
    }
}

/// Returns the lines of the latest notice on a screen that is `width` columns wide. The last
/// `right` columns are reserved. Returns no lines if no notice is displayed.
fn notice_lines(frame: Frame<'_>, width: u16, right: u16) -> Vec<Line<'static>> {
    let theme = frame.theme;
    let Some(notice) = frame.state.notices.iter().last() else { return Vec::new() };
    let n_more = frame.state.notices.iter().count().saturating_sub(1);
    let more = match n_more {
        0 => String::new(),
        n => format!("  +{n} more: {}", frame.key(Layer::Global, Action::Notices)),
    };
    let Notice { text, detail, .. } = notice;
    let room = width.saturating_sub(INDENT + right);
    let gap = if detail.is_empty() { "" } else { "  " };
    let whole = format!("{text}{gap}{detail}{more}");
    if whole.width() <= room.into() && !whole.contains('\n') {
        return vec![Line::from(vec![
            Span::styled(text.clone(), theme.text),
            Span::styled(format!("{gap}{detail}"), theme.muted),
            Span::styled(more, theme.muted),
        ])];
    }
    let joint = if detail.is_empty() { "" } else { ": " };
    let mut lines = wrapped(&format!("{text}{joint}{detail}{more}"), room.max(1));
    if lines.len() > NOTICE_ROWS_MAX {
        lines.truncate(NOTICE_ROWS_MAX);
        if let Some(last) = lines.last_mut() {
            *last = format::fit(&format!("{last}…"), room.into()).into_owned();
        }
    }
    lines.into_iter().map(|line| Line::from(Span::styled(line, theme.text))).collect()
}
