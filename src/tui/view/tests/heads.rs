//! Several heads of a cluster: the merged list of their nodes, and the head that gets a request.

use wire::functions::NodeBody;
use wire::nodes::{NodeDetail, NodePatch};

use super::*;
use crate::event::{Effect, Timer};
use crate::harness::{self, PEERS};
use crate::state::nodes::NodeChange;

/// The second head.
const OTHER_HEAD: &str = "12D3KooWB6sTmV2c8yQe1nWZ4rLx9pKf3uHj7aDg5oXi2bNv0Twk";

const HEADS: [&str; 2] = ["http://10.0.0.5:8080", "http://10.0.0.6:8080"];

/// Returns the nodes that the second head lists: itself and two of the three workers, one of which
/// it has cordoned.
fn other_nodes() -> Vec<NodeBody> {
    let mut nodes = harness::nodes();
    nodes.truncate(3);
    OTHER_HEAD.clone_into(&mut nodes[0].peer_id);
    nodes[1].runs = 9;
    nodes[1].agreed = 9;
    nodes[2].cordoned = true;
    nodes
}

fn refused() -> Failure {
    let why = format!("{}: connection refused", HEADS[1]);
    Failure::new("list the nodes", why, "check that the service runs")
}

/// Returns a screen that is connected to two heads, which both list their nodes.
fn screen() -> Harness {
    let mut screen = Harness::of_heads(STATE_SIZE, &HEADS);
    let latency = Duration::from_millis(3);
    screen.take(Event::Nodes(screen.head_at(0), Ok(harness::nodes()), latency));
    screen.take(Event::Nodes(screen.head_at(1), Ok(other_nodes()), latency));
    screen.press("1");
    screen.take_effects();
    screen
}

/// Returns the row of the node with this peer id.
#[track_caller]
fn row(screen: &Harness, peer_id: &str) -> String {
    let shown = screen.text();
    let end = peer_id.split_at(peer_id.len() - 6).1;
    let row = shown.lines().find(|line| line.contains(end));
    row.unwrap_or_else(|| panic!("{peer_id} in {shown}")).to_owned()
}

#[test]
fn peer_that_several_heads_list_has_one_row_with_the_number_of_heads() {
    let mut screen = screen();
    screen.shows(&["heads ● 2/2 live"]);
    for (peer, want) in [
        (PEERS[0], "1/2"),
        (OTHER_HEAD, "1/2"),
        (PEERS[1], "2/2"),
        (PEERS[2], "2/2 cordoned 1/2"),
        (PEERS[3], "1/2"),
    ] {
        assert!(row(&screen, peer).contains(want), "{}", row(&screen, peer));
    }
    screen.press("down down down");
    check("cluster-heads", &screen);
}

#[test]
fn rows_of_an_unreachable_head_stay_visible() {
    let mut screen = screen();
    screen.take(Event::Nodes(screen.head_at(1), Err(refused()), Duration::ZERO));
    let shown = screen.text();
    assert!(shown.contains("heads ◐ 1/2 live"), "{shown}");
    assert!(shown.contains("✗ http://10.0.0.6:8080  connection refused"), "{shown}");
    assert!(row(&screen, OTHER_HEAD).contains("0/2"), "{shown}");
    assert!(row(&screen, PEERS[2]).contains("1/2"), "{shown}");
    check("cluster-heads-one-down", &screen);
    screen.press("0");
    let shown = screen.text();
    let is_told = |line: &str| line.contains("✗ head  http://10.0.0.6:8080  ");
    let line = shown.lines().find(|line| is_told(line)).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains("  connection refused "), "{line}");
    // Each head is polled separately, so the next request to the first head does not wait for the
    // second.
    screen.take(Event::Nodes(screen.head_at(0), Ok(harness::nodes()), Duration::ZERO));
    screen.take_effects();
    screen.take(Event::TimerDue(Timer::Nodes(screen.head_at(0))));
    assert_eq!(screen.take_effects(), [Effect::LoadNodes(screen.head_at(0))]);
}

#[test]
fn decision_is_sent_to_each_head_that_sees_the_node() {
    let mut screen = screen();
    let change = |peer: &str, cordoned| NodeChange {
        peer_ids: vec![peer.to_owned()],
        patch: NodePatch { cordoned: Some(cordoned), ..NodePatch::default() },
        group: None,
    };
    let heads = [0, 1].map(|idx| screen.head_at(idx));
    let asked = |peer, cordoned| heads.map(|head| Effect::ChangeNode(head, change(peer, cordoned)));
    assert_eq!(
        screen.effects_of("down down down c y"),
        asked(PEERS[2], true),
        "even though one head has cordoned it"
    );
    let node = NodeBody { cordoned: true, ..harness::nodes().swap_remove(2) };
    screen.take(Event::NodeChanged(heads[0], Ok(NodeDetail { node, orders: Vec::new() })));
    let why = Failure::new("change the node", "the token is wrong", "set TRIPTYCH_REST_TOKEN");
    screen.take(Event::NodeChanged(heads[1], Err(why)));
    screen.shows(&["failed to change the node at http://10.0.0.6:8080  the token is wrong"]);
    let is_told = screen.state.notices.past().any(|notice| notice.text.ends_with("is cordoned"));
    assert!(is_told, "the change at the first head is reported");
    screen.take_effects();
    screen.press("down c y");
    let only = Effect::ChangeNode(heads[0], change(PEERS[3], true));
    assert_eq!(screen.take_effects(), [only], "the other head does not list the node");
}

#[test]
fn run_is_sent_to_the_first_head_that_responds() {
    let mut screen = screen();
    let heads = [0, 1].map(|idx| screen.head_at(idx));
    screen.take(Event::Nodes(heads[0], Err(refused()), Duration::ZERO));
    assert!(screen.take_effects().contains(&Effect::LoadFunctions(heads[1])));
    screen.press("e ctrl-u");
    screen.type_text(harness::FUNCTION_ID);
    let asked = screen.effects_of("tab tab a . w a s m ctrl-r");
    let Some(Effect::Execute(id, order)) = asked.last() else { panic!("{}", screen.text()) };
    assert_eq!(order.head, heads[1]);
    screen.take(Event::RunAccepted(*id, harness::REQUEST_ID.to_owned()));
    screen.take(Event::Nodes(heads[0], Ok(harness::nodes()), Duration::from_millis(3)));
    screen.shows(&["at 10.0.0.6:8080"]);
    let asked = screen.effects_of("esc ctrl-y");
    let is_at_head =
        |effect: &Effect| matches!(effect, Effect::Copy(text) if text.contains(HEADS[1]));
    assert!(asked.iter().any(is_at_head), "{asked:?}");
    screen.press("ctrl-c");
    let cancel = Effect::Cancel(*id, Some((heads[1], harness::REQUEST_ID.to_owned())));
    assert!(screen.take_effects().contains(&cancel));
}
