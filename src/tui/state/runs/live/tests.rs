use wire::executions::ExecutionPeerBody;

use super::*;

const PEER: &str = "12D3KooWA";

fn at(ms: i64) -> Timestamp {
    Timestamp::from_seconds(100) + Duration::from_millis(u64::try_from(ms).unwrap())
}

fn dispatched() -> ClusterEventKind {
    ClusterEventKind::Dispatched {
        request_id: "r".to_owned(),
        function_id: String::new(),
        peer_id: PEER.to_owned(),
    }
}

fn failed(replaced: bool) -> ClusterEventKind {
    let reason = "it left".to_owned();
    let (request_id, peer_id) = ("r".to_owned(), PEER.to_owned());
    ClusterEventKind::Failed { request_id, peer_id, reason, replaced }
}

#[track_caller]
fn check(
    told: &[(ClusterEventKind, i64)],
    want: &Stage,
    took: Option<u64>,
    counts: (usize, usize),
) {
    let mut live = RunProgress::default();
    for (kind, ms) in told {
        live.take(kind, at(*ms), Timestamp::default());
    }
    let [part] = live.parts.as_slice() else { panic!("one peer: {live:?}") };
    assert_eq!((&part.stage, part.took), (want, took.map(Duration::from_millis)));
    assert_eq!(live.counts(), counts);
}

#[test]
fn progress_of_a_peer_is_ready_then_running_then_responded() {
    let (request_id, peer_id) = ("r".to_owned(), PEER.to_owned());
    let reported = ClusterEventKind::Reported { request_id, peer_id };
    let (request_id, peer_id) = ("r".to_owned(), PEER.to_owned());
    let result = ClusterEventKind::Result { request_id, peer_id, exit_code: 3, elapsed_ms: 30.0 };
    check(&[(reported.clone(), 0)], &Stage::Ready, None, (0, 0));
    check(&[(reported.clone(), 0), (dispatched(), 10)], &Stage::Running, None, (1, 0));
    let told = [(reported, 0), (dispatched(), 10), (result, 30)];
    check(&told, &Stage::Answered { exit_code: 3 }, Some(20), (1, 1));
}

#[test]
fn failed_peer_is_counted_as_done_unless_it_is_replaced() {
    let stage = |is_replaced| Stage::Failed { reason: "it left".to_owned(), is_replaced };
    check(&[(dispatched(), 0), (failed(false), 5)], &stage(false), Some(5), (1, 1));
    check(&[(dispatched(), 0), (failed(true), 5)], &stage(true), Some(5), (0, 0));
}

#[test]
fn canceling_a_run_ends_peers_without_a_response() {
    let canceled = ClusterEventKind::Canceled { request_id: "r".to_owned() };
    check(&[(dispatched(), 0), (canceled, 8)], &Stage::Cancelled, Some(8), (1, 1));
}

#[test]
fn worker_is_shown_as_fetching_only_before_its_work_order_is_dispatched() {
    let mut live = RunProgress::default();
    live.fetching(PEER, at(0));
    assert_eq!(live.parts[0].stage, Stage::Fetching);
    live.take(&dispatched(), at(1), at(1));
    live.fetching(PEER, at(2));
    assert_eq!(live.parts[0].stage, Stage::Running);
}

#[test]
fn final_execution_report_sets_result_time_and_usage_of_a_peer() {
    let mut live = RunProgress::default();
    live.settle(&ExecutionBody {
        started_at: "1970-01-01T00:01:40Z".to_owned(),
        peers: vec![ExecutionPeerBody {
            peer_id: PEER.to_owned(),
            state: "answered".to_owned(),
            dispatched_ms: 5.0,
            answered_ms: Some(25.0),
            exit_code: Some(0),
            usage: Some(Usage { memory_max_kib: 64, ..Usage::default() }),
            ..ExecutionPeerBody::default()
        }],
        ..ExecutionBody::default()
    });
    let part = &live.parts[0];
    assert_eq!(part.stage, Stage::Answered { exit_code: 0 });
    assert_eq!(part.took, Some(Duration::from_millis(20)));
    assert_eq!(part.usage.unwrap().memory_max_kib, 64);
}

#[test]
fn events_that_arrive_before_their_run_are_stored() {
    let mut early = Early::default();
    early.progress_of("a").take(&dispatched(), at(0), at(0));
    for number in 0..EARLY_MAX - 1 {
        early.progress_of(&format!("other {number}"));
    }
    assert_eq!(early.claim("a").parts.len(), 1);
    assert_eq!(early.claim("a").parts.len(), 0, "claimed progress is removed");
    for number in 0..2 * EARLY_MAX {
        early.progress_of(&format!("more {number}"));
    }
    assert_eq!(early.0.len(), EARLY_MAX);
}

#[test]
fn peer_that_gets_no_work_order_is_not_shown_as_fetching_after_the_run() {
    let reported = |peer: &str| ClusterEventKind::Reported {
        request_id: "r".to_owned(),
        peer_id: peer.to_owned(),
    };
    let mut live = RunProgress::default();
    live.take(&reported(PEER), at(0), at(0));
    live.take(&reported("two"), at(0), at(0));
    live.fetching("two", at(1));
    live.take(&dispatched(), at(2), at(2));
    let body = serde_json::json!({
        "request_id": "r", "state": "done", "function_id": "bafy", "method": "a.wasm",
        "number_of_nodes": 1, "started_at": "1970-01-01T00:01:40Z", "elapsed_ms": 30.0,
    });
    live.settle(&serde_json::from_value(body).unwrap());
    live.fetching("three", at(40));
    let stage = |peer: &str| {
        let part = live.parts.iter().find(|part| part.peer_id == peer);
        part.map(|part| part.stage.clone())
    };
    assert_eq!(stage("two"), Some(Stage::Spare));
    assert_eq!(stage("three"), Some(Stage::Spare), "a peer that reports after the end is spare");
}
