//! Trust between nodes: unknown peers, files that list the allowed heads, and warnings about public
//! addresses.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use task::wait;

use crate::support::cluster::{Node, WITHIN};
use crate::support::command::{Home, demo};
use crate::support::http::Http;
use crate::support::up::Up;

/// Executes a function on `n_nodes` nodes, with two seconds for the roll call.
async fn execute(head: &Http, (function_id, method): (&str, &str), n_nodes: usize) -> Value {
    let config = json!({ "number_of_nodes": n_nodes, "timeout": 2 });
    let body = json!({ "function_id": function_id, "method": method, "config": config });
    head.post("/api/v1/functions/execute", &body).await.1
}

#[tokio::test]
async fn local_stack_neither_uses_nor_serves_unknown_peers() {
    let up = Up::start();
    let nodes = up.head().get_ok("/api/v1/nodes").await;
    let nodes = nodes["nodes"].as_array().unwrap();
    let address = |role: &str| {
        let node = nodes.iter().find(|node| node["role"] == role).unwrap();
        node["addresses"][0].as_str().unwrap().to_owned()
    };
    let (head, worker) = (address("head"), address("worker"));
    let stranger = Node::start_with(&["--boot-nodes", &head], &[]);
    stranger.wait_log("peer connected");
    let hello = up.function("hello");
    let mut ids: Vec<Value> =
        up.list("nodes").iter().skip(1).map(|node| node["peer_id"].clone()).collect();
    ids.sort_by_key(Value::to_string);
    for _ in 0..3 {
        let reply = execute(&up.head(), hello, 3).await;
        assert_eq!((&reply["code"], &reply["cluster"]["peers"]), (&json!("200"), &json!(ids)));
    }
    assert_eq!(execute(&up.head(), hello, 4).await["code"], "408");

    stranger.kill();
    // The workers of the stack ignore another head.
    let other = Node::head(&["--boot-nodes", &worker]);
    other.wait_log("peer connected");
    let home = Home::new();
    let rest_api = other.rest_api();
    let added = home.run_ok(&["function", "add", &demo("hello.wasm"), "--head", &rest_api]);
    let reply = execute(&Http::new(&rest_api, None), (added.trim(), "hello.wasm"), 1).await;
    assert_eq!(reply["code"], "408", "{reply}");
}

/// Time limit for a node to stop work with a peer that was removed from its file. It is shorter than the
/// validity of an offer.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);

/// Executes a function on one node until the code of the response is `code`.
async fn execute_until(head: &Http, function: (&str, &str), code: &str, within: Duration) -> Value {
    let executing = wait::until(within, || async {
        let reply = execute(head, function, 1).await;
        if reply["code"] == code { Ok(reply) } else { Err(reply) }
    });
    executing.await.unwrap()
}

#[tokio::test]
async fn worker_applies_changes_of_the_file_that_lists_its_heads() {
    let home = Home::new();
    let heads = home.write("heads.txt", b"# none yet\n");
    let head = Node::head(&[]);
    let worker = Node::worker(&head, &["--obey", &format!("@{heads}")]);
    // A worker sends no offers to a head that it ignores.
    worker.wait_log("peer connected");
    let rest_api = head.rest_api();
    let added = home.run_ok(&["function", "add", &demo("hello.wasm"), "--head", &rest_api]);
    let http = Http::new(&rest_api, None);
    let hello = (added.trim(), "hello.wasm");
    assert_eq!(execute(&http, hello, 1).await["code"], "408");
    fs::write(&heads, format!("{}\n", head.id())).unwrap();
    let reply = execute_until(&http, hello, "200", WITHIN).await;
    assert_eq!(reply["cluster"]["peers"], json!([worker.id()]));
    fs::write(&heads, format!("{}\n", worker.id())).unwrap();
    execute_until(&http, hello, "408", REMOVED_WITHIN).await;
}

#[tokio::test]
async fn head_applies_changes_of_the_file_that_lists_its_workers() {
    let home = Home::new();
    let workers = home.write("workers.txt", b"");
    let head = Node::head(&["--accept", &format!("@{workers}")]);
    let worker = Node::worker(&head, &[]);
    let rest_api = head.rest_api();
    let added = home.run_ok(&["function", "add", &demo("hello.wasm"), "--head", &rest_api]);
    let (http, hello) = (Http::new(&rest_api, None), (added.trim(), "hello.wasm"));
    for (id, code, within) in [(worker.id(), "200", WITHIN), (head.id(), "408", REMOVED_WITHIN)] {
        fs::write(&workers, format!("{id}\n")).unwrap();
        execute_until(&http, hello, code, within).await;
    }
}

#[test]
fn node_with_a_public_address_logs_a_warning_about_its_exposure() {
    let public = ["--dialback-address", "203.0.113.7", "--dialback-port", "9527"];
    let worker = Node::start_with(&public, &[]);
    let line = worker.wait_log(
        "every peer that reaches this worker can run functions on it: name the heads to obey with \
         --obey PEER_ID, or listen only on --address 127.0.0.1",
    );
    assert_eq!(line["level"], "warn");
    let head = Node::head(&public);
    head.wait_log(
        "every peer that reaches this head can join as a worker and return results that it made up: \
         name the workers to accept with --accept PEER_ID, or approve them with \
         --require-approval, and have results signed with --signed-results",
    );
}
