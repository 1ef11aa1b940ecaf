use axum::{
    Json, Router,
    routing::{get, post},
};
use serde_json::{Value, json};

use super::*;
use crate::fake::Fake;

async fn head(router: Router) -> (Fake, Functions) {
    let fake = Fake::serve(router).await;
    let functions = Functions::new(Transport::new(&fake.address, None).unwrap());
    (fake, functions)
}

#[tokio::test]
async fn an_execution_comes_back_with_its_groups() {
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
async fn a_failed_execution_is_an_answer_too() {
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
