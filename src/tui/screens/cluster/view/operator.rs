//! Asks whether to change a node, or those of a group.

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

/// Asks whether to change nodes of the `n_nodes` of the group of this title.
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
    let hints = [(Action::ConfirmNode, "do it "), (Action::Back, "leave it")];
    let keys = on.frame.hints(Layer::ConfirmNode, &hints);
    Question { title, width: 62, lines, keys }.draw(on);
}
