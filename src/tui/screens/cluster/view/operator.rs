//! Asks whether to change a node.

use ratatui::text::Line;
use wire::functions::NodeApproval;

use crate::{
    action::Action,
    keymap::Layer,
    overlay::view::{Question, Surface},
    state::nodes::NodeChange,
    view::Frame,
};

pub(crate) fn draw(on: Surface<'_>, question: &NodeChange) {
    let Frame { state, theme, .. } = on.frame;
    let NodeChange { peer_id, patch } = question;
    let nodes = state.nodes.all(&state.stack);
    let n_running = nodes.iter().find(|node| node.peer_id == *peer_id).map_or(0, |n| n.n_running);
    let (title, what, note) = match patch.approval {
        None => {
            let note = match n_running {
                0 => "It gets no new work from this head.".to_owned(),
                n => format!("It gets no new work, and ends what it runs: {n}."),
            };
            ("Cordon?", "Cordon this node?", note)
        }
        Some(NodeApproval::Approved) => {
            let note = "What it declares is its own word: compare the whole id.".to_owned();
            ("Approve?", "Let this node work for the head?", note)
        }
        Some(_) => {
            ("Refuse?", "Give this node no work?", "Approve it to take that back.".to_owned())
        }
    };
    let hints = [(Action::ConfirmNode, "do it "), (Action::Back, "leave it")];
    Question {
        title,
        width: 62,
        lines: vec![
            Line::styled(what, theme.text),
            Line::styled(peer_id.clone(), theme.accent2),
            Line::styled(note, theme.muted),
        ],
        keys: on.frame.hints(Layer::ConfirmNode, &hints),
    }
    .draw(on);
}
