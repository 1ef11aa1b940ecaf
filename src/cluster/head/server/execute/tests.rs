use serde_json::json;

use super::*;

fn function_id() -> String {
    FunctionId::of_module(b"module").to_string()
}

fn ordered(body: &Value) -> Result<Order, Vec<String>> {
    order(&read(body.to_string().as_bytes()).unwrap())
}

#[test]
fn the_smallest_request_is_one_node_for_five_seconds() {
    let order = ordered(&json!({"function_id": function_id(), "method": "m.wasm"})).unwrap();
    assert_eq!(order.nodes, Wanted::Exactly(NonZeroUsize::MIN));
    assert_eq!((order.subgroup, order.roll_call_within), (None, Duration::from_secs(5)));
}

#[test]
fn null_stands_for_a_field_left_out() {
    let order = ordered(&json!({
        "function_id": function_id(), "method": "m.wasm", "subgroup": null, "config":
            {"number_of_nodes": null, "stdin": null, "attributes": null, "env_vars": null},
    }));
    assert_eq!(order.unwrap().nodes, Wanted::Exactly(NonZeroUsize::MIN));
    let null = ordered(&json!({"function_id": function_id(), "method": "m.wasm", "config": null}));
    assert!(null.is_ok());
}

#[test]
fn numbers_of_nodes() {
    let nodes = |n: i64| {
        let config = json!({"number_of_nodes": n});
        ordered(&json!({"function_id": function_id(), "method": "m.wasm", "config": config}))
            .map(|order| order.nodes)
    };
    assert_eq!(nodes(0), Ok(Wanted::Exactly(NonZeroUsize::MIN)));
    assert_eq!(nodes(7), Ok(Wanted::Exactly(NonZeroUsize::new(7).unwrap())));
    assert_eq!(nodes(-1), Ok(Wanted::Everyone));
    assert_eq!(nodes(-2).unwrap_err().len(), 1);
}

#[test]
fn the_general_topic_is_no_subgroup() {
    let request = json!({"function_id": function_id(), "method": "m", "topic": GENERAL_TOPIC});
    assert_eq!(ordered(&request).unwrap().subgroup, None);
}

#[test]
fn everything_wrong_is_told_at_once() {
    assert_eq!(ordered(&json!({})).unwrap_err(), ["function ID is required", "method is required"]);
    let wrong = ordered(&json!({
        "function_id": "x", "method": "../m.wasm", "subgroup": "a b",
        "config": {"number_of_nodes": -5, "consensus_algorithm": "PBFT"},
    }));
    let wrong = wrong.unwrap_err();
    assert_eq!(wrong.len(), 5, "{wrong:?}");
}
