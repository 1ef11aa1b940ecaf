use std::time::Duration;

use wire::nodes::NodeOrderBody;

use super::*;
use crate::{
    event::Event,
    harness::{self, Harness},
    screens::cluster::state::grouping::NodeRow,
};

/// A screen on many nodes, and what it was asked for taken.
fn many() -> Harness {
    let mut screen = Harness::ready(160, 45);
    screen.take(Event::Nodes(Ok(harness::many_nodes()), Duration::ZERO));
    screen.state.notices.clear();
    screen.take_effects();
    screen
}

/// The selected node.
fn selected(screen: &Harness) -> crate::state::nodes::Node {
    screen.state.cluster.selected_node(screen.state.cluster_context()).unwrap()
}

fn change(peer_id: &str, patch: NodePatch) -> Effect {
    Effect::ChangeNode(NodeChange { peer_id: peer_id.to_owned(), patch })
}

#[test]
fn cordoning_asks_first_and_uncordoning_does_not() {
    let mut screen = many();
    screen.press("c");
    assert!(screen.state.overlays.is_empty(), "the head itself is selected");
    screen.press("down");
    let id = selected(&screen).peer_id;
    screen.press("c");
    assert!(screen.text().contains("Cordon this node?"), "{}", screen.text());
    screen.press("n");
    assert_eq!(screen.take_effects(), []);
    screen.press("c y");
    let patch = NodePatch { cordoned: Some(true), ..NodePatch::default() };
    assert_eq!(screen.take_effects(), [change(&id, patch)]);
    screen.type_text("/cordoned");
    screen.press("enter c");
    let id = selected(&screen).peer_id;
    let patch = NodePatch { cordoned: Some(false), ..NodePatch::default() };
    assert_eq!(screen.take_effects(), [change(&id, patch)]);
}

#[test]
fn approving_shows_the_whole_id_and_what_came_of_it() {
    let mut screen = many();
    screen.type_text("/pending");
    screen.press("enter A");
    let id = selected(&screen).peer_id;
    assert!(screen.text().contains(&id), "{}", screen.text());
    screen.press("y");
    let patch = NodePatch { approval: Some(NodeApproval::Approved), ..NodePatch::default() };
    assert_eq!(screen.take_effects(), [change(&id, patch)]);
    let mut nodes = harness::many_nodes().into_iter();
    let mut node = nodes.find(|node| node.peer_id == id).unwrap();
    node.approval = Some(NodeApproval::Approved);
    let detail = NodeDetail { node: node.clone(), orders: Vec::new() };
    screen.take(Event::NodeChanged(Ok(detail)));
    assert!(screen.text().contains("is approved, and gets work"), "{}", screen.text());
    assert!(screen.take_effects().contains(&Effect::LoadNodes));
    node.cordoned = true;
    node.running = 1;
    let detail = NodeDetail { node, orders: vec![NodeOrderBody::default()] };
    screen.take(Event::NodeChanged(Ok(detail)));
    assert!(screen.text().contains("is cordoned, and drains"), "{}", screen.text());
    let failure = Failure { what: "change the node".to_owned(), ..Failure::default() };
    screen.take(Event::NodeChanged(Err(failure)));
    assert!(screen.text().contains("failed to change the node"), "{}", screen.text());
}

#[test]
fn groups_sum_up_what_their_nodes_have() {
    let mut screen = many();
    screen.press("b b");
    let cluster = &screen.state.cluster;
    let nodes = cluster.nodes(screen.state.cluster_context());
    let rows = cluster.node_rows(&nodes);
    let heads: Vec<(&str, usize, usize)> = rows
        .iter()
        .filter_map(|row| match row {
            NodeRow::Group(group) => Some((&*group.title, group.n_nodes, group.n_withheld)),
            NodeRow::Node(_) => None,
        })
        .collect();
    let want = [
        ("zone=a", 60, 0),
        ("zone=b", 60, 0),
        ("zone=c", 60, 10),
        ("zone=d", 60, 10),
        ("no zone", 61, 10),
    ];
    assert_eq!(heads, want);
    assert_eq!(rows.len(), nodes.len() + want.len());
    // Keys move from node to node, and a click on a head selects its first one.
    screen.press("home");
    assert_eq!(selected(&screen).attributes["zone"], "a");
    screen.press("b");
    assert_eq!(screen.state.cluster.grouped_by, None, "after the last attribute");
}

#[test]
fn nodes_are_found_by_what_they_declare() {
    let mut screen = many();
    screen.type_text("/gpu=a100,zone=b");
    screen.press("enter");
    let nodes = screen.state.cluster.nodes(screen.state.cluster_context());
    assert_eq!(nodes.len(), 15);
    assert!(nodes.iter().all(|node| node.attribute_text() == "gpu=a100,zone=b"));
}
