use serde_json::{Value, json};

use super::*;

fn function_id() -> String {
    FunctionId::from_module(b"module").to_string()
}

fn parse(body: &Value) -> Result<Order, Vec<String>> {
    Order::read(serde_json::from_value(body.clone()).unwrap())
}

fn parse_config(config: &Value) -> Result<Order, Vec<String>> {
    parse(&json!({"function_id": function_id(), "method": "m.wasm", "config": config}))
}

#[test]
fn minimal_request_asks_for_one_node_within_five_seconds() {
    let order = parse(&json!({"function_id": function_id(), "method": "m.wasm"})).unwrap();
    assert_eq!(order.nodes, NodeCount::Exactly(NonZeroUsize::MIN));
    assert_eq!((order.subgroup, order.roll_call_within), (None, Duration::from_secs(5)));
}

#[test]
fn number_of_nodes_is_parsed() {
    let nodes = |n: i64| parse_config(&json!({"number_of_nodes": n})).map(|order| order.nodes);
    assert_eq!(nodes(0), Ok(NodeCount::Exactly(NonZeroUsize::MIN)));
    assert_eq!(nodes(7), Ok(NodeCount::Exactly(NonZeroUsize::new(7).unwrap())));
    assert_eq!(nodes(-1), Ok(NodeCount::Everyone));
    assert_eq!(nodes(-2).unwrap_err().len(), 1);
}

#[test]
fn request_for_the_general_topic_has_no_subgroup() {
    let request = json!({"function_id": function_id(), "method": "m", "topic": GENERAL_TOPIC});
    assert_eq!(parse(&request).unwrap().subgroup, None);
}

#[test]
fn function_id_can_be_any_name_without_spaces() {
    let request = |id: &str| json!({"function_id": id, "method": "m.wasm"});
    let name = FunctionId::parse_any("whatever-cid").unwrap();
    assert_eq!(parse(&request("whatever-cid")).unwrap().function, name);
    let wrong = parse(&request("what ever")).unwrap_err();
    assert!(wrong[0].starts_with("function ID: "), "{wrong:?}");
}

#[test]
fn all_errors_of_a_request_are_listed_together() {
    assert_eq!(parse(&json!({})).unwrap_err(), ["function ID is required", "method is required"]);
    let wrong = parse(&json!({
        "function_id": "x y", "method": "../m.wasm", "subgroup": "a b",
        "config": {"number_of_nodes": -5, "consensus_algorithm": "PBFT"},
    }));
    let wrong = wrong.unwrap_err();
    assert_eq!(wrong.len(), 5, "{wrong:?}");
}

#[test]
fn arguments_and_variables_with_a_nul_byte_are_rejected() {
    let wrong = |arguments: &str, name: &str, value: &str| {
        let request = json!({
            "function_id": function_id(), "method": "m", "parameters": [{"value": arguments}],
            "config": {"env_vars": [{"name": name, "value": value}]},
        });
        parse(&request).map_or_else(|wrong| wrong.len(), |_| 0)
    };
    assert_eq!(wrong("a=b", "NAME", "a=b"), 0);
    assert_eq!(wrong("a\0b", "NAME", "a"), 1);
    for (name, value) in [("", "a"), ("A=B", "a"), ("A\0", "a"), ("A", "\0")] {
        assert_eq!(wrong("", name, value), 1, "{name:?} {value:?}");
    }
    let wrong = parse_config(&json!({"permissions": ["https://x/\0"]})).unwrap_err();
    assert_eq!(wrong, ["permissions must not contain NUL"]);
}

#[test]
fn work_order_contains_the_settings_that_a_worker_needs() {
    let order = parse_config(&json!({
        "number_of_nodes": 2, "stdin": "in", "permissions": ["https://x/"],
        "env_vars": [{"name": "K", "value": "v"}],
        "runtime": {
            "entry": "main", "run_time": 500, "debug_info": true, "limited_fuel": 7,
            "limited_memory": 3, "runtime_logger": "/etc/passwd", "drivers_root_path": "/",
        },
        "threshold": 0.5, "timeout": 3, "attributes": {"values": [{"name": "zone", "value": "a"}]},
    }));
    let order = order.unwrap();
    assert_eq!(order.roll_call_within, Duration::from_secs(3));
    assert!(order.requirements.attributes.is_some());
    assert_eq!(
        serde_json::to_value(order.work.config).unwrap(),
        json!({
            "number_of_nodes": 2, "stdin": "in", "permissions": ["https://x/"],
            "env_vars": [{"name": "K", "value": "v"}],
            "runtime": {
                "entry": "main", "run_time": 500, "debug_info": true, "limited_fuel": 7,
                "limited_memory": 3,
            },
        })
    );
}

#[test]
fn invalid_threshold_is_replaced_by_the_default() {
    for (asked, want) in [(0.0, 0.6), (-1.0, 0.6), (1.5, 0.6), (1.0, 1.0), (0.2, 0.2)] {
        let threshold = parse_config(&json!({"threshold": asked})).unwrap().threshold;
        assert!((threshold - want).abs() < f64::EPSILON, "{asked}: {threshold}");
    }
}

#[test]
fn quorum_is_limited_to_the_number_of_nodes() {
    let quorum = |n: i64, k: u32| {
        parse_config(&json!({"number_of_nodes": n, "quorum": k}))
            .map(|order| order.quorum.map(NonZeroUsize::get))
    };
    assert_eq!(quorum(3, 2), Ok(Some(2)));
    assert_eq!(quorum(3, 0), Ok(None));
    assert_eq!(quorum(-1, 9), Ok(Some(9)));
    assert_eq!(
        quorum(3, 4).unwrap_err(),
        ["quorum must be at most the number of nodes, which is 3"]
    );
}
