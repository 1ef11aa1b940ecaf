//! An account can neither exclude other accounts nor determine the combined value, tested over real
//! sockets.

use std::time::Duration;

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use task::wait;

use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::running::Running;

/// Maximum time until a service listens, or until an epoch of twelve seconds opens or closes.
const WITHIN: Duration = Duration::from_mins(1);

const SUBMISSIONS: &str = "/api/v1/topics/1/submissions";

/// Submits a value. Returns the status and the body of the response.
async fn submit(http: &Http, nonce: Option<u64>, model: &str, value: &str) -> (StatusCode, Value) {
    let mut body = json!({"model": model, "value": value});
    if let Some(nonce) = nonce {
        body["nonce"] = json!(nonce);
    }
    http.post(SUBMISSIONS, &body).await
}

/// Submits a value of `model` repeatedly until an epoch accepts it. Returns the epoch's nonce.
async fn open_epoch(http: &Http, model: &str, value: &str) -> u64 {
    let open = || async {
        match submit(http, None, model, value).await {
            (StatusCode::OK, accepted) => Ok(accepted["nonce"].as_u64().unwrap()),
            other => Err(other),
        }
    };
    wait::until(WITHIN, open).await.unwrap()
}

/// Waits until epoch `nonce` is closed. Returns its combined value and its signed value.
async fn values(http: &Http, nonce: u64) -> [f64; 2] {
    let path = "/emissions/v10/latest_network_inferences/1";
    let closed = || async {
        let (_, body) = http.get_json(path).await;
        let bundle = body["network_inferences"].clone();
        let is_it = bundle["nonce"].as_str().and_then(|text| text.parse().ok()) == Some(nonce);
        if is_it { Ok(bundle) } else { Err(body) }
    };
    let bundle = wait::until(WITHIN, closed).await.unwrap();
    let signed = http.get_ok("/v2/allora/consumer/ethereum-11155111?allora_topic_id=1").await;
    let signed = &signed["data"]["inference_data"]["network_inference_normalized"];
    [&bundle["combined_value"][0]["value"], signed]
        .map(|text| text.as_str().unwrap().parse().unwrap())
}

#[tokio::test]
async fn account_with_many_keys_cannot_exclude_other_workers_or_move_the_combined_value() {
    let home = Home::new();
    let data_dir = home.path("data");
    let home = home.with("TRIPTYCH_DATA_DIR", &data_dir);
    let key = |words: &[&str]| -> String {
        let made = home.run_ok(&[&["keys", "create", "--json"], words].concat());
        let made: Value = serde_json::from_str(&made).unwrap();
        made["api_key"].as_str().unwrap().to_owned()
    };
    let operator = key(&["operator"]);
    let words = ["datasets", "serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", &data_dir];
    let datasets = Running::start(&words);
    let address = datasets.wait_log_field("dataset service listening", "address");
    let portal = Http::new(&format!("http://{address}"), Some(&operator));
    portal.post("/api/tags/acquire/", &json!({"tag_name": "public"})).await;
    let words = ["inference", "serve", "--listen", "127.0.0.1:0", "--data-dir", &data_dir];
    let series = format!("http://{address}/api");
    let more = ["--block-time-ms", "500", "--head", "http://127.0.0.1:1", "--datasets", &series];
    let environment = [("TRIPTYCH_API_KEY", operator.as_str())];
    let inference = Running::start_with(&[&words[..], &more].concat(), &environment);
    let address = inference.wait_log_field("inference service listening", "address");
    let base = format!("http://{address}");

    // If the service signs values, sign-up is closed by default.
    let stranger = json!({"name": "stranger", "password": "correct horse"});
    let sign_up = "/api/accounts/sign_up";
    assert_eq!(portal.post(sign_up, &stranger).await.0, StatusCode::FORBIDDEN);
    home.run_ok(&["keys", "sign-up", "open"]);
    assert_eq!(portal.post(sign_up, &stranger).await.0, StatusCode::CREATED);
    let strangers = (0..66).map(|idx| key(&[&format!("key {idx}"), "--account", "stranger"]));
    let strangers: Vec<_> = strangers.map(|key| Http::new(&base, Some(&key))).collect();
    let own = Http::new(&base, Some(&operator));
    let settings = json!({"metadata": "attacked", "dataset": "machine_cpu",
        "column": "load_percent", "horizon_seconds": 60, "epoch_length": 24, "worker_submission_window": 24});
    let (status, created) = own.post("/api/v1/topics", &settings).await;
    assert_eq!(status, StatusCode::OK, "{created}");

    let nonce = open_epoch(&strangers[0], "first", "1000000").await;
    let attack = strangers
        .iter()
        .flat_map(|http| ["a", "b"].map(|model| submit(http, Some(nonce), model, "1000000")));
    let n_taken = join_all(attack).await.iter().filter(|of| of.0 == StatusCode::OK).count();
    assert_eq!(n_taken, 15, "limit of 16 workers per account");
    for (model, value) in [("a", "4.2"), ("b", "4.3"), ("c", "4.4")] {
        let (status, body) = submit(&own, Some(nonce), model, value).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    for value in values(&own, nonce).await {
        assert!((value - 4.3).abs() < 0.1, "{value}");
    }

    // A worker of an operator counts for the combined value, but not for the signed value.
    let nonce = open_epoch(&own, "a", "4.2").await;
    for (model, value) in [("b", "4.3"), ("c", "4.4"), ("d", "1000000")] {
        let (status, body) = submit(&own, Some(nonce), model, value).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    let [combined, signed] = values(&own, nonce).await;
    assert!(combined > 200_000.0 && (signed - 4.3).abs() < 0.1, "{combined} {signed}");
}
