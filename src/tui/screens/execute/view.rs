//! Draws the Execute screen: the form on the left, a run and its results on the right.

mod form;

use std::time::Duration;

use ratatui::prelude::*;

use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::overlay::view::raise;
use crate::screens::cluster::start::NameList;
use crate::screens::execute::state::Pane;
use crate::screens::logs;
use crate::state::State;
use crate::state::layout::Divider;
use crate::state::navigation::Steps as _;
use crate::state::runs::live::{Part, Stage};
use crate::state::runs::{Phase, Run, workers_text};
use crate::state::services::Service;
use crate::theme::Theme;
use crate::view::{
    Cell, Column, Frame, Hits, Table, Tier, centered, draw_empty, results, spinner, split_rows,
    text_cut,
};
use crate::widget::bars::{Floor, Sparkline};
use crate::widget::format::{self, NONE};
use crate::widget::{paint, pane};

/// Draws the Execute screen into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let is_form = frame.state.execute.focus == Pane::Form;
    let [form, results] = match frame.tier {
        tier if frame.state.is_zoomed || tier == Tier::Small => {
            let draw = if is_form { form::draw } else { draw_results };
            return draw(area, buf, frame);
        }
        Tier::Medium => frame.split(Divider::LeftRows, area, if is_form { 12 } else { 6 }),
        _ => frame.split(Divider::Columns, area, area.width * 2 / 5),
    };
    form::draw(form, buf, frame);
    draw_results(results, buf, frame);
}

fn draw_results(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    frame.hits.add(area, Target::Pane(Pane::Results.number()));
    let run = state.execute.results.selected(&state.runs);
    let title = run.map_or_else(|| "Run".to_owned(), |run| format!("Run {}", run.id.0));
    let info = run.map_or_else(String::new, |run| {
        let took = format::elapsed(run.elapsed(state.now));
        let how = if run.phase == Phase::Cancelled { "cancelled" } else { "failed" };
        results::info(run, frame, &took, &format!("{how} after {took}"))
    });
    let focus = state.execute.focus == Pane::Results;
    let pane = pane::Pane::new(results::title_with_workers(title, run)).info(info).focus(focus);
    let inside = pane.draw(area, buf, theme);
    let Some(run) = run else {
        let name = state
            .execute
            .form
            .chosen_function()
            .map_or("the function of the form", |it| it.name.as_str());
        let line = Line::from(vec![
            Span::styled(frame.key(Layer::Form, Action::Run), theme.key),
            Span::styled(format!(" runs {name}; results appear here"), theme.text),
        ]);
        paint::line(buf, inside, (0, 1), &line);
        let [_, rest] = split_rows(inside, 3);
        NameList::of_functions(state).draw(rest, buf, frame);
        return;
    };
    draw_phases(inside, buf, frame, run);
    let [_, rest] = split_rows(inside, 1);
    let durations = latest_durations(state);
    let n_below = match rest.height {
        _ if durations.is_empty() => 0,
        0..=24 => 0,
        25..=35 => 3,
        _ => 7,
    };
    let [rest, below] = split_rows(rest, rest.height - n_below);
    let rest = draw_peers(rest, buf, frame, run);
    match (&run.phase, state.runs.previous_result(run.id)) {
        (Phase::Waiting, Some(previous)) => {
            let sent_at = format::clock(previous.sent_at);
            let title = format!("Previous result of the same function ({sent_at})");
            paint::text(buf, rest, (0, 1), &title, theme.muted);
            results::draw(split_rows(rest, 2)[1], buf, frame, previous);
        }
        (Phase::Waiting, None) => draw_meanwhile(rest, buf, frame, run),
        _ => results::draw(rest, buf, frame, run),
    }
    draw_durations(below, buf, frame.theme, durations);
}

