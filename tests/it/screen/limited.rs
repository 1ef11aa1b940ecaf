//! The Inference screen with a service that rejects requests once a quota is exhausted.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use task::wait;

use super::{PAINT_WITHIN, SHOWN_WITHIN};
use crate::support::TUI;
use crate::support::datasets::Service;
use crate::support::http::Http;
use crate::support::pty::{Place, Session, text};
use crate::support::running::Running;

/// Maximum time until an epoch opens or closes.
const WITHIN: Duration = Duration::from_mins(1);

/// Starts an inference service that uses `datasets`. The service's chain has five blocks per second.
fn serve(datasets: &Service, listen: &str, more: &[&str]) -> (Running, String) {
    let (folder, address) = (datasets.data_dir(), datasets.address());
    let arguments = [
        &["inference", "serve", "--data-dir", &folder, "--listen", listen][..],
        &["--head", "http://127.0.0.1:1", "--datasets", &address, "--block-time-ms", "200"],
        more,
    ];
    let environment = [("TRIPTYCH_API_KEY", datasets.key())];
    let started = Running::start_with(&arguments.concat(), &environment);
    let address = started.wait_log_field("inference service listening", "address");
    (started, address)
}

/// Creates a topic and submits an inference, so that the combined value is 42.5.
async fn infer(datasets: &Service, base: &str) {
    let home = datasets.home().with("TRIPTYCH_INFERENCE", base);
    home.run_ok(&["datasets", "create", "load", "--column", "value"]);
    let settings = json!({"metadata": "by hand", "dataset": "load", "column": "value",
        "horizon_seconds": 60, "ground_truth_lag": 60});
    home.write("topic.json", settings.to_string().as_bytes());
    let created = home.run_ok(&["inference", "topics", "create", "topic.json"]);
    let created: Value = serde_json::from_str(&created).unwrap();
    let id = created["id"].as_str().unwrap().to_owned();
    let submit = || async {
        let output = home.run(&["inference", "submit", &id, "42.500", "--model", "mine"]);
        if output.code == 0 { Ok(()) } else { Err(output) }
    };
    wait::until(WITHIN, submit).await.unwrap();
    let http = Http::new(base, Some(datasets.key()));
    let path = format!("/emissions/v10/latest_network_inferences/{id}");
    let look = || async {
        match http.get(&path).await {
            (StatusCode::OK, _) => Ok(()),
            other => Err(other),
        }
    };
    wait::until(WITHIN, look).await.unwrap();
}

#[tokio::test]
async fn exhausted_quota_is_shown_above_the_last_good_values() {
    let datasets = Service::start();
    let (mut service, address) = serve(&datasets, "127.0.0.1:0", &[]);
    let base = format!("http://{address}");
    infer(&datasets, &base).await;
    assert!(service.stop(), "the service exits with success");
    // The quota is enough for the topic, its values and some polls.
    let (_service, _) = serve(&datasets, &address, &["--requests-per-day", "7"]);

    let environment = [("TRIPTYCH_API_KEY", datasets.key())];
    let place = Place { environment: &environment, ..Place::default() };
    let session = Session::start_in(&place, TUI, &["--inference", &base]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.press("4");
    session.wait_text("42.5", SHOWN_WITHIN);
    // A response may arrive after a later request was refused. The header shows the latest outcome.
    let wanted = ["429 · retry in ", "42.5", "by hand", "infer ◐ 429 · retry "];
    session.wait_for("the quota in the pane and the header", SHOWN_WITHIN, |screen| {
        let shown = text(screen);
        wanted.iter().all(|wanted| shown.contains(wanted)).then_some(())
    });
    session.press("1");
    session.press("4");
    let shown = session.wait_text("429 · retry in ", SHOWN_WITHIN);
    assert!(shown.contains("42.5"), "{shown}");
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    session.assert_no_key();
}
