//! Executions seen from outside: without a roll call, spares, signatures, quorums and cancellation.

use super::*;
use crate::message::{
    CallDigest, Message, NodeResult, Offer, SignedCall, WorkOrder, WorkOrderResponse,
};
use crate::peers::Peer;

/// Reaction of an impostor to work orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// No response.
    Silence,
    /// Reports that it is full.
    Refusal,
    /// Reports that no node could run the order.
    FinalRefusal,
    /// Returns an unsigned forged result.
    Unsigned,
    /// Returns a forged result with the signature of another text.
    Forged,
}

/// Adds a peer that offers `function` with more slots than any worker, so that it is chosen first,
/// and that has this reaction to its orders. Returns the peer's id.
pub(super) async fn impostor(cluster: &Cluster, function: &str, reaction: Reaction) -> PeerId {
    let reply = move |_: &PeerId, received| match received {
        Message::WorkOrder(order) => reaction.answer(order).map(Message::WorkOrderResponse),
        _ => None,
    };
    cluster.replying(Some(offering(function)), reply).await
}

fn offering(function: &str) -> Offer {
    Offer {
        role: "worker".into(),
        functions: vec![function.to_owned()],
        slots: 1_000_000_000,
        slots_free: 1_000_000_000,
        ..Offer::default()
    }
}

impl Reaction {
    fn answer(self, order: WorkOrder) -> Option<WorkOrderResponse> {
        let refused = WorkOrderResponse {
            request_id: order.request_id.clone(),
            code: Code::ERROR,
            error_message: "no free slot".into(),
            is_final: self == Self::FinalRefusal,
            ..WorkOrderResponse::default()
        };
        match self {
            Self::Silence => None,
            Self::Refusal | Self::FinalRefusal => Some(refused),
            Self::Unsigned => Some(answer_to(order, "")),
            Self::Forged => {
                let worker = Identity::random();
                let call = WorkOrder { method: "another.wasm".into(), ..order.clone() };
                let call = CallDigest::new(&call, worker.peer_id());
                let (request_id, function_id) = (&*order.request_id, "another function");
                let result = NodeResult { code: Code::OK, ..NodeResult::default() };
                let result = result.sign(SignedCall { request_id, function_id, call }, &worker);
                Some(WorkOrderResponse {
                    request_id: order.request_id,
                    code: Code::OK,
                    result,
                    ..WorkOrderResponse::default()
                })
            }
        }
    }
}

/// Returns the head's record of an execution.
pub(super) async fn known(cluster: &Cluster, request_id: &Value) -> Value {
    let path = format!("/api/v1/executions/{}", request_id.as_str().unwrap());
    let (status, execution) = get(cluster.head.api_address().unwrap(), &path).await;
    assert_eq!(status, 200, "{execution}");
    execution
}

/// Waits until the head knows that all workers hold `function`.
pub(super) async fn offered(cluster: &Cluster, function: &content::Function) {
    let head = cluster.head.head().unwrap();
    until_true(|| {
        let peers = head.peers();
        let holds = |(_, peer): &&(_, Peer)| peer.offer.functions.contains(&function.id);
        peers.iter().filter(holds).count() >= cluster.workers.len()
    })
    .await;
}

pub(super) fn answering_within(within: Duration) -> WorkOptions {
    WorkOptions { response_within: within, ..WorkOptions::usual() }
}

