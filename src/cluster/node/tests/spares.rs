//! The exact number of nodes, and spares for failed nodes.

use super::executions::*;
use super::*;
use crate::message::{WorkOrder, WorkOrderResponse};

#[tokio::test]
async fn failed_worker_is_replaced_by_a_spare() {
    let mut cluster = Cluster::of(&[]).await;
    for _ in 0..2 {
        let limits = Limits { wall: Duration::from_secs(2), ..LIMITS_DEFAULT };
        cluster.add_worker(&[], limits, 1).await;
    }
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let killing = async {
        let dying = tokio::select! {
            () = busy(&cluster.workers[0]) => 0,
            () = busy(&cluster.workers[1]) => 1,
        };
        cluster.workers[dying].working.shutdown().await;
        cluster.workers[1 - dying].peer_id().to_string()
    };
    let (answer, spare) = tokio::join!(cluster.execute(request(&sleep, 1)), killing);
    assert_eq!((&answer["code"], &answer["cluster"]["peers"]), (&json!("200"), &json!([spare])));
    assert_eq!(answer["results"][0]["result"]["exit_code"], 15, "{answer}");

    let again = request(&sleep, 1);
    let killing = async {
        let last = cluster.workers.iter().find(|w| w.peer_id().as_str() == spare).unwrap();
        busy(last).await;
        last.working.shutdown().await;
    };
    let (answer, ()) = tokio::join!(cluster.execute(again), killing);
    assert_eq!(answer["code"], "204", "no worker is left: {answer}");
    let want = format!("0 of 1 node returned a result: {spare} was lost");
    assert_eq!(answer["message"], json!(want));
    assert_eq!(answer["cluster"], json!({"peers": [spare]}), "it took part");
}

#[tokio::test]
async fn refusing_or_silent_worker_is_replaced_within_the_same_request() {
    for reaction in [Reaction::Refusal, Reaction::FinalRefusal, Reaction::Silence, Reaction::Forged]
    {
        // Only the silent worker uses up this time. Its spare gets the same time.
        let mut cluster = Cluster::with(answering_within(Duration::from_secs(6))).await;
        cluster.add_worker(&[], LIMITS_DEFAULT, 4).await;
        let hello = cluster.add("hello.wasm", HELLO).await;
        // The worker does not hold the function yet, so only the roll call finds it.
        let impostor = impostor(&cluster, &hello.id.to_string(), reaction).await;
        let answer = cluster.execute(request(&hello, 1)).await;
        assert_eq!(answer["code"], "200", "{reaction:?}: {answer}");
        let worker = cluster.workers[0].peer_id();
        assert_eq!(answer["cluster"]["peers"], json!([worker.as_str()]), "{reaction:?}");
        let execution = known(&cluster, &answer["request_id"]).await;
        let first = &execution["peers"][0];
        assert_eq!(
            (&first["peer_id"], &first["state"]),
            (&json!(impostor.as_str()), &json!("replaced"))
        );
        cluster.group.shutdown().await;
    }
}

/// Adds a b7s worker that reports at the `nth` roll call of a request and responds to orders with
/// `answer`.
async fn reports_at(cluster: &Cluster, nth: usize, answer: WorkOrderResponse) -> PeerId {
    let mut n_calls = 0;
    let reply = move |_: &PeerId, received| match received {
        Message::RollCall(call) => {
            n_calls += 1;
            (n_calls == nth).then(|| Message::RollCallResponse(acceptance(call)))
        }
        Message::WorkOrder(WorkOrder { request_id, .. }) => {
            let answer = WorkOrderResponse { request_id, ..answer.clone() };
            Some(Message::WorkOrderResponse(answer))
        }
        _ => None,
    };
    cluster.replying(None, reply).await
}

