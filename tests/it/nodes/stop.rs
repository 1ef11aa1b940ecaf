//! Nodes that receive SIGTERM while a function runs.

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::cluster::{ENDLESS, Node};
use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::process::Signal;

/// A function that reads the clock for one second, then prints `done`.
const BUSY: &str = r#"(module
  (import "wasi_snapshot_preview1" "clock_time_get"
    (func $now (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "\20\00\00\00\05\00\00\00")
  (data (i32.const 32) "done\n")
  (func (export "_start") (local $end i64)
    (drop (call $now (i32.const 1) (i64.const 1) (i32.const 0)))
    (local.set $end (i64.add (i64.load (i32.const 0)) (i64.const 1000000000)))
    (loop $wait
      (drop (call $now (i32.const 1) (i64.const 1) (i32.const 0)))
      (br_if $wait (i64.lt_u (i64.load (i32.const 0)) (local.get $end))))
    (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 8)))))"#;

#[tokio::test]
async fn second_sigterm_stops_a_node_immediately() {
    let home = Home::new();
    let head = Node::head(&[]);
    let mut worker = Node::worker(&head, &["--run-limit", "60", "--log-level", "debug"]);
    head.has_workers(1).await;
    let rest_api = head.rest_api();
    let module = home.write("endless.wasm", &wat::parse_str(ENDLESS).unwrap());
    home.run_ok(&["function", "run", &module, "--async", "--head", &rest_api]);
    worker.wait_log("execution begins");
    worker.signal(Signal::Terminate);
    worker.wait_log("waiting for running functions");
    worker.signal(Signal::Terminate);
    assert_eq!(worker.wait_exit(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn sigterm_waits_for_running_functions() {
    let home = Home::new();
    let mut head = Node::head(&[]);
    let mut worker = Node::worker(&head, &["--log-level", "debug"]);
    head.has_workers(1).await;
    let rest_api = head.rest_api();
    let module = home.write("busy.wasm", &wat::parse_str(BUSY).unwrap());
    let added = home.run_ok(&["function", "add", &module, "--head", &rest_api]);
    let http = Http::new(&rest_api, None);
    let body = json!({ "function_id": added.trim(), "method": "busy.wasm" });
    let mut executing = JoinSet::new();
    executing.spawn(async move { http.post("/api/v1/functions/execute", &body).await });
    worker.wait_log("execution begins");
    worker.signal(Signal::Terminate);
    head.signal(Signal::Terminate);
    let (_, reply) = executing.join_next().await.unwrap().unwrap();
    assert_eq!(reply["code"], "200", "{reply}");
    assert_eq!(reply["results"][0]["result"]["stdout"], "done\n", "{reply}");
    assert_eq!([worker.wait_exit(), head.wait_exit()], [Some(0); 2]);
}
