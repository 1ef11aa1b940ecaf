use serde_json::json;
use task::traces::Carrier;
use wire::functions::EnvVar;

use super::*;

/// Message types that [`Message`] supports.
const KINDS: [&str; 8] = [
    "MsgRollCall",
    "MsgRollCallResponse",
    "MsgWorkOrder",
    "MsgWorkOrderResponse",
    "MsgExecute",
    "MsgExecuteResponse",
    "MsgInstallFunction",
    "MsgInstallFunctionResponse",
];

#[track_caller]
fn check(message: &Message, literal: &Value) {
    assert_eq!(&serde_json::to_value(message).unwrap(), literal);
    assert_eq!(&Message::read(literal.to_string().as_bytes()).unwrap(), message);
}

#[test]
fn null_and_repeated_fields_of_a_message_are_read_as_in_go() {
    let sent =
        r#"{"type":"MsgWorkOrder","config":null,"timestamp":null,"method":"a","method":"b"}"#;
    let want = WorkOrder { method: "b".into(), ..WorkOrder::default() };
    assert_eq!(Message::read(sent.as_bytes()).unwrap(), Message::WorkOrder(want));
}

#[test]
fn roll_call_has_the_b7s_format() {
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
fn roll_call_response_has_the_b7s_format() {
    check(
        &Message::RollCallResponse(RollCallResponse {
            code: Code::ACCEPTED,
            function_id: "bafy".into(),
            request_id: "r".into(),
            ..RollCallResponse::default()
        }),
        &json!({"type": "MsgRollCallResponse", "code": "202", "function_id": "bafy", "request_id": "r"}),
    );
}

#[test]
fn work_order_has_the_b7s_format() {
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
            client: "c".into(),
            carrier: Some(Carrier { traceparent: "00-a-b-01".into(), ..Carrier::default() }),
        }),
        &json!({
            "type": "MsgWorkOrder", "function_id": "bafy", "method": "m.wasm",
            "parameters": [{"value": "a"}],
            "config": {"number_of_nodes": 2, "stdin": "in", "env_vars": [{"name": "K", "value": "v"}]},
            "request_id": "r", "timestamp": "2026-07-30T21:57:00Z", "client": "c",
            "carrier": {"traceparent": "00-a-b-01"},
        }),
    );
}

