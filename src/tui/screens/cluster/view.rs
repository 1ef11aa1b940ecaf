//! Draws the Cluster screen.
//!
//! ```text
//! ╭ Nodes ─────────╮╭ Runs ──────────╮
//! ├ one in detail ─┤╰────────────────╯
//! ╭ Activity ──────╮╭ Result groups ─╮
//! ╰────────────────╯│                │
//! ╭ Local processes╮│                │
//! ╰────────────────╯╰────────────────╯
//! ```

use ratatui::prelude::*;

use crate::event::Target;
use crate::screens::cluster::state::{NODE_ORDERS, Pane};
use crate::screens::cluster::{nodes, processes, start};
use crate::screens::execute::view;
use crate::state::layout::{Divider, TableName};
use crate::state::navigation::{ColumnOrder, Steps as _};
use crate::state::nodes::{Node, PERIOD};
use crate::state::runs::{Phase, Run};
use crate::state::stack;
use crate::view::{Cell, Column, Frame, Table, Tier, draw_empty, results, split_rows};
use crate::widget::bars::{Floor, Sparkline};
use crate::widget::format::{self, NONE};
use crate::widget::{paint, pane};

/// Draws the Cluster screen into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let focus = frame.state.cluster.focus;
    if !frame.state.is_zoomed
        && frame.tier == Tier::Small
        && focus == Pane::Nodes
        && is_fresh(frame)
    {
        // The nodes get the rows that they need, the first steps the rest.
        let n_nodes = frame.state.cluster.nodes(frame.state.cluster_context()).len();
        let needed = u16::try_from(n_nodes).unwrap_or(u16::MAX).saturating_add(4);
        let [top, bottom] = split_rows(area, needed.clamp(area.height / 2, area.height * 2 / 3));
        draw_pane(Pane::Nodes, top, buf, frame);
        draw_pane(Pane::Groups, bottom, buf, frame);
        return;
    }
    if frame.state.is_zoomed || frame.tier == Tier::Small {
        draw_pane(focus, area, buf, frame);
        return;
    }
    if frame.tier == Tier::Medium {
        let [top, bottom] = split_rows(area, area.height / 2);
        draw_pane(Pane::Nodes, top, buf, frame);
        let second = if focus == Pane::Nodes { Pane::Groups } else { focus };
        draw_pane(second, bottom, buf, frame);
        return;
    }
    let share = if frame.tier == Tier::Huge { 50 } else { 46 };
    let [left, right] = frame.split(Divider::Columns, area, area.width * share / 100);
    let [top_left, bottom_left] = if frame.tier == Tier::Huge {
        draw_left(left, buf, frame)
    } else {
        let top = if is_remote(frame) {
            left.height.saturating_sub(EMPTY_HEIGHT)
        } else {
            left.height * 62 / 100
        };
        frame.split(Divider::LeftRows, left, top)
    };
    draw_pane(Pane::Nodes, top_left, buf, frame);
    draw_pane(Pane::Processes, bottom_left, buf, frame);
    if is_fresh(frame) {
        start::draw(right, buf, frame);
        return;
    }
    let [top, bottom] = frame.split(Divider::RightRows, right, right.height * 36 / 100);
    draw_pane(Pane::Runs, top, buf, frame);
    draw_pane(Pane::Groups, bottom, buf, frame);
}

/// Returns the columns of the table in `pane`.
pub(crate) const fn columns(pane: Pane) -> &'static [Column] {
    match pane {
        Pane::Nodes => &nodes::COLUMNS,
        Pane::Runs => &RUN_COLUMNS,
        Pane::Processes => &processes::COLUMNS,
        Pane::Groups => &[],
    }
}

/// Returns the columns by which the table in `pane` can be sorted. The sort key selects them in
/// this order.
pub(crate) fn sorted_by(pane: Pane) -> Vec<&'static str> {
    if pane == Pane::Nodes {
        return NODE_ORDERS.to_vec();
    }
    let titles = columns(pane).iter().map(|column| column.title);
    titles.filter(|title| !title.is_empty()).collect()
}

/// Draws the activity pane, and returns the areas above and below it for the nodes and the
/// processes.
fn draw_left(left: Rect, buf: &mut Buffer, frame: Frame<'_>) -> [Rect; 2] {
    let state = frame.state;
    let nodes = state.cluster.nodes(state.cluster_context());
    let n_workers = nodes.iter().filter(|node| is_worker(node)).count();
    let nodes_max = if is_remote(frame) { left.height * 2 / 3 } else { left.height / 2 };
    let nodes_height = nodes::height(nodes.len()).min(nodes_max);
    let [top, rest] = frame.split(Divider::LeftRows, left, nodes_height);
    // Without local processes, their pane needs space only for a text.
    let bottom_height = if is_remote(frame) { EMPTY_HEIGHT } else { rest.height / 2 };
    let room = rest.height.saturating_sub(bottom_height);
    let [middle, bottom] = if is_remote(frame) {
        split_rows(rest, room)
    } else {
        split_rows(rest, activity_height(n_workers).min(room))
    };
    draw_activity(middle, buf, frame, &nodes);
    [top, bottom]
}

