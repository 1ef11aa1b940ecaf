//! `triptych inference backtest` with a command as the model.

use std::fs;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::command::Home;
use crate::support::datasets::Service;

/// Creates a dataset with a value that grows by one per minute, and a topic that predicts it two minutes
/// ahead.
async fn growing(service: &Service, home: &Home) {
    let id = home.run_ok(&["datasets", "create", "growing", "--column", "value"]);
    let id: u64 = id.trim().parse().unwrap();
    let row = |minute: u32| {
        let at = format!("2026-07-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
        json!({"timestamp": at, "values": {"value": minute}})
    };
    let rows: Vec<Value> = (0..120).map(row).collect();
    let body = json!({"dataset": id, "rows": rows});
    let (status, told) = service.http().post("/api/rows/bulk_insert/", &body).await;
    assert!(status == StatusCode::OK || status == StatusCode::CREATED, "{told}");
    let settings = json!({"metadata": "growing", "dataset": "growing", "column": "value",
        "horizon_seconds": 120, "min_experienced": 2});
    home.write("topic.json", settings.to_string().as_bytes());
}

/// Arguments of `inference backtest` that all of these tests use.
const ARGUMENTS: [&str; 8] = [
    "inference",
    "backtest",
    "topic.json",
    "--from",
    "2026-07-01T00:30:00Z",
    "--to",
    "2026-07-01T01:30:00Z",
    "--json",
];

fn backtest(home: &Home, more: &[&str]) -> Value {
    serde_json::from_str(&home.run_ok(&[&ARGUMENTS[..], more].concat())).unwrap()
}

#[tokio::test]
async fn backtest_ranks_the_accurate_model_first() {
    let (service, home) = Service::with_home();
    growing(&service, &home).await;
    // A model that reads the last row and adds the growth of two minutes.
    let sees = r#"sees=tail -n 1 | sed 's/.*"value":\([0-9]*\).*/\1/' | awk '{print "{\"value\":\"" $1+2 "\"}"}'"#;
    let told = backtest(&home, &["--model", sees, "--model", "broken=exit 3"]);
    let actors = told["actors"].as_array().unwrap();
    let of = |name: &str| actors.iter().find(|actor| actor["name"] == name);
    let (own, last) = (of("sees").unwrap(), of("baseline: last").unwrap());
    assert!(told["n_learned"].as_u64().unwrap() > 50, "{told}");
    assert!(own["mean_loss"].as_f64() < last["mean_loss"].as_f64(), "{told}");
    assert!(own["weight"].as_f64() > last["weight"].as_f64(), "{told}");
    assert!(of("broken").is_none() && told["failures"]["broken"].as_u64() > Some(50), "{told}");
    let alone = backtest(&home, &["--no-baselines", "--model", sees]);
    assert!(
        alone["actors"].as_array().unwrap().iter().all(|actor| actor["name"] != "baseline: last")
    );

    let arguments =
        ["inference", "backtest", "topic.json", "--from", "2026-07-01T01:58:30Z", "--to"];
    let short = home.run_err(&[&arguments[..], &["2026-07-01T01:59:30Z"]].concat());
    assert!(short.contains("no ground truth is in the range"), "{short}");
    let nothing = home.run_err(&[&ARGUMENTS[..], &["--no-baselines"]].concat());
    assert!(nothing.contains("no model to test"), "{nothing}");
    let twice = home.run_err(&[&ARGUMENTS[..], &["--model", "a=cat", "--model", "a=cat"]].concat());
    assert!(twice.contains("model a is given more than once"), "{twice}");
    let times = |from: &'static str, to: &'static str| {
        ["inference", "backtest", "topic.json", "--model", sees, "--from", from, "--to", to]
    };
    for (from, to) in [("2026-08-01", "2026-08-02"), ("2025-01-01", "2025-01-02")] {
        let missing = home.run_err(&times(from, to));
        let range = "hint: it has rows from 2026-07-01T00:00:00Z to 2026-07-01T01:59:00Z";
        assert!(missing.contains(range), "{missing}");
        assert_eq!(missing.lines().count(), 2, "one error and its hint: {missing}");
    }
    let backwards = home.run_err(&[&arguments[..], &["2026-07-01T01:00:00Z"]].concat());
    assert!(backwards.contains("is not before --to"), "{backwards}");
    let unnamed = home.run_err(&[&ARGUMENTS[..], &["--model", "cat"]].concat());
    assert!(unnamed.contains("expected NAME=COMMAND"), "{unnamed}");
}

#[tokio::test]
async fn backtest_saves_a_file_per_epoch_with_row_range_predictions_truth_and_losses() {
    let (service, home) = Service::with_home();
    growing(&service, &home).await;
    // A model that predicts the number of rows that it reads.
    let n_rows = r#"counts=echo "{\"value\":\"$(wc -l)\"}""#;
    let report = backtest(&home, &["--model", n_rows, "--rows", "5", "--save", "epochs"]);
    let directory = home.path("epochs");
    let mut files: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(Some(files.len() as u64), report["n_learned"].as_u64());
    let epoch: Value = serde_json::from_slice(&fs::read(&files[0]).unwrap()).unwrap();
    let rows = json!({"first": "2026-07-01T00:26:00Z", "last": "2026-07-01T00:30:00Z", "count": 5});
    assert_eq!(epoch["rows"], rows);
    assert_eq!(epoch["truth"][0]["value"], "32");
    let inferences = &epoch["network_inferences"];
    let names = epoch["names"].as_object().unwrap();
    let (worker, _) = names.iter().find(|(_, name)| *name == "counts").unwrap();
    let mut values = inferences["inferer_values"].as_array().unwrap().iter();
    let own = values.find(|values| values["worker"] == worker.as_str()).unwrap();
    assert_eq!(own["values"][0]["value"], "5", "{own}");
    let losses = &epoch["losses"];
    assert!(losses["inferers"][worker].as_f64() > losses["combined"].as_f64(), "{losses}");
    let again = home.run_err(&[&ARGUMENTS[..], &["--save", "epochs"]].concat());
    assert!(again.contains("directory epochs is not empty"), "{again}");
    let unwritable = home.run_err(&[&ARGUMENTS[..], &["--save", "topic.json"]].concat());
    assert!(unwritable.contains("cannot create topic.json"), "{unwritable}");
}

#[tokio::test]
async fn models_get_the_requested_rows_if_epochs_are_closer_than_rows() {
    let (service, home) = Service::with_home();
    growing(&service, &home).await;
    // Epochs are closer to each other than rows.
    backtest(&home, &["--every", "20", "--rows", "25", "--save", "epochs"]);
    let mut files: Vec<_> = fs::read_dir(home.path("epochs")).unwrap().collect();
    files.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    let first = fs::read(files[0].as_ref().unwrap().path()).unwrap();
    let epoch: Value = serde_json::from_slice(&first).unwrap();
    let rows =
        json!({"first": "2026-07-01T00:06:00Z", "last": "2026-07-01T00:30:00Z", "count": 25});
    assert_eq!(epoch["rows"], rows);
}

#[tokio::test]
async fn backtest_stops_if_an_epoch_cannot_be_saved() {
    let (service, home) = Service::with_home();
    growing(&service, &home).await;
    let model = "removes=rm -r epochs; echo >> runs; echo '{\"value\":\"1\"}'";
    let output = home.run(&[&ARGUMENTS[..], &["--model", model, "--save", "epochs"]].concat());
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("backtest failed: cannot write epochs/"), "{output:?}");
    let runs = fs::read_to_string(home.path("runs")).unwrap();
    assert!(runs.lines().count() < 10, "{output:?}");
}
