//! Allowed peers and malformed messages.

use std::collections::BTreeSet;

use tokio::sync::mpsc;

use super::executions::sleeping;
use super::*;
use crate::message::{ExecuteReply, frame};
use crate::network::AllowedPeers;
use crate::network::line::{Frame, Incoming};
use crate::node::server::RestToken;
use crate::peers::NodeOffer;

fn only(peer: &PeerId) -> BTreeSet<PeerId> {
    [peer.clone()].into()
}

/// Adds a worker to the cluster and waits until the head is connected to it.
async fn add(cluster: &mut Cluster, identity: Identity, allowed: AllowedPeers) {
    let added = cluster.start_worker(|options| {
        options.identity = identity;
        options.connectivity.allowed = allowed;
    });
    let id = added.await;
    let head = cluster.head.head().unwrap();
    until_true(|| {
        head.peers().iter().any(|(peer, it)| *peer == id && it.topics.contains(GENERAL_TOPIC))
    })
    .await;
}

#[tokio::test]
async fn worker_executes_orders_of_configured_heads_only() {
    let mut cluster = Cluster::of(&[]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let other = Identity::random();
    for heads in [Some(only(other.peer_id())), Some(only(cluster.head.peer_id()))] {
        add(&mut cluster, Identity::random(), heads).await;
    }
    let obedient = cluster.workers[1].peer_id().to_string();
    let answer = cluster.execute(request_within(&hello, -1, 4)).await;
    assert_eq!(answer["cluster"]["peers"], json!([obedient]), "{answer}");
}

#[tokio::test]
async fn head_uses_configured_workers_only() {
    let (known, other) = (Identity::random(), Identity::random());
    let allowed = Some(only(known.peer_id()));
    let mut cluster = Cluster::headed_by(|options| options.connectivity.allowed = allowed).await;
    for identity in [other, known.clone()] {
        add(&mut cluster, identity, None).await;
    }
    let hello = cluster.add("hello.wasm", HELLO).await;
    let mut request = request(&hello, 1);
    for _ in 0..3 {
        let answer = cluster.execute(request.clone()).await;
        assert_eq!(answer["cluster"]["peers"], json!([known.peer_id().as_str()]), "{answer}");
    }
    request["config"] = json!({"number_of_nodes": 2, "timeout": 1});
    assert_eq!(cluster.execute(request).await["code"], "408");
}

/// Executes a short function on one worker until the code of the response is `code`. Fails before an
/// offer would expire.
async fn execute_until(cluster: &Cluster, code: &str) -> Value {
    let request = request_within(&cluster.add("hello.wasm", HELLO).await, 1, 1);
    until(Duration::from_secs(40), || async {
        let answer = cluster.execute(request.clone()).await;
        if answer["code"] == code { Ok(answer) } else { Err(answer) }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn removed_head_loses_its_lines_and_orders_on_the_worker() {
    let (cluster, mut request) = sleeping().await;
    // No other worker could replace this one, so the search for a spare need not be long.
    request["config"]["timeout"] = json!(4);
    let worker = &cluster.workers[0];
    let (other, _events) = cluster.stranger_of(worker).await;
    let (line, mut frames) = other.open_line(worker.peer_id(), LINE_PROTOCOL).await.unwrap();
    line.send(Frame { kind: frame::PING, content: "".into() }).await.unwrap();
    assert!(timeout(WITHIN, frames.next()).await.unwrap().is_some());
    let removing = async {
        busy(worker).await;
        worker.set_allowed(Some(only(Identity::random().peer_id())));
        idle(&cluster).await;
    };
    let (answer, ()) = tokio::join!(cluster.execute(request), removing);
    assert_ne!(answer["code"], "200", "{answer}");
    assert!(timeout(WITHIN, frames.next()).await.unwrap().is_none(), "the line is closed");
    execute_until(&cluster, "408").await;
    let head = cluster.head.head().unwrap();
    until_true(|| head.slots_of(worker.peer_id()).is_none()).await;
    worker.set_allowed(Some(only(cluster.head.peer_id())));
    execute_until(&cluster, "200").await;
}

#[tokio::test]
async fn removed_worker_gets_no_orders_and_its_results_are_dropped() {
    let (cluster, request) = sleeping().await;
    let worker = &cluster.workers[0];
    let removing = async {
        busy(worker).await;
        cluster.head.set_allowed(Some(only(Identity::random().peer_id())));
        idle(&cluster).await;
    };
    let (answer, ()) = tokio::join!(cluster.execute(request), removing);
    assert_ne!(answer["code"], "200", "{answer}");
    let refused = execute_until(&cluster, "408").await;
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.ends_with("1 more is not listed in --accept (see triptych nodes)"),
        "{message}"
    );
    cluster.head.set_allowed(Some(only(worker.peer_id())));
    execute_until(&cluster, "200").await;
}

/// Waits until `peer` is disconnected.
async fn disconnected(events: &mut mpsc::Receiver<Event>, peer: &PeerId) {
    let waiting = async {
        while !matches!(events.recv().await.unwrap(), Event::Disconnected(id) if id == *peer) {}
    };
    timeout(WITHIN, waiting).await.unwrap();
}

#[tokio::test]
async fn peer_that_repeats_malformed_messages_is_banned_without_affecting_work() {
    let cluster = Cluster::of(&[&[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let (bad, mut at_bad) = cluster.stranger().await;
    let head = cluster.head.peer_id();
    let sending = async {
        for n in 0..500 {
            // Fails once the peer is banned.
            drop(bad.tell(head, WORK_PROTOCOL, format!("nonsense {n}").as_bytes()).await);
        }
    };
    tokio::select! { () = sending => {}, () = disconnected(&mut at_bad, head) => {} }
    let is_refused = || async {
        let sent = bad.tell(head, WORK_PROTOCOL, b"{}").await;
        sent.err().ok_or("it is still heard")
    };
    until(WITHIN, is_refused).await.unwrap();
    assert_eq!(cluster.execute(request(&hello, 1)).await["code"], "200");
}

/// A head opens more lines than a worker accepts from all heads together, and sends nothing.
#[tokio::test]
async fn head_that_opens_many_lines_does_not_exclude_other_heads() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let (greedy, _events) = cluster.stranger_of(worker).await;
    let mut lines = Vec::new();
    for _ in 0..300 {
        // Lines beyond the maximum are closed by the worker after they were opened.
        lines.extend(greedy.open_line(worker.peer_id(), LINE_PROTOCOL).await.ok());
    }
    let (other, _events) = cluster.stranger_of(worker).await;
    let (line, mut frames) = other.open_line(worker.peer_id(), LINE_PROTOCOL).await.unwrap();
    line.send(Frame { kind: frame::PING, content: "".into() }).await.unwrap();
    let answer = timeout(WITHIN, frames.next()).await.unwrap();
    assert!(matches!(answer, Some(Incoming::Whole(Frame { kind: frame::PONG, .. }))));
}

#[tokio::test]
async fn head_that_sends_malformed_frames_is_banned_without_affecting_work() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let (bad, mut at_bad) = cluster.stranger_of(worker).await;
    let (line, _frames) = bad.open_line(worker.peer_id(), LINE_PROTOCOL).await.unwrap();
    for n in 0..400 {
        let kind = [frame::ORDER, frame::CANCEL, frame::ANSWER, 99][n % 4];
        let content = format!("nonsense {n}").into();
        // Fails once the head is banned.
        if line.send(Frame { kind, content }).await.is_err() {
            break;
        }
    }
    disconnected(&mut at_bad, worker.peer_id()).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    assert_eq!(cluster.execute(request(&hello, 1)).await["code"], "200");
}

#[tokio::test]
async fn roll_calls_for_missing_functions_do_not_block_other_roll_calls() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let held = worker.functions();
    let held = held.add("hello.wasm".parse().unwrap(), wat::parse_str(HELLO).unwrap()).await;
    let (bad, mut at_bad) = cluster.stranger_of(worker).await;
    for n in 0_u32..300 {
        let missing = FunctionId::from_module(&n.to_be_bytes()).to_string();
        let call = roll_call(&missing, &format!("missing-{n}"));
        until(WITHIN, || bad.publish(GENERAL_TOPIC, call.clone())).await.unwrap();
    }
    let call = roll_call(&held.unwrap().id.to_string(), "held");
    bad.publish(GENERAL_TOPIC, call).await.unwrap();
    let mut unanswered = Vec::new();
    let answered = async {
        loop {
            match at_bad.recv().await.unwrap() {
                Event::Question { answer, .. } => unanswered.push(answer),
                Event::Message { bytes, .. } => {
                    if let Ok(Message::RollCallResponse(response)) = Message::read(&bytes)
                        && response.request_id == "held"
                    {
                        return response.code;
                    }
                }
                _ => {}
            }
        }
    };
    assert_eq!(timeout(Duration::from_secs(10), answered).await.unwrap(), Code::ACCEPTED);
}

#[tokio::test]
async fn offer_of_a_disconnected_peer_is_not_stored() {
    let cluster = Cluster::of(&[]).await;
    let head = cluster.head.head().unwrap();
    let gone = Identity::random().peer_id().clone();
    head.note_offer(&gone, NodeOffer { n_slots: 4, n_usable: 4, ..NodeOffer::default() }.into());
    assert_eq!(head.slots_of(&gone), None);
}

#[tokio::test]
async fn too_long_group_name_is_rejected() {
    let cluster = Cluster::of(&[]).await;
    let (bad, _at_bad) = cluster.stranger().await;
    assert!(bad.subscribe(&"x".repeat(300)).await.is_err());
    assert!(bad.subscribe(&"x".repeat(128)).await.is_ok());
}

/// Waits for the response to an `MsgExecute`.
async fn receive_reply(events: &mut mpsc::Receiver<Event>) -> ExecuteReply {
    loop {
        let event = timeout(WITHIN, events.recv()).await.unwrap().unwrap();
        if let Event::Message { bytes, .. } = event
            && let Ok(Message::ExecuteResponse(response)) = Message::read(&bytes)
        {
            return response;
        }
    }
}

#[tokio::test]
async fn head_with_a_token_executes_only_for_accepted_peers() {
    let friend = Identity::random();
    let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
    let token = "a-token-of-many-letters".parse().unwrap();
    for (allowed, wanted) in [(None, "403"), (Some(only(friend.peer_id())), "408")] {
        let folder = dir.path().join(wanted);
        let mut options = head_options(folder);
        options.work.rest.token = Some(RestToken::clone(&token));
        options.connectivity.allowed = allowed;
        let head = Node::start(options, &group, Clock::system()).await.unwrap();
        let protocols = Protocols { messages: &[WORK_PROTOCOL], ..Protocols::default() };
        let addresses = [head.addresses().remove(0)];
        let stopping = group.child();
        let (client, mut events) = peer(&stopping, friend.clone(), &addresses, protocols).await;
        while !matches!(events.recv().await.unwrap(), Event::Connected(_)) {}
        let execute = json!({
            "type": "MsgExecute", "request_id": "r1", "method": "m.wasm",
            "function_id": FunctionId::from_module(b"nowhere").to_string(),
            "config": {"timeout": 1},
        });
        client.tell(head.peer_id(), WORK_PROTOCOL, execute.to_string().as_bytes()).await.unwrap();
        let response = receive_reply(&mut events).await;
        assert_eq!(response.code.as_str(), wanted, "{}", response.message);
        stopping.shutdown().await;
    }
}

#[tokio::test]
async fn endless_runs_of_strangers_leave_slots_for_the_configured_head() {
    let mut cluster = Cluster::of(&[]).await;
    let limits = Limits { wall: Duration::from_hours(1), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 4).await;
    let (sleep, hello) =
        (cluster.add("sleep.wasm", SLEEP).await, cluster.add("h.wasm", HELLO).await);
    let worker = &cluster.workers[0];
    let mut strangers = Vec::new();
    for _ in 0..3 {
        let (stranger, events) = cluster.stranger_of(worker).await;
        for n in 0..150 {
            let order = json!({
                "type": "MsgWorkOrder", "request_id": format!("r{n}"), "config": {},
                "function_id": sleep.id.to_string(), "method": "sleep.wasm",
            });
            let order = order.to_string();
            stranger.tell(worker.peer_id(), WORK_PROTOCOL, order.as_bytes()).await.unwrap();
        }
        strangers.push((stranger, events));
    }
    busy(worker).await;
    for _ in 0..10 {
        let answer = cluster.execute(request(&hello, 1)).await;
        assert_eq!(answer["code"], "200", "{answer}");
    }
}
