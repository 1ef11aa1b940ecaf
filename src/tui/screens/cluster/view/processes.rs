//! The local processes: resource usage and last log lines.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
};

use super::{is_focused, start_lines};
use crate::{
    action::Action,
    event::Target,
    keymap::Layer,
    screens::{Screen, cluster::state::Pane, logs},
    state::{
        columns::TableName,
        navigation::Steps as _,
        services::{Health, Service},
        stack::Process,
    },
    view::{
        Frame, draw_empty, focus_if,
        hits::Hits,
        spinner, split_rows,
        table::{self, Cell, Column, Side, Table},
    },
    widget::{
        format::{self, NONE},
        pane,
    },
};

/// The columns of the table, left to right.
pub(super) const COLUMNS: [Column; 7] = [
    Column { title: "", width: 1, side: Side::Left },
    Column { title: "NAME", width: 11, side: Side::Left },
    Column { title: "PID", width: 7, side: Side::Right },
    Column { title: "CPU", width: 6, side: Side::Right },
    Column { title: "MEMORY", width: 8, side: Side::Right },
    Column { title: "UP", width: 5, side: Side::Right },
    Column { title: "STATE", width: 12, side: Side::Left },
];

/// The place of the time that a process runs.
const UP: usize = 5;

/// The narrowest table with all columns.
const WIDE_FROM: u16 = 58;

/// The least rows left for what the processes wrote.
const LOG_ROWS_MIN: u16 = 3;

/// Draws the pane.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Frame { state, theme, .. } = frame;
    let processes = state.cluster.processes(&state.stack);
    let mut info = state.stack.summary().unwrap_or_default();
    let n_ended = processes.iter().filter(|process| process.status.exited.is_some()).count();
    if n_ended > 0 {
        info = format!("{info} · {n_ended} ended");
    }
    let own = [(Action::AddNode, "add"), (Action::StopProcess, "stop"), (Action::Again, "restart")];
    let mut footer = Line::default();
    if state.screen == Screen::Cluster {
        footer = frame.hints(Layer::Cluster, &own);
        footer.push_span(Span::raw("  "));
    }
    footer.extend(frame.hints(Layer::Global, &[(Action::Show(Screen::Logs), "logs")]));
    let is_here = is_focused(Pane::Processes, frame);
    let frame_of_pane =
        pane::Pane::new("Local processes").info(info).footer(footer).focus(focus_if(is_here));
    let inside = frame_of_pane.draw(area, buf, theme);
    if processes.is_empty() {
        draw_empty(inside, buf, theme, &start_lines(frame));
        return;
    }
    let n_rows = u16::try_from(processes.len()).unwrap_or(u16::MAX).saturating_add(1);
    let room = inside.height.saturating_sub(LOG_ROWS_MIN).max(inside.height / 2);
    let [table_area, below] = split_rows(inside, n_rows.min(room));
    let selected = state.cluster.process_idx(&processes);
    // In a narrow pane the time that a process runs is left out.
    let mut columns = COLUMNS;
    if inside.width < WIDE_FROM {
        columns[UP].width = 0;
    }
    table::hide(&state.hidden_columns, TableName::Processes, &mut columns);
    let table = Table {
        columns: &columns,
        n_rows: processes.len(),
        selected: is_here.then_some(selected),
        pane: Pane::Processes.number(),
        sorted: columns.iter().position(|it| Some(it.title) == state.cluster.process_order.column),
        ..Table::default()
    };
    table.draw(table_area, buf, theme, hits, |row| {
        processes.get(row).map(|process| cells(process, frame)).unwrap_or_default()
    });
    // With the keys, the log is that of the selected one.
    let only = processes.get(selected).filter(|_| is_here).map(|process| process.name.as_str());
    logs::view::draw_tail(
        below,
        buf,
        frame,
        &state.logs.tail(below.height.into(), only),
        below.width > 100,
    );
    hits.add(below, Target::Pane(Pane::Processes.number()));
}

/// The service of the header that a process of the local stack is.
fn service_of(process: &Process, frame: Frame<'_>) -> Option<Service> {
    match (process.name.as_str(), &process.node) {
        ("datasets", None) => Some(Service::Data),
        ("inference", None) => Some(Service::Inference),
        (_, Some(node)) if node.role == "head" && !node.is_added => {
            frame.state.nodes.run_head.map(Service::Head)
        }
        _ => None,
    }
}

fn cells(process: &Process, frame: Frame<'_>) -> Vec<Cell> {
    let Frame { state, theme, .. } = frame;
    let picture = spinner::picture(state.now);
    let status = process.status;
    let is_kept = process.node.as_ref().is_some_and(|node| node.is_kept);
    let is_silent = service_of(process, frame)
        .is_some_and(|service| *state.services.health(service) == Health::Silent);
    let (glyph, word, style) = match (status.exited.map(|exit| exit.code), status.is_stopping) {
        (Some(_), _) if status.is_restarting => (picture, "restarting".to_owned(), theme.warn),
        (Some(Some(0)), _) => ('–', "stopped".to_owned(), theme.muted),
        (Some(Some(code)), _) => ('✗', format!("exit {code}"), theme.down),
        (Some(None), _) => ('✗', "by a signal".to_owned(), theme.down),
        (None, true) => (picture, "stopping".to_owned(), theme.warn),
        (None, false) if is_silent => ('!', "no response".to_owned(), theme.down),
        (None, false) if is_kept => ('●', "kept".to_owned(), theme.up),
        (None, false) => ('●', "running".to_owned(), theme.up),
    };
    let none = || NONE.to_owned();
    let cpu = status.usage.and_then(|usage| usage.cpu_percent);
    let up = status.since.filter(|_| status.exited.is_none());
    vec![
        (glyph.to_string(), style),
        (process.name.clone(), theme.accent2),
        (process.pid.to_string(), theme.text),
        (cpu.map_or_else(none, |cpu| format!("{cpu:.1}%")), theme.text),
        (status.usage.map_or_else(none, |usage| format::bytes(usage.memory_bytes)), theme.text),
        (up.map_or_else(none, |since| format::coarse(state.now.since(since))), theme.muted),
        (word, style),
    ]
}