/// Draws the failure to reach the head, if there is one, and the progress of each peer. Returns
/// the area below.
fn draw_peers(area: Rect, buf: &mut Buffer, frame: Frame<'_>, run: &Run) -> Rect {
    let theme = frame.theme;
    let mut rest = area;
    if let Some(trouble) = &run.trouble {
        let text = format!("! the head does not respond; retrying: {}", trouble.why);
        text_cut(buf, rest, (0, 1), &text, theme.warn);
        [_, rest] = split_rows(rest, 2);
    }
    let height = peers_height(run);
    // Results get as much space as they need, at most three fifths.
    let results_height = results::height(run).min(rest.height * 3 / 5);
    let room = rest.height.saturating_sub(results_height);
    if height == 0 || room < 5 {
        return rest;
    }
    let [_, rest] = split_rows(rest, 1);
    let [place, below] = split_rows(rest, height.min(room));
    draw_peer_table(place, buf, frame, run);
    below
}

/// Draws the log lines that local processes have written since the request was sent.
fn draw_meanwhile(area: Rect, buf: &mut Buffer, frame: Frame<'_>, run: &Run) {
    let Frame { state, theme, .. } = frame;
    paint::text(buf, area, (0, 1), "Local log lines since the request", theme.muted);
    let [_, rest] = split_rows(area, 2);
    let mut lines = state.logs.tail(rest.height.into(), None);
    lines.retain(|line| line.log.time >= run.sent_at);
    logs::view::draw_tail(rest, buf, frame, &lines, true);
}

/// Draws the phases of a run: `✓ checked ── ✓ sent ── ⣷ waiting for head ── · grouping ── · done`.
fn draw_phases(area: Rect, buf: &mut Buffer, frame: Frame<'_>, run: &Run) {
    let Frame { state, theme, .. } = frame;
    let done = |name: &str| (format!("✓ {name}"), theme.up);
    let later = |name: &str| (format!("· {name}"), theme.muted);
    let words = |link: &'static str, is_short: bool| {
        let mut steps = vec![done("checked"), done("sent")];
        match &run.phase {
            Phase::Waiting => {
                let doing = match (run.live.tally(), run.live.is_calling) {
                    (Some(_), _) if is_short => "running".to_owned(),
                    (Some(tally), _) => format!("running, {tally},"),
                    (None, true) if is_short => "roll call".to_owned(),
                    (None, true) => "looking for workers".to_owned(),
                    (None, false) if is_short => "waiting".to_owned(),
                    (None, false) => "waiting for head".to_owned(),
                };
                let took = format::elapsed(run.elapsed(state.now));
                let picture = spinner(state.now);
                steps.push((format!("{picture} {doing} {took}"), theme.info));
                steps.extend([later("grouping"), later("done")]);
            }
            Phase::Done(_) => {
                let waited = match (run.live.counts().0, run.live.n_failed()) {
                    (0, _) if is_short => "waited".to_owned(),
                    (0, _) => "waited for head".to_owned(),
                    (n, 0) => format!("run by {n}"),
                    (n, n_failed) => format!("run by {} of {n}", n.saturating_sub(n_failed)),
                };
                steps.extend([waited.as_str(), "grouped", "done"].map(done));
            }
            Phase::Failed(_) => steps.push(("✗ failed".to_owned(), theme.down)),
            Phase::Cancelled => steps.push(("– cancelled".to_owned(), theme.muted)),
        }
        let spans = steps.into_iter().enumerate().flat_map(|(idx, (text, style))| {
            let link = if idx > 0 { link } else { "" };
            [Span::styled(link, theme.faint), Span::styled(text, style)]
        });
        spans.collect::<Line<'_>>()
    };
    // The first line that fits: with wide separators, with narrow separators, or with short words.
    let wide = if frame.tier < Tier::Large { " ─ " } else { " ── " };
    let mut lines = [words(wide, false), words(" ─ ", false)].into_iter();
    let line = lines.find(|line| line.width() <= area.width.into());
    paint::line(buf, area, (0, 0), &line.unwrap_or_else(|| words(" ─ ", true)));
}

/// Returns the durations of the latest 60 runs that returned a result, the latest last. Empty if they
/// are too few for a chart.
fn latest_durations(state: &State) -> Vec<Duration> {
    let done = state.runs.iter().filter(|run| run.response().is_some());
    let mut took: Vec<Duration> = done.filter_map(|run| run.took).take(60).collect();
    took.reverse();
    if took.len() < 3 { Vec::new() } else { took }
}

