use serde_json::json;
use wire::functions::EnvVar;

use super::*;

#[track_caller]
fn check(message: &Message, literal: &serde_json::Value) {
    assert_eq!(&serde_json::to_value(message).unwrap(), literal);
    assert_eq!(&Message::read(literal.to_string().as_bytes()).unwrap(), message);
}

#[test]
fn a_roll_call_is_the_b7s_one() {
    check(
        &Message::RollCall(RollCall {
            function_id: "bafy".into(),
            request_id: "r".into(),
            ..RollCall::default()
        }),
        &json!({"type": "MsgRollCall", "function_id": "bafy", "request_id": "r", "consensus": 0}),
    );
}

#[test]
fn a_roll_call_response_is_the_b7s_one() {
    check(
        &Message::RollCallResponse(RollCallResponse {
            code: Code::ACCEPTED,
            function_id: "bafy".into(),
            request_id: "r".into(),
            message: String::new(),
        }),
        &json!({"type": "MsgRollCallResponse", "code": "202", "function_id": "bafy", "request_id": "r"}),
    );
}

#[test]
fn a_work_order_is_a_flat_execution_request() {
    check(
        &Message::WorkOrder(WorkOrder {
            function_id: "bafy".into(),
            method: "m.wasm".into(),
            parameters: Some(vec![Parameter { name: None, value: "a".into() }]),
            config: ExecuteConfig {
                number_of_nodes: 2,
                stdin: Some("in".into()),
                env_vars: Some(vec![EnvVar { name: "K".into(), value: "v".into() }]),
                ..ExecuteConfig::default()
            },
            request_id: "r".into(),
            timestamp: "2026-07-30T21:57:00Z".into(),
        }),
        &json!({
            "type": "MsgWorkOrder", "function_id": "bafy", "method": "m.wasm",
            "parameters": [{"value": "a"}],
            "config": {"number_of_nodes": 2, "stdin": "in", "env_vars": [{"name": "K", "value": "v"}]},
            "request_id": "r", "timestamp": "2026-07-30T21:57:00Z",
        }),
    );
}

#[test]
fn a_work_order_response_is_the_b7s_one() {
    check(
        &Message::WorkOrderResponse(WorkOrderResponse {
            request_id: "r".into(),
            code: Code::OK,
            result: NodeResult {
                code: Code::OK,
                result: OutcomeBody { stdout: "out".into(), stderr: String::new(), exit_code: 0 },
                usage: Usage { wall_clock_ns: 1_500, memory_max_kib: 64 },
            },
            error_message: String::new(),
        }),
        &json!({
            "type": "MsgWorkOrderResponse", "request_id": "r", "code": "200",
            "result": {
                "code": "200",
                "result": {"stdout": "out", "stderr": "", "exit_code": 0},
                "usage": {"wall_clock_time": 1_500, "memory_max_kb": 64},
            },
        }),
    );
}

#[test]
fn what_b7s_adds_is_ignored() {
    let sent = json!({
        "type": "MsgWorkOrder", "function_id": "bafy", "method": "m.wasm", "parameters": null,
        "config": {"number_of_nodes": 1, "runtime": {"limited_fuel": 1}, "result_aggregation": {"enable": false}},
        "request_id": "r", "timestamp": "2024-01-12T10:11:12.123456789Z",
        "carrier": {"traceparent": "00-1-2-01"}, "signature": "00",
    });
    let Ok(Message::WorkOrder(order)) = Message::read(sent.to_string().as_bytes()) else {
        panic!("it is a work order");
    };
    assert_eq!((order.parameters, order.config.number_of_nodes), (None, 1));
}

#[test]
fn other_types_are_told_from_nonsense() {
    let unknown = Message::read(br#"{"type":"MsgHealthCheck","code":200}"#);
    assert!(matches!(unknown, Err(MessageError::Unknown { kind }) if kind == "MsgHealthCheck"));
    for nonsense in ["", "null", "[]", "{}", r#"{"type":1}"#, r#"{"type":"MsgRollCall","code":"#] {
        let read = Message::read(nonsense.as_bytes());
        assert!(matches!(read, Err(MessageError::Malformed(_))), "{nonsense}: {read:?}");
    }
    let wrong = Message::read(br#"{"type":"MsgRollCall","function_id":1}"#);
    assert!(matches!(wrong, Err(MessageError::Malformed(_))), "{wrong:?}");
}
