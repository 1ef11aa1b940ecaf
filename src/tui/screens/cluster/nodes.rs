//! Draws the table of nodes and the details of the selected node.

use std::time::Duration;

use ratatui::prelude::*;

use crate::keymap::{Action, Layer};
use crate::screens::cluster::processes;
use crate::screens::cluster::state::{NodeGroup, NodeRow, NodeTable, Pane};
use crate::state::layout::TableName;
use crate::state::navigation::Steps as _;
use crate::state::nodes::{Node, Origin};
use crate::state::services::{Health, Service, host_of, why_at};
use crate::state::stack;
use crate::view::{
    Cell, Column, Frame, Table, Tier, draw_empty, draw_facts, draw_search, header, split_rows,
    strip, text_cut,
};
use crate::widget::bars::ShareBar;
use crate::widget::format::{self, NONE};
use crate::widget::pane;

/// Height of the details, including the line above them.
const DETAIL_HEIGHT: u16 = 8;

/// Width of the bar that shows a node's agreement.
const AGREE_WIDTH: u16 = 10;

/// Label of the last fact about a node. It is as wide as the widest label, so that the texts do not
/// move when the selection changes.
const AGREE: &str = "   agree";

/// Width of a node's groups in the details. The functions follow on the same line.
const GROUPS_WIDTH: usize = 24;

/// Fact about the process of a node that runs elsewhere.
const NOT_LOCAL: &str = "not local";

/// Title of the column with the names of local nodes. Other nodes have no name.
const NAME: &str = "NODE";

/// Title of the column with peer ids.
const PEER: &str = "PEER";

/// Width of the longest reason in this column, `cordoned`.
const STATUS_WIDTH: u16 = 8;

/// Title of the column with the reason why a node gets no work, or `silent`.
const STATUS: &str = "STATUS";

/// Title of the column with the number of heads that see a node. Shown if there are several heads.
const HEADS: &str = "HEADS";

/// Title of the column with free slots.
const SLOTS: &str = "SLOTS";

/// Minimum width of a peer id. Peer ids share a prefix and differ at the end.
const PEER_WIDTH_MIN: u16 = 10;

/// Maximum width of a peer id.
const PEER_WIDTH_MAX: u16 = 19;

/// Maximum width of a node's name.
const NAME_WIDTH_MAX: u16 = 14;

/// Columns that a narrow table omits, in this order. The details show their values. If STATUS is
/// omitted, the reason why a node gets no work replaces its slots.
const LEFT_OUT: [&str; 5] = ["ORIGIN", STATUS, "PING", "LAST", SLOTS];

/// Like [`LEFT_OUT`], for grouped nodes. PING is omitted earlier, since groups have no round-trip
/// time.
const LEFT_OUT_GROUPED: [&str; 5] = ["ORIGIN", "PING", "LAST", STATUS, SLOTS];

/// Columns of the table, left to right.
pub(super) const COLUMNS: [Column; 13] = [
    Column { title: "", width: 1, side: Alignment::Left },
    Column { title: NAME, width: 8, side: Alignment::Left },
    Column { title: PEER, width: 19, side: Alignment::Left },
    Column { title: "ROLE", width: 6, side: Alignment::Left },
    Column { title: "ORIGIN", width: 6, side: Alignment::Left },
    Column { title: "GROUP", width: 7, side: Alignment::Left },
    Column { title: HEADS, width: 5, side: Alignment::Right },
    Column { title: STATUS, width: 8, side: Alignment::Left },
    Column { title: SLOTS, width: 5, side: Alignment::Right },
    Column { title: "RUNS", width: 5, side: Alignment::Right },
    Column { title: "AGREE", width: 5, side: Alignment::Right },
    Column { title: "PING", width: 7, side: Alignment::Right },
    Column { title: "LAST", width: 6, side: Alignment::Right },
];

/// Returns the height of a pane for `n_nodes` nodes: border, filter, titles, rows and details.
pub(crate) fn height(n_nodes: usize) -> u16 {
    let n_rows = u16::try_from(n_nodes.max(5)).unwrap_or(u16::MAX);
    n_rows.saturating_add(DETAIL_HEIGHT + 5)
}

pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, tier, .. } = frame;
    let cluster = &state.cluster;
    let listed = cluster.table(state.cluster_context());
    let (nodes, group) = (&listed.nodes, listed.group());
    let focus = state.is_pane_focused(Pane::Nodes);
    let inside =
        pane::Pane::new("Nodes").info(info(nodes, frame)).focus(focus).draw(area, buf, theme);
    if nodes.is_empty() && cluster.filter.value().is_empty() {
        return draw_absent(inside, buf, frame);
    }
    let has_detail = tier >= Tier::Large || state.is_zoomed;
    let detail_height = if has_detail { DETAIL_HEIGHT } else { 1 };
    let table_height = inside.height.saturating_sub(detail_height);
    let [upper, lower] = split_rows(inside, table_height);
    let has_filter = has_detail || cluster.filter.is_edited() || !cluster.filter.value().is_empty();
    let [filter, rows] = split_rows(upper, u16::from(has_filter));
    draw_search(filter, buf, theme, &cluster.filter, "filter…");
    let rows = draw_failures(rows, buf, frame);

    let (mut columns, peer_width) = columns(rows.width, nodes, frame);
    let has_status = columns.iter().any(|it| it.title == STATUS && it.width > 0);
    let order = cluster.orders[Pane::Nodes as usize];
    let table = Table {
        selected: Some(listed.selected).filter(|_| !listed.rows.is_empty()),
        pane: Pane::Nodes.number(),
        ..Table::new(TableName::Nodes, &mut columns, &state.hidden_columns, order.column)
    };
    table.draw(rows, buf, frame, &listed.rows, |row| match row {
        NodeRow::Group(group) => group_cells(group, frame),
        NodeRow::Node(idx) => {
            let cells = |node| cells(node, frame, peer_width, has_status);
            nodes.get(*idx).map(cells).unwrap_or_default()
        }
    });
    let title = match (group, listed.node()) {
        (Some(group), _) => group.title.clone(),
        (None, Some(node)) => state.stack.node_name(&node.peer_id).into_owned(),
        (None, None) => return,
    };
    if !has_detail {
        return draw_short_detail(lower, buf, frame, &listed, title);
    }
    let y = lower.y.saturating_sub(area.y);
    pane::divider(buf, area.intersection(buf.area), y, title, focus, theme);
    let [_, lower] = split_rows(lower, 1);
    let facts = selected_facts(&listed, frame);
    draw_facts(lower, buf, theme, &facts);
    if let Some(percent) = listed.node().and_then(Node::agree_percent) {
        let y = u16::try_from(facts.len()).unwrap_or(u16::MAX).saturating_sub(1);
        let bar = if percent < 90.0 { theme.warn } else { theme.up };
        let share = ShareBar { share: percent / 100.0, bar, rest: theme.faint };
        share.render(strip(lower, (9, y), AGREE_WIDTH), buf);
    }
}

