//! A head that goes: one that comes back, and one that leaves work under way.

use std::fs;

use serde_json::json;
use task::wait;
use tokio::task::JoinSet;

use crate::support::{
    cluster::{Node, WITHIN},
    command::{Home, demo},
    http::Http,
};

/// A runtime that writes down each run of a request that gives it a name, which takes longer than a
/// test.
const WRITING_RUNTIME: &str = "#!/bin/sh
[ \"$NAME\" ] || exec echo hello
echo \"$NAME $$\" >> \"${0%/*}/runs\"
exec sleep 600
";

#[tokio::test]
async fn workers_work_again_after_their_head_was_killed_and_came_back() {
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
    // The workers dial it by themselves.
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
async fn a_head_killed_in_mid_request_costs_its_client_an_error_and_frees_its_slots() {
    const PATH: &str = "/api/v1/functions/execute";
    const SLOTS: usize = 2;
    let home = Home::new();
    home.write_program("runtime", WRITING_RUNTIME);
    let heads = [Node::head(&[]), Node::head(&[])];
    let rest_apis = heads.each_ref().map(Node::rest_api);
    let runs_with =
        ["--runtime-path", &home.path(""), "--runtime-cli", "runtime", "--runtime-env", "NAME"];
    let limits = ["--concurrency", "2", "--run-limit", "900"];
    let other = ["--boot-nodes", &heads[1].address()];
    let _worker = Node::worker(&heads[0], &[&other[..], &limits, &runs_with].concat());
    let mut function = String::new();
    for (head, rest_api) in heads.iter().zip(&rest_apis) {
        head.has_workers(1).await;
        function = home.run_ok(&["function", "add", &demo("hello.wasm"), "--head", rest_api]);
    }
    let named = |name: &str| {
        json!({
            "function_id": function.trim(), "method": "hello.wasm",
            "config": { "env_vars": [{ "name": "NAME", "value": name }] },
        })
    };
    let runs = || fs::read_to_string(home.path("runs")).unwrap_or_default();
    let began = async |name: &str, n_runs: usize| {
        let look = async || match runs().lines().filter(|run| run.starts_with(name)).count() {
            n if n == n_runs => Ok(()),
            _ => Err(runs()),
        };
        wait::until(WITHIN, look).await.unwrap();
    };
    let ask = |rest_api: &str, name: &str| {
        let mut clients = JoinSet::new();
        for number in 0..SLOTS {
            let (http, body) = (Http::new(rest_api, None), named(&format!("{name}-{number}")));
            clients.spawn(async move { http.try_post(PATH, &body).await });
        }
        clients
    };

    let lost = ask(&rest_apis[0], "lost");
    began("lost", SLOTS).await;
    let [killed, _other] = heads;
    killed.kill();
    for answer in lost.join_all().await {
        answer.unwrap_err();
    }
    // All slots are taken again, and so were free.
    let _clients = ask(&rest_apis[1], "next");
    began("next", SLOTS).await;
    assert_eq!(runs().lines().count(), 2 * SLOTS, "each once: {}", runs());
}
