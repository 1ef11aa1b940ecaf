//! `GET /emissions/{version}/latest_network_inferences/{topic_id}`.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use task::wait;

use crate::support::http::Http;
use crate::support::up::Up;

/// Maximum time for two epochs. In the local stack, an epoch lasts 12 seconds.
const EPOCHS_WITHIN: Duration = Duration::from_mins(1);

/// Waits until the latest bundle of `topic` satisfies `is_wanted`. Returns the bundle.
async fn bundle(
    http: &Http,
    topic: u32,
    is_wanted: impl Fn(&Value) -> bool + Send + Sync,
) -> Value {
    let path = format!("/emissions/v10/latest_network_inferences/{topic}");
    let look = || async {
        match http.get_json(&path).await {
            (StatusCode::OK, body) if is_wanted(&body) => Ok(body),
            other => Err(other),
        }
    };
    wait::until(EPOCHS_WITHIN, look).await.unwrap()
}

/// Returns the labels and numbers of labeled values.
fn labeled(values: &Value) -> Vec<(String, f64)> {
    let values = values.as_array().unwrap().iter();
    values
        .zip(1..)
        .map(|(value, id)| {
            assert_eq!(value.as_object().unwrap().len(), 3, "{value}");
            assert_eq!(value["label_id"], id);
            // Numbers are written as strings.
            let number = value["value"].as_str().unwrap().parse().unwrap();
            (value["label_name"].as_str().unwrap().to_owned(), number)
        })
        .collect()
}

fn labels(values: &Value) -> Vec<String> {
    labeled(values).into_iter().map(|(label, _)| label).collect()
}

/// Checks that the body has the form of the chain's API. Returns its bundle.
fn check_shape(body: &Value, topic: &str, want: &[&str]) -> Value {
    assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
    let height: u64 = body["inference_block_height"].as_str().unwrap().parse().unwrap();
    assert!(height > 0);
    let bundle = &body["network_inferences"];
    assert_eq!(bundle["topic_id"], topic);
    assert!(bundle["nonce"].as_str().unwrap().parse::<u64>().is_ok());
    for name in ["combined_value", "naive_value"] {
        assert_eq!(labels(&bundle[name]), want, "{name}");
    }
    let actors = |name: &str| bundle[name].as_array().unwrap().clone();
    for actor in [actors("inferer_values"), actors("forecaster_values")].concat() {
        assert!(actor["worker"].as_str().unwrap().starts_with("allo1"), "{actor}");
        assert_eq!(labels(&actor["values"]), want);
    }
    for name in [
        "one_out_inferer_values",
        "one_out_forecaster_values",
        "one_in_forecaster_values",
        "one_out_inferer_forecaster_values",
    ] {
        assert!(bundle[name].is_array(), "{name}: {bundle}");
    }
    bundle.clone()
}

#[tokio::test]
async fn bundle_of_a_regression_has_one_label_and_a_value_of_each_model() {
    let up = Up::shared();
    let http = up.inference();
    let n_inferers =
        |body: &Value| body["network_inferences"]["inferer_values"].as_array().unwrap().len();
    let first = bundle(&http, 1, |body| n_inferers(body) >= 8).await;
    assert!(n_inferers(&first) > up.workers(None).len(), "each model is an inferer");
    let inferences = check_shape(&first, "1", &["y"]);
    let price = labeled(&inferences["combined_value"])[0].1;
    assert!(price > 0.0 && price.is_finite(), "{price}");
}

#[tokio::test]
async fn probabilities_of_a_classification_sum_to_one_in_each_epoch() {
    let up = Up::shared();
    let http = up.inference();
    let first = bundle(&http, 2, |_| true).await;
    let nonce = |body: &Value| -> u64 {
        body["network_inferences"]["nonce"].as_str().unwrap().parse().unwrap()
    };
    let second = bundle(&http, 2, |body| nonce(body) > nonce(&first)).await;
    for body in [&first, &second] {
        let bundle = check_shape(body, "2", &["down", "flat", "up"]);
        for name in ["combined_value", "naive_value"] {
            let values = labeled(&bundle[name]);
            let sum: f64 = values.iter().map(|(_, value)| value).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{name} sums to 1: {values:?}");
            assert!(values.iter().all(|(_, value)| (0.0..=1.0).contains(value)), "{values:?}");
        }
    }
}

#[tokio::test]
async fn forecaster_of_the_demo_is_active_once_losses_are_known() {
    let up = Up::shared();
    let body = bundle(&up.inference(), 1, |_| true).await;
    let bundle = &body["network_inferences"];
    let n_forecasters = bundle["forecaster_values"].as_array().unwrap().len();
    let n_one_out = bundle["one_out_inferer_forecaster_values"].as_array().unwrap().len();
    let n_inferers = bundle["inferer_values"].as_array().unwrap().len();
    assert_eq!(n_one_out, n_forecasters * n_inferers, "{bundle}");
}