#[test]
fn work_order_response_has_the_b7s_format() {
    check(
        &Message::WorkOrderResponse(WorkOrderResponse {
            request_id: "r".into(),
            code: Code::OK,
            result: NodeResult {
                code: Code::OK,
                result: Outcome { stdout: "out".into(), ..Outcome::default() },
                usage: Usage { wall_clock_ns: 1_500, memory_max_kib: 64, ..Usage::default() },
                call_signature: String::new(),
            },
            ..WorkOrderResponse::default()
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
fn execution_request_has_the_format_of_b7s_version_1() {
    let order = WorkOrder {
        function_id: "bafy".into(),
        method: "m.wasm".into(),
        config: ExecuteConfig { number_of_nodes: 2, ..ExecuteConfig::default() },
        request_id: "r".into(),
        ..WorkOrder::default()
    };
    check(
        &Message::Execute(Execute { order, from: "12D3KooWhead".into(), ..Execute::default() }),
        &json!({
            "type": "MsgExecute", "function_id": "bafy", "method": "m.wasm",
            "config": {"number_of_nodes": 2}, "request_id": "r", "from": "12D3KooWhead",
        }),
    );
}

#[test]
fn execution_response_contains_a_result_for_each_peer() {
    let result = NodeResult { code: Code::OK, ..NodeResult::default() };
    check(
        &Message::ExecuteResponse(ExecuteReply {
            request_id: "r".into(),
            from: "12D3KooWworker".into(),
            code: Code::OK,
            results: [("12D3KooWworker".to_owned(), result)].into(),
            ..ExecuteReply::default()
        }),
        &json!({
            "type": "MsgExecuteResponse", "request_id": "r", "from": "12D3KooWworker",
            "code": "200", "cluster": {},
            "results": {"12D3KooWworker": {
                "code": "200", "result": {"stdout": "", "stderr": "", "exit_code": 0}, "usage": {},
            }},
        }),
    );
}

#[test]
fn install_message_has_the_b7s_format() {
    let install = InstallFunction {
        manifest_url: "https://x/m.json".into(),
        cid: "bafy".into(),
        pinned: false,
    };
    check(
        &Message::InstallFunction(install),
        &json!({"type": "MsgInstallFunction", "manifest_url": "https://x/m.json", "cid": "bafy"}),
    );
}

#[test]
fn unknown_fields_of_messages_are_ignored() {
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
fn message_of_unknown_type_is_distinguished_from_a_malformed_message() {
    let unknown = Message::read(br#"{"type":"MsgHealthCheck","code":200}"#);
    assert!(matches!(unknown, Err(MessageError::Unknown)));
    for nonsense in ["", "null", "[]", "{}", r#"{"type":1}"#, r#"{"type":"MsgRollCall","code":"#] {
        let read = Message::read(nonsense.as_bytes());
        assert!(matches!(read, Err(MessageError::Malformed(_))), "{nonsense}: {read:?}");
    }
    let wrong = Message::read(br#"{"type":"MsgRollCall","function_id":1}"#);
    assert!(matches!(wrong, Err(MessageError::Malformed(_))), "{wrong:?}");
}

#[test]
fn message_with_a_too_long_id_is_rejected() {
    let long = "x".repeat(ID_BYTES_MAX + 1);
    for kind in KINDS {
        for field in ["request_id", "function_id", "cid"] {
            let sent = json!({"type": kind, field: long}).to_string();
            if let Ok(message) = Message::read(sent.as_bytes()) {
                assert!(
                    !String::from_utf8(json(&message)).unwrap().contains(&long),
                    "{kind} {field}"
                );
            }
        }
    }
    let order = WorkOrder { request_id: long, ..WorkOrder::default() };
    let read = WorkOrder::read(&json(&order));
    assert!(matches!(read, Err(MessageError::LongId { .. })), "{read:?}");
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_is_not_a_valid_signature(text in ".{1,200}") {
        let peer = crate::identity::Identity::random().peer_id().clone();
        let call = CallDigest::new(&WorkOrder::default(), &peer);
        let of = SignedCall { request_id: "r", function_id: "f", call };
        let result = NodeResult { call_signature: text, ..NodeResult::default() };
        proptest::prop_assert_eq!(result.signed_by(&peer, of), Signed::Wrongly);
    }

    #[test]
    fn parsing_arbitrary_bytes_as_messages_does_not_panic(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300),
    ) {
        drop(Message::read(&bytes));
        drop(serde_json::from_slice::<Offer>(&bytes));
        drop(WorkOrder::read(&bytes));
        drop(serde_json::from_slice::<WorkOrderResponse>(&bytes));
    }

    #[test]
    fn parsed_messages_are_written_back_unchanged(
        kind in proptest::sample::select(KINDS.to_vec()),
        fields in proptest::collection::vec((
            proptest::sample::select(vec![
                "code", "function_id", "request_id", "method", "parameters", "config", "result",
                "results", "consensus", "attributes", "origin", "from", "cid", "manifest_url",
                "timestamp", "error_message", "cluster", "type",
            ]),
            proptest::sample::select(vec![
                "null", "1", "-1", "1e300", "\"\"", "\"202\"", "[]", "{}", "true",
                r#"{"stdout":"a","exit_code":1}"#, r#"[{"name":"n","value":"v"}]"#,
                r#"{"number_of_nodes":-1,"env_vars":[{"name":"a","value":"b"}]}"#,
            ]),
        ), 0..8),
    ) {
        let fields: String = fields.iter().fold(String::new(), |text, (name, value)| {
            format!("{text},\"{name}\":{value}")
        });
        let sent = format!("{{\"type\":\"{kind}\"{fields}}}");
        if let Ok(message) = Message::read(sent.as_bytes()) {
            let again = Message::read(&json(&message));
            proptest::prop_assert_eq!(again.unwrap(), message);
        }
    }
}
