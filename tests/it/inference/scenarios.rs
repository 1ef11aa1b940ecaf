//! Requests, and the exact responses to them, in `tests/data/inference/scenarios.http`.

use std::time::Duration;

use serde_json::{Value, json};
use task::wait;

use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::running::Running;
use crate::support::scenarios::{Known, check, read_file};
use crate::support::up::Up;

/// Minimum number of scenarios, so that a truncated file does not pass.
const N_SCENARIOS_MIN: usize = 90;

/// Maximum time until a topic opens an epoch, or learns from an epoch of two blocks.
const STEP_WITHIN: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inference_responses_equal_the_recorded_scenarios() {
    let up = Up::shared();
    check_on(up.inference(), up.text("api_key")).await;
}

/// The head and the dataset service belong to the shared stack.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inference_responses_with_postgresql_equal_the_recorded_scenarios() {
    let Some(store) = test_postgres::new_database() else { return };
    let up = Up::shared();
    let home = Home::new();
    let data_dir = home.path("data");
    let home = home.with("TRIPTYCH_DATA_DIR", &data_dir).with("TRIPTYCH_STORE", &store);
    let key = home.run_ok(&["keys", "create", "scenarios"]).trim().to_owned();
    let arguments = [
        &["inference", "serve", "--demo", "--unlimited-loopback", "--listen", "127.0.0.1:0"][..],
        &["--data-dir", &data_dir, "--head", up.text("head"), "--datasets", up.text("datasets")],
    ];
    let environment = [("TRIPTYCH_STORE", &*store), ("TRIPTYCH_API_KEY", up.text("api_key"))];
    let service = Running::start_with(&arguments.concat(), &environment);
    let address = service.wait_log_field("inference service listening", "address");
    check_on(Http::new(&format!("http://{address}"), Some(&key)), &key).await;
}

/// Checks the scenarios with the service of `http` and `key`.
async fn check_on(http: Http, key: &str) {
    let open = create(&http, json!({"epoch_length": 100_000, "experimental": true})).await;
    let brief = json!({"epoch_length": 2, "worker_submission_window": 1, "experimental": true});
    let closed = create(&http, brief).await;
    submit_until_learned(&http, &closed).await;
    let nonce =
        wait::until(STEP_WITHIN, || first_nonce(&http, "open_worker_submission_windows", &open));
    let known = [
        ("key", key.to_owned()),
        ("nonce", nonce.await.unwrap()),
        ("open", open),
        ("closed", closed),
    ];
    let known: Known = known.map(|(name, value)| (name.to_owned(), value)).into();
    check(&read_file("inference"), http.base(), known, N_SCENARIOS_MIN).await;
}

/// Creates a topic that predicts the machine's load, without built-in forecasters. Returns the topic's
/// id.
async fn create(http: &Http, changes: Value) -> String {
    let mut settings = json!({"metadata": "scenarios", "dataset": "machine_cpu",
        "column": "load_percent", "horizon_seconds": 1, "built_in_forecasters": false});
    for (name, value) in changes.as_object().unwrap() {
        settings[name] = value.clone();
    }
    let (status, created) = http.post("/api/v1/topics", &settings).await;
    assert!(status.is_success(), "{status}: {created}");
    created["topic"]["id"].as_str().unwrap().to_owned()
}

/// Submits a value to each epoch of `topic` until the network has learned from one of these epochs. Then
/// pauses the topic.
async fn submit_until_learned(http: &Http, topic: &str) {
    let submissions = format!("/api/v1/topics/{topic}/submissions");
    let (reputers, workers) = ("unfulfilled_reputer_nonces", "unfulfilled_worker_nonces");
    let reward = format!("/emissions/v10/topic_reward_nonce/{topic}");
    let learned = || async {
        // Fails between epochs, when no window is open.
        http.post(&submissions, &json!({"value": "42.5"})).await;
        let body = http.get_ok(&reward).await;
        if body["nonce"] == "0" { Err(body) } else { Ok(()) }
    };
    wait::until(STEP_WITHIN, learned).await.unwrap();
    let active = format!("/api/v1/topics/{topic}/active");
    let paused = http.send("PUT", &active, &json!({"active": false}).to_string()).await;
    assert!(paused.status().is_success(), "{paused:?}");
    let is_done = || async {
        for query in [workers, reputers] {
            if let Ok(nonce) = first_nonce(http, query, topic).await {
                return Err(format!("{query}: {nonce}"));
            }
        }
        Ok(())
    };
    wait::until(STEP_WITHIN, is_done).await.unwrap();
}

/// Returns the first nonce in the response to `query` for `topic`.
async fn first_nonce(http: &Http, query: &str, topic: &str) -> Result<String, Value> {
    let body = http.get_ok(&format!("/emissions/v10/{query}/{topic}")).await;
    match body["nonces"]["nonces"].get(0) {
        Some(nonce) => Ok(nonce["block_height"].as_str().unwrap_or_default().to_owned()),
        None => Err(body),
    }
}
