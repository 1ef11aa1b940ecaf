//! Draws the recent activity of each worker, with a bar for each period.

use ratatui::prelude::*;

use crate::state::nodes::{Node, PERIOD};
use crate::view::{Frame, draw_empty, split_rows};
use crate::widget::bars::{Floor, Sparkline};
use crate::widget::{format, paint, pane};

/// Height of the bars of a worker.
const ROWS: u16 = 2;

/// Width of the peer id or the group, including a gap.
const NAME_WIDTH: u16 = 21;

/// Width of a gap and the number after the bars.
const COUNT_WIDTH: u16 = 9;

/// Returns the height of the pane for `n_workers`, including its border.
pub(crate) fn height(n_workers: usize) -> u16 {
    u16::try_from(n_workers.max(1)).unwrap_or(u16::MAX).saturating_mul(ROWS).saturating_add(2)
}

/// Draws as many workers among `nodes` as fit.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, nodes: &[Node]) {
    let Frame { state, theme, .. } = frame;
    let workers: Vec<&Node> = nodes.iter().filter(|node| is_worker(node)).collect();
    let n_fit = usize::from(area.height.saturating_sub(2) / ROWS);
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
    // All workers have one scale, with a gap above the highest bar.
    let all: Vec<Vec<Option<f64>>> = workers.iter().map(|node| bars(node)).collect();
    let highest = all.iter().flatten().flatten().fold(1.0, |high: f64, n| high.max(*n)) * 1.1;
    for (node, values) in workers.iter().zip(&all).take(n_fit) {
        let [row, below] = split_rows(rest, ROWS);
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
        // The rate is unknown in the first minute.
        let text = a_minute.map_or_else(
            || format!("{} in all", format::count(node.n_runs)),
            |n| format!("{}/min", format::count(n)),
        );
        let style = if a_minute > Some(0) { theme.text } else { theme.muted };
        paint::text_before(buf, row, (row.width, 1), &text, style);
    }
}

/// Returns true if a node is a worker, as far as known.
pub(crate) fn is_worker(node: &Node) -> bool {
    node.role.as_deref() == Some("worker")
}