#[tokio::test]
async fn workers_with_fresh_offers_get_orders_without_a_roll_call() {
    let cluster = Cluster::of(&[&[], &["gpu"]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let first = cluster.execute(request(&hello, 2)).await;
    assert_eq!(known(&cluster, &first["request_id"]).await["warm"], false);
    offered(&cluster, &hello).await;
    let n_calls = || {
        let text = cluster.head.head().unwrap().metrics_text();
        text.lines()
            .filter(|line| line.starts_with("b7s_node_rollcalls_published{"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let before = n_calls();
    for _ in 0..20 {
        let answer = cluster.execute(request(&hello, 2)).await;
        assert_eq!(answer["code"], "200", "{answer}");
        let execution = known(&cluster, &answer["request_id"]).await;
        assert_eq!(execution["warm"], true, "{execution}");
        for part in execution["peers"].as_array().unwrap() {
            assert_eq!((&part["state"], &part["exit_code"]), (&json!("answered"), &json!(0)));
            assert_eq!(part["signed"], true);
            assert!(part["usage"]["wall_clock_time"].as_u64().unwrap() > 0, "{part}");
            assert!(part["answered_ms"].as_f64() >= part["dispatched_ms"].as_f64());
        }
    }
    let mut grouped = request(&hello, 1);
    grouped["subgroup"] = json!("gpu");
    let answer = cluster.execute(grouped).await;
    assert_eq!(known(&cluster, &answer["request_id"]).await["warm"], true);
    assert_eq!(answer["cluster"]["peers"], json!([cluster.workers[1].peer_id().as_str()]));
    assert_eq!(n_calls(), before);
}

#[tokio::test]
async fn requests_beyond_the_number_of_slots_wait_and_succeed() {
    let mut cluster = Cluster::of(&[]).await;
    cluster.add_worker(&[], LIMITS_DEFAULT, 2).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 1)).await;
    offered(&cluster, &hello).await;
    let executions = (0..40).map(|_| cluster.execute(request(&hello, 1)));
    for answer in futures::future::join_all(executions).await {
        assert_eq!(answer["code"], "200", "{answer}");
    }
}

#[tokio::test]
async fn slots_offered_during_a_roll_call_are_used() {
    let cluster = Cluster::of(&[]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let (network, mut events) = cluster.stranger().await;
    let (head, id) = (cluster.head.peer_id().clone(), network.peer_id().clone());
    let offer = offering(&hello.id.to_string());
    cluster.group.spawn("offers in place of a report", async move {
        while let Some(event) = events.recv().await {
            let (Event::Gossip { bytes, .. } | Event::Message { bytes, .. }) = event else {
                continue;
            };
            match Message::read(&bytes) {
                Ok(Message::RollCall(_)) => {
                    network.tell(&head, OFFER_PROTOCOL, &message(&offer)).await.unwrap();
                }
                Ok(Message::WorkOrder(order)) => {
                    let answer = message(&Message::WorkOrderResponse(answer_to(order, "")));
                    network.tell(&head, WORK_PROTOCOL, &answer).await.unwrap();
                }
                _ => {}
            }
        }
    });
    let answer = cluster.execute(request(&hello, 1)).await;
    assert_eq!(
        (&answer["code"], &answer["cluster"]["peers"]),
        (&json!("200"), &json!([id.as_str()])),
        "{answer}"
    );
    let execution = known(&cluster, &answer["request_id"]).await;
    assert_eq!(execution["warm"], false, "there was a roll call");
}

#[tokio::test]
async fn unsigned_results_are_accepted_unless_signatures_are_required() {
    let cluster = Cluster::of(&[]).await;
    let function = cluster.add("hello.wasm", HELLO).await;
    let peer = impostor(&cluster, &function.id.to_string(), Reaction::Unsigned).await;
    let answer = cluster.execute(request(&function, 1)).await;
    assert_eq!(
        (&answer["code"], &answer["cluster"]["peers"]),
        (&json!("200"), &json!([peer.as_str()]))
    );
    assert_eq!(known(&cluster, &answer["request_id"]).await["peers"][0]["signed"], false);
    cluster.group.shutdown().await;

    let work = WorkOptions { signatures: SignaturePolicy::Required, ..WorkOptions::usual() };
    let cluster = Cluster::with(work).await;
    let function = cluster.add("hello.wasm", HELLO).await;
    let peer = impostor(&cluster, &function.id.to_string(), Reaction::Unsigned).await;
    let answer = cluster.execute(request_within(&function, 1, 1)).await;
    assert_eq!(answer["code"], "500", "{answer}");
    let want =
        format!("0 of 1 node returned a result: {peer} returned a result without a signature");
    assert_eq!(answer["message"], json!(want));
}

#[tokio::test]
async fn malformed_response_fails_the_order_immediately() {
    let cluster = Cluster::with(answering_within(Duration::from_mins(10))).await;
    let function = cluster.add("hello.wasm", HELLO).await;
    let reply = |_: &PeerId, received| match received {
        Message::WorkOrder(order) => {
            let (kind, request_id) = ("MsgWorkOrderResponse", order.request_id);
            Some(json!({"type": kind, "request_id": request_id, "code": 200}))
        }
        _ => None,
    };
    let peer = cluster.replying(Some(offering(&function.id.to_string())), reply).await;
    let answer = timeout(WITHIN, cluster.execute(request_within(&function, 1, 1))).await.unwrap();
    let want = format!("{peer} returned a malformed response (malformed message: invalid type");
    assert!(answer["message"].as_str().unwrap().contains(&want), "{answer}");
}

#[tokio::test]
async fn quorum_of_equal_results_ends_the_execution() {
    let mut cluster = Cluster::with(answering_within(Duration::from_mins(1))).await;
    for _ in 0..2 {
        cluster.add_worker(&[], LIMITS_DEFAULT, 4).await;
    }
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 2)).await;
    offered(&cluster, &hello).await;
    let silent = impostor(&cluster, &hello.id.to_string(), Reaction::Silence).await;
    let mut request = request(&hello, 3);
    request["config"]["quorum"] = json!(2);
    let answer =
        timeout(WITHIN, cluster.execute(request)).await.expect("the third worker is not awaited");
    assert_eq!(answer["code"], "200", "{answer}");
    assert_eq!(answer["results"][0]["peers"], texts(&cluster.ids()));
    assert_eq!(answer["cluster"]["peers"], texts(&cluster.ids()), "the third has not responded");
    let execution = known(&cluster, &answer["request_id"]).await;
    let parts = execution["peers"].as_array().unwrap();
    let part = parts.iter().find(|part| part["peer_id"] == silent.as_str()).unwrap();
    assert_eq!(part["state"], "canceled");
}

#[tokio::test]
async fn response_names_the_worker_that_was_lost() {
    let mut cluster = Cluster::of(&[]).await;
    let limits = Limits { wall: Duration::from_secs(2), ..LIMITS_DEFAULT };
    for _ in 0..2 {
        cluster.add_worker(&[], limits, 1).await;
    }
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let killing = async {
        for worker in &cluster.workers {
            busy(worker).await;
        }
        cluster.workers[0].working.shutdown().await;
    };
    let mut asked = request(&sleep, 2);
    asked["config"]["threshold"] = json!(1.0);
    let (answer, ()) = tokio::join!(cluster.execute(asked), killing);
    assert_eq!(answer["code"], "206", "{answer}");
    assert_eq!(answer["results"][0]["peers"], json!([cluster.workers[1].peer_id().as_str()]));
    assert_eq!(answer["cluster"]["peers"], texts(&cluster.ids()), "{answer}");
}

/// Starts a cluster with a long run on its only worker.
pub(super) async fn sleeping() -> (Cluster, Value) {
    let mut cluster = Cluster::with(answering_within(Duration::from_mins(10))).await;
    let limits = Limits { wall: Duration::from_mins(10), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 1).await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let request = request(&sleep, 1);
    (cluster, request)
}

#[tokio::test]
async fn deleting_an_execution_cancels_it_on_its_worker() {
    let (cluster, request) = sleeping().await;
    let address = cluster.head.api_address().unwrap();
    let deleting = async {
        busy(&cluster.workers[0]).await;
        let worker = cluster.workers[0].role.worker().unwrap();
        let slots = worker.slots_for(cluster.head.peer_id());
        assert_eq!(slots, (1, 1), "the head's own run does not reduce the offer");
        let (_, list) = get(address, "/api/v1/executions").await;
        let execution = &list["executions"][0];
        assert!(["compiling", "running"].contains(&execution["state"].as_str().unwrap()));
        let path = format!("/api/v1/executions/{}", execution["request_id"].as_str().unwrap());
        send(address, &format!("DELETE {path}"), "", "").await
    };
    let (answer, (status, deleted)) = tokio::join!(cluster.execute(request), deleting);
    assert_eq!((status, &answer["code"]), (200, &json!("499")), "{answer}");
    assert_eq!(deleted["state"], "canceled", "{deleted}");
    assert_eq!(answer["message"], "the execution was canceled");
    idle(&cluster).await;
    assert_eq!(known(&cluster, &answer["request_id"]).await["state"], "canceled");
    let (status, _) = send(address, "DELETE /api/v1/executions/unknown", "", "").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn execution_is_canceled_on_its_worker_when_the_client_disconnects() {
    let (cluster, request) = sleeping().await;
    let stream = executing(&cluster, &request).await;
    busy(&cluster.workers[0]).await;
    drop(stream);
    idle(&cluster).await;
    all_ended(&cluster).await;
    let head = cluster.head.head().unwrap();
    assert_eq!(head.executions().list(1)[0].state, "canceled");
}

#[tokio::test]
async fn worker_cancels_the_orders_of_a_failed_head() {
    let (cluster, request) = sleeping().await;
    let _stream = executing(&cluster, &request).await;
    busy(&cluster.workers[0]).await;
    cluster.head.working.shutdown().await;
    idle(&cluster).await;
}

#[tokio::test]
async fn closing_a_line_cancels_only_the_orders_on_it() {
    let mut cluster = Cluster::of(&[]).await;
    let limits = Limits { wall: Duration::from_secs(2), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 2).await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let (head, worker) = (cluster.head.head().unwrap(), cluster.workers[0].peer_id());
    // The head has opened only line 0 so far.
    for (number, code) in [(7, "200"), (0, "204")] {
        let ending = async {
            busy(&cluster.workers[0]).await;
            head.note_line_closed(worker, number);
        };
        let (answer, ()) = tokio::join!(cluster.execute(request(&sleep, 1)), ending);
        assert_eq!(answer["code"], code, "line {number}: {answer}");
    }
}

#[tokio::test]
async fn outputs_that_differ_only_in_invalid_utf8_are_separate_groups() {
    let cluster = Cluster::of(&[&[], &[], &[]]).await;
    // Writes eight random bytes in 0xf0..=0xff, whose text is the same for all of them.
    let noise = cluster
        .add(
            "noise.wasm",
            r#"(module
            (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_write"
                (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "\10\00\00\00\08\00\00\00")
            (func (export "_start")
                (drop (call $random (i32.const 16) (i32.const 8)))
                (i64.store (i32.const 16)
                    (i64.or (i64.load (i32.const 16)) (i64.const 0xf0f0f0f0f0f0f0f0)))
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#,
        )
        .await;
    let answer = cluster.execute(request(&noise, 3)).await;
    assert_eq!(answer["code"], "200", "{answer}");
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 3, "{answer}");
    for group in results {
        assert_eq!(group["result"]["stdout"], "\u{fffd}".repeat(8), "{answer}");
        assert_eq!(group["result"]["stdout_sha256"].as_str().unwrap().len(), 64, "{answer}");
        assert_eq!(group["result"].get("stderr_sha256"), None, "{answer}");
    }
    let execution = known(&cluster, &answer["request_id"]).await;
    let peers = execution["peers"].as_array().unwrap();
    assert!(peers.iter().all(|peer| peer["signed"] == true), "{execution}");
}