/// Draws the facts about the selected node or group in a single row.
fn draw_short_detail(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    listed: &NodeTable,
    title: String,
) {
    let mut facts = selected_facts(listed, frame);
    // The id and the addresses of a node are long, so they are last.
    facts.rotate_left(if listed.group().is_some() { 0 } else { 2 });
    facts.retain(|(label, text)| *label != AGREE && ![NONE, NOT_LOCAL].contains(&text.as_str()));
    let texts = facts.iter().map(|(_, text)| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let texts: Vec<String> = std::iter::once(title).chain(texts).collect();
    text_cut(buf, area, (0, 0), &texts.join(" · "), frame.theme.muted);
}

/// Returns the facts about the selected node or group.
fn selected_facts(listed: &NodeTable, frame: Frame<'_>) -> Vec<(&'static str, String)> {
    match (listed.group(), listed.node()) {
        (Some(group), _) => facts(group),
        (None, Some(node)) => node_facts(node, frame),
        (None, None) => Vec::new(),
    }
}

/// Returns the sums over the nodes of a group.
fn facts(group: &NodeGroup) -> Vec<(&'static str, String)> {
    let NodeGroup { n_connected, n_withheld, n_slots, n_free, n_runs, .. } = *group;
    let mut facts = vec![("nodes", format!("{n_connected} of {} connected", group.n_nodes()))];
    if n_withheld > 0 {
        facts.push(("out", format!("{n_withheld} get no work")));
    }
    facts.push(("slots", format!("{n_free} of {n_slots} slots free")));
    facts.push(("runs", format::counted(usize::try_from(n_runs).unwrap_or(usize::MAX), "run")));
    facts
}

/// Returns the columns with their widths in a table of this `width`, and the width of the peer
/// ids.
fn columns(width: u16, nodes: &[Node], frame: Frame<'_>) -> ([Column; COLUMNS.len()], usize) {
    let is_grouped = frame.state.cluster.grouped_by.is_some();
    let mut columns = COLUMNS;
    let names = nodes.iter().filter_map(|node| node.process.as_ref());
    let name_width = names.map(|(name, _)| name.chars().count()).max();
    let name_width = name_width.map(|width| u16::try_from(width).unwrap_or(u16::MAX));
    let mut set = |title, to: u16| {
        for column in columns.iter_mut().filter(|column| column.title == title) {
            column.width = to;
        }
        let others = columns.iter().filter(|column| column.title != PEER && column.width > 0);
        let others: u16 = others.map(|column| column.width + 1).sum();
        width.saturating_sub(others)
    };
    // The status is `cordoned`, or `cordoned 1/2` with several heads. The width does not depend on
    // the nodes, so that the columns do not move when a node is cordoned.
    let has_several_heads = frame.state.services.has_several_heads();
    let status_width = if has_several_heads { STATUS_WIDTH + 4 } else { STATUS_WIDTH };
    set(STATUS, status_width);
    set(HEADS, if has_several_heads { 5 } else { 0 });
    if is_grouped {
        // Sums over a group have more digits than the slots of a node.
        set(SLOTS, 9);
    }
    let mut room = set(NAME, name_width.map_or(0, |width| width.clamp(8, NAME_WIDTH_MAX)));
    for title in if is_grouped { LEFT_OUT_GROUPED } else { LEFT_OUT } {
        if room < PEER_WIDTH_MIN + 3 {
            room = set(title, 0);
            if title == STATUS && !is_grouped {
                room = set(SLOTS, status_width);
            }
        }
    }
    let peer_width = room.clamp(PEER_WIDTH_MIN, PEER_WIDTH_MAX);
    set(PEER, peer_width);
    (columns, peer_width.into())
}

fn info(nodes: &[Node], frame: Frame<'_>) -> Line<'static> {
    let cluster = &frame.state.cluster;
    let n_local = nodes.iter().filter(|node| node.origin == Origin::Local).count();
    let listed = frame.state.nodes.best_list();
    let away = frame.state.nodes.run_head.and_then(|head| frame.away(Service::Head(head)));
    let age = match listed.failure() {
        _ if frame.state.services.has_several_heads() => None,
        _ if away.is_some() => away,
        Some(_) => Some(Span::styled(listed.note(frame.state.now), frame.theme.warn)),
        None => None,
    };
    let n_withheld = nodes.iter().filter(|node| node.withheld_by.is_some()).count();
    let withheld = if n_withheld > 0 { format!(" · {n_withheld} out") } else { String::new() };
    let grouped = cluster.grouped_by.as_ref().map(|name| format!(" · by {name}"));
    let (n_nodes, order) = (nodes.len(), cluster.orders[Pane::Nodes as usize].note("as listed"));
    let grouped = grouped.unwrap_or_default();
    let facts = format!("{n_nodes} · {n_local} local{withheld}{grouped} · {order}");
    let mut line = Line::from(facts);
    if let Some(age) = age {
        line.extend([Span::raw(" · "), age]);
    }
    line
}

fn status(node: &Node, frame: Frame<'_>) -> (char, Style) {
    let theme = frame.theme;
    match (node.exited, node.is_connected) {
        (Some(_), _) => ('✗', theme.down),
        (None, _) if node.silent_since.is_some() => ('!', theme.down),
        (None, Some(true)) if node.withheld_by.is_some() => ('○', theme.warn),
        (None, Some(true)) => ('●', theme.up),
        (None, None) if !node.reports.is_empty() => ('◌', theme.warn),
        (None, None) if node.origin == Origin::Local => ('◌', theme.info),
        (None, Some(false) | None) => ('○', theme.muted),
    }
}

fn cells(node: &Node, frame: Frame<'_>, peer_width: usize, has_status: bool) -> Vec<Cell> {
    let Frame { state, theme, .. } = frame;
    let (glyph, glyph_style) = status(node, frame);
    let role = node.role.as_deref().unwrap_or("?");
    let role_style = if role == "head" { theme.accent2 } else { theme.text };
    let is_typed = node.origin == Origin::Typed;
    let is_head = role == "head";
    let is_alarming = node.exited.is_some() || node.silent_since.is_some();
    let status_text = match node.withheld_text() {
        Some(text) => Some((text, theme.warn)),
        None => node.status().map(|text| (text.to_owned(), theme.down)),
    };
    let runs = if is_head { NONE.to_owned() } else { format::count(node.n_runs) };
    let (agree, agree_style) = match node.agree_percent() {
        None => (NONE.to_owned(), theme.muted),
        Some(percent) if percent < 90.0 => (format!("{percent:.0}%"), theme.warn),
        Some(percent) => (format!("{percent:.0}%"), theme.text),
    };
    vec![
        (glyph.to_string(), glyph_style),
        match &node.process {
            Some((name, _)) => (name.clone(), theme.accent2),
            None => (NONE.to_owned(), theme.muted),
        },
        (format::shorten(&node.peer_id, peer_width.saturating_sub(7), 6).into_owned(), theme.text),
        (role.to_owned(), role_style),
        (node.origin.into_str().to_owned(), if is_typed { theme.text } else { theme.muted }),
        (node.group_text(), theme.muted),
        seen_by(node, frame),
        status_text.clone().unwrap_or_default(),
        status_text.filter(|_| !has_status).unwrap_or_else(|| slots(node, frame)),
        (runs, theme.text),
        (agree, agree_style),
        (ping(node), theme.muted),
        (last(node, state.now), if is_alarming { theme.down } else { theme.muted }),
    ]
}

/// Returns the cells of a group, which contain sums over its nodes.
fn group_cells(group: &NodeGroup, frame: Frame<'_>) -> Vec<Cell> {
    let theme = frame.theme;
    let bold = theme.text.add_modifier(Modifier::BOLD);
    let none = || (String::new(), theme.muted);
    let NodeGroup { n_connected, n_withheld, n_slots, n_free, is_folded, .. } = *group;
    let n_nodes = group.n_nodes();
    let withheld = match n_withheld {
        0 => String::new(),
        n => format!("{n} out"),
    };
    let agree = Node { n_runs: group.n_runs, n_agreed: group.n_agreed, ..Node::default() };
    let agree = agree.agree_percent().map_or_else(String::new, |share| format!("{share:.0}%"));
    vec![
        (if is_folded { "▸" } else { "▾" }.to_owned(), theme.muted),
        none(),
        (group.title.clone(), bold),
        (format!("{n_connected}/{n_nodes}"), theme.text),
        none(),
        none(),
        none(),
        (withheld, theme.warn),
        (if n_slots > 0 { format!("{n_free}/{n_slots}") } else { String::new() }, theme.text),
        (format::count(group.n_runs), theme.text),
        (agree, theme.text),
        none(),
        none(),
    ]
}

/// Returns the free and all slots of a node, such as `8/10`.
fn slots(node: &Node, frame: Frame<'_>) -> Cell {
    let theme = frame.theme;
    match node.slots {
        None => (NONE.to_owned(), theme.muted),
        Some((n_slots, None)) => (n_slots.to_string(), theme.text),
        Some((n_slots, Some(0))) => (format!("0/{n_slots}"), theme.warn),
        Some((n_slots, Some(n_free))) => (format!("{n_free}/{n_slots}"), theme.text),
    }
}

/// Returns the round-trip time, such as `0.4 ms`, from 100 ms on without a fraction.
fn ping(node: &Node) -> String {
    match node.latency_ms {
        None => NONE.to_owned(),
        Some(ms) if ms < 99.95 => format!("{ms:.1} ms"),
        Some(ms) => format!("{ms:.0} ms"),
    }
}

/// Ages below this are displayed alike for connected nodes. A head hears from its peers several
/// times per minute, and each displayed change of an age would need a frame.
const SILENT_MAX: Duration = Duration::from_mins(1);

/// Returns the exit code of a node, the age of its last message, or `now` for a connected node
/// without messages: the head that sent the list.
fn last(node: &Node, now: model::timestamp::Timestamp) -> String {
    if let Some(exit) = node.exited {
        return exit.code.map_or_else(|| "signal".to_owned(), |code| format!("exit {code}"));
    }
    match (node.is_connected, node.silent_since.or(node.last_seen)) {
        (_, Some(at)) if node.silent_since.is_some() => format::age(now.since(at)),
        (Some(true), Some(at)) if now.since(at) < SILENT_MAX => "< 1m".to_owned(),
        (_, Some(at)) => format::age(now.since(at)),
        (Some(true), None) => "now".to_owned(),
        _ => NONE.to_owned(),
    }
}

/// Returns the facts about a node. The last one is its agreement, after space for a bar.
fn node_facts(node: &Node, frame: Frame<'_>) -> Vec<(&'static str, String)> {
    let now = frame.state.now;
    let listen = match node.addresses.as_slice() {
        [] => NONE.to_owned(),
        [one] => without_peer(one).to_owned(),
        [one, more @ ..] => format!("{}  and {} more", without_peer(one), more.len()),
    };
    let groups = node
        .subgroups
        .as_ref()
        .map(|groups| ["general".to_owned()].into_iter().chain(groups.clone()));
    let groups = groups.map(|groups| groups.collect::<Vec<_>>().join(" + "));
    let groups = groups.unwrap_or_else(|| "not known".to_owned());
    let functions = match node.n_functions {
        0 => String::new(),
        n if node.n_ready == 0 => format!("holds {}", format::counted(n, "function")),
        n => format!("holds {}, {} ready", format::counted(n, "function"), node.n_ready),
    };
    let process = match (&node.process, node.exited) {
        (Some((name, pid)), None) => {
            let status = frame.state.stack.status(name);
            let up = status.since.map(|since| format!("up {}", format::coarse(now.since(since))));
            let mut parts: Vec<String> = [format!("pid {pid}")].into_iter().chain(up).collect();
            if let Some(usage) = status.usage {
                parts.extend(usage.cpu_percent.map(|cpu| format!("cpu {cpu:.1}%")));
                parts.push(format::bytes(usage.memory_bytes));
                parts.extend(usage.is_suspended.then(|| "suspended".to_owned()));
            }
            parts.join(" · ")
        }
        (Some(_), Some(_)) => format!("exited: {}", last(node, now)),
        (None, _) => NOT_LOCAL.to_owned(),
    };
    let agree = if node.n_runs == 0 {
        "no executions yet".to_owned()
    } else {
        let (n_agreed, n_runs) = (format::count(node.n_agreed), format::count(node.n_runs));
        format!("{:width$}{n_agreed} of {n_runs}", "", width = usize::from(AGREE_WIDTH) + 2)
    };
    let mut facts = vec![
        ("peer id", node.peer_id.clone()),
        ("listen", listen),
        // The groups have a fixed width. The functions after them do not move when the selection
        // changes, so that fewer cells are redrawn.
        ("groups", format!("{groups:<GROUPS_WIDTH$} {functions}")),
        ("process", process),
    ];
    facts.extend(head_facts(node, frame));
    let declared = declared_text(node, frame);
    facts.extend(Some(("declares", declared)).filter(|(_, text)| !text.is_empty()));
    facts.push((AGREE, agree));
    facts
}

/// Returns the status and the attributes of a node.
fn declared_text(node: &Node, frame: Frame<'_>) -> String {
    let silent = node.silent_since.map(|since| {
        format!("not responding for {}", format::coarse(frame.state.now.since(since)))
    });
    let status = node.withheld_text().map(|status| match node.n_running {
        0 => status,
        n => format!("{status}, runs {n}"),
    });
    let declared = Some(node.attribute_text()).filter(|text| !text.is_empty());
    silent.into_iter().chain(status).chain(declared).collect::<Vec<_>>().join("  ")
}

/// Returns a multiaddress without its peer id.
fn without_peer(address: &str) -> &str {
    address.rsplit_once("/p2p/").map_or(address, |(host, _)| host)
}

/// Draws the reason why there are no nodes in the middle of `area`.
fn draw_absent(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let listed = state.nodes.best_list();
    if matches!(state.stack.phase, stack::Phase::Failed(_)) && listed.failure().is_none() {
        return draw_empty(area, buf, theme, &processes::empty_lines(frame));
    }
    let key = frame.key(Layer::Cluster, Action::AddNode);
    let unknown =
        format!("No head is known.\n{key} starts one on this machine; --head names another.");
    frame.draw_absent(area, buf, listed, None, [&unknown, "The head lists no nodes."]);
}

/// Maximum number of failing heads that are listed above the nodes.
const FAILURES_MAX: usize = 3;

/// Draws a line for each failing head, if there are several heads. Returns the area below the
/// lines.
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

/// Returns the number of heads that see a node and the number of all heads, such as `2/3`.
pub(super) fn seen_by(node: &Node, frame: Frame<'_>) -> Cell {
    let theme = frame.theme;
    let n_seen = node.n_seen_by();
    let n_heads = frame.state.services.heads().len();
    // It is no problem if only some heads see a node that is a head itself.
    let is_whole = n_seen == n_heads || (n_seen > 0 && node.is_head());
    let style = if is_whole { theme.muted } else { theme.warn };
    (format!("{n_seen}/{n_heads}"), style)
}

/// Returns a summary of each head's report on a node, if there are several heads.
fn head_facts(node: &Node, frame: Frame<'_>) -> Option<(&'static str, String)> {
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
            _ if is_failing => "requests fail",
            (_, None) => "does not see it",
            (_, Some(report)) => report.withheld_by.unwrap_or("sees it"),
        };
        format!("{} {word}", host_of(address))
    });
    Some(("heads", words.collect::<Vec<_>>().join(" · ")))
}
