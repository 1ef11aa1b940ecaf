//! A head that goes and comes back.

use serde_json::json;

use crate::support::{
    cluster::Node,
    command::{Home, demo},
    http::Http,
};

#[tokio::test]
async fn workers_work_again_after_their_head_was_killed_and_came_back() {
    let home = Home::new();
    home.done(&["keys", "node", "-o", "key"]);
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
    let added = home.done(&["function", "add", &demo("hello.wasm"), "--head", &rest_api]);
    let body = json!({
        "function_id": added.trim(), "method": "hello.wasm", "config": { "number_of_nodes": 2 },
    });
    let (_, reply) = Http::new(&rest_api, None).post("/api/v1/functions/execute", &body).await;
    assert_eq!(reply["code"], "200", "{reply}");
    let mut ids = workers.map(|worker| worker.id());
    ids.sort_unstable();
    assert_eq!(reply["cluster"]["peers"], json!(ids));
}
