//! Operator decisions on nodes: cordon, approve and refuse a node or all nodes of a group.

use ratatui::text::Line;
use wire::functions::NodeApproval;
use wire::nodes::{NodeDetail, NodePatch};

use crate::event::Effect;
use crate::keymap::{Action, Layer};
use crate::overlay::view::{Question, Surface};
use crate::screens::update::load_nodes_of;
use crate::state::State;
use crate::state::nodes::{GroupChange, Node, NodeChange, Origin};
use crate::state::overlay::Overlay;
use crate::state::resource::{Failure, Outcome};
use crate::state::services::HeadId;
use crate::view::Frame;
use crate::widget::format::counted;

/// Handles an action on the selected node.
pub(crate) fn act(state: &mut State, action: Action) {
    let context = state.cluster_context();
    let (group, nodes) = match state.cluster.selected_group(context) {
        Some((group, nodes)) => (Some(group.title), nodes),
        None => (None, state.cluster.selected_node(context).into_iter().collect()),
    };
    let workers: Vec<Node> = nodes.into_iter().filter(|node| !node.is_head()).collect();
    let group = group.map(|title| (title, workers.len()));
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

/// Sends each head the nodes of `change` that it lists.
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

/// Returns the change that `action` makes to `workers`. The cordon action cordons them, or uncordons
/// them if all are cordoned.
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

/// Returns true if a head lists `node` and `patch` changes it.
fn is_changed(node: &Node, patch: NodePatch) -> bool {
    let is_listed = node.origin != Origin::Seen;
    is_listed
        && match patch.approval {
            None => patch.cordoned != Some(node.is_cordoned),
            Some(NodeApproval::Refused) => !node.is_withheld_everywhere("refused"),
            Some(_) => matches!(node.withheld_by, Some("pending" | "refused")),
        }
}

/// Returns the state of nodes after the change.
const fn outcome(patch: NodePatch) -> &'static str {
    match (patch.cordoned, patch.approval) {
        (Some(true), _) => "are cordoned",
        (_, Some(NodeApproval::Refused)) => "are refused",
        (_, Some(_)) => "are approved",
        _ => "are not cordoned",
    }
}

/// Handles the result of changing a node at `head`.
pub(crate) fn on_changed(state: &mut State, head: HeadId, result: Outcome<NodeDetail>) {
    match result {
        Err(failure) => state.notify_failure(&state.services.named(head, failure)),
        Ok(NodeDetail { node, orders }) => {
            let name = state.stack.node_name(&node.peer_id).into_owned();
            let what = match (node.withheld_by(), node.approval) {
                (Some("draining"), _) => "is cordoned, and drains",
                (Some(status), _) => &format!("is {status}"),
                (None, Some(NodeApproval::Approved)) => "is approved, and gets work",
                (None, _) => "gets work again",
            };
            let detail = match orders.len() {
                0 => String::new(),
                n => format!("work orders that it still runs: {n}"),
            };
            state.notify(format!("{name} {what}"), detail);
        }
    }
    load_nodes_of(state, head);
}

/// Handles the result of changing the nodes of a group at `head`.
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

pub(crate) fn draw(on: Surface<'_>, question: &NodeChange) {
    let Frame { state, theme, .. } = on.frame;
    let NodeChange { peer_ids, patch, group } = question;
    let nodes = state.nodes.all(&state.stack);
    let changed = nodes.iter().filter(|node| peer_ids.contains(&node.peer_id));
    let n_running: usize = changed.map(|node| node.n_running).sum();
    if let Some((title, n_nodes)) = group {
        return draw_group(on, title, *n_nodes, question, n_running);
    }
    let is_one = !state.services.has_several_heads();
    let by = if is_one { "this head" } else { "any head that sees it" };
    let (title, what, note) = match patch.approval {
        None => {
            let note = match n_running {
                0 => format!("It gets no new work from {by}."),
                n => format!("It gets no new work, and ends what it runs: {n}."),
            };
            ("Cordon?", "Cordon this node?", note)
        }
        Some(NodeApproval::Approved) => {
            let note = "What it declares is its own word: compare the whole id.".to_owned();
            let several = "Let this node work for all heads that see it?";
            let what = if is_one { "Let this node work for the head?" } else { several };
            ("Approve?", what, note)
        }
        Some(_) => {
            ("Refuse?", "Give this node no work?", "Approve it to take that back.".to_owned())
        }
    };
    let lines = vec![
        Line::styled(what, theme.text),
        Line::styled(peer_ids.concat(), theme.accent2),
        Line::styled(note, theme.muted),
    ];
    ask(on, title, lines);
}

/// Draws the question before nodes of a group are changed.
fn draw_group(
    on: Surface<'_>,
    group: &str,
    n_nodes: usize,
    question: &NodeChange,
    n_running: usize,
) {
    let theme = on.frame.theme;
    let NodeChange { peer_ids, patch, .. } = question;
    let (title, verb, note) = match (patch.cordoned, patch.approval) {
        (Some(false), _) => ("Uncordon?", "Uncordon", "They get work again.".to_owned()),
        (_, None) if n_running > 0 => (
            "Cordon?",
            "Cordon",
            format!("They get no new work, and end what they run: {n_running}."),
        ),
        (_, None) if on.frame.state.services.has_several_heads() => {
            let note = "They get no new work from any head that sees them.".to_owned();
            ("Cordon?", "Cordon", note)
        }
        (_, None) => ("Cordon?", "Cordon", "They get no new work from this head.".to_owned()),
        (_, Some(NodeApproval::Refused)) => {
            ("Refuse?", "Refuse", "They get no work. Approve them to take that back.".to_owned())
        }
        (_, Some(_)) => ("Approve?", "Approve", "What they declare is their own word.".to_owned()),
    };
    let lines = vec![
        Line::styled(format!("{verb} {} of {n_nodes} nodes?", peer_ids.len()), theme.text),
        Line::styled(group.to_owned(), theme.accent2),
        Line::styled(note, theme.muted),
    ];
    ask(on, title, lines);
}

fn ask(on: Surface<'_>, title: &'static str, lines: Vec<Line<'static>>) {
    let hints = [(Action::Confirm, "do it "), (Action::Back, "leave it")];
    let keys = on.frame.hints(Layer::Confirm, &hints);
    Question { title, width: 62, lines, keys }.draw(on);
}

#[cfg(test)]
mod tests;