/// Height of the pane of local processes if there are none: its border and its text.
const EMPTY_HEIGHT: u16 = 5;

/// Returns true if there are no local processes, because the services run elsewhere.
fn is_remote(frame: Frame<'_>) -> bool {
    frame.state.stack.phase == stack::Phase::Absent && !frame.state.stack.has_processes()
}

/// Returns true if this screen has started no run yet.
fn is_fresh(frame: Frame<'_>) -> bool {
    frame.state.runs.newest().is_none()
}

fn draw_pane(pane: Pane, area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    frame.hits.add(area, Target::Pane(pane.number()));
    match pane {
        Pane::Nodes => nodes::draw(area, buf, frame),
        Pane::Runs | Pane::Groups if is_fresh(frame) => start::draw(area, buf, frame),
        Pane::Runs => draw_runs(area, buf, frame),
        Pane::Groups => draw_groups(area, buf, frame),
        Pane::Processes => processes::draw(area, buf, frame),
    }
}

fn draw_groups(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let run = state.cluster.results.selected(&state.runs);
    let info = run.map_or_else(String::new, |run| {
        let sent_at = format::clock(run.sent_at);
        results::info(run, frame, &sent_at, &format!("run {} · {sent_at}", run.id.0))
    });
    let frame_of_pane =
        pane::Pane::new(results::title_with_workers("Result groups".to_owned(), run))
            .info(info)
            .focus(state.is_pane_focused(Pane::Groups));
    let inside = frame_of_pane.draw(area, buf, theme);
    if let Some(run) = run {
        let peers_height = view::peers_height(run);
        let has_peers = peers_height > 0 && peers_height <= inside.height / 3;
        let [place, inside] = split_rows(inside, if has_peers { peers_height } else { 0 });
        if has_peers {
            view::draw_peer_table(place, buf, frame, run);
        }
        results::draw(inside, buf, frame, run);
    }
}

/// Columns of the table, left to right.
const RUN_COLUMNS: [Column; 8] = [
    Column { title: "", width: 1, side: Alignment::Left },
    Column { title: "TIME", width: 8, side: Alignment::Left },
    Column { title: "FUNCTION", width: 11, side: Alignment::Left },
    Column { title: "METHOD", width: 14, side: Alignment::Left },
    Column { title: "NODES", width: 5, side: Alignment::Right },
    Column { title: "GROUPS", width: 6, side: Alignment::Right },
    Column { title: "FREQ", width: 6, side: Alignment::Right },
    Column { title: "   TOOK", width: 8, side: Alignment::Left },
];

/// Minimum width of a table with all columns. A narrower table omits the function, which has a
/// name similar to the method's.
const WIDE_FROM: u16 = 66;

/// Width of a duration, which is right-aligned. The reason of a failed run is shown in its place
/// and is left-aligned.
const TOOK_WIDTH: usize = 7;

/// Index of the column with the function.
const FUNCTION: usize = 2;

fn draw_runs(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let runs = state.cluster.runs(&state.runs);
    let order = state.cluster.orders[Pane::Runs as usize];
    let gap = if order == ColumnOrder::default() { "" } else { " · " };
    let frame_of_pane = pane::Pane::new("Runs")
        .info(format!("{} this session{gap}{}", state.runs.n_started, order.note("")))
        .focus(frame.state.is_pane_focused(Pane::Runs));
    let inside = frame_of_pane.draw(area, buf, theme);
    let selected = state.cluster.run_idx(&runs, &state.runs);
    let mut columns = RUN_COLUMNS;
    if inside.width < WIDE_FROM {
        columns[FUNCTION].width = 0;
    }
    let table = Table {
        selected: Some(selected).filter(|_| !runs.is_empty()),
        pane: Pane::Runs.number(),
        ..Table::new(TableName::Runs, &mut columns, &state.hidden_columns, order.column)
    };
    table.draw(inside, buf, frame, &runs, |run| run_cells(run, frame));
}

/// Formats a frequency. The decimal points of all frequencies are aligned.
fn frequency(percent: f64) -> String {
    let text = results::frequency(percent);
    if text.contains('.') { text } else { format!("{text}  ") }
}

