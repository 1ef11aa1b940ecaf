use serde_json::json;

use super::*;

#[test]
fn omitted_request_fields_mean_one_node_of_any_group() {
    let request: ExecuteRequest = serde_json::from_value(
        json!({"function_id": "bafy", "method": "m.wasm", "parameters": null, "unknown": 1}),
    )
    .unwrap();
    assert_eq!((request.group(), request.config.number_of_nodes), (None, 0));
    assert_eq!(request.arguments(), Vec::<String>::new());
}

#[test]
fn subgroup_takes_precedence_over_topic_unless_it_is_empty() {
    let group = |subgroup: &str, topic: &str| {
        let request: ExecuteRequest =
            serde_json::from_value(json!({"subgroup": subgroup, "topic": topic})).unwrap();
        request.group().map(str::to_owned)
    };
    assert_eq!(group("a", "b").as_deref(), Some("a"));
    assert_eq!(group("", "b").as_deref(), Some("b"));
    assert_eq!(group("", ""), None);
}

#[test]
fn json_of_a_failure_has_an_empty_cluster_and_no_results() {
    let response =
        ExecuteResponse { code: "408".into(), request_id: "x".into(), ..Default::default() };
    assert_eq!(
        serde_json::to_string(&response).unwrap(),
        r#"{"code":"408","request_id":"x","cluster":{}}"#
    );
}

#[test]
fn exit_code_of_a_crash_on_windows_is_read_as_negative() {
    let read = |code: i64| {
        let outcome: Option<Outcome> = serde_json::from_value(json!({"exit_code": code})).ok();
        outcome.map(|outcome| outcome.exit_code)
    };
    assert_eq!(read(0xC000_0005), Some(-1_073_741_819));
    assert_eq!([read(-1), read(7), read(1 << 32)], [Some(-1), Some(7), None]);
}

#[test]
fn empty_arguments_are_omitted_from_requests() {
    let request: ExecuteRequest = serde_json::from_value(
        json!({"parameters": [{"value": "a"}, {"name": "x", "value": ""}, {"value": "b"}]}),
    )
    .unwrap();
    assert_eq!(request.arguments(), ["a", "b"]);
}

#[test]
fn nodes_agree_if_one_result_group_is_larger_than_all_others() {
    let groups: [(&[usize], bool); 5] =
        [(&[], false), (&[1], true), (&[2, 1, 1], true), (&[2, 2, 1], false), (&[1, 1], false)];
    for (sizes, want) in groups {
        assert_eq!(has_largest(sizes.iter().copied()), want, "{sizes:?}");
    }
}
