use super::*;
use crate::harness::PEERS;
use crate::state::resource::{Failure, Resource};

/// Returns a worker with ten slots, as a head lists it.
fn worker(runs: u64, n_free: usize) -> NodeBody {
    NodeBody {
        peer_id: PEERS[1].to_owned(),
        role: Some("worker".to_owned()),
        connected: true,
        runs,
        agreed: runs,
        slots: Some(10),
        slots_free: Some(n_free),
        ..NodeBody::default()
    }
}

fn head_of(bodies: Vec<NodeBody>) -> HeadNodes {
    let listed = Resource::loaded(bodies, Timestamp::default());
    HeadNodes { listed, ..HeadNodes::default() }
}

/// Returns the node that `heads` list. Fails if there is not exactly one.
#[track_caller]
fn only(heads: &[HeadNodes]) -> Node {
    let [node] = nodes(heads, &Stack::default()).try_into().unwrap();
    node
}

#[test]
fn slots_of_a_peer_listed_by_two_heads_are_counted_once() {
    let node = only(&[head_of(vec![worker(40, 7)]), head_of(vec![worker(2, 6)])]);
    assert_eq!(node.slots, Some((10, Some(6))), "the lower number of free slots applies");
    assert_eq!((node.n_runs, node.n_agreed), (42, 42), "each head counts its own executions");
    assert_eq!((node.n_seen_by(), node.withheld_text()), (2, None));
}

#[test]
fn strictest_decision_of_several_heads_is_shown_with_their_number() {
    use wire::functions::NodeApproval::{Pending, Refused};
    let cordoned = |running| NodeBody { cordoned: true, running, ..worker(0, 10) };
    let decided = |approval| NodeBody { approval: Some(approval), ..worker(0, 10) };
    for (bodies, want) in [
        (vec![worker(0, 10), cordoned(0)], "cordoned 1/2"),
        (vec![cordoned(0), cordoned(0)], "cordoned"),
        (vec![cordoned(3), cordoned(0), worker(0, 10)], "draining 2/3"),
        (vec![decided(Pending), cordoned(0)], "pending 1/2"),
        (vec![decided(Pending), decided(Refused), cordoned(0)], "refused 1/3"),
    ] {
        let heads = bodies.into_iter().map(|body| head_of(vec![body]));
        let node = only(&heads.collect::<Vec<_>>());
        assert_eq!(node.withheld_text().as_deref(), Some(want));
    }
}

#[test]
fn state_from_a_failed_head_is_used_only_if_no_other_head_sees_the_peer() {
    let mut lost = head_of(vec![NodeBody { cordoned: true, ..worker(2, 0) }]);
    lost.listed.settle(Err(Failure::default()), Timestamp::default());
    let node = only(std::slice::from_ref(&lost));
    assert_eq!(node.withheld_text().as_deref(), Some("cordoned"));
    let heads = [head_of(vec![worker(40, 7)]), lost];
    let node = only(&heads);
    assert_eq!((node.withheld_by, node.slots), (None, Some((10, Some(7)))));
    assert_eq!((node.n_seen_by(), node.n_runs), (1, 42));
    let [_, lost] = heads;
    let node = only(&[head_of(Vec::new()), lost]);
    assert_eq!((node.n_seen_by(), node.is_connected), (0, None));
}