fn draw_durations(area: Rect, buf: &mut Buffer, theme: &Theme, mut took: Vec<Duration>) {
    if area.height < 3 {
        return;
    }
    let title = format!("Duration of the last {} runs", took.len());
    paint::text(buf, area, (0, 1), &title, theme.muted);
    // A bar is two columns wide, so that adjacent bars can be told apart.
    let values: Vec<_> = took.iter().flat_map(|it| [Some(it.as_secs_f64()); 2]).collect();
    let width = u16::try_from(values.len()).unwrap_or(u16::MAX).min(area.width / 2);
    let bars = Rect { y: area.y.saturating_add(2), height: area.height - 2, width, ..area };
    Sparkline::new(&values, Floor::Zero, theme.up).render(bars, buf);
    took.sort();
    let at = |share: usize| format::elapsed(took[(took.len() * share / 100).min(took.len() - 1)]);
    let text = format!("p50 {}  p95 {}", at(50), at(95));
    paint::text(buf, area, (width + 2, area.height - 1), &text, theme.muted);
}

/// Columns of the table, left to right.
const PRESET_COLUMNS: [Column; 5] = [
    Column { title: "NAME", width: 28, side: Alignment::Left },
    Column { title: "FUNCTION", width: 11, side: Alignment::Left },
    Column { title: "METHOD", width: 18, side: Alignment::Left },
    Column { title: "NODES", width: 5, side: Alignment::Right },
    Column { title: "WORKERS", width: 10, side: Alignment::Left },
];

/// Draws the list of presets over `area`.
pub(crate) fn draw_presets(area: Rect, buf: &mut Buffer, frame: Frame<'_>, selected: usize) {
    let Frame { state, theme, .. } = frame;
    let presets = &state.execute.presets;
    let n_rows = presets.len();
    let height = u16::try_from(n_rows.max(3)).unwrap_or(u16::MAX).saturating_add(3);
    let place = centered(area, 84.min(area.width.saturating_sub(4)), height);
    let info = if n_rows == 0 { String::new() } else { n_rows.to_string() };
    let inside = raise(place, buf, frame, pane::Pane::new("Presets").info(info));
    if n_rows == 0 {
        let key = frame.key(Layer::Form, Action::SavePreset);
        let lines = ["No presets yet.".to_owned(), format!("{key} in the form saves one.")];
        return draw_empty(inside, buf, theme, &lines);
    }
    let selected = Some(selected);
    let table = Table { columns: &PRESET_COLUMNS, selected, ..Table::default() };
    let presets: Vec<_> = presets.iter().collect();
    table.draw(inside, buf, frame, &presets, |(name, preset)| {
        let request = &preset.request;
        vec![
            (String::clone(name), theme.text),
            (format::short_cid(&request.function_id).into_owned(), theme.muted),
            (request.method.clone(), theme.focus),
            (request.config.number_of_nodes.to_string(), theme.text),
            (workers_text(request).unwrap_or_else(|| "*".to_owned()), theme.muted),
        ]
    });
}

/// Columns of the table, left to right.
const PEER_COLUMNS: [Column; 7] = [
    Column { title: "", width: 1, side: Alignment::Left },
    Column { title: "NODE", width: 9, side: Alignment::Left },
    Column { title: "PEER", width: 19, side: Alignment::Left },
    Column { title: "STATE", width: 12, side: Alignment::Left },
    Column { title: "TIME", width: 9, side: Alignment::Right },
    Column { title: "MEMORY", width: 8, side: Alignment::Right },
    Column { title: "RESULT", width: 20, side: Alignment::Left },
];

/// Minimum width of a table that shows the memory usage.
const WIDE_FROM: u16 = 80;

/// Index of the column with the memory usage.
const MEMORY: usize = 5;

/// Returns the height of the table of peers of `run`, including its title and a gap. 0 without
/// peers.
pub(crate) fn peers_height(run: &Run) -> u16 {
    match u16::try_from(run.live.parts.len()).unwrap_or(u16::MAX) {
        0 => 0,
        n_peers => n_peers.saturating_add(3),
    }
}