fn run_cells(run: &Run, frame: Frame<'_>) -> Vec<Cell> {
    let Frame { state, theme, .. } = frame;
    let bad_exit = run.bad_exit();
    let (glyph, glyph_style) = results::mark(run, frame);
    let response = run.response();
    // Placeholder for the result. A failed run shows its reason there.
    let absent = match run.phase {
        Phase::Waiting => "…",
        Phase::Failed(_) => "",
        _ => NONE,
    };
    let groups = response.map_or(absent.to_owned(), |response| response.results.len().to_string());
    let largest = response.and_then(|response| response.results.first());
    let is_split = response.is_some_and(|response| response.results.len() > 1);
    let n_nodes = run.request.config.number_of_nodes.to_string();
    let nodes = match (run.live.counts().0, run.live.n_failed()) {
        (_, 0) => (n_nodes, theme.text),
        (n, n_failed) => (format!("{}/{n}", n.saturating_sub(n_failed)), theme.warn),
    };
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
        nodes,
        (groups, theme.text),
        (
            largest.map_or(absent.to_owned(), |group| frequency(group.frequency)),
            if is_split { theme.warn } else { theme.text },
        ),
        (took, took_style),
    ]
}

/// Number of rows for the bars of a worker.
const BAR_ROWS: u16 = 2;

/// Width of a worker's name or group, including a gap.
const NAME_WIDTH: u16 = 21;

/// Width of the number after the bars, including a gap.
const COUNT_WIDTH: u16 = 9;

/// Returns the height of the pane for `n_workers` workers, including its border.
fn activity_height(n_workers: usize) -> u16 {
    u16::try_from(n_workers.max(1)).unwrap_or(u16::MAX).saturating_mul(BAR_ROWS).saturating_add(2)
}

/// Draws the activity of the workers among `nodes`, as many as fit.
fn draw_activity(area: Rect, buf: &mut Buffer, frame: Frame<'_>, nodes: &[Node]) {
    let Frame { state, theme, .. } = frame;
    let workers: Vec<&Node> = nodes.iter().filter(|node| is_worker(node)).collect();
    let n_fit = usize::from(area.height.saturating_sub(2) / BAR_ROWS);
    let more = match workers.len().saturating_sub(n_fit) {
        0 => String::new(),
        n => format!("{n} more · "),
    };
    let mut rest = pane::Pane::new("Activity")
        .info(format!("{more}executions answered, a bar for {} s", PERIOD.as_secs()))
        .focus(false)
        .draw(area, buf, theme);
    if workers.is_empty() {
        draw_empty(rest, buf, theme, &["No worker is known.".to_owned()]);
        return;
    }
    let width = rest.width.saturating_sub(NAME_WIDTH + COUNT_WIDTH);
    let bars = |node: &Node| state.nodes.last_periods(&node.peer_id, width.into(), state.now);
    // The bars of all workers have the same scale. The highest bar does not reach the top.
    let all: Vec<Vec<Option<f64>>> = workers.iter().map(|node| bars(node)).collect();
    let highest = all.iter().flatten().flatten().fold(1.0, |high: f64, n| high.max(*n)) * 1.1;
    for (node, values) in workers.iter().zip(&all).take(n_fit) {
        let [row, below] = split_rows(rest, BAR_ROWS);
        rest = below;
        paint::text(buf, row, (0, 0), &state.stack.node_name(&node.peer_id), theme.text);
        let group = match &node.process {
            Some(_) => {
                format!("{} · {}", format::shorten(&node.peer_id, 4, 6), node.group_text())
            }
            None => node.group_text(),
        };
        let room = usize::from(NAME_WIDTH - 2);
        paint::text(buf, row, (0, 1), &format::fit(&group, room), theme.muted);
        let place = Rect { x: row.x.saturating_add(NAME_WIDTH), width, ..row }.intersection(row);
        let style = if node.exited.is_some() { theme.muted } else { theme.series(0) };
        Sparkline { values, floor: Floor::Zero, top_min: highest, style }.render(place, buf);
        let a_minute = state.nodes.a_minute(&node.peer_id, state.now);
        // During the first minute, the rate is unknown and the total is shown.
        let text = a_minute.map_or_else(
            || format!("{} in all", format::count(node.n_runs)),
            |n| format!("{}/min", format::count(n)),
        );
        let style = if a_minute > Some(0) { theme.text } else { theme.muted };
        paint::text_before(buf, row, (row.width, 1), &text, style);
    }
}

/// Returns true if a node is known to be a worker.
fn is_worker(node: &Node) -> bool {
    node.role.as_deref() == Some("worker")
}