#[tokio::test]
async fn execution_waits_for_a_spare_if_no_spare_has_reported_yet() {
    let cluster = Cluster::of(&[]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let full = WorkOrderResponse {
        code: Code::ERROR,
        error_message: "no free slot".into(),
        ..WorkOrderResponse::default()
    };
    let refusing = reports_at(&cluster, 1, full).await;
    let late = reports_at(&cluster, 2, answer_to(WorkOrder::default(), "")).await;
    let answer = cluster.execute(request(&hello, 1)).await;
    assert_eq!(
        (&answer["code"], &answer["cluster"]["peers"]),
        (&json!("200"), &json!([late.as_str()])),
        "{answer}"
    );
    let execution = known(&cluster, &answer["request_id"]).await;
    let states: Vec<(&str, &str)> = execution["peers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["peer_id"].as_str().unwrap(), part["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [(refusing.as_str(), "replaced"), (late.as_str(), "answered")]);
}

#[tokio::test]
async fn spares_that_refuse_are_reported_with_a_reason() {
    let cluster = Cluster::of(&[&[]]).await;
    // No node has this function, so the worker cannot fetch it.
    let cid = FunctionId::from_module(b"elsewhere").to_string();
    let silent = impostor(&cluster, &cid, Reaction::Refusal).await;
    let asked = json!({"function_id": cid, "method": "m.wasm"});
    let answer = cluster.execute(asked).await;
    assert_eq!(answer["code"], "500", "{answer}");
    let worker = cluster.workers[0].peer_id();
    let want = format!(
        "0 of 1 node returned a result: {silent} refused (no free slot); no spare: {worker}: no node or gateway provided the function"
    );
    assert!(answer["message"].as_str().unwrap().starts_with(&want), "{answer}");
}

#[tokio::test]
async fn execution_fails_without_further_spares_after_two_final_refusals() {
    let mut cluster = Cluster::of(&[]).await;
    for _ in 0..3 {
        cluster.add_worker_with(with_metrics).await;
    }
    let hello = cluster.add("hello.wasm", HELLO).await;
    let needy = r#"(module (import "blockless_http" "http_req" (func)) (func (export "_start")))"#;
    let needy = cluster.add("needy.wasm", needy).await;
    let folder = functions::add_folder(&cluster).await;
    for function in [&hello, &folder] {
        cluster.execute(request(function, 3)).await;
        offered(&cluster, function).await;
    }
    let mut misnamed = request(&folder, 1);
    misnamed["method"] = json!("other.wasm");
    let mut input = request(&hello, 1);
    input["function_id"] = json!(needy.id.to_string());
    input["method"] = json!("needy.wasm");
    for (asked, code, want) in
        [(misnamed, "404", "no module other.wasm"), (input, "500", "blockless_http")]
    {
        let answer = cluster.execute(asked).await;
        assert_eq!(answer["code"], code, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(want), "{answer}");
        let execution = known(&cluster, &answer["request_id"]).await;
        assert_eq!(execution["peers"].as_array().unwrap().len(), 2, "{execution}");
    }
    let answer = cluster.execute(request(&hello, 3)).await;
    assert_eq!(known(&cluster, &answer["request_id"]).await["warm"], true, "all still count");
}

#[tokio::test]
async fn exactly_the_requested_number_of_workers_runs_the_order() {
    let mut cluster = Cluster::of(&[]).await;
    for _ in 0..4 {
        cluster.add_worker_with(with_metrics).await;
    }
    let hello = cluster.add("hello.wasm", HELLO).await;
    let mut n_asked = 0;
    for n in [2, 3, 1, 4, 2] {
        n_asked += n;
        let answer = cluster.execute(request(&hello, n)).await;
        let peers = answer["cluster"]["peers"].as_array().unwrap();
        assert_eq!(i64::try_from(peers.len()), Ok(n), "{answer}");
        assert_eq!(answer["results"][0]["peers"], answer["cluster"]["peers"]);
        assert!(peers.is_sorted_by_key(|peer| peer.as_str().unwrap()), "{answer}");
    }
    let mut n_ordered = 0;
    for worker in &cluster.workers {
        let counts = counts(worker).await;
        let line = counts.lines().find(|line| line.starts_with("b7s_node_workorders{"));
        n_ordered += line.unwrap().rsplit(' ').next().unwrap().parse::<i64>().unwrap();
    }
    assert_eq!(n_ordered, n_asked);
}

#[tokio::test]
async fn execution_with_fewer_results_than_the_threshold_has_code_206() {
    let mut cluster = Cluster::of(&[]).await;
    cluster.add_worker(&["gpu"], LIMITS_DEFAULT, 8).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 1)).await;
    offered(&cluster, &hello).await;
    let full = impostor(&cluster, &hello.id.to_string(), Reaction::Refusal).await;
    let worker = cluster.workers[0].peer_id();
    let execute = async |threshold: Value, code: &str| {
        let mut request = request_within(&hello, 2, 1);
        request["config"]["threshold"] = threshold;
        let answer = cluster.execute(request).await;
        assert_eq!(answer["code"], code, "{answer}");
        assert_eq!(answer["results"][0]["peers"], json!([worker.as_str()]));
        assert_eq!(answer["results"][0]["frequency"], 100.0);
        let mut taking_part = [full.clone(), worker.clone()];
        taking_part.sort();
        assert_eq!(answer["cluster"]["peers"], texts(&taking_part));
        let want = format!("1 of 2 nodes returned a result: {full} refused (no free slot)");
        assert_eq!(answer["message"], json!(want));
    };
    tokio::join!(execute(json!(null), "206"), execute(json!(0.5), "200"), execute(json!(1), "206"));
}
