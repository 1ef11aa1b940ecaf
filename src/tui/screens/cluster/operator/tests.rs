use std::time::Duration;

use wire::nodes::NodeOrderBody;

use super::*;
use crate::event::Event;
use crate::harness::{self, Harness};
use crate::screens::cluster::state::NodeRow;

/// Returns a screen that lists many nodes.
fn many(width: u16, height: u16) -> Harness {
    let mut screen = Harness::ready(width, height);
    screen.take(Event::Nodes(screen.head(), Ok(harness::many_nodes()), Duration::ZERO));
    screen.state.notices.clear();
    screen.take_effects();
    screen
}

/// Returns the selected node.
fn selected(screen: &Harness) -> Node {
    screen.state.cluster.table(screen.state.cluster_context()).node().unwrap().clone()
}

fn change(screen: &Harness, peer_id: &str, patch: NodePatch) -> Effect {
    let peer_ids = vec![peer_id.to_owned()];
    Effect::ChangeNode(screen.head(), NodeChange { peer_ids, patch, group: None })
}

#[test]
fn cordoning_asks_for_confirmation_and_uncordoning_does_not() {
    let mut screen = many(160, 45);
    screen.press("c");
    assert!(screen.state.overlays.is_empty(), "the head itself is selected");
    screen.press("down");
    let id = selected(&screen).peer_id;
    screen.press("c");
    screen.shows(&["Cordon this node?"]);
    assert_eq!(screen.effects_of("n"), []);
    screen.press("c y");
    let patch = NodePatch { cordoned: Some(true), ..NodePatch::default() };
    assert_eq!(screen.take_effects(), [change(&screen, &id, patch)]);
    screen.type_text("/cordoned");
    screen.press("enter c");
    let id = selected(&screen).peer_id;
    let patch = NodePatch { cordoned: Some(false), ..NodePatch::default() };
    assert_eq!(screen.take_effects(), [change(&screen, &id, patch)]);
}

#[test]
fn approval_dialog_shows_the_full_peer_id_and_then_the_outcome() {
    let mut screen = many(160, 45);
    screen.type_text("/pending");
    screen.press("enter A");
    let id = selected(&screen).peer_id;
    screen.shows(&[&id]);
    screen.press("y");
    let patch = NodePatch { approval: Some(NodeApproval::Approved), ..NodePatch::default() };
    assert_eq!(screen.take_effects(), [change(&screen, &id, patch)]);
    let mut nodes = harness::many_nodes().into_iter();
    let mut node = nodes.find(|node| node.peer_id == id).unwrap();
    node.approval = Some(NodeApproval::Approved);
    let detail = NodeDetail { node: node.clone(), orders: Vec::new() };
    screen.take(Event::NodeChanged(screen.head(), Ok(detail)));
    screen.shows(&["is approved, and gets work"]);
    assert!(screen.take_effects().contains(&Effect::LoadNodes(screen.head())));
    node.cordoned = true;
    node.running = 1;
    let detail = NodeDetail { node: node.clone(), orders: vec![NodeOrderBody::default()] };
    screen.take(Event::NodeChanged(screen.head(), Ok(detail)));
    screen.shows(&["is cordoned, and drains"]);
    screen.take(Event::Nodes(screen.head(), Ok(vec![node.clone()]), Duration::ZERO));
    node.cordoned = false;
    let detail = NodeDetail { node, orders: Vec::new() };
    screen.take(Event::NodeChanged(screen.head(), Ok(detail)));
    screen.shows(&["gets work again"]);
    let failure = Failure { what: "change the node".to_owned(), ..Failure::default() };
    screen.take(Event::NodeChanged(screen.head(), Err(failure)));
    screen.shows(&["failed to change the node"]);
}

