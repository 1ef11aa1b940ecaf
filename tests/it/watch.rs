//! `triptych watch`: alerts about rows and services, which are printed, sent to a webhook or passed to a
//! command.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::command::Home;
use crate::support::datasets::Service;
use crate::support::server;

/// Maximum time until the program sends a request.
const REQUEST_WITHIN: Duration = Duration::from_mins(1);

/// Creates a dataset with a column `close` of numbers. Returns its id.
async fn create(service: &Service) -> i64 {
    let columns = [json!({"name": "close", "dtype": "float"})];
    let request = json!({"name": "btcusd", "columns": columns});
    let (status, body) = service.http().post("/api/datasets/", &request).await;
    assert!(status.is_success(), "{body}");
    body["id"].as_i64().unwrap()
}

async fn insert(service: &Service, dataset: i64, second: u32, close: f64) {
    let time = format!("2026-03-01T00:00:{second:02}Z");
    let rows = [json!({"timestamp": time, "values": {"close": close}})];
    let request = json!({"dataset": dataset, "rows": rows});
    let (status, body) = service.http().post("/api/rows/bulk_insert/", &request).await;
    assert!(status.is_success(), "{body}");
}

/// Returns the rule, the state and the text in a line of JSON.
fn alert_of(line: &str) -> [String; 3] {
    let line: Value = serde_json::from_str(line).unwrap();
    ["rule", "state", "text"].map(|name| line[name].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn alert_for_a_value_below_its_limit_is_printed_and_sent() {
    let service = Service::start();
    let dataset = create(&service).await;
    insert(&service, dataset, 0, 101.0).await;
    let (sender, requests) = mpsc::channel();
    let webhook = server::serve(move |request| {
        sender.send((request.header("x-triptych-signature"), request.text())).unwrap();
        request.respond("200 OK", "text/plain", b"")
    });
    let home = service.home().with("TRIPTYCH_WEBHOOK_SECRET", "secret of the webhook");
    let record = home.path("alerts.txt");
    let program = home.write_program(
        "record",
        &format!("#!/bin/sh\necho \"$TRIPTYCH_ALERT_STATE $TRIPTYCH_ALERT_TEXT\" >> {record}\n"),
    );
    let rules = format!(
        "[notify]\ncommand = ['{program}']\nwebhook = '{webhook}/alerts?token=private'\n
         [[rules]]\nname = 'low'\ndataset = 'btcusd'\ncolumn = 'close'\nbelow = 100"
    );
    let rules = home.write("rules.toml", rules.as_bytes());

    let running = home.start(&["watch", "--rules", &rules, "--json"]);
    running.wait_stderr("watching 1 rule");
    insert(&service, dataset, 1, 99.5).await;
    let lines = running.wait_lines(1);
    let want = ["low", "firing", "close of btcusd is 99.5, below 100"].map(str::to_owned);
    assert_eq!(alert_of(&lines[0]), want);
    let (signature, body) = requests.recv_timeout(REQUEST_WITHIN).unwrap();
    assert_eq!(alert_of(&body), want);
    let expected = alerts::notify::sign(b"secret of the webhook", &body);
    assert_eq!(signature, expected);

    insert(&service, dataset, 2, 100.5).await;
    assert_eq!(alert_of(&running.wait_lines(2)[1])[1], "resolved");
    requests.recv_timeout(REQUEST_WITHIN).unwrap();
    assert_eq!(running.interrupt(), Some(0));
    let recorded = std::fs::read_to_string(&record).unwrap();
    assert!(recorded.starts_with("firing close of btcusd is 99.5, below 100\n"), "{recorded}");
}

#[tokio::test]
async fn alert_is_sent_even_if_the_program_is_stopped_meanwhile() {
    let service = Service::start();
    let dataset = create(&service).await;
    let home = service.home();
    let record = home.path("alerts.txt");
    let script = format!("#!/bin/sh\nsleep 1\necho \"$TRIPTYCH_ALERT_RULE\" >> {record}\n");
    let program = home.write_program("record", &script);
    let rule = |name: &str| {
        format!("[[rules]]\nname = '{name}'\ndataset = 'btcusd'\ncolumn = 'close'\nbelow = 100\n")
    };
    let rules = format!("[notify]\ncommand = ['{program}']\n{}{}", rule("first"), rule("second"));
    let rules = home.write("rules.toml", rules.as_bytes());
    let running = home.start(&["watch", "--rules", &rules, "--json"]);
    running.wait_stderr("watching 2 rules");
    insert(&service, dataset, 1, 99.5).await;
    running.wait_lines(2);
    assert_eq!(running.interrupt(), Some(0));
    assert_eq!(std::fs::read_to_string(&record).unwrap(), "first\nsecond\n");
}

#[tokio::test]
async fn outages_and_silences_are_reported_when_they_start_and_when_they_end() {
    let mut service = Service::start();
    let dataset = create(&service).await;
    let home = service.home();
    let rules = "[[rules]]\nname = 'down'\nservice = 'datasets'\ndown_for = '1s'";
    let rules = home.write("rules.toml", rules.as_bytes());
    let silence = "[[rules]]\nname = 'silent'\ndataset = 'btcusd'\nsilent_for = '2s'";
    let silence = home.write("silence.toml", silence.as_bytes());
    let outages = home.start(&["watch", "--rules", &rules, "--json"]);
    let silences = home.start(&["watch", "--rules", &silence, "--json"]);
    assert_eq!(alert_of(&silences.wait_lines(1)[0])[1], "firing");
    service.kill();
    assert_eq!(alert_of(&outages.wait_lines(1)[0])[..2], ["down", "firing"]);
    service.start_again();
    let resolved = &outages.wait_lines(2)[1];
    assert_eq!(alert_of(resolved)[1..], ["resolved", "dataset service responds again"]);
    insert(&service, dataset, 1, 1.0).await;
    assert_eq!(alert_of(&silences.wait_lines(2)[1])[1], "resolved");
    assert_eq!(outages.interrupt(), Some(0));
}

#[tokio::test]
async fn rule_applies_to_a_new_dataset_with_the_name_of_a_deleted_dataset() {
    let service = Service::start();
    let dataset = create(&service).await;
    let home = service.home();
    let rules = "[[rules]]\nname = 'low'\ndataset = 'btcusd'\ncolumn = 'close'\nbelow = 100";
    let rules = home.write("rules.toml", rules.as_bytes());
    let running = home.start(&["watch", "--rules", &rules, "--json"]);
    insert(&service, dataset, 1, 99.5).await;
    assert_eq!(alert_of(&running.wait_lines(1)[0])[1], "firing");
    let deleted = service.http().delete(&format!("/api/datasets/{dataset}/")).await;
    assert!(deleted.0.is_success(), "{deleted:?}");
    let dataset = create(&service).await;
    insert(&service, dataset, 2, 100.5).await;
    assert_eq!(alert_of(&running.wait_lines(2)[1])[1], "resolved");
    assert_eq!(running.interrupt(), Some(0));
}

#[tokio::test]
async fn change_is_measured_from_rows_that_were_stored_before_the_start() {
    let service = Service::start();
    let dataset = create(&service).await;
    let time = |n: i64| format!("2026-03-01T00:{:02}:{:02}Z", n / 60, n % 60);
    let close = |n: i64| if n == 0 { 200.0 } else { 100.0 };
    let rows: Vec<Value> =
        (0..300).map(|n| json!({"timestamp": time(n), "values": {"close": close(n)}})).collect();
    let request = json!({"dataset": dataset, "rows": rows});
    let (status, body) = service.http().post("/api/rows/bulk_insert/", &request).await;
    assert!(status.is_success(), "{body}");
    let home = service.home();
    let rules = "[[rules]]\nname = 'fall'\ndataset = 'btcusd'\ncolumn = 'close'\nfalls = 40\n\
                 within = '72h'";
    let rules = home.write("rules.toml", rules.as_bytes());
    let running = home.start(&["watch", "--rules", &rules, "--json"]);
    let want = ["fall", "firing", "close of btcusd is 100, -50.00 % from 200"];
    assert_eq!(alert_of(&running.wait_lines(1)[0]), want);
    assert_eq!(running.interrupt(), Some(0));
}

#[tokio::test]
async fn rules_are_judged_by_the_rows_of_a_service_that_does_not_send_deletions() {
    let service = Service::start();
    let dataset = create(&service).await;
    let time = |n: i64| format!("2025-{:02}-{:02}T00:00:00Z", 1 + n / 28, 1 + n % 28);
    let close = |n: i64| if n == 0 { 200.0 } else { 100.0 };
    let rows: Vec<Value> =
        (0..280).map(|n| json!({"timestamp": time(n), "values": {"close": close(n)}})).collect();
    let request = json!({"dataset": dataset, "rows": rows});
    let (status, body) = service.http().post("/api/rows/bulk_insert/", &request).await;
    assert!(status.is_success(), "{body}");
    let proxy = server::forward_strictly(service.address().trim_end_matches("/api"));
    let home = service.home().with("TRIPTYCH_DATASETS", &format!("{proxy}/api"));
    let rules = "[[rules]]\nname = 'fall'\ndataset = 'btcusd'\ncolumn = 'close'\nfalls = 40\n\
                 within = '8760h'";
    let rules = home.write("rules.toml", rules.as_bytes());
    let running = home.start(&["watch", "--rules", &rules, "--json"]);
    running.wait_stderr("does not send the deletions of dataset btcusd");
    let want = ["fall", "firing", "close of btcusd is 100, -50.00 % from 200"];
    assert_eq!(alert_of(&running.wait_lines(1)[0]), want);
    insert(&service, dataset, 0, 150.0).await;
    assert_eq!(alert_of(&running.wait_lines(2)[1])[1], "resolved");
    assert_eq!(running.interrupt(), Some(0));
}

#[test]
fn alert_rules_are_checked_without_services() {
    let home = Home::new();
    let rules = home.write("rules.toml", b"[[rules]]\nservice = 'head'\ndown_for = '10s'");
    assert_eq!(home.run_ok(&["watch", "--rules", &rules, "--check"]), "head down for 10s\n");
    let invalid = home.write("rules.toml", b"[[rules]]\nservice = 'head'\ndown_for = 'soon'");
    let error = home.run_err(&["watch", "--rules", &invalid]);
    assert!(error.contains("rule 1: down_for is not a duration such as"), "{error}");
    let error = home.run_err(&["watch"]);
    assert!(error.contains("rules.toml") && error.contains("hint: pass --rules FILE"), "{error}");
    let head = home.write("rules.toml", b"[[rules]]\nservice = 'head'\ndown_for = '10s'");
    let error = home.run_err(&["watch", "--rules", &head]);
    assert!(error.contains("requires the head, but its address is not configured"), "{error}");
}
