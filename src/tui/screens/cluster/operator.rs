//! An operator's decisions on nodes: cordons, approves and refuses a node or all nodes of a group.

use ratatui::prelude::*;
use wire::functions::NodeApproval;
use wire::nodes::{NodeDetail, NodePatch};

use crate::event::Effect;
use crate::keymap::{Action, Layer};
use crate::overlay::view::Question;
use crate::screens::update::load_nodes_of;
use crate::state::State;
use crate::state::nodes::{GroupChange, Node, NodeChange, Origin};
use crate::state::overlay::Overlay;
use crate::state::resource::{Failure, Outcome};
use crate::state::services::HeadId;
use crate::view::Frame;
use crate::widget::format::counted;

/// Opens the question that precedes changing the selected nodes.
pub(crate) fn act(state: &mut State, action: Action) {
    let context = state.cluster_context();
    let table = state.cluster.table(context);
    let workers = table.selected_nodes().iter().filter(|node| !node.is_head());
    let workers: Vec<Node> = workers.cloned().collect();
    let group = table.group().map(|group| (group.title.clone(), workers.len()));
    if workers.is_empty() {
        let detail = "select a worker in the table of nodes".to_owned();
        return state.notify_refused("no worker is selected", detail);
    }
    let Some(patch) = patch(action, &workers) else { return };
    let has_change = |node: &&Node| group.is_none() || is_changed(node, patch);
    let peer_ids: Vec<String> =
        workers.iter().filter(has_change).map(|node| node.peer_id.clone()).collect();
    if peer_ids.is_empty() {
        let title = group.map(|(title, _)| title).unwrap_or_default();
        let text = format!("nothing to change: the nodes of {title} {}", outcome(patch));
        return state.notify_refused(text, "");
    }
    let change = NodeChange { peer_ids, patch, group };
    if patch.cordoned == Some(false) && change.group.is_none() {
        send(state, &change);
    } else {
        state.open(Overlay::ConfirmNode(change));
    }
}

/// Sends `change` to the heads. Each head gets only the nodes that it lists.
pub(crate) fn send(state: &mut State, change: &NodeChange) {
    for head in state.services.heads() {
        let is_listed = |peer_id: &&String| state.nodes.heads_of(peer_id).contains(&head);
        let peer_ids: Vec<String> = change.peer_ids.iter().filter(is_listed).cloned().collect();
        if !peer_ids.is_empty() {
            let change = NodeChange { peer_ids, ..change.clone() };
            state.effects.push(Effect::ChangeNode(head, change));
        }
    }
}

/// Returns the change for `action` on `workers`. The cordon action cordons all nodes, or uncordons them
/// if all are cordoned already.
fn patch(action: Action, workers: &[Node]) -> Option<NodePatch> {
    let approval = |approval| NodePatch { approval: Some(approval), ..NodePatch::default() };
    match action {
        Action::CordonNode => {
            let cordoned = workers.iter().any(|node| !node.is_cordoned);
            Some(NodePatch { cordoned: Some(cordoned), ..NodePatch::default() })
        }
        Action::ApproveNode => Some(approval(NodeApproval::Approved)),
        Action::RefuseNode => Some(approval(NodeApproval::Refused)),
        _ => None,
    }
}

/// Returns true if `node` is listed by a head and is not yet in the state that `patch` sets.
fn is_changed(node: &Node, patch: NodePatch) -> bool {
    let is_listed = node.origin != Origin::Seen;
    is_listed
        && match patch.approval {
            None => patch.cordoned != Some(node.is_cordoned),
            Some(NodeApproval::Refused) => !node.is_withheld_everywhere("refused"),
            Some(_) => matches!(node.withheld_by, Some("pending" | "refused")),
        }
}

/// Describes the state of nodes after the change.
const fn outcome(patch: NodePatch) -> &'static str {
    match (patch.cordoned, patch.approval) {
        (Some(true), _) => "are cordoned",
        (_, Some(NodeApproval::Refused)) => "are refused",
        (_, Some(_)) => "are approved",
        _ => "are not cordoned",
    }
}

