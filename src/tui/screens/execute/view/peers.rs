//! How far each peer of a run is.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use crate::{
    state::runs::{
        Run,
        live::{Part, Stage},
    },
    view::{
        Frame,
        hits::Hits,
        spinner,
        table::{Cell, Column, Side, Table},
    },
    widget::{
        format::{self, NONE},
        paint,
    },
};

/// The columns of the table, left to right.
const COLUMNS: [Column; 7] = [
    Column { title: "", width: 1, side: Side::Left },
    Column { title: "NODE", width: 9, side: Side::Left },
    Column { title: "PEER", width: 19, side: Side::Left },
    Column { title: "STATE", width: 12, side: Side::Left },
    Column { title: "TIME", width: 9, side: Side::Right },
    Column { title: "MEMORY", width: 8, side: Side::Right },
    Column { title: "RESULT", width: 20, side: Side::Left },
];

/// The narrowest table with the memory used.
const WIDE_FROM: u16 = 80;

/// The place of the memory used.
const MEMORY: usize = 5;

/// The rows that the peers of `run` take, their title and a gap included; none without peers.
pub(crate) fn height(run: &Run) -> u16 {
    match u16::try_from(run.live.parts.len()).unwrap_or(u16::MAX) {
        0 => 0,
        n_peers => n_peers.saturating_add(3),
    }
}

/// Draws the peers of `run`, as many as there is room for.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, run: &Run) {
    let Frame { state, theme, .. } = frame;
    let parts = &run.live.parts;
    let bold = theme.text.add_modifier(Modifier::BOLD);
    let x = paint::text(buf, area, (0, 0), "Per peer", bold) + 2;
    let (n_given, n_over) = run.live.counts();
    let mut note = match n_given {
        0 => format!("{} ready", parts.len()),
        _ => format!("{n_over} of {n_given} done"),
    };
    let is_live = state.nodes.head(run.head.id).is_some_and(|head| head.is_live);
    if run.is_waiting() && !is_live {
        note.push_str(" · no events from the head: may be outdated");
    }
    paint::text(buf, area, (x, 0), &note, theme.muted);
    // The title and the head; the gap below is given up for a last peer.
    let n_fit = usize::from(area.height.saturating_sub(2));
    if parts.len() > n_fit {
        let more = format!("{} more", parts.len() - n_fit);
        paint::text_before(buf, area, (area.width, 0), &more, theme.muted);
    }
    let mut columns = COLUMNS;
    if area.width < WIDE_FROM {
        columns[MEMORY].width = 0;
    }
    // Working peers come first.
    let mut shown: Vec<&Part> = parts.iter().collect();
    if parts.len() > n_fit {
        shown.sort_by_key(|part| part.stage.is_over());
    }
    let table = Table { columns: &columns, n_rows: shown.len().min(n_fit), ..Table::default() };
    let place = Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area };
    table.draw(place.intersection(area), buf, theme, &mut Hits::default(), |row| {
        shown.get(row).map(|part| cells(part, run, frame)).unwrap_or_default()
    });
}

fn cells(part: &Part, run: &Run, frame: Frame<'_>) -> Vec<Cell> {
    let Frame { state, theme, .. } = frame;
    let (glyph, word, style) = stage(part, frame);
    let (place, place_style) = match state.stack.node(&part.peer_id) {
        Some(node) => (node.name.clone(), theme.info),
        None => ("remote".to_owned(), theme.muted),
    };
    let took = match (part.took, &part.stage) {
        (Some(took), _) => format::elapsed(took),
        (None, Stage::Running | Stage::Compiling | Stage::Fetching) => {
            format::elapsed(state.now.since(part.since))
        }
        _ => NONE.to_owned(),
    };
    let memory = part.usage.filter(|usage| usage.memory_max_kib > 0);
    let memory = memory.map_or_else(
        || NONE.to_owned(),
        |usage| format::bytes(usage.memory_max_kib.saturating_mul(1024)),
    );
    let has = |peers: &[String]| peers.contains(&part.peer_id);
    let groups = run.response().map(|response| response.results.as_slice()).unwrap_or_default();
    let group = groups.iter().position(|group| has(&group.peers));
    let (result, result_style) = match (&part.stage, group) {
        (Stage::Failed { reason, .. }, _) => (reason.clone(), theme.down),
        (_, Some(0)) => ("group 1".to_owned(), theme.text),
        (_, Some(idx)) => (format!("group {}", idx + 1), theme.warn),
        (_, None) => (String::new(), theme.muted),
    };
    vec![
        (glyph.to_string(), style),
        (place, place_style),
        (format::short_peer(&part.peer_id).into_owned(), theme.text),
        (word, style),
        (took, theme.text),
        (memory, theme.muted),
        (result, result_style),
    ]
}

/// The glyph, the word and the color of how far a peer is.
fn stage(part: &Part, frame: Frame<'_>) -> (char, String, Style) {
    let (theme, picture) = (frame.theme, spinner::picture(frame.state.now));
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
