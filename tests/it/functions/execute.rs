//! `POST /api/v1/functions/execute`, as existing clients of b7s use it.

use model::function::FunctionId;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::ROOT;
use crate::support::up::Up;

/// Executes the function called `name`. The members of `more` are added to the request.
async fn execute(up: &Up, name: &str, more: Value) -> Value {
    let (function_id, method) = up.function(name);
    let mut request = json!({"function_id": function_id, "method": method});
    let (Some(request_members), Value::Object(more)) = (request.as_object_mut(), more) else {
        panic!("a request is an object");
    };
    request_members.extend(more);
    let (status, body) = up.head().post("/api/v1/functions/execute", &request).await;
    assert_eq!(status, StatusCode::OK, "an accepted execution has status 200: {body}");
    body
}

/// Returns the peer ids in a list, in the order of the list.
fn peers(list: &Value) -> Vec<&str> {
    let mut peers: Vec<_> =
        list.as_array().unwrap().iter().map(|peer| peer.as_str().unwrap()).collect();
    peers.sort_unstable();
    peers
}

/// Returns the names of an object's members.
fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<_> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

#[tokio::test]
async fn equal_results_of_all_workers_are_one_group() {
    let up = Up::shared();
    let body = execute(&up, "hello", json!({"config": {"number_of_nodes": 3}})).await;
    assert_eq!(members(&body), ["cluster", "code", "request_id", "results"], "{body}");
    assert_eq!(body["code"], "200");
    assert!(is_uuid(body["request_id"].as_str().unwrap()), "{body}");

    let results = body["results"].as_array().unwrap();
    let [group] = results.as_slice() else { panic!("one group: {body}") };
    assert_eq!(members(group), ["frequency", "peers", "result"]);
    assert_eq!(members(&group["result"]), ["exit_code", "stderr", "stdout"]);
    assert_eq!(group["result"]["stdout"], "Hello from WebAssembly\n");
    assert_eq!(
        (&group["result"]["stderr"], &group["result"]["exit_code"]),
        (&json!(""), &json!(0))
    );
    assert_eq!(group["frequency"].as_f64(), Some(100.0));
    assert_eq!(peers(&group["peers"]), up.workers(None));
    assert_eq!(members(&body["cluster"]), ["peers"]);
    assert_eq!(peers(&body["cluster"]["peers"]), up.workers(None));
}

#[tokio::test]
async fn different_results_are_separate_groups() {
    let up = Up::shared();
    let body = execute(&up, "whoami", json!({"config": {"number_of_nodes": 3}})).await;
    let groups = body["results"].as_array().unwrap();
    assert_eq!(groups.len(), 3, "{body}");
    let mut seen: Vec<_> = groups
        .iter()
        .map(|group| {
            let share = group["frequency"].as_f64().unwrap();
            assert!((share - 100.0 / 3.0).abs() < 1e-6, "a third each: {share}");
            let peer = peers(&group["peers"]).join(" ");
            let printed: Value =
                serde_json::from_str(group["result"]["stdout"].as_str().unwrap()).unwrap();
            assert!(peer.ends_with(printed["peer"].as_str().unwrap()), "{peer} printed {printed}");
            peer
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, up.workers(None));
}

#[tokio::test]
async fn request_for_a_subgroup_is_executed_on_its_nodes_only() {
    let up = Up::shared();
    let gpu = up.workers(Some("gpu"));
    assert_eq!(gpu.len(), 2);
    let request = json!({"subgroup": "gpu", "config": {"number_of_nodes": 2}});
    let body = execute(&up, "hello", request).await;
    assert_eq!(peers(&body["cluster"]["peers"]), gpu, "{body}");
}

#[tokio::test]
async fn unknown_function_fails_with_the_reason() {
    let up = Up::shared();
    let request = json!({
        "function_id": FunctionId::from_module(b"nobody has this").to_string(),
        "config": {"number_of_nodes": 1, "timeout": 1},
    });
    let body = execute(&up, "hello", request).await;
    assert_ne!(body["code"], "200", "{body}");
    assert!(!body["message"].as_str().unwrap_or_default().is_empty(), "{body}");
}

#[tokio::test]
async fn head_lists_its_nodes_and_functions() {
    let up = Up::shared();
    let nodes = up.head().get_ok("/api/v1/nodes").await;
    let ids = |list: &[Value]| {
        let mut ids: Vec<_> =
            list.iter().map(|node| node["peer_id"].as_str().unwrap().to_owned()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(nodes["nodes"].as_array().unwrap()), ids(up.list("nodes")), "{nodes}");

    let functions = up.list("functions");
    assert!(functions.len() >= 4, "{functions:?}");
    for function in functions {
        let method = function["method"].as_str().unwrap();
        let module = std::fs::read(format!("{ROOT}/assets/functions/{method}")).unwrap();
        let id = FunctionId::from_module(&module).to_string();
        assert_eq!(function["function_id"], id, "{method} is named by its content");
    }
}
