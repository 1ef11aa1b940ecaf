//! Several heads in the pane of nodes: which fail and why, how many see a node, and what each says of it.

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    state::{
        nodes::Node,
        services::{Health, Service, host_of, why_at},
    },
    view::{Frame, header, split_rows, table::Cell, text_cut},
};

/// The most heads whose failures stand above the nodes, which need the room.
const FAILURES_MAX: usize = 3;

/// Draws a line for each head that fails, where there are several; returns what is left below.
pub(super) fn draw_failures(area: Rect, buf: &mut Buffer, frame: Frame<'_>) -> Rect {
    let Frame { state, theme, .. } = frame;
    if !state.services.has_several_heads() {
        return area;
    }
    let mut rest = area;
    let failing = state.services.heads().filter_map(|head| {
        let service = Service::Head(head);
        let address = state.services.address(service)?;
        let health = state.services.health(service);
        let (glyph, style) = header::mark(health, theme);
        let why = match health {
            Health::Refused { why } => why.why.clone(),
            Health::Down { why } => match header::away(service, state) {
                Some(away) if away != "down" => format!("{}, {away}", why_at(address, &why.why)),
                _ => why.why.clone(),
            },
            Health::Idle { .. } | Health::Live => {
                state.nodes.head(head)?.listed.failure()?.why.clone()
            }
            Health::Unknown | Health::Absent => return None,
            Health::Limited { .. } | Health::Silent => header::note(service, state),
        };
        Some((format!("{glyph} {address}  {}", why_at(address, &why)), style))
    });
    for (line, style) in failing.take(FAILURES_MAX) {
        text_cut(buf, rest, (0, 0), &line, style);
        [_, rest] = split_rows(rest, 1);
    }
    rest
}

/// How many heads see a node, of how many: `2/3`.
pub(super) fn seen_by(node: &Node, frame: Frame<'_>) -> Cell {
    let theme = frame.theme;
    let n_seen = node.n_seen_by();
    let n_heads = frame.state.services.heads().len();
    // A head need not see the others.
    let is_whole = n_seen == n_heads || (n_seen > 0 && node.is_head());
    let style = if is_whole { theme.muted } else { theme.warn };
    (format!("{n_seen}/{n_heads}"), style)
}

/// What each of several heads says of a node in detail.
pub(super) fn facts(node: &Node, frame: Frame<'_>) -> Option<(&'static str, String)> {
    let state = frame.state;
    if !state.services.has_several_heads() {
        return None;
    }
    let words = state.services.heads().map(|head| {
        let service = Service::Head(head);
        let address = state.services.address(service).unwrap_or_default();
        let is_failing =
            state.nodes.head(head).is_some_and(|nodes| nodes.listed.failure().is_some());
        let report = node.reports.iter().find(|report| report.head == head);
        let word = match (state.services.health(service), report) {
            (Health::Refused { .. }, _) => "refuses the screen",
            (Health::Limited { .. }, _) => "limits the screen",
            (Health::Silent, _) => "does not respond",
            _ if is_failing => "does not answer",
            (_, None) => "does not see it",
            (_, Some(report)) => report.withheld_by.unwrap_or("sees it"),
        };
        format!("{} {word}", host_of(address))
    });
    Some(("heads", words.collect::<Vec<_>>().join(" · ")))
}
