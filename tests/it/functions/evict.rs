//! `triptych function evict`: removes functions from the workers of a head by
//! `POST /api/v1/functions/evict`, and from a local store.

use crate::support::cluster::Node;
use crate::support::command::{Home, demo};

#[tokio::test]
async fn functions_are_evicted_from_workers_and_fetched_again() {
    let head = Node::head(&[]);
    let _worker = Node::worker(&head, &[]);
    head.has_workers(1).await;
    let home = Home::new().with("TRIPTYCH_HEAD", &head.rest_api());
    let id = home.run_ok(&["function", "add", &demo("hello.wasm")]);
    let run = ["function", "run", id.trim(), "--raw"];
    assert_eq!(home.run_ok(&run), "Hello from WebAssembly\n");
    let evicted = home.run_ok(&["function", "evict", "--all"]);
    assert!(evicted.contains("evicted 1, ") && evicted.contains(", 0 left"), "{evicted}");
    assert_eq!(home.run_ok(&run), "Hello from WebAssembly\n");
    let evicted = home.run_ok(&["function", "evict", id.trim()]);
    assert!(evicted.contains("evicted 1, "), "{evicted}");
    assert!(home.run_ok(&["function", "list"]).contains(id.trim()), "the head keeps it");
    assert_eq!(home.run(&["function", "evict"]).code, 2);
    assert_eq!(home.run(&["function", "evict", id.trim(), "--all"]).code, 2);
}

#[tokio::test]
async fn functions_of_a_local_store_are_evicted_by_id() {
    let home = Home::new();
    let id = home.run_ok(&["function", "add", &demo("hello.wasm"), "--local"]);
    let evicted = home.run_ok(&["function", "evict", "--all", "--local"]);
    assert!(evicted.contains("evicted 0, 0 bytes, 1 left"), "it was added: {evicted}");
    let evicted = home.run_ok(&["function", "evict", id.trim(), "--local"]);
    assert!(evicted.contains("evicted 1, ") && evicted.contains(", 0 left"), "{evicted}");
    home.run_err(&["function", "evict", id.trim(), "--local"]);
}
