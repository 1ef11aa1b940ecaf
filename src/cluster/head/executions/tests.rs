use model::function::FunctionId;
use model::node::PeerId;
use serde_json::json;
use task::clock::Clock;
use wire::executions::ClusterEvent;
use wire::functions::Outcome;

use super::*;
use crate::message::Code;

fn executions() -> (Executions, Events, Clock) {
    let clock = Clock::manual(Timestamp::from_seconds(1000));
    let events = Events::new(clock.clone());
    (Executions::new(events.clone()), events, clock)
}

fn order() -> Order {
    let function = FunctionId::from_module(b"module").to_string();
    let request = json!({"function_id": function, "method": "m.wasm"});
    Order::read(serde_json::from_value(request).unwrap()).unwrap()
}

fn peer() -> PeerId {
    "12D3KooWpeer1".parse().unwrap()
}

fn begin(executions: &Executions, id: &str, clock: &Clock) -> Track {
    executions.begin(id, &order(), clock.now())
}

fn done(id: &str, n_bytes: usize) -> Execution {
    let outcome = Outcome { stdout: "x".repeat(n_bytes), ..Outcome::default() };
    let groups = crate::result_groups::group([(peer(), outcome)]);
    Execution { groups, ..Execution::failed(Code::OK, id.to_owned(), String::new()) }
}

#[tokio::test(start_paused = true)]
async fn execution_is_visible_from_start_to_end() {
    let (executions, _events, clock) = executions();
    let track = begin(&executions, "r", &clock);
    assert_eq!(executions.get("r").unwrap().state, "waiting");
    track.note_dispatched(&peer());
    tokio::time::advance(Duration::from_millis(3)).await;
    let seen = executions.get("r").unwrap();
    assert_eq!((seen.state.as_str(), seen.peers[0].state.as_str()), ("running", "running"));
    assert!(matches!(executions.find("r"), Some(ExecutionStatus::InProgress)));
    let usage = Usage { wall_clock_ns: 5, ..Usage::default() };
    track.note_answer(&peer(), 7, usage, true);
    track.end(done("r", 1));
    let seen = executions.get("r").unwrap();
    assert_eq!((seen.state.as_str(), seen.code.as_deref()), ("done", Some("200")));
    let part = &seen.peers[0];
    assert_eq!((part.exit_code, part.usage, part.signed), (Some(7), Some(usage), true));
    assert_eq!((part.answered_ms, seen.elapsed_ms), (Some(3.0), 3.0));
    assert_eq!(seen.results.len(), 1);
    assert_eq!(executions.list(9)[0].results.len(), 0);
    assert!(matches!(executions.find("r"), Some(ExecutionStatus::Ended(_))));
}

#[tokio::test(start_paused = true)]
async fn dropped_execution_is_canceled() {
    let (executions, events, clock) = executions();
    let (mut followed, _share) = events.subscribe(&Client::Program).unwrap();
    drop(begin(&executions, "r", &clock));
    assert_eq!(executions.get("r").unwrap().state, "canceled");
    let ClusterEvent { kind, .. } = followed.try_recv().unwrap();
    assert_eq!(kind, ClusterEventKind::Canceled { request_id: "r".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn only_a_running_execution_can_be_canceled() {
    let (executions, _events, clock) = executions();
    assert_eq!(executions.cancel("r"), None);
    let track = begin(&executions, "r", &clock);
    assert_eq!(executions.cancel("r"), Some(true));
    assert_eq!(track.canceled().await, Cause::Caller);
    track.cancel(Execution::cut_short("r".to_owned(), Cause::Caller));
    assert_eq!(executions.get("r").unwrap().state, "canceled");
    assert_eq!(executions.cancel("r"), Some(false));
}

#[tokio::test(start_paused = true)]
async fn completed_executions_are_evicted_oldest_first_and_running_executions_never() {
    let (executions, _events, clock) = executions();
    let track = begin(&executions, "long", &clock);
    for n in 0..KEPT_MAX + 5 {
        let id = n.to_string();
        begin(&executions, &id, &clock).end(done(&id, 1));
    }
    assert!(executions.get("long").is_some() && executions.get("0").is_none());
    let listed = executions.list(usize::MAX);
    assert!(listed.len() <= KEPT_MAX);
    assert_eq!(listed.last().unwrap().request_id, "long", "it began first");
    track.end(done("long", 1));
}

#[tokio::test(start_paused = true)]
async fn large_results_evict_old_results() {
    let (executions, _events, clock) = executions();
    for id in ["a", "b", "c"] {
        begin(&executions, id, &clock).end(done(id, KEPT_BYTES_MAX / 2));
    }
    assert!(executions.get("a").is_none() && executions.get("c").is_some());
    assert!(executions.history.lock().n_bytes <= KEPT_BYTES_MAX);
}

#[tokio::test(start_paused = true)]
async fn result_above_the_limit_is_remembered_until_the_next_execution_completes() {
    let (executions, _events, clock) = executions();
    begin(&executions, "small", &clock).end(done("small", 1));
    begin(&executions, "large", &clock).end(done("large", KEPT_BYTES_MAX + 1));
    assert!(executions.get("large").is_some() && executions.get("small").is_none());
    begin(&executions, "next", &clock).end(done("next", 1));
    assert!(executions.get("large").is_none() && executions.get("next").is_some());
}

#[tokio::test(start_paused = true)]
async fn stopping_the_head_cancels_only_running_executions() {
    let (executions, _events, clock) = executions();
    begin(&executions, "ended", &clock).end(done("ended", 1));
    let tracks = ["a", "b"].map(|id| begin(&executions, id, &clock));
    let function = order().function.to_string();
    let in_progress = ["a", "b"].map(|id| (id.to_owned(), function.clone()));
    assert_eq!(executions.in_progress(), in_progress);
    executions.stop();
    for track in tracks {
        assert_eq!(track.canceled().await, Cause::Stopping);
        let request_id = track.request_id().to_owned();
        let execution = track.cancel(Execution::cut_short(request_id, Cause::Stopping));
        assert_eq!(execution.code, Code::UNAVAILABLE);
    }
    assert!(executions.in_progress().is_empty());
    assert_eq!(executions.get("ended").unwrap().state, "done");
}

#[tokio::test(start_paused = true)]
async fn failed_and_replaced_workers_are_reported_with_a_reason() {
    let (executions, events, clock) = executions();
    let (mut followed, _share) = events.subscribe(&Client::Program).unwrap();
    let track = begin(&executions, "r", &clock);
    track.note_dispatched(&peer());
    track.note_failure(&peer(), "was lost", false);
    track.note_failure(&peer(), "was lost", true);
    track.end(done("r", 1));
    let mut events_seen = Vec::new();
    while let Ok(ClusterEvent { kind, .. }) = followed.try_recv() {
        events_seen.push(kind);
    }
    let failed = |replaced| ClusterEventKind::Failed {
        request_id: "r".to_owned(),
        peer_id: peer().to_string(),
        reason: "was lost".to_owned(),
        replaced,
    };
    assert_eq!(events_seen[1..3], [failed(false), failed(true)]);
    assert!(
        matches!(events_seen[3], ClusterEventKind::Done { .. }) && events_seen.len() == 4,
        "{events_seen:?}"
    );
    let part = &executions.get("r").unwrap().peers[0];
    assert_eq!((part.state.as_str(), part.reason.as_str()), ("replaced", "was lost"));
}
