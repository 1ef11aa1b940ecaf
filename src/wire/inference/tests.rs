use serde_json::json;

use super::*;

#[test]
fn a_bundle_has_the_shape_of_the_document() {
    let value =
        || vec![LabeledValue { label_id: 1, label_name: "y".into(), value: "2605.5".into() }];
    let bundle = Bundle {
        topic_id: "1".parse().unwrap(),
        nonce: 1_349_577,
        combined_value: value(),
        inferer_values: vec![WorkerValues { worker: "allo1abc".parse().unwrap(), values: value() }],
        forecaster_values: vec![],
        naive_value: value(),
        one_out_inferer_values: vec![],
        one_out_forecaster_values: vec![],
        one_in_forecaster_values: vec![],
        one_out_inferer_forecaster_values: vec![],
    };
    let labeled = json!([{"label_id": 1, "label_name": "y", "value": "2605.5"}]);
    let body = LatestNetworkInferences::from(bundle.clone());
    assert_eq!(
        serde_json::to_value(&body).unwrap(),
        json!({
            "network_inferences": {
                "topic_id": "1", "nonce": "1349577", "combined_value": labeled,
                "inferer_values": [{"worker": "allo1abc", "values": labeled}],
                "forecaster_values": [], "naive_value": labeled,
                "one_out_inferer_values": [], "one_out_forecaster_values": [],
                "one_in_forecaster_values": [], "one_out_inferer_forecaster_values": [],
            },
            "inference_block_height": "1349577",
        })
    );
    assert_eq!(body.try_into(), Ok(bundle));
}
