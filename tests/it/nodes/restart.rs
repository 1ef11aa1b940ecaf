//! Heads that are killed, while requests are in progress or not.

use std::fs;

use serde_json::json;
use task::wait;
use tokio::task::JoinSet;

use crate::support::cluster::{Node, WITHIN};
use crate::support::command::{Home, demo};
use crate::support::http::Http;

/// An external runtime that records each run by name and runs for longer than a test.
const WRITING_RUNTIME: &str = "#!/bin/sh
[ \"$NAME\" ] || exec echo hello
echo \"$NAME $$\" >> \"${0%/*}/runs\"
exec sleep 600
";

#[tokio::test]
async fn workers_reconnect_to_a_restarted_head() {
    let home = Home::new();
    home.run_ok(&["keys", "node", "-o", "key"]);
    let key = home.path("key/priv.bin");
    let head = Node::head(&["--private-key", &key]);
    let (id, address) = (head.id(), head.address());
    let workers = [Node::worker(&head, &[]), Node::worker(&head, &["--topic", "gpu"])];
    head.has_workers(workers.len()).await;
    head.kill();

    let port = address.split('/').nth(4).unwrap();
    let head = Node::head(&["--private-key", &key, "--port", port]);
    assert_eq!((head.id(), head.address()), (id, address));
    // The workers connect to the restarted head again.
    head.has_workers(workers.len()).await;
    let rest_api = head.rest_api();
    let added = home.run_ok(&["function", "add", &demo("hello.wasm"), "--head", &rest_api]);
    let body = json!({
        "function_id": added.trim(), "method": "hello.wasm", "config": { "number_of_nodes": 2 },
    });
    let (_, reply) = Http::new(&rest_api, None).post("/api/v1/functions/execute", &body).await;
    assert_eq!(reply["code"], "200", "{reply}");
    let mut ids = workers.map(|worker| worker.id());
    ids.sort_unstable();
    assert_eq!(reply["cluster"]["peers"], json!(ids));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn killed_head_fails_its_requests_and_frees_their_slots() {
    const PATH: &str = "/api/v1/functions/execute";
    const SLOTS: usize = 2;
    let home = Home::new();
    home.write_program("runtime", WRITING_RUNTIME);
    let heads = [Node::head(&[]), Node::head(&[])];
    let rest_apis = heads.each_ref().map(Node::rest_api);
    let runtime =
        ["--runtime-path", &home.path(""), "--runtime-cli", "runtime", "--runtime-env", "NAME"];
    let limits = ["--concurrency", "2", "--run-limit", "900"];
    let other = ["--boot-nodes", &heads[1].address()];
    let _worker = Node::worker(&heads[0], &[&other[..], &limits, &runtime].concat());
    let mut function = String::new();
    for (head, rest_api) in heads.iter().zip(&rest_apis) {
        head.has_workers(1).await;
        function = home.run_ok(&["function", "add", &demo("hello.wasm"), "--head", rest_api]);
    }
    let request = |name: &str| {
        json!({
            "function_id": function.trim(), "method": "hello.wasm",
            "config": { "env_vars": [{ "name": "NAME", "value": name }] },
        })
    };
    let runs = || fs::read_to_string(home.path("runs")).unwrap_or_default();
    let wait_runs = async |name: &str, n_runs: usize| {
        let look = async || match runs().lines().filter(|run| run.starts_with(name)).count() {
            n if n == n_runs => Ok(()),
            _ => Err(runs()),
        };
        wait::until(WITHIN, look).await.unwrap();
    };
    let execute = |rest_api: &str, name: &str| {
        let mut clients = JoinSet::new();
        for number in 0..SLOTS {
            let (http, body) = (Http::new(rest_api, None), request(&format!("{name}-{number}")));
            clients.spawn(async move { http.try_post(PATH, &body).await });
        }
        clients
    };

    let lost = execute(&rest_apis[0], "lost");
    wait_runs("lost", SLOTS).await;
    let [killed, _other] = heads;
    killed.kill();
    for result in lost.join_all().await {
        result.unwrap_err();
    }
    // All slots must be free, since the next requests need all slots.
    let _clients = execute(&rest_apis[1], "next");
    wait_runs("next", SLOTS).await;
    assert_eq!(runs().lines().count(), 2 * SLOTS, "each once: {}", runs());
}
