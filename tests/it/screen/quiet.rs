//! A screen without changes writes nothing and rarely wakes up.

use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{PAINT_WITHIN, SHOWN_WITHIN};
use crate::support::cluster::Node;
use crate::support::datasets::Service;
use crate::support::pty::{Place, Session};
use crate::support::{TUI, process};

/// Time for which there must be no output.
const STILL: Duration = Duration::from_secs(10);

/// Maximum time until the screen writes nothing more, while the pauses between retries grow.
const STILL_WITHIN: Duration = Duration::from_mins(2);

/// Maximum number of wake-ups in [`STILL`]: two per second.
const WAKE_UPS_MAX: u64 = 20;

/// Waits until there is no output for [`STILL`]. Returns the number of wake-ups in that time.
#[track_caller]
fn wait_still(session: &Session) -> u64 {
    let before = session.wait_still(STILL, STILL_WITHIN, || process::wake_ups(session.pid));
    let after = process::wake_ups(session.pid);
    after.iter().map(|(thread, n)| n - before.get(thread).copied().unwrap_or(0)).sum()
}

/// Checks that each of `screens`, given as its key and a text on it, stops writing. Each screen is shown
/// by its own process, so that the waits overlap.
#[track_caller]
fn check_still(environment: &[(&str, &str)], arguments: &[&str], screens: &[(&str, &str)]) {
    thread::scope(|scope| {
        for (key, shown) in screens {
            scope.spawn(move || {
                let place = Place { environment, ..Place::default() };
                let session = Session::start_in(&place, TUI, arguments);
                session.wait_text("1 Cluster", PAINT_WITHIN);
                session.press(key);
                session.wait_text(shown, SHOWN_WITHIN);
                wait_still(&session);
            });
        }
    });
}

#[test]
fn screen_without_services_rarely_wakes_up() {
    let place = Place::default().with_config("[profiles.nowhere]\n");
    let session = Session::start_in(&place, TUI, &["--profile", "nowhere"]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    let n_woken = wait_still(&session);
    assert!(n_woken <= WAKE_UPS_MAX, "{n_woken} wake-ups");
}

#[test]
fn retries_of_unavailable_services_cause_no_output() {
    let arguments = ["--head", "http://127.0.0.1:1", "--datasets", "http://127.0.0.1:1/api"];
    let screens = [("1", "head ✗ down"), ("3", "failed to list the datasets"), ("0", "╭─ Cluster")];
    check_still(&[], &arguments, &screens);
}

#[tokio::test]
async fn unchanged_data_of_services_causes_no_output() {
    let service = Service::start();
    let columns = json!([{"name": "load", "dtype": "float"}]);
    let body = json!({"name": "still-load", "description": "a load", "columns": columns});
    let (_, made) = service.http().post("/api/datasets/", &body).await;
    let rows: Vec<_> = (0..30)
        .map(|minute| json!({"timestamp": format!("2026-03-01T00:{minute:02}:00Z"), "values": {"load": minute}}))
        .collect();
    let body = json!({"dataset": made["id"], "rows": rows});
    service.http().post("/api/rows/bulk_insert/", &body).await;
    let head = Node::head(&[]);
    let worker = Node::worker(&head, &[]);
    head.has_workers(1).await;

    let address = service.address();
    let arguments = ["--head", &head.rest_api(), "--datasets", &address];
    let environment = [("TRIPTYCH_API_KEY", service.key())];
    let worker_id = worker.id();
    let screens = [("1", worker_id.get(..6).unwrap()), ("3", "rows of 2026-03-01")];
    check_still(&environment, &arguments, &screens);
}