#[test]
fn row_of_a_node_group_shows_sums_of_its_nodes() {
    let mut screen = many(160, 45);
    screen.press("b b");
    let cluster = &screen.state.cluster;
    let rows = cluster.table(screen.state.cluster_context()).rows;
    let heads: Vec<(&str, usize, usize)> = rows
        .iter()
        .filter_map(|row| match row {
            NodeRow::Group(group) => Some((&*group.title, group.n_nodes(), group.n_withheld)),
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
    assert_eq!(rows.len(), want.len(), "all are folded");
    screen.press("b");
    assert_eq!(screen.state.cluster.grouped_by, None, "after the last attribute");
}

#[test]
fn keys_fold_and_unfold_one_or_all_groups() {
    let mut screen = many(160, 45);
    let n_rows =
        |screen: &Harness| screen.state.cluster.table(screen.state.cluster_context()).rows.len();
    screen.press("b b home enter");
    assert_eq!((n_rows(&screen), screen.state.is_zoomed), (65, false));
    screen.press("down down");
    assert_eq!(selected(&screen).attributes["zone"], "a");
    screen.press("space");
    assert_eq!(n_rows(&screen), 5, "a node's group is folded, too");
    assert_eq!(screen.state.cluster.group.as_deref(), Some("zone=a"));
    screen.press("space end");
    assert_eq!((n_rows(&screen), screen.state.cluster.group.as_deref()), (65, Some("no zone")));
    screen.press("B");
    assert_eq!(n_rows(&screen), 5);
    screen.press("B home down enter");
    assert_eq!(
        (n_rows(&screen), screen.state.is_zoomed),
        (306, true),
        "with a node selected, the key zooms"
    );
    screen.press("z B :");
    screen.type_text("12D3KooWManyzz1W");
    screen.press("enter");
    assert!(selected(&screen).peer_id.contains("zz1W"), "the palette finds nodes in folded groups");
    screen.take(Event::Nodes(screen.head(), Ok(harness::nodes()), Duration::ZERO));
    assert_eq!(n_rows(&screen), 5, "four nodes without a zone follow the row of their group");
}

#[test]
fn group_decision_applies_to_its_workers_after_confirmation() {
    let ask = |keys: &str| {
        let mut screen = many(80, 24);
        screen.press("b b home down down");
        assert_eq!(screen.state.cluster.group.as_deref(), Some("zone=c"));
        screen.press(keys);
        screen
    };
    for (keys, question, n_nodes, patch) in [
        (
            "c",
            "Cordon 50 of 60 nodes?",
            50,
            NodePatch { cordoned: Some(true), ..NodePatch::default() },
        ),
        (
            "X",
            "Refuse 60 of 60 nodes?",
            60,
            NodePatch { approval: Some(NodeApproval::Refused), ..NodePatch::default() },
        ),
    ] {
        let mut screen = ask(keys);
        screen.shows(&[question]);
        assert_eq!(screen.take_effects(), [], "a question is shown first");
        assert_eq!(screen.effects_of("n"), []);
        screen.press(keys);
        let asked = screen.effects_of("y");
        let [Effect::ChangeNode(_, change)] = asked.as_slice() else { panic!("{asked:?}") };
        let group = Some(("zone=c".to_owned(), 60));
        assert_eq!((change.peer_ids.len(), change.patch, &change.group), (n_nodes, patch, &group));
        let outcome = GroupChange { change: change.clone(), n_changed: n_nodes, failure: None };
        screen.take(Event::GroupChanged(screen.head(), outcome.clone()));
        assert!(screen.text().contains(&format!("{n_nodes} nodes of zone=c are")));
        let why = "connection refused".to_owned();
        let failure = Some(Failure { why, ..Failure::default() });
        screen.take(Event::GroupChanged(
            screen.head(),
            GroupChange { n_changed: 20, failure, ..outcome },
        ));
        let want = format!("failed to change {} of {n_nodes} nodes of zone=c", n_nodes - 20);
        screen.shows(&[&want]);
        assert!(screen.take_effects().contains(&Effect::LoadNodes(screen.head())));
    }
    let mut screen = ask("A");
    screen.shows(&["nothing to change"]);
    screen.press("end A");
    screen.shows(&["Approve 10 of 60 nodes?"]);
}

#[test]
fn cordon_key_uncordons_a_group_with_only_cordoned_workers() {
    let mut screen = many(160, 45);
    let mut nodes = harness::many_nodes();
    for node in &mut nodes {
        node.cordoned = true;
    }
    screen.take(Event::Nodes(screen.head(), Ok(nodes), Duration::ZERO));
    screen.press("b b home c");
    screen.shows(&["Uncordon 60 of 60 nodes?"]);
    let asked = screen.effects_of("y");
    let [Effect::ChangeNode(_, change)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(change.patch.cordoned, Some(false));
}

#[test]
fn nodes_can_be_searched_by_attributes() {
    let mut screen = many(160, 45);
    screen.type_text("/gpu=a100,zone=b");
    screen.press("enter");
    let nodes = screen.state.cluster.nodes(screen.state.cluster_context());
    assert_eq!(nodes.len(), 15);
    assert!(nodes.iter().all(|node| node.attribute_text() == "gpu=a100,zone=b"));
}
