//! Creates a topic and submits an inference by commands. The inference must be in the served bundle.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use task::wait;

use crate::support::command::Home;
use crate::support::up::Up;

/// Maximum time until the bundle of an epoch of twelve blocks is served.
const EPOCH_WITHIN: Duration = Duration::from_mins(1);

#[tokio::test]
async fn topics_for_several_horizons_are_created_together_or_not_at_all() {
    let up = Up::shared();
    let home = Home::new()
        .with("TRIPTYCH_API_KEY", up.text("api_key"))
        .with("TRIPTYCH_INFERENCE", up.text("inference"));
    let settings = json!({"metadata": "load return", "dataset": "machine_cpu",
        "column": "load_percent", "target": "log_return", "loss_method": "czar",
        "loss_parameters": {"alpha": "0.1"}});
    home.write("topic.json", settings.to_string().as_bytes());
    let create = ["inference", "topics", "create", "topic.json", "--horizon"];
    let listed = || home.run_ok(&["inference", "topics", "list"]);
    // The second horizon ends within the submission window.
    let refused = home.run_err(&[&create[..], &["5m,1s"]].concat());
    assert!(refused.contains("load return, 1s: invalid topic settings"), "{refused}");
    assert!(!listed().contains("load return"));
    let created = home.run_ok(&[&create[..], &["5m,1h"]].concat());
    let created: Vec<Value> = serde_json::from_str(&created).unwrap();
    let names: Vec<&Value> = created.iter().map(|topic| &topic["metadata"]).collect();
    assert_eq!(names, ["load return, 5m", "load return, 1h"]);
    for topic in &created {
        assert!(listed().contains(topic["metadata"].as_str().unwrap()));
        home.run_ok(&["inference", "topics", "delete", topic["id"].as_str().unwrap()]);
    }
}

#[tokio::test]
async fn submission_is_rejected_once_the_row_two_days_later_exists() {
    let up = Up::shared();
    let home = Home::new()
        .with("TRIPTYCH_API_KEY", up.text("api_key"))
        .with("TRIPTYCH_DATASETS", up.text("datasets"))
        .with("TRIPTYCH_INFERENCE", up.text("inference"));
    let dataset = home.run_ok(&["datasets", "create", "slow", "--column", "value"]);
    let dataset: u64 = dataset.trim().parse().unwrap();
    let insert = async |times: &[&str]| {
        let row = |at: &&str| json!({"timestamp": at, "values": {"value": 1}});
        let body = json!({"dataset": dataset, "rows": times.iter().map(row).collect::<Vec<_>>()});
        let (status, told) = up.datasets().post("/api/rows/bulk_insert/", &body).await;
        assert!(status.is_success(), "{told}");
    };
    insert(&["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]).await;
    // A long epoch, so that both submissions are in its window.
    let settings = json!({"metadata": "slow", "dataset": "slow", "column": "value",
        "horizon_seconds": 172_800, "epoch_length": 1200, "worker_submission_window": 600});
    home.write("topic.json", settings.to_string().as_bytes());
    let created = home.run_ok(&["inference", "topics", "create", "topic.json"]);
    let created: Value = serde_json::from_str(&created).unwrap();
    let id = created["id"].as_str().unwrap();
    let submit = || async {
        let said = home.run(&["inference", "submit", id, "42.5", "--model", "early"]);
        // The command fails until the first epoch opens, with the next block.
        if said.code == 0 { Ok(()) } else { Err(said) }
    };
    wait::until(EPOCH_WITHIN, submit).await.unwrap();
    insert(&["2026-01-03T00:02:00Z"]).await;
    let late = home.run_err(&["inference", "submit", id, "42.5", "--model", "late"]);
    assert!(late.contains("dataset slow already has the row that nonce"), "{late}");
    home.run_ok(&["inference", "topics", "delete", id]);
}

#[tokio::test]
async fn bundle_contains_a_value_submitted_by_command() {
    let up = Up::shared();
    let home = Home::new()
        .with("TRIPTYCH_API_KEY", up.text("api_key"))
        .with("TRIPTYCH_INFERENCE", up.text("inference"));
    let settings = json!({"metadata": "by hand", "dataset": "machine_cpu",
        "column": "load_percent", "horizon_seconds": 60, "ground_truth_lag": 60});
    home.write("topic.json", settings.to_string().as_bytes());
    let created = home.run_ok(&["inference", "topics", "create", "topic.json"]);
    let created: Value = serde_json::from_str(&created).unwrap();
    let id = created["id"].as_str().unwrap().to_owned();
    assert!(home.run_ok(&["inference", "topics", "list"]).contains("by hand"));

    let submit = || async {
        let said = home.run(&["inference", "submit", &id, "42.500", "--model", "mine"]);
        // The command fails until the first epoch opens, with the next block.
        if said.code == 0 { Ok(()) } else { Err(said) }
    };
    wait::until(EPOCH_WITHIN, submit).await.unwrap();
    let again = home.run_err(&["inference", "submit", &id, "43", "--model", "mine"]);
    assert!(again.contains("submitted another payload for nonce"), "{again}");

    let http = up.inference();
    let path = format!("/emissions/v10/latest_network_inferences/{id}");
    let look = || async {
        match http.get_json(&path).await {
            (StatusCode::OK, body) => Ok(body),
            other => Err(other),
        }
    };
    let body = wait::until(EPOCH_WITHIN, look).await.unwrap();
    assert_eq!(body["network_inferences"]["combined_value"][0]["value"], "42.5");
    let renamed = json!({"metadata": "renamed", "dataset": "machine_cpu",
        "column": "load_percent", "horizon_seconds": 60, "ground_truth_lag": 60});
    let said =
        home.run_with(&["inference", "topics", "update", &id, "-"], renamed.to_string().as_bytes());
    let updated: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&updated["id"], &updated["metadata"]), (&json!(id), &json!("renamed")), "{said:?}");
    let paused = home.run_ok(&["inference", "topics", "pause", &id]);
    let paused: Value = serde_json::from_str(&paused).unwrap();
    assert_eq!(paused["id"].as_str(), Some(id.as_str()));
    let listed = home.run_ok(&["inference", "topics", "list"]);
    let line = listed.lines().find(|line| line.ends_with("renamed")).unwrap();
    assert!(line.contains("paused"), "{line}");
    let resumed = home.run_ok(&["inference", "topics", "resume", &id]);
    assert!(resumed.contains("renamed"), "{resumed}");
    let others = home.run_err(&["inference", "topics", "pause", "1"]);
    assert!(others.contains("topic 1 is built in"), "{others}");
}
