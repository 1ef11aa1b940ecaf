//! Datasets, topics and API keys that are created, changed and deleted on the screen.

use model::key::ApiKey;
use vt100::Screen;

use super::{PAINT_WITHIN, SHOWN_WITHIN, wait_gone};
use crate::support::TUI;
use crate::support::datasets::Service;
use crate::support::http::Http;
use crate::support::pty::{Session, WIDE, text};
use crate::support::up::Up;

/// Replaces the text of each field of the form, in order. The first field has focus.
fn fill(session: &Session, texts: &[&str]) {
    for text in texts {
        session.press("ctrl-u");
        session.send(text.as_bytes());
        session.press("tab");
    }
}

fn open(service: &Service) -> Session {
    let arguments = ["--datasets", &service.address()];
    let session =
        Session::start_with(TUI, &arguments, WIDE, &[("TRIPTYCH_API_KEY", service.key())]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session
}

#[tokio::test]
async fn dataset_is_created_filled_changed_and_deleted_on_the_screen() {
    let service = Service::start();
    let session = open(&service);
    session.press("3");
    session.wait_text("no datasets visible", SHOWN_WITHIN);
    session.press("a");
    session.wait_text("New dataset", SHOWN_WITHIN);
    fill(&session, &["rides", "bicycle rides", "km, riders:integer", "", "90"]);
    session.press("enter");
    session.wait_text("2: km riders", SHOWN_WITHIN);
    // The name is taken, which the form shows.
    session.press("a");
    session.wait_text("New dataset", SHOWN_WITHIN);
    fill(&session, &["rides"]);
    session.press("enter");
    session.wait_text("failed to create dataset rides: ", SHOWN_WITHIN);
    session.press("esc");
    wait_gone(&session, "New dataset");

    let rows = "when,km,riders\n2026-03-01 10:00,12.5,2\n2026-03-01 11:00,7,1\n";
    std::fs::write(session.home().path().join("rides.csv"), rows).unwrap();
    session.press("I");
    session.wait_text("Import a file", SHOWN_WITHIN);
    fill(&session, &["missing.csv"]);
    session.press("enter");
    session.wait_text("failed to import missing.csv", SHOWN_WITHIN);
    session.press("shift-tab");
    fill(&session, &["rides.csv"]);
    session.press("enter");
    let report = session.wait_text("time column when", SHOWN_WITHIN);
    for wanted in ["2 rows read, 2 stored", "2026-03-01T10:00:00Z to 2026-03-01T11:00:00Z"] {
        assert!(report.contains(wanted), "no `{wanted}` in:\n{report}");
    }
    assert_eq!(service.n_rows("rides").await, 2);
    session.press("enter");
    wait_gone(&session, "time column when");

    session.press("E");
    session.wait_text("Dataset rides", SHOWN_WITHIN);
    fill(&session, &["rides", "all rides", "public", "rain:boolean", "km=distance", "riders", ""]);
    session.press("enter");
    session.wait_text("deletes columns riders", SHOWN_WITHIN);
    session.press("enter");
    wait_gone(&session, "Dataset rides");
    session.wait_text("2: distance rain", SHOWN_WITHIN);
    let shown = session.wait_text("public", SHOWN_WITHIN);
    assert!(shown.contains("all rides") && !shown.contains("keep_days"), "{shown}");

    session.press("D");
    session.wait_text("Delete?", SHOWN_WITHIN);
    fill(&session, &["ride"]);
    session.press("enter");
    session.wait_text("not rides", SHOWN_WITHIN);
    fill(&session, &["rides"]);
    session.press("enter");
    session.wait_text("no datasets visible", SHOWN_WITHIN);
    assert_eq!(service.http().get_ok("/api/datasets/").await["results"], serde_json::json!([]));
}

#[tokio::test]
async fn dataset_of_another_key_cannot_be_changed_on_the_screen() {
    let service = Service::start();
    let body = serde_json::json!({"name": "theirs", "tags": ["public"]});
    let (status, _) = service.http().post("/api/datasets/", &body).await;
    assert!(status.is_success());
    let create = ["keys", "create", "other", "--data-dir", &service.data_dir()];
    let other = service.home().run_ok(&create).trim().to_owned();
    let arguments = ["--datasets", &service.address()];
    let session = Session::start_with(TUI, &arguments, WIDE, &[("TRIPTYCH_API_KEY", &other)]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.press("3");
    session.wait_text("no datasets visible", SHOWN_WITHIN);
    session.press("t");
    session.wait_text("theirs", SHOWN_WITHIN);
    for key in ["E", "D"] {
        session.press(key);
        session.wait_text("the API key does not own the dataset", SHOWN_WITHIN);
        session.press("esc");
        wait_gone(&session, "does not own");
    }
}

#[tokio::test]
async fn topic_is_created_paused_and_deleted_on_the_screen() {
    let up = Up::start();
    let addresses = ["--datasets", up.text("datasets"), "--inference", up.text("inference")];
    let key = [("TRIPTYCH_API_KEY", up.text("api_key"))];
    let session = Session::start_with(TUI, &addresses, WIDE, &key);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.press("4");
    session.wait_text("direction of synthetic", SHOWN_WITHIN);
    session.press("a");
    session.wait_text("New topic", SHOWN_WITHIN);
    fill(&session, &["price later", "nowhere", "close", "1h"]);
    session.press("enter");
    session.wait_text("failed to create topic price later", SHOWN_WITHIN);
    fill(&session, &["12", "", "", "", "", "", ""]);
    fill(&session, &["price later", "synthetic_btcusd"]);
    session.press("enter");
    session.wait_text("Topic 3 · price later", SHOWN_WITHIN);

    session.press("E");
    session.wait_text("opens epochs", SHOWN_WITHIN);
    session.press("shift-tab down");
    session.wait_text("is paused", SHOWN_WITHIN);
    session.press("enter");
    wait_gone(&session, "is paused");
    let is_paused = async || {
        let list = up.inference().get_ok("/api/v1/topics").await;
        list["topics"][2]["is_paused"].clone()
    };
    assert_eq!(is_paused().await, true);

    session.press("D");
    session.wait_text("Delete?", SHOWN_WITHIN);
    fill(&session, &["3"]);
    session.press("enter");
    wait_gone(&session, "Topic 3 ·");
    assert_eq!(is_paused().await, serde_json::Value::Null);
}

/// Returns the API key on the screen.
fn visible_key(screen: &Screen) -> Option<String> {
    let text = text(screen);
    let mut words = text.split_whitespace();
    words.find(|word| word.parse::<ApiKey>().is_ok()).map(str::to_owned)
}

#[tokio::test]
async fn key_of_an_account_is_created_shown_once_and_revoked_on_the_screen() {
    let service = Service::start();
    let session = open(&service);
    session.press("U");
    session.wait_text("Log in to an account", SHOWN_WITHIN);
    fill(&session, &["ada", "correct horse battery"]);
    session.press("enter");
    session.wait_text("failed to log in to account ada: wrong name or password", SHOWN_WITHIN);
    session.press("down enter");
    session.wait_text("API keys of ada", SHOWN_WITHIN);
    session.press("a");
    session.wait_text("New API key", SHOWN_WITHIN);
    fill(&session, &["laptop"]);
    session.press("enter");
    session.wait_text("cannot be shown again", SHOWN_WITHIN);
    let key = session.wait_for("a key", SHOWN_WITHIN, visible_key);
    let root = service.address();
    let http = Http::new(root.trim_end_matches("/api"), Some(&key));
    assert!(http.get("/api/datasets/").await.0.is_success());
    session.press("esc");
    wait_gone(&session, &key);
    session.wait_text("laptop", SHOWN_WITHIN);
    session.press("D");
    session.wait_text("laptop, for good", SHOWN_WITHIN);
    session.press("enter");
    wait_gone(&session, "Revoke?");
    assert_eq!(http.get("/api/datasets/").await.0, 401);
    session.press("esc");
    wait_gone(&session, "API keys of ada");
    session.press("5");
    session.wait_text("logged in to account ada", SHOWN_WITHIN);
    wait_gone(&session, &key);
}
