use axum::body::Bytes;
use axum::extract::{Path, RawQuery};
use axum::http::HeaderMap;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::*;
use crate::tests::fake::Fake;

async fn head(router: Router) -> (Fake, Functions) {
    let fake = Fake::serve(router).await;
    let functions = Functions::new(Transport::new(&fake.address, None).unwrap());
    (fake, functions)
}

#[tokio::test]
async fn execution_returns_result_groups() {
    let run = |Json(request): Json<Value>| async move {
        Json(json!({
            "code": "200", "request_id": "r1", "cluster": { "peers": ["12D3A", "12D3B"] },
            "results": [{
                "result": { "stdout": request["method"], "stderr": "", "exit_code": 0 },
                "peers": ["12D3A", "12D3B"], "frequency": 100
            }]
        }))
    };
    let router = Router::new().route(paths::FUNCTIONS_EXECUTE, post(run));
    let (_fake, functions) = head(router).await;
    let request = ExecuteRequest { method: "hello.wasm".to_owned(), ..ExecuteRequest::default() };
    let response = functions.execute(&request).await.unwrap();
    assert_eq!(response.code, CODE_OK);
    assert_eq!(response.results[0].result.stdout, "hello.wasm");
    assert_eq!(response.cluster.peers.len(), 2);
}

#[tokio::test]
async fn failed_execution_is_returned_as_a_response() {
    let run = || async { Json(json!({ "code": "408", "request_id": "r2", "cluster": {} })) };
    let (_fake, functions) = head(Router::new().route(paths::FUNCTIONS_EXECUTE, post(run))).await;
    let response = functions.execute(&ExecuteRequest::default()).await.unwrap();
    assert_eq!((response.code.as_str(), response.results.len()), ("408", 0));
}

#[tokio::test]
async fn nodes_and_functions_are_listed() {
    let nodes = || async {
        Json(json!({ "nodes": [{
            "peer_id": "12D3A", "role": "head", "subgroups": [], "addresses": [],
            "connected": true, "runs": 3, "agreed": 2
        }] }))
    };
    let held = || async {
        Json(json!({ "functions": [{
            "name": "hello", "function_id": "bafy", "method": "hello.wasm", "bytes": 12
        }] }))
    };
    let router = Router::new().route(paths::NODES, get(nodes)).route(paths::FUNCTIONS, get(held));
    let (_fake, functions) = head(router).await;
    assert_eq!(functions.nodes().await.unwrap()[0].runs, 3);
    assert_eq!(functions.functions().await.unwrap()[0].name, "hello");
    assert_eq!(functions.health().await.unwrap_err().status(), Some(404));
}

#[tokio::test]
async fn response_to_a_node_change_contains_the_node_and_its_work_orders() {
    let change = |Path(id): Path<String>, RawQuery(query): RawQuery, Json(patch): Json<Value>| async move {
        assert_eq!(patch, json!({ "cordoned": true }), "unchanged fields are omitted");
        let orders =
            json!([{ "request_id": query.unwrap(), "function_id": "bafy", "elapsed_ms": 1.5 }]);
        Json(json!({
            "peer_id": id, "connected": true, "cordoned": true, "running": 1, "orders": orders
        }))
    };
    let look = |Path(id): Path<String>| async move {
        Json(json!({ "peer_id": id, "connected": true, "approval": "pending" }))
    };
    let (_fake, functions) = head(Router::new().route(paths::NODE, get(look).patch(change))).await;
    let patch = NodePatch { cordoned: Some(true), ..NodePatch::default() };
    let changed = functions.change_node("12D3A", patch, Duration::from_millis(2500)).await.unwrap();
    assert_eq!((changed.node.running, changed.node.withheld_by()), (1, Some("draining")));
    assert_eq!(changed.orders[0].request_id, "wait=2");
    let looked = functions.node("12D3A").await.unwrap();
    assert_eq!(
        (looked.node.peer_id.as_str(), looked.node.withheld_by()),
        ("12D3A", Some("pending"))
    );
}

#[tokio::test]
async fn function_is_uploaded_and_removed() {
    let add = |RawQuery(query): RawQuery, headers: HeaderMap, body: Bytes| async move {
        assert_eq!(headers["authorization"], "Bearer correct-horse");
        assert_eq!(headers["content-type"], CAR);
        assert_eq!(query.unwrap(), "name=a+b&method=a.wasm");
        Json(json!({
            "name": "a b", "function_id": "bafy", "method": "a.wasm", "bytes": body.len()
        }))
    };
    let gone = |Path(id): Path<String>| async move {
        Json(json!({ "name": "a b", "function_id": id, "method": "a.wasm", "bytes": 3 }))
    };
    let install = |Json(request): Json<Value>| async move {
        Json(json!({ "code": "500", "message": request["cid"] }))
    };
    let router = Router::new()
        .route(paths::FUNCTIONS, post(add))
        .route(paths::FUNCTION, delete(gone))
        .route(paths::FUNCTIONS_INSTALL, post(install));
    let fake = Fake::serve(router).await;
    let transport = Transport::new(&fake.address, None).unwrap();
    let functions = Functions::new(transport.with_token("correct-horse".parse().ok()));
    assert_eq!(functions.upload("a b", "a.wasm", vec![1, 2, 3]).await.unwrap().bytes, 3);
    let id = FunctionId::from_module(b"module");
    assert_eq!(functions.remove(id).await.unwrap().function_id, id.to_string());
    let request = InstallRequest { cid: "bafy".to_owned(), ..InstallRequest::default() };
    let installed = functions.install(&request).await.unwrap();
    assert_eq!((installed.code.as_str(), installed.message.as_str()), ("500", "bafy"));
}
