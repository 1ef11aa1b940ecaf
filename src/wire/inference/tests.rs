use serde_json::json;

use super::*;

#[test]
fn json_of_a_bundle_has_the_documented_form() {
    let value = || vec![LabeledValue { label_id: 1, label_name: "y".into(), value: 2605.5 }];
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
    let body = LatestBundle { block_height: bundle.nonce, bundle };
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
    let json = serde_json::to_value(&body).unwrap();
    assert_eq!(serde_json::from_value::<LatestBundle>(json).unwrap(), body);
}

#[test]
fn one_out_and_one_in_values_round_trip_in_the_form_of_the_chain() {
    let value = || vec![LabeledValue { label_id: 1, label_name: "up".into(), value: 1.0 }];
    let actor = || "allo1abc".parse().unwrap();
    let bundle = Bundle {
        topic_id: "2".parse().unwrap(),
        nonce: 7,
        combined_value: value(),
        inferer_values: vec![],
        forecaster_values: vec![],
        naive_value: value(),
        one_out_inferer_values: vec![WithheldInferer {
            withheld_inferer: actor(),
            combined_inference: value(),
        }],
        one_out_forecaster_values: vec![WithheldForecaster {
            withheld_forecaster: actor(),
            combined_inference: value(),
        }],
        one_in_forecaster_values: vec![OneInForecaster {
            forecaster: actor(),
            combined_inference: value(),
        }],
        one_out_inferer_forecaster_values: vec![],
    };
    let labeled = json!([{"label_id": 1, "label_name": "up", "value": "1"}]);
    let inferences = serde_json::to_value(&bundle).unwrap();
    for (name, actors) in [
        ("one_out_inferer_values", json!({"withheld_inferer": "allo1abc"})),
        ("one_out_forecaster_values", json!({"withheld_forecaster": "allo1abc"})),
        ("one_in_forecaster_values", json!({"forecaster": "allo1abc"})),
    ] {
        let mut want = actors;
        want["combined_inference"] = labeled.clone();
        assert_eq!(inferences[name], json!([want]), "{name}");
    }
    assert_eq!(serde_json::from_value::<Bundle>(inferences).unwrap(), bundle);
}

#[test]
fn json_of_a_topic_has_no_settings_of_labels_before_v10() {
    let old = json!({"id": "1", "creator": "", "metadata": "m", "loss_method": "mse",
        "epoch_last_ended": "0", "epoch_length": "12", "ground_truth_lag": "12", "p_norm": "3",
        "c_norm": "0.75", "alpha_regret": "0.1", "allow_negative": false, "epsilon": "0.01",
        "initial_regret": "0", "worker_submission_window": "6", "merit_sortition_alpha": "0.1",
        "active_inferer_quantile": "0.25", "active_forecaster_quantile": "0.25",
        "active_reputer_quantile": "0.25"});
    let topic: TopicBody = serde_json::from_value(old.clone()).unwrap();
    assert_eq!((&topic.labeling, serde_json::to_value(&topic).unwrap()), (&None, old.clone()));
    let mut new = old;
    let labeling = json!({"topic_type": "TOPIC_TYPE_REGRESSION",
        "output_arity": "TOPIC_OUTPUT_ARITY_SINGLE", "require_unity": false, "label_whitelist": ["y"],
        "unity_tolerance": "0", "max_labels_per_submission": "1", "label_default_value": "0",
        "label_case_sensitive": false});
    new.as_object_mut().unwrap().extend(labeling.as_object().unwrap().clone());
    let topic: TopicBody = serde_json::from_value(new.clone()).unwrap();
    assert_eq!(serde_json::to_value(&topic).unwrap(), new);
}