/// Draws the table of peers of `run`, with as many peers as fit.
pub(crate) fn draw_peer_table(area: Rect, buf: &mut Buffer, frame: Frame<'_>, run: &Run) {
    let Frame { state, theme, .. } = frame;
    let parts = &run.live.parts;
    let x = paint::text(buf, area, (0, 0), "Per peer", theme.text.bold()) + 2;
    let mut note = run.live.tally().unwrap_or_else(|| format!("{} ready", parts.len()));
    let is_live = state.services.has_stream(Service::Head(run.head.id));
    if run.is_waiting() && !is_live {
        note.push_str(" · no events from the head: may be outdated");
    }
    paint::text(buf, area, (x, 0), &note, theme.muted);
    // Two rows are titles. The last peer can use the gap below the table.
    let n_fit = usize::from(area.height.saturating_sub(2));
    let mut shown: Vec<&Part> = parts.iter().collect();
    if parts.len() > n_fit {
        let more = format!("{} more", parts.len() - n_fit);
        paint::text_before(buf, area, (area.width, 0), &more, theme.muted);
        // If not all peers fit, peers that have not finished are shown first.
        shown.sort_by_key(|part| part.stage.is_over());
        shown.truncate(n_fit);
    }
    let mut columns = PEER_COLUMNS;
    if area.width < WIDE_FROM {
        columns[MEMORY].width = 0;
    }
    let table = Table { columns: &columns, ..Table::default() };
    let [_, place] = split_rows(area, 1);
    let frame = Frame { hits: &Hits::default(), ..frame };
    table.draw(place, buf, frame, &shown, |part| peer_cells(part, run, frame));
}

fn peer_cells(part: &Part, run: &Run, frame: Frame<'_>) -> Vec<Cell> {
    let Frame { state, theme, .. } = frame;
    let (glyph, word, style) = stage_words(part, frame);
    let place = match state.stack.node(&part.peer_id) {
        Some((node, _)) => (node.name.clone(), theme.info),
        None => ("remote".to_owned(), theme.muted),
    };
    let took = match (part.took, &part.stage) {
        (Some(took), _) => format::elapsed(took),
        (None, Stage::Running | Stage::Compiling | Stage::Fetching) => {
            format::elapsed(state.now.since(part.since))
        }
        _ => NONE.to_owned(),
    };
    let memory_kib = part.usage.map_or(0, |usage| usage.memory_max_kib);
    let memory = match memory_kib.saturating_mul(1024) {
        0 => NONE.to_owned(),
        bytes => format::bytes(bytes),
    };
    let groups = run.response().map(|response| response.results.as_slice()).unwrap_or_default();
    let group = groups.iter().position(|group| group.peers.contains(&part.peer_id));
    let result = match (&part.stage, group) {
        (Stage::Failed { reason, .. }, _) => (reason.clone(), theme.down),
        (_, Some(0)) => ("group 1".to_owned(), theme.text),
        (_, Some(idx)) => (format!("group {}", idx + 1), theme.warn),
        (_, None) => Cell::default(),
    };
    vec![
        (glyph.to_string(), style),
        place,
        (format::short_peer(&part.peer_id).into_owned(), theme.text),
        (word, style),
        (took, theme.text),
        (memory, theme.muted),
        result,
    ]
}

/// Returns the symbol, the description and the style for the stage of a peer.
fn stage_words(part: &Part, frame: Frame<'_>) -> (char, String, Style) {
    let (theme, picture) = (frame.theme, spinner(frame.state.now));
    match &part.stage {
        Stage::Ready => ('◌', "ready".to_owned(), theme.muted),
        Stage::Fetching => (picture, "fetching".to_owned(), theme.info),
        Stage::Compiling => (picture, "compiling".to_owned(), theme.info),
        Stage::Running => (picture, "running".to_owned(), theme.info),
        Stage::Answered { exit_code: 0 } => ('✓', "exit 0".to_owned(), theme.up),
        Stage::Answered { exit_code } => ('✗', format!("exit {exit_code}"), theme.down),
        Stage::Failed { is_replaced: true, .. } => ('✗', "replaced".to_owned(), theme.warn),
        Stage::Failed { .. } => ('✗', "failed".to_owned(), theme.down),
        Stage::Spare => ('◌', "spare".to_owned(), theme.muted),
        Stage::Unknown => ('?', "not known".to_owned(), theme.muted),
        Stage::Cancelled => ('–', "cancelled".to_owned(), theme.muted),
    }
}
