//! Local processes: draws their table, starts, stops and restarts them.

use std::time::Duration;

use ratatui::prelude::*;

use crate::event::{Effect, Target};
use crate::keymap::{Action, Layer};
use crate::local::{Level, LocalNode};
use crate::overlay::view::Question;
use crate::screens::cluster::state::Pane;
use crate::screens::update::{PROCESS_SCREENS, connect, load_nodes};
use crate::screens::{Screen, logs};
use crate::state::State;
use crate::state::form::{Form, node};
use crate::state::layout::TableName;
use crate::state::navigation::Steps as _;
use crate::state::overlay::Overlay;
use crate::state::resource::Failure;
use crate::state::services::{Health, Service};
use crate::state::stack::{Phase, Process};
use crate::view::{Cell, Column, Frame, Table, draw_empty, spinner, split_rows};
use crate::widget::format::{self, NONE};
use crate::widget::pane;

/// Performs an action on local processes.
pub(crate) fn act(state: &mut State, action: Action) {
    match action {
        Action::AddNode => {
            let nodes = state.nodes.all(&state.stack);
            state.open_form(node::form(&nodes));
        }
        Action::StopProcess => match state.cluster.selected_process(state.cluster_context()) {
            None => {
                let detail = "only processes of this screen can be stopped".to_owned();
                state.notify_refused("no local process is selected", detail);
            }
            Some(process) if process.status.exited.is_some() => {
                state.stack.forget(&process.name);
                // A process that has exited can be waiting for its restart. Stopping the process cancels
                // the restart.
                if process.status.is_restarting {
                    state.effects.push(Effect::StopProcess(process.name));
                }
            }
            Some(process) => state.open(Overlay::ConfirmStop(process.name)),
        },
        _ => {}
    }
}

/// Stops the process `name`.
pub(crate) fn stop(state: &mut State, name: String) {
    if let Some(status) = state.stack.status_mut(&name) {
        status.is_stopping = true;
    }
    state.effects.push(Effect::StopProcess(name));
}

/// Starts the node of `form`.
pub(crate) fn start(state: &mut State, form: &Form) {
    state.close();
    let options = node::options(form);
    state.logs.log(Level::Info, state.now, format!("starting a {}", options.role));
    state.effects.push(Effect::AddNode(options));
}

/// Restarts the selected process.
pub(crate) fn restart(state: &mut State) {
    let Some(process) = state.cluster.selected_process(state.cluster_context()) else {
        let detail = "only processes of this screen can be restarted".to_owned();
        state.notify_refused("no local process is selected", detail);
        return;
    };
    if let Some(status) = state.stack.status_mut(&process.name) {
        status.is_stopping |= status.exited.is_none();
    }
    state.logs.log(Level::Info, state.now, format!("restarting {}", process.name));
    state.effects.push(Effect::RestartProcess(process.name));
}

/// Reports that a node has started. If no head was known, connects to the node if it is a head.
pub(crate) fn started(state: &mut State, node: LocalNode) {
    let detail = if node.is_detached { "keeps running when the screen is closed" } else { "" };
    let text = format!("{} runs, pid {}", node.name, node.pid);
    state.report(PROCESS_SCREENS, Level::Info, text, detail);
    let is_head_wanted = state.services.addresses.heads.is_empty();
    match node.rest_api {
        Some(head) if is_head_wanted => {
            let mut addresses = state.services.addresses.clone();
            addresses.heads = vec![head];
            connect(state, &addresses);
        }
        _ => load_nodes(state),
    }
}

/// Reports that a process has exited. The process restarts after `restart_in`. If `restart_in` is
/// `None`, only the user can restart it.
pub(crate) fn ended(
    state: &mut State,
    name: &str,
    code: Option<i32>,
    restart_in: Option<Duration>,
) {
    let how = match code {
        Some(code) => format!("with code {code}"),
        None => "by a signal".to_owned(),
    };
    let log = state.keys.key_text(Layer::Global, Action::Show(Screen::Logs));
    let again = state.keys.key_text(Layer::Cluster, Action::Again);
    let next = match restart_in {
        Some(wait) => format!("it restarts in {:.1} s; see its log ({log})", wait.as_secs_f64()),
        None => format!("see its log ({log}); restart it with {again}"),
    };
    let status = state.stack.status_mut(name).filter(|_| restart_in.is_none());
    if status.is_some_and(|status| std::mem::take(&mut status.is_stopping)) {
        state.report(PROCESS_SCREENS, Level::Info, format!("{name} stopped"), how);
    } else {
        let why = format!("it exited {how}");
        state.notify_failure(&Failure::new(format!("keep {name} running"), why, next));
    }
    load_nodes(state);
}

/// Draws the question that precedes stopping the process `name`.
pub(crate) fn draw_confirm(area: Rect, buf: &mut Buffer, frame: Frame<'_>, name: &str) {
    let Frame { state, theme, .. } = frame;
    let process = state.stack.processes().iter().find(|process| process.name == name);
    let (what, note) = match process {
        None => ("It has already stopped.".to_owned(), ""),
        Some(process) => {
            let is_head = process.node.as_ref().is_some_and(|node| node.role == "head");
            let note = match (is_head, &process.node) {
                (true, _) => "Its executions are lost.",
                (false, Some(_)) => "Its executions fail, or spares run them.",
                (false, None) => "Its service is unavailable until it restarts.",
            };
            (format!("Stop {}, pid {}?", process.name, process.pid), note)
        }
    };
    let hints = [(Action::Confirm, "stop it "), (Action::Back, "leave it")];
    Question {
        title: "Stop?",
        width: 52,
        lines: vec![Line::styled(what, theme.text), Line::styled(note, theme.muted)],
        keys: frame.hints(Layer::Confirm, &hints),
    }
    .draw(area, buf, frame);
}

