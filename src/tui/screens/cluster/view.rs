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
use crate::keymap::{Action, Layer};
use crate::screens::cluster::state::{NODE_ORDERS, Pane};
use crate::screens::cluster::{activity, nodes, processes, runs, start};
use crate::screens::execute::view;
use crate::state::layout::Divider;
use crate::state::navigation::Steps as _;
use crate::state::runs::Phase;
use crate::state::stack;
use crate::view::{Column, Frame, Hits, Tier, results, split_columns, split_rows};
use crate::widget::{format, pane};

/// Draws the Cluster screen into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let focus = frame.state.cluster.focus;
    if !frame.state.is_zoomed
        && frame.tier == Tier::Small
        && focus == Pane::Nodes
        && is_fresh(frame)
    {
        // The nodes get as many rows as they need. The first steps get the rest.
        let n_nodes = frame.state.cluster.nodes(frame.state.cluster_context()).len();
        let needed = u16::try_from(n_nodes).unwrap_or(u16::MAX).saturating_add(4);
        let [top, bottom] = split_rows(area, needed.clamp(area.height / 2, area.height * 2 / 3));
        draw_pane(Pane::Nodes, top, buf, frame, hits);
        draw_pane(Pane::Groups, bottom, buf, frame, hits);
        return;
    }
    if frame.state.is_zoomed || frame.tier == Tier::Small {
        draw_pane(focus, area, buf, frame, hits);
        return;
    }
    if frame.tier == Tier::Medium {
        let [top, bottom] = split_rows(area, area.height / 2);
        draw_pane(Pane::Nodes, top, buf, frame, hits);
        let second = if focus == Pane::Nodes { Pane::Groups } else { focus };
        draw_pane(second, bottom, buf, frame, hits);
        return;
    }
    let nudge = frame.state.nudge();
    let share = if frame.tier == Tier::Huge { 50 } else { 46 };
    let [left, right] = split_columns(area, nudge.column(area.width * share / 100, area.width));
    hits.add_column_divider(left);
    let [top_left, bottom_left] = if frame.tier == Tier::Huge {
        draw_activity(left, buf, frame)
    } else {
        let top = if is_remote(frame) {
            left.height.saturating_sub(EMPTY_HEIGHT)
        } else {
            left.height * 62 / 100
        };
        split_rows(left, nudge.left_row(top, left.height))
    };
    let [top_right, bottom_right] =
        split_rows(right, nudge.right_row(right.height * 36 / 100, right.height));
    draw_pane(Pane::Nodes, top_left, buf, frame, hits);
    draw_pane(Pane::Processes, bottom_left, buf, frame, hits);
    hits.add_row_divider(Divider::LeftRows, top_left);
    if is_fresh(frame) {
        start::draw(right, buf, frame, hits);
        return;
    }
    draw_pane(Pane::Runs, top_right, buf, frame, hits);
    draw_pane(Pane::Groups, bottom_right, buf, frame, hits);
    hits.add_row_divider(Divider::RightRows, top_right);
}

/// Returns the columns of the table in `pane`.
pub(crate) const fn columns(pane: Pane) -> &'static [Column] {
    match pane {
        Pane::Nodes => &nodes::COLUMNS,
        Pane::Runs => &runs::COLUMNS,
        Pane::Processes => &processes::COLUMNS,
        Pane::Groups => &[],
    }
}

/// Returns the columns by which the table in `pane` can be sorted, in the order of the key.
pub(crate) fn sorted_by(pane: Pane) -> Vec<&'static str> {
    if pane == Pane::Nodes {
        return NODE_ORDERS.to_vec();
    }
    let titles = columns(pane).iter().map(|column| column.title);
    titles.filter(|title| !title.is_empty()).collect()
}

/// Draws the activity pane between the nodes and the processes. Returns the areas of these two.
fn draw_activity(left: Rect, buf: &mut Buffer, frame: Frame<'_>) -> [Rect; 2] {
    let state = frame.state;
    let nodes = state.cluster.nodes(state.cluster_context());
    let n_workers = nodes.iter().filter(|node| activity::is_worker(node)).count();
    let nodes_max = if is_remote(frame) { left.height * 2 / 3 } else { left.height / 2 };
    let nodes_height = nodes::height(nodes.len()).min(nodes_max);
    let nodes_height = state.nudge().left_row(nodes_height, left.height);
    let [top, rest] = split_rows(left, nodes_height);
    // An empty pane of processes needs space only for its text.
    let bottom_height = if is_remote(frame) { EMPTY_HEIGHT } else { rest.height / 2 };
    let room = rest.height.saturating_sub(bottom_height);
    let [middle, bottom] = if is_remote(frame) {
        split_rows(rest, room)
    } else {
        split_rows(rest, activity::height(n_workers).min(room))
    };
    activity::draw(middle, buf, frame, &nodes);
    [top, bottom]
}

/// Height of a pane without processes: its border and text.
const EMPTY_HEIGHT: u16 = 5;

/// Returns true if the services run elsewhere, so that there are no local processes.
fn is_remote(frame: Frame<'_>) -> bool {
    frame.state.stack.phase == stack::Phase::Absent && !frame.state.stack.has_processes()
}

/// Returns true if there was no run yet.
fn is_fresh(frame: Frame<'_>) -> bool {
    frame.state.runs.newest().is_none()
}

fn draw_pane(pane: Pane, area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    hits.add(area, Target::Pane(pane.number()));
    match pane {
        Pane::Nodes => nodes::draw(area, buf, frame, hits),
        Pane::Runs | Pane::Groups if is_fresh(frame) => start::draw(area, buf, frame, hits),
        Pane::Runs => runs::draw(area, buf, frame, hits),
        Pane::Groups => draw_groups(area, buf, frame, hits),
        Pane::Processes => processes::draw(area, buf, frame, hits),
    }
}

fn draw_groups(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Frame { state, theme, .. } = frame;
    let run = state.cluster.results.selected(&state.runs);
    let info = match run {
        None => String::new(),
        Some(run) => {
            let sent_at = format::clock(run.sent_at);
            let text = match &run.phase {
                Phase::Done(response) => {
                    let id = format::shorten(&response.request_id, 4, 4);
                    format!("request {id} · {sent_at}")
                }
                Phase::Waiting => {
                    let cancel = frame.key(Layer::Always, Action::Interrupt);
                    let took = format::elapsed(run.elapsed(state.now));
                    format!("running {took} · {cancel} cancels")
                }
                _ => format!("run {} · {sent_at}", run.id.0),
            };
            text + &results::at_head(run, state)
        }
    };
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
        results::draw(inside, buf, frame, run, hits);
    }
}
