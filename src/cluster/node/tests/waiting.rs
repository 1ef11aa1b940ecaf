//! Requests that wait for busy workers, and clients that take turns.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpSocket;

use super::executions::*;
use super::*;

/// Executes from another address of this machine and returns the body of the response.
async fn execute_from(address: &str, cluster: &Cluster, body: &Value) -> Value {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
    let stream = socket.connect(cluster.head.api_address().unwrap()).await.unwrap();
    let json = "content-type: application/json\r\n";
    let line = "POST /api/v1/functions/execute";
    let (_, answer) = exchange(stream, line, json, &body.to_string()).await;
    serde_json::from_str(&answer).unwrap()
}

/// Starts a cluster of one worker with two slots. Two runs of one second are in progress and two wait,
/// all of one client.
async fn crowded() -> (Cluster, Value) {
    let mut cluster = Cluster::of(&[]).await;
    let limits = Limits { wall: Duration::from_secs(1), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 2).await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    cluster.execute(request(&sleep, 1)).await;
    offered(&cluster, &sleep).await;
    (cluster, request_within(&sleep, 1, 0))
}

#[tokio::test]
async fn client_with_many_long_calls_does_not_delay_other_clients() {
    let (cluster, request) = crowded().await;
    let n_done = AtomicUsize::new(0);
    let greedy = (0..14).map(|_| async {
        let answer = cluster.execute(request.clone()).await;
        n_done.fetch_add(1, Ordering::SeqCst);
        answer
    });
    let modest = async {
        busy(&cluster.workers[0]).await;
        let n_before = n_done.load(Ordering::SeqCst);
        let answer = execute_from("127.0.0.2", &cluster, &request).await;
        (answer, n_done.load(Ordering::SeqCst) - n_before)
    };
    let (answers, (answer, n_first)) = tokio::join!(futures::future::join_all(greedy), modest);
    assert_eq!(answer["code"], "200", "{answer}");
    // Two calls are running, and the next slots alternate between the clients, so only a few calls of
    // the other client complete first.
    assert!(n_first <= 7, "{n_first} calls of the other client were served first");
    for answer in answers {
        assert_eq!(answer["code"], "200", "the last calls wait longer than 5 s: {answer}");
    }
}

#[tokio::test]
async fn request_that_timed_out_waiting_reports_that_no_worker_was_free() {
    let (cluster, mut request) = crowded().await;
    let filling = (0..6).map(|_| cluster.execute(request.clone()));
    let filling = futures::future::join_all(filling);
    request["config"]["timeout"] = json!(1);
    let waiting = async {
        busy(&cluster.workers[0]).await;
        cluster.execute(request.clone()).await
    };
    let (_, answer) = tokio::join!(filling, waiting);
    assert_eq!(answer["code"], "408", "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("no worker was free and responding within 1 s"), "{message}");
}

#[tokio::test]
async fn refusal_by_all_workers_ends_the_execution_immediately() {
    let cluster = Cluster::of(&[&[], &[]]).await;
    // No node has this function.
    let cid = FunctionId::from_module(b"nowhere").to_string();
    let mut asked = json!({"function_id": cid, "method": "m.wasm"});
    asked["config"] = json!({"number_of_nodes": 1, "timeout": 60});
    let answer = timeout(WITHIN, cluster.execute(asked)).await.expect("does not wait for a minute");
    assert_eq!(answer["code"], "408", "{answer}");
    assert!(
        answer["message"].as_str().unwrap().contains("no node or gateway provided the function"),
        "{answer}"
    );
}