/// Columns of the table, left to right.
pub(super) const COLUMNS: [Column; 7] = [
    Column { title: "", width: 1, side: Alignment::Left },
    Column { title: "NAME", width: 11, side: Alignment::Left },
    Column { title: "PID", width: 7, side: Alignment::Right },
    Column { title: "CPU", width: 6, side: Alignment::Right },
    Column { title: "MEMORY", width: 8, side: Alignment::Right },
    Column { title: "UP", width: 5, side: Alignment::Right },
    Column { title: "STATE", width: 12, side: Alignment::Left },
];

/// Index of the column with the uptime.
const UP: usize = 5;

/// Minimum width of a table that shows all columns.
const WIDE_FROM: u16 = 58;

/// Minimum number of rows for log lines below the table.
const LOG_ROWS_MIN: u16 = 3;

/// Draws the pane of local processes.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let processes = state.cluster.processes(&state.stack);
    let mut info = state.stack.summary().unwrap_or_default();
    let n_exited = processes.iter().filter(|process| process.status.exited.is_some()).count();
    if n_exited > 0 {
        info = format!("{info} · {n_exited} exited");
    }
    let own = [(Action::AddNode, "add"), (Action::StopProcess, "stop"), (Action::Again, "restart")];
    let mut footer = Line::default();
    if state.screen == Screen::Cluster {
        footer = frame.hints(Layer::Cluster, &own);
        footer.push_span(Span::raw("  "));
    }
    footer.extend(frame.hints(Layer::Global, &[(Action::Show(Screen::Logs), "logs")]));
    let is_here = state.is_pane_focused(Pane::Processes);
    let frame_of_pane = pane::Pane::new("Local processes").info(info).footer(footer).focus(is_here);
    let inside = frame_of_pane.draw(area, buf, theme);
    if processes.is_empty() {
        draw_empty(inside, buf, theme, &empty_lines(frame));
        return;
    }
    let n_rows = u16::try_from(processes.len()).unwrap_or(u16::MAX).saturating_add(1);
    let room = inside.height.saturating_sub(LOG_ROWS_MIN).max(inside.height / 2);
    let [table_area, below] = split_rows(inside, n_rows.min(room));
    let selected = state.cluster.process_idx(&processes);
    // A narrow pane omits the uptime.
    let mut columns = COLUMNS;
    if inside.width < WIDE_FROM {
        columns[UP].width = 0;
    }
    let order = state.cluster.orders[Pane::Processes as usize].column;
    let table = Table {
        selected: is_here.then_some(selected),
        pane: Pane::Processes.number(),
        ..Table::new(TableName::Processes, &mut columns, &state.hidden_columns, order)
    };
    table.draw(table_area, buf, frame, &processes, |process| cells(process, frame));
    // If the pane has focus, only log lines of the selected process are shown.
    let only = processes.get(selected).filter(|_| is_here).map(|process| process.name.as_str());
    logs::view::draw_tail(
        below,
        buf,
        frame,
        &state.logs.tail(below.height.into(), only),
        below.width > 100,
    );
    frame.hits.add(below, Target::Pane(Pane::Processes.number()));
}

/// Returns the text of a pane without processes: the state of the local stack, or advice.
pub(super) fn empty_lines(frame: Frame<'_>) -> Vec<String> {
    let state = frame.state;
    match &state.stack.phase {
        phase @ (Phase::Absent | Phase::Attached) => {
            let place = match phase {
                Phase::Attached => "Another process runs the local stack.",
                _ => "The services run elsewhere.",
            };
            let key = frame.key(Layer::Cluster, Action::AddNode);
            vec![place.to_owned(), format!("{key} starts a node on this machine.")]
        }
        Phase::Starting => {
            let n_done = state.stack.steps.len().saturating_sub(1);
            let mut lines: Vec<String> =
                state.stack.steps.iter().take(n_done).map(|step| format!("✓ {step}")).collect();
            lines.push(format!(
                "{} starting {}",
                spinner(state.now),
                state.stack.step().unwrap_or_default()
            ));
            lines
        }
        Phase::Ready => vec!["No log lines yet.".to_owned()],
        Phase::Failed(failure) => failure.lines(),
    }
}

/// Returns the service that a process of the local stack provides, among those in the header.
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
    let picture = spinner(state.now);
    let status = process.status;
    let is_detached = process.node.as_ref().is_some_and(|node| node.is_detached);
    let is_suspended = status.usage.is_some_and(|usage| usage.is_suspended);
    let is_silent = service_of(process, frame)
        .is_some_and(|service| *state.services.health(service) == Health::Silent);
    let (glyph, word, style) = match (status.exited.map(|exit| exit.code), status.is_stopping) {
        (Some(_), _) if status.is_restarting => (picture, "restarting".to_owned(), theme.warn),
        (Some(Some(0)), _) => ('–', "stopped".to_owned(), theme.muted),
        (Some(Some(code)), _) => ('✗', format!("exit {code}"), theme.down),
        (Some(None), _) => ('✗', "by a signal".to_owned(), theme.down),
        (None, true) => (picture, "stopping".to_owned(), theme.warn),
        (None, false) if is_suspended => ('!', "suspended".to_owned(), theme.down),
        (None, false) if is_silent => ('!', "no response".to_owned(), theme.down),
        (None, false) if is_detached => ('●', "kept".to_owned(), theme.up),
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

#[cfg(test)]
mod tests;
