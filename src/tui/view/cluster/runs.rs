//! The table of runs.

use ratatui::{buffer::Buffer, layout::Rect};

use super::is_focused;
use crate::{
    state::{
        cluster::Pane,
        runs::{Phase, Run},
    },
    view::{
        Frame, draw_empty, focus_if,
        hits::Hits,
        logs, results, spinner,
        table::{Cell, Column, Side, Table},
    },
    widget::{
        format::{self, NONE},
        pane,
    },
};

/// The columns.
const COLUMNS: [Column; 8] = [
    Column { title: "", width: 1, side: Side::Left },
    Column { title: "TIME", width: 8, side: Side::Left },
    Column { title: "FUNCTION", width: 11, side: Side::Left },
    Column { title: "METHOD", width: 14, side: Side::Left },
    Column { title: "NODES", width: 5, side: Side::Right },
    Column { title: "GROUPS", width: 6, side: Side::Right },
    Column { title: "FREQ", width: 5, side: Side::Right },
    Column { title: "TOOK", width: 8, side: Side::Left },
];

/// The narrowest table with all columns; a narrower one leaves the function's id out, for the
/// method says nearly as much.
const WIDE_FROM: u16 = 66;

/// The place of the function's id.
const FUNCTION: usize = 2;

pub(super) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Frame { state, theme, .. } = frame;
    let runs: Vec<&Run> = state.runs.iter().collect();
    let frame_of_pane = pane::Pane::new("Runs")
        .info(format!("{} this session", state.runs.n_started()))
        .focus(focus_if(is_focused(Pane::Runs, frame)));
    let inside = pane::padded(frame_of_pane.draw(area, buf, theme));
    if runs.is_empty() {
        let lines = ["No run yet in this session.", "e opens the form, ^R runs it."];
        draw_empty(inside, buf, theme, &lines.map(str::to_owned));
        return;
    }
    let selected = state.cluster.selected_run(&state.runs).map(|run| run.id);
    let mut columns = COLUMNS.to_vec();
    let is_wide = inside.width >= WIDE_FROM;
    if !is_wide {
        columns.remove(FUNCTION);
    }
    let table = Table {
        columns: &columns,
        n_rows: runs.len(),
        selected: runs.iter().position(|run| Some(run.id) == selected),
        pane: Pane::Runs.number(),
    };
    table.draw(inside, buf, theme, hits, |row| {
        let mut cells = runs.get(row).map(|run| cells(run, frame)).unwrap_or_default();
        if !is_wide && cells.len() > FUNCTION {
            cells.remove(FUNCTION);
        }
        cells
    });
}

fn cells(run: &Run, frame: Frame<'_>) -> Vec<Cell> {
    let Frame { state, theme, .. } = frame;
    let picture = spinner::picture(state.now);
    let (glyph, glyph_style) = match &run.phase {
        Phase::Waiting => (picture, theme.info),
        Phase::Done(_) => ('✓', theme.up),
        Phase::Failed(_) => ('✗', theme.down),
        Phase::Cancelled => ('–', theme.muted),
    };
    let response = run.response();
    let absent = if run.is_waiting() { "…" } else { NONE };
    let groups = response.map_or(absent.to_owned(), |response| response.results.len().to_string());
    let largest = response.and_then(|response| response.results.first());
    let is_split = response.is_some_and(|response| response.results.len() > 1);
    let took = format::elapsed(run.elapsed(state.now));
    let (took, took_style) = match &run.phase {
        Phase::Failed(failure) => (failure.why.clone(), theme.down),
        Phase::Cancelled => ("cancelled".to_owned(), theme.muted),
        _ => (took, theme.muted),
    };
    vec![
        (glyph.to_string(), glyph_style),
        (logs::time_of_day(run.sent_at, 8), theme.muted),
        (format::short_cid(&run.request.function_id).into_owned(), theme.text),
        (run.request.method.clone(), theme.focus),
        (run.request.config.number_of_nodes.to_string(), theme.text),
        (groups, theme.text),
        (
            largest.map_or(absent.to_owned(), |group| results::frequency(group.frequency)),
            if is_split { theme.warn } else { theme.text },
        ),
        (took, took_style),
    ]
}
