//! Draws the table of runs.

use ratatui::prelude::*;

use crate::screens::cluster::state::Pane;
use crate::state::layout::TableName;
use crate::state::navigation::{ColumnOrder, Steps as _};
use crate::state::runs::{Phase, Run};
use crate::view::{Cell, Column, Frame, Hits, Side, Table, results};
use crate::widget::format::{self, NONE};
use crate::widget::pane;

/// Columns of the table, left to right.
pub(super) const COLUMNS: [Column; 8] = [
    Column { title: "", width: 1, side: Side::Left },
    Column { title: "TIME", width: 8, side: Side::Left },
    Column { title: "FUNCTION", width: 11, side: Side::Left },
    Column { title: "METHOD", width: 14, side: Side::Left },
    Column { title: "NODES", width: 5, side: Side::Right },
    Column { title: "GROUPS", width: 6, side: Side::Right },
    Column { title: "FREQ", width: 6, side: Side::Right },
    Column { title: "   TOOK", width: 8, side: Side::Left },
];

/// Minimum width of a table with all columns. A narrower table leaves out the function, whose name
/// resembles the method.
const WIDE_FROM: u16 = 66;

/// Width of a duration. Durations are right-aligned, reasons of failures start at the left.
const TOOK_WIDTH: usize = 7;

/// Index of the column of the function.
const FUNCTION: usize = 2;

pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Frame { state, theme, .. } = frame;
    let runs = state.cluster.runs(&state.runs);
    let order = state.cluster.orders[Pane::Runs as usize];
    let gap = if order == ColumnOrder::default() { "" } else { " · " };
    let frame_of_pane = pane::Pane::new("Runs")
        .info(format!("{} this session{gap}{}", state.runs.n_started, order.note("")))
        .focus(frame.state.is_pane_focused(Pane::Runs));
    let inside = frame_of_pane.draw(area, buf, theme);
    let selected = state.cluster.run_idx(&runs, &state.runs);
    let mut columns = COLUMNS;
    if inside.width < WIDE_FROM {
        columns[FUNCTION].width = 0;
    }
    let table = Table {
        n_rows: runs.len(),
        selected: Some(selected).filter(|_| !runs.is_empty()),
        pane: Pane::Runs.number(),
        ..Table::new(TableName::Runs, &mut columns, &state.hidden_columns, order.column)
    };
    table.draw(inside, buf, theme, hits, |row| {
        runs.get(row).map(|run| cells(run, frame)).unwrap_or_default()
    });
}

/// Formats a frequency so that the points of all frequencies are aligned.
fn frequency(percent: f64) -> String {
    let text = results::frequency(percent);
    if text.contains('.') { text } else { format!("{text}  ") }
}

fn cells(run: &Run, frame: Frame<'_>) -> Vec<Cell> {
    let Frame { state, theme, .. } = frame;
    let bad_exit = run.bad_exit();
    let (glyph, glyph_style) = results::mark(run, frame);
    let response = run.response();
    // The reason of a failure replaces the result.
    let absent = match run.phase {
        Phase::Waiting => "…",
        Phase::Failed(_) => "",
        _ => NONE,
    };
    let groups = response.map_or(absent.to_owned(), |response| response.results.len().to_string());
    let largest = response.and_then(|response| response.results.first());
    let is_split = response.is_some_and(|response| response.results.len() > 1);
    let took = format::elapsed(run.elapsed(state.now));
    let (took, took_style) = match (&run.phase, bad_exit) {
        (Phase::Failed(failure), _) => (failure.why.clone(), theme.down),
        (Phase::Cancelled, _) => ("cancelled".to_owned(), theme.muted),
        (_, Some(code)) => (format!("exit {code} · {took}"), theme.down),
        _ => (format::right(&took, TOOK_WIDTH), theme.muted),
    };
    vec![
        (glyph.to_string(), glyph_style),
        (format::clock(run.sent_at), theme.muted),
        match state.execute.form.name_of(&run.request) {
            Some(name) => (name.to_owned(), theme.accent2),
            None => (format::short_cid(&run.request.function_id).into_owned(), theme.text),
        },
        (run.request.method.clone(), theme.focus),
        (run.request.config.number_of_nodes.to_string(), theme.text),
        (groups, theme.text),
        (
            largest.map_or(absent.to_owned(), |group| frequency(group.frequency)),
            if is_split { theme.warn } else { theme.text },
        ),
        (took, took_style),
    ]
}
