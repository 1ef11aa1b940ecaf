//! Allowed peers and malformed messages.

use std::collections::BTreeSet;

use super::executions::{idle, sleeping};
use super::*;
use crate::message::{ExecuteReply, RollCall, frame};
use crate::network::AllowedPeers;
use crate::network::line::{Frame, Incoming};
use crate::node::server::RestToken;
use crate::peers::NodeOffer;

fn only(peer: &PeerId) -> BTreeSet<PeerId> {
    [peer.clone()].into()
}

/// Adds a worker to the cluster and waits until the head is connected to it.
async fn add(cluster: &mut Cluster, identity: Identity, allowed: AllowedPeers) {
    let folder = cluster.dir.path().join(identity.peer_id().as_str());
    let options = NodeOptions {
        role: RoleOptions::Worker,
        boot_nodes: vec![cluster.head.addresses()[0].parse().unwrap()],
        connectivity: Connectivity { allowed, ..Connectivity::for_role(Role::Worker) },
        ..head_options(folder, identity.clone(), 0)
    };
    let worker = Node::start(options, &cluster.group, Clock::system()).await.unwrap();
    let head = cluster.head.head().unwrap();
    until(WITHIN, || async {
        let listening = head.peers().into_iter().find(|(id, _)| id == identity.peer_id());
        listening.filter(|(_, peer)| peer.topics.contains(GENERAL_TOPIC)).ok_or("not seen")
    })
    .await
    .unwrap();
    cluster.workers.push(worker);
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
    let mut request = request(&hello, -1);
    request["config"]["timeout"] = json!(4);
    let answer = cluster.execute(request).await;
    assert_eq!(answer["cluster"]["peers"], json!([obedient]), "{answer}");
    cluster.group.shutdown().await;
}

#[tokio::test]
async fn head_uses_configured_workers_only() {
    let (known, other) = (Identity::random(), Identity::random());
    let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
    let mut options = head_options(dir.path().join("head"), Identity::random(), 0);
    options.connectivity.allowed = Some(only(known.peer_id()));
    let mut cluster = Cluster::of(&[]).await;
    cluster.head = Node::start(options, &group, Clock::system()).await.unwrap();
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
    group.shutdown().await;
    cluster.group.shutdown().await;
}

/// Executes a short function on one worker until the code of the response is `code`. Fails before an
/// offer would expire.
async fn execute_until(cluster: &Cluster, code: &str) -> Value {
    let mut request = request(&cluster.add("hello.wasm", HELLO).await, 1);
    request["config"]["timeout"] = json!(1);
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
    until(WITHIN, || async { head.slots_of(worker.peer_id()).map_or(Ok(()), Err) }).await.unwrap();
    worker.set_allowed(Some(only(cluster.head.peer_id())));
    execute_until(&cluster, "200").await;
    cluster.group.shutdown().await;
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
    cluster.group.shutdown().await;
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
    let banned = async {
        while let Some(event) = at_bad.recv().await {
            if matches!(event, Event::Disconnected(peer) if peer == *head) {
                break;
            }
        }
    };
    timeout(WITHIN, async {
        tokio::select! { () = sending => {}, () = banned => {} }
    })
    .await
    .unwrap();
    until(WITHIN, || async {
        match bad.tell(head, WORK_PROTOCOL, b"{}").await {
            Ok(()) => Err("it is still heard"),
            Err(_) => Ok(()),
        }
    })
    .await
    .unwrap();
    assert_eq!(cluster.execute(request(&hello, 1)).await["code"], "200");
    cluster.group.shutdown().await;
}

#[tokio::test]
async fn worker_responds_to_a_ping_with_a_pong() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let (head, _events) = cluster.stranger_of(worker).await;
    let (line, mut frames) = head.open_line(worker.peer_id(), LINE_PROTOCOL).await.unwrap();
    line.send(Frame { kind: frame::PING, content: "".into() }).await.unwrap();
    let answer = timeout(WITHIN, frames.next()).await.unwrap().unwrap();
    let Incoming::Whole(answer) = answer else { panic!("a short frame") };
    assert_eq!(answer.kind, frame::PONG);
    cluster.group.shutdown().await;
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
    cluster.group.shutdown().await;
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
    let banned = async {
        while let Some(event) = at_bad.recv().await {
            if matches!(event, Event::Disconnected(peer) if peer == *worker.peer_id()) {
                break;
            }
        }
    };
    timeout(WITHIN, banned).await.unwrap();
    let hello = cluster.add("hello.wasm", HELLO).await;
    assert_eq!(cluster.execute(request(&hello, 1)).await["code"], "200");
    cluster.group.shutdown().await;
}

/// Returns a roll call for `function_id`.
fn call(function_id: String, request_id: String) -> Vec<u8> {
    message(&Message::RollCall(RollCall { function_id, request_id, ..RollCall::default() }))
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
        let call = call(missing, format!("missing-{n}"));
        until(WITHIN, || bad.publish(GENERAL_TOPIC, call.clone())).await.unwrap();
    }
    bad.publish(GENERAL_TOPIC, call(held.unwrap().id.to_string(), "held".into())).await.unwrap();
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
    cluster.group.shutdown().await;
}

#[tokio::test]
async fn offer_of_a_disconnected_peer_is_not_stored() {
    let cluster = Cluster::of(&[]).await;
    let head = cluster.head.head().unwrap();
    let gone = Identity::random().peer_id().clone();
    head.note_offer(&gone, NodeOffer { n_slots: 4, n_usable: 4, ..NodeOffer::default() }.into());
    assert_eq!(head.slots_of(&gone), None);
    cluster.group.shutdown().await;
}

#[tokio::test]
async fn too_long_group_name_is_rejected() {
    let cluster = Cluster::of(&[]).await;
    let (bad, _at_bad) = cluster.stranger().await;
    assert!(bad.subscribe(&"x".repeat(300)).await.is_err());
    assert!(bad.subscribe(&"x".repeat(128)).await.is_ok());
    cluster.group.shutdown().await;
}

/// Waits for the response to an `MsgExecute`.
async fn receive_reply(events: &mut tokio::sync::mpsc::Receiver<Event>) -> ExecuteReply {
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
        let mut options = head_options(folder, Identity::random(), 0);
        options.work.rest.token = Some(RestToken::clone(&token));
        options.connectivity.allowed = allowed;
        let head = Node::start(options, &group, Clock::system()).await.unwrap();
        let client = NetworkOptions {
            identity: friend.clone(),
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            port: 0,
            boot_nodes: vec![head.addresses()[0].parse().unwrap()],
            protocols: Protocols { messages: &[WORK_PROTOCOL], ..Protocols::default() },
            connectivity: Connectivity::for_role(Role::Worker),
            clock: Clock::system(),
        };
        let stopping = group.child();
        let (client, mut events) = Network::start(&stopping, client).await.unwrap();
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
    group.shutdown().await;
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
    cluster.group.shutdown().await;
}
