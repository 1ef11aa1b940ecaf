//! Two heads that share a worker.

use content::Function;

use super::executions::*;
use super::*;

/// Starts an execution of `function` without waiting for it. Returns its path.
async fn begin(head: &Node, function: &Function) -> String {
    let mut request = request(function, 1);
    request["config"]["async"] = json!(true);
    let (status, answer) = post(head.api_address().unwrap(), &request.to_string()).await;
    assert_eq!(status, 202, "{answer}");
    format!("/api/v1/executions/{}", answer["request_id"].as_str().unwrap())
}

/// Waits until `worker` has no free slot and allows each head the `wanted` number of slots.
async fn shared(worker: &Node, heads: [&Node; 2], wanted: [usize; 2]) {
    let worker = worker.role.worker().unwrap();
    let look = || async {
        let found = heads.map(|head| worker.slots_for(head.peer_id()).1);
        if found == wanted && worker.slots().1 == 0 { Ok(()) } else { Err(found) }
    };
    until(WITHIN, look).await.unwrap();
}

#[tokio::test]
async fn slot_released_by_one_head_is_granted_to_a_waiting_head() {
    let mut cluster = Cluster::with(answering_within(Duration::from_mins(10))).await;
    let limits = Limits { wall: Duration::from_mins(10), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 2).await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let worker = &cluster.workers[0];
    let work = WorkOptions { drain_within: Duration::ZERO, ..WorkOptions::usual() };
    let options = NodeOptions {
        boot_nodes: vec![worker.addresses()[0].parse().unwrap()],
        work,
        ..head_options(cluster.dir.path().join("second"))
    };
    let second = Node::start(options, &cluster.group, Clock::system()).await.unwrap();
    let heads = [&cluster.head, &second];
    // A worker without results would be paused as soon as it is slow, so it runs a function first.
    let mut hello = None;
    for head in heads {
        let module = wat::parse_str(HELLO).unwrap();
        let function = head.functions().add("hello.wasm".parse().unwrap(), module).await.unwrap();
        let body = request(&function, 1).to_string();
        let (_, answer) = post(head.api_address().unwrap(), &body).await;
        assert_eq!(answer["code"], "200", "{answer}");
        hello = Some(function);
    }

    let first_run = begin(heads[0], &sleep).await;
    begin(heads[0], &sleep).await;
    shared(worker, heads, [2, 1]).await;
    begin(heads[0], &sleep).await;
    let waiting = begin(heads[1], &hello.unwrap()).await;
    shared(worker, heads, [1, 1]).await;
    let (status, _) =
        send(heads[0].api_address().unwrap(), &format!("DELETE {first_run}"), "", "").await;
    assert!((200..300).contains(&status), "{status}");
    let ended = || async {
        let (_, execution) = get(heads[1].api_address().unwrap(), &waiting).await;
        if execution["code"] == "200" { Ok(()) } else { Err(execution) }
    };
    until(WITHIN, ended).await.unwrap();

    second.shutdown().await;
    shared(worker, heads, [2, 1]).await;
}