/// Handles the response of `head` to the change of a node.
pub(crate) fn on_changed(state: &mut State, head: HeadId, result: Outcome<NodeDetail>) {
    match result {
        Err(failure) => state.notify_failure(&state.services.named(head, failure)),
        Ok(NodeDetail { node, orders }) => {
            let name = state.stack.node_name(&node.peer_id).into_owned();
            let before = state.nodes.body(&node.peer_id).and_then(|body| body.approval);
            let what = match node.withheld_by() {
                Some("draining") => "is cordoned, and drains",
                Some(status) => &format!("is {status}"),
                None if node.approval == before => "gets work again",
                None => "is approved, and gets work",
            };
            let detail = match orders.len() {
                0 => String::new(),
                n => format!("work orders still running: {n}"),
            };
            state.notify(format!("{name} {what}"), detail);
        }
    }
    load_nodes_of(state, head);
}

/// Handles the responses of `head` to the changes of a group's nodes.
pub(crate) fn on_group_changed(state: &mut State, head: HeadId, outcome_of: GroupChange) {
    let GroupChange { change, n_changed, failure } = outcome_of;
    let title = change.group.map(|(title, _)| title).unwrap_or_default();
    let n_asked = change.peer_ids.len();
    match failure {
        None => {
            let nodes = counted(n_changed, "node");
            state.notify(format!("{nodes} of {title} {}", outcome(change.patch)), String::new());
        }
        Some(failure) => {
            let n_failed = n_asked.saturating_sub(n_changed);
            let what = format!("change {n_failed} of {n_asked} nodes of {title}");
            state.notify_failure(&state.services.named(head, Failure { what, ..failure }));
        }
    }
    load_nodes_of(state, head);
}

/// Draws the question that precedes changing nodes.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, change: &NodeChange) {
    let Frame { state, theme, .. } = frame;
    let nodes = state.nodes.all(&state.stack);
    let changed = nodes.iter().filter(|node| change.peer_ids.contains(&node.peer_id));
    let n_running: usize = changed.map(|node| node.n_running).sum();
    let is_one_head = !state.services.has_several_heads();
    let (verb, what, note) = question(change, n_running, is_one_head);
    let what = match &change.group {
        Some((_, n_nodes)) => format!("{verb} {} of {n_nodes} nodes?", change.peer_ids.len()),
        None => what.to_owned(),
    };
    let group = change.group.as_ref().map(|(title, _)| title.clone());
    let texts = [what, group.unwrap_or_else(|| change.peer_ids.concat()), note];
    let styles = [theme.text, theme.accent2, theme.muted].into_iter();
    let lines = texts.into_iter().zip(styles).map(|(text, style)| Line::styled(text, style));
    let hints = [(Action::Confirm, "do it "), (Action::Back, "leave it")];
    let keys = frame.hints(Layer::Confirm, &hints);
    Question { title: &format!("{verb}?"), width: 62, lines: lines.collect(), keys }
        .draw(area, buf, frame);
}

/// Returns the verb of a change, the question that precedes changing a single node, and a note.
fn question(
    change: &NodeChange,
    n_running: usize,
    is_one_head: bool,
) -> (&'static str, &'static str, String) {
    let is_group = change.group.is_some();
    let pick = |one: &'static str, many: &'static str| if is_group { many } else { one };
    match (change.patch.cordoned, change.patch.approval) {
        (Some(false), _) => ("Uncordon", "", "They get work again.".to_owned()),
        (_, None) => {
            let them = pick("It gets no new work", "They get no new work");
            let by = match (is_one_head, n_running) {
                (true, 0) => " from this head.".to_owned(),
                (false, 0) => {
                    pick(" from any head that sees it.", " from any head that sees them.")
                        .to_owned()
                }
                (_, n) => format!(
                    ", and {}: {n}.",
                    pick("completes what it runs", "complete what they run")
                ),
            };
            ("Cordon", "Cordon this node?", format!("{them}{by}"))
        }
        (_, Some(NodeApproval::Refused)) => {
            let note =
                pick("Approve it to undo this.", "They get no work. Approve them to undo this.");
            ("Refuse", "Give this node no work?", note.to_owned())
        }
        (_, Some(_)) => {
            let several = "Let this node work for all heads that see it?";
            let what = if is_one_head { "Let this node work for the head?" } else { several };
            let note = pick(
                "Its attributes are unverified: compare the whole id.",
                "Their attributes are unverified.",
            );
            ("Approve", what, note.to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
