//! Work in progress at a node that stops.

use super::executions::*;
use super::*;

#[tokio::test]
async fn stopping_node_completes_its_runs() {
    let mut cluster = Cluster::of(&[]).await;
    let limits = Limits { wall: Duration::from_secs(1), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 1).await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let stopping = async {
        busy(&cluster.workers[0]).await;
        tokio::join!(cluster.workers[0].shutdown(), cluster.head.shutdown());
    };
    let (answer, ()) = tokio::join!(cluster.execute(request(&sleep, 1)), stopping);
    assert_eq!(answer["results"][0]["result"]["exit_code"], 15, "{answer}");
}

/// Returns options of a node that drains for a short time.
fn impatient() -> WorkOptions {
    WorkOptions {
        response_within: Duration::from_mins(10),
        drain_within: Duration::from_millis(200),
        ..WorkOptions::usual()
    }
}

/// Limits that let a function sleep for long.
const ENDLESS: Limits = Limits { wall: Duration::from_mins(10), ..LIMITS_DEFAULT };

#[tokio::test]
async fn order_of_a_stopped_worker_is_executed_by_another_worker() {
    let mut cluster = Cluster::with(impatient()).await;
    cluster
        .add_worker_with(|options| {
            (options.limits, options.work) = (ENDLESS, impatient());
        })
        .await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let address = cluster.head.api_address().unwrap();
    let body = request(&sleep, 1).to_string();
    let asking = cluster.group.child();
    let (send, received) = tokio::sync::oneshot::channel();
    asking.spawn("ask", async move { send.send(post(address, &body).await).unwrap() });
    busy(&cluster.workers[0]).await;
    let limits = Limits { wall: Duration::from_secs(1), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 1).await;
    cluster.workers[0].shutdown().await;
    let (_, answer) = timeout(WITHIN, received).await.unwrap().unwrap();
    assert_eq!(answer["results"][0]["result"]["exit_code"], 15, "{answer}");
    let execution = known(&cluster, &answer["request_id"]).await;
    let first = &execution["peers"][0];
    assert_eq!(
        (&first["state"], &first["reason"]),
        (&json!("replaced"), &json!("refused (the node is stopping)"))
    );
}

#[tokio::test]
async fn stopping_head_responds_to_its_client_and_cancels_the_run() {
    let work = WorkOptions { drain_within: Duration::from_secs(2), ..impatient() };
    let mut cluster = Cluster::with(work).await;
    cluster.add_worker(&[], ENDLESS, 1).await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let address = cluster.head.api_address().unwrap();
    let stopping = async {
        busy(&cluster.workers[0]).await;
        let stopping = cluster.head.shutdown();
        let asking = async {
            let head = cluster.head.head().unwrap();
            until_true(|| head.is_stopping()).await;
            post(address, &request(&sleep, 1).to_string()).await
        };
        tokio::join!(stopping, asking).1
    };
    let (answer, refused) = tokio::join!(cluster.execute(request(&sleep, 1)), stopping);
    assert_eq!(answer["code"], "503", "{answer}");
    assert_eq!(answer["message"], "the execution was canceled: the node is stopping");
    assert_eq!(refused, (503, json!({"message": "the node is stopping"})));
    idle(&cluster).await;
}

#[tokio::test]
async fn stopping_worker_offers_no_slots() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let node_role = worker.role.worker().unwrap();
    let slots = || node_role.slots_for(cluster.head.peer_id());
    assert_eq!(slots(), (10, 10));
    assert!(node_role.drain(WITHIN).await, "nothing runs");
    assert_eq!(slots(), (10, 0));
    let hello = cluster.add("hello.wasm", HELLO).await;
    let answer = cluster.execute(request_within(&hello, 1, 3)).await;
    assert_eq!(answer["code"], "408", "{answer}");
    let want = format!("refused by {}: the node is stopping", worker.peer_id());
    assert!(answer["message"].as_str().unwrap().ends_with(&want), "{answer}");
}
