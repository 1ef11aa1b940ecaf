//! What the operator decides of nodes: cordon, drain, approve and refuse them, after a question.

use wire::{
    functions::NodeApproval,
    nodes::{NodeDetail, NodePatch},
};

use crate::{
    action::Action,
    event::Effect,
    overlay::Overlay,
    screens::update::load_nodes,
    state::{State, loadable::Failure, nodes::NodeChange},
};

/// Handles an action on the selected node.
pub(crate) fn act(state: &mut State, action: Action) {
    if action == Action::ConfirmNode {
        if let Some(Overlay::ConfirmNode(question)) = state.overlays.last().cloned() {
            state.close();
            state.effects.push(Effect::ChangeNode(question));
        }
        return;
    }
    let node = state.cluster.selected_node(state.cluster_context());
    let Some(node) = node.filter(|node| !node.is_head()) else {
        let detail = "select a worker in the table of nodes".to_owned();
        return state.notify_refused("no worker is selected".to_owned(), detail);
    };
    let patch = match action {
        Action::CordonNode => {
            NodePatch { cordoned: Some(!node.is_cordoned), ..NodePatch::default() }
        }
        Action::ApproveNode => {
            NodePatch { approval: Some(NodeApproval::Approved), ..NodePatch::default() }
        }
        Action::RefuseNode => {
            NodePatch { approval: Some(NodeApproval::Refused), ..NodePatch::default() }
        }
        _ => return,
    };
    let question = NodeChange { peer_id: node.peer_id, patch };
    if patch.cordoned == Some(false) {
        state.effects.push(Effect::ChangeNode(question));
    } else {
        state.open(Overlay::ConfirmNode(question));
    }
}

/// A node was changed, or not.
pub(crate) fn on_changed(state: &mut State, result: Result<NodeDetail, Failure>) {
    match result {
        Err(failure) => state.notify_failure(&failure),
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
    load_nodes(state);
}

#[cfg(test)]
mod tests;
