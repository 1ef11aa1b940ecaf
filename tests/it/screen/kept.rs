//! State that is stored between sessions, and API keys, which must not leak.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use vt100::{MouseProtocolMode, Screen};

use super::terminal::{LIGHT_GROUND, wait_ground};
use super::{PAINT_WITHIN, SHOWN_WITHIN, wait_gone};
use crate::support::TUI;
use crate::support::datasets::Service;
use crate::support::pty::{Place, Session, text};

/// Starts a service with the datasets `one`, `two` and `three`. Returns the service, and a place whose
/// configuration has a profile `it` for the service.
async fn start_service(background: Option<&'static [u8]>) -> (Service, Place<'static>) {
    let service = Service::start();
    for name in ["one", "two", "three"] {
        let columns = json!([{"name": "load", "dtype": "float"}]);
        let body = json!({"name": name, "description": "a load", "columns": columns});
        let (status, body) = service.http().post("/api/datasets/", &body).await;
        assert!(status.is_success(), "{body}");
    }
    let profile = format!("[profiles.it]\ndatasets = \"{}\"\n", service.address());
    let environment = &[("TRIPTYCH_KEYRING", "off")];
    let place = Place { environment, background, ..Place::default() };
    let place = place.with_config(&profile);
    (service, place)
}

/// Waits until dataset `name` is charted. Returns the column at which the chart begins.
fn wait_chart(session: &Session, name: &str) -> usize {
    session
        .wait_for(&format!("{name} is charted"), SHOWN_WITHIN, |screen| chart_column(screen, name))
}

/// Waits until the chart of `name` begins to the right of column `left`. Returns the column at which the
/// chart begins.
fn wait_wider(session: &Session, name: &str, left: usize) -> usize {
    session.wait_for(&format!("the list is wider than {left}"), SHOWN_WITHIN, |screen| {
        chart_column(screen, name).filter(|now| *now > left)
    })
}

/// Returns the column at which the chart of `name` begins.
fn chart_column(screen: &Screen, name: &str) -> Option<usize> {
    let text = text(screen);
    let (before, _) = text.lines().find_map(|line| line.split_once(&format!("╭─ {name} ")))?;
    Some(before.chars().count())
}

/// Closes the open overlays one by one.
fn close_overlays(session: &Session) {
    for overlay in ["╭─ API key of it", "╭─ Profiles"] {
        if session.wait_for("a frame", SHOWN_WITHIN, |screen| Some(text(screen))).contains(overlay)
        {
            session.press("esc");
            wait_gone(session, overlay);
        }
    }
}

/// Returns the paths and contents of all files below `folder`.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                return files(&path);
            }
            vec![(path.display().to_string(), fs::read(&path).unwrap())]
        })
        .collect()
}

/// Returns an API key without the prefix that all keys have.
fn digits(key: &str) -> &str {
    key.strip_prefix("UP-").unwrap()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn entered_key_is_checked_and_stored_but_never_shown() {
    let (service, place) = start_service(Place::default().background).await;
    let session = Session::start_in(&place, TUI, &["--profile", "it"]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    let wrong = "UP-000000000000000000000000";
    for (key, shown) in
        [(wrong, "✗ failed to check the key"), (service.key(), "the key of it is valid")]
    {
        session.wait_text("refused · P", SHOWN_WITHIN);
        session.press("P");
        session.wait_text("╭─ API key of it", SHOWN_WITHIN);
        session.send(key.as_bytes());
        session.wait_text(&"•".repeat(key.len()), SHOWN_WITHIN);
        session.press("enter");
        session.wait_text(shown, SHOWN_WITHIN);
        close_overlays(&session);
    }
    session.press("3");
    session.wait_text("three", SHOWN_WITHIN);
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);

    let again = Session::start_in(&place, TUI, &["--profile", "it"]);
    again.wait_text("three", SHOWN_WITHIN);
    again.press("q");
    again.wait_exit(SHOWN_WITHIN);
    for session in [&session, &again] {
        session.assert_restored();
        session.assert_no_key();
        assert!(
            !contains(&session.written(), digits(service.key())),
            "not even without its prefix"
        );
    }
    let (stored, others): (Vec<_>, Vec<_>) = files(session.home().path())
        .into_iter()
        .partition(|(_, content)| content.trim_ascii() == service.key().as_bytes());
    let [(path, _)] = &stored[..] else { panic!("one file has the key: {stored:?}") };
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    for (path, content) in others {
        let has_key = [wrong, service.key()].iter().any(|key| contains(&content, digits(key)));
        assert!(!has_key, "a key in {path}");
    }
}

#[tokio::test]
async fn next_session_restores_profile_dataset_theme_layout_and_mouse() {
    let (service, place) = start_service(Place::default().background).await;
    let environment = [("TRIPTYCH_API_KEY", service.key())];
    let place = Place { environment: &environment, ..place };
    let session = Session::start_in(&place, TUI, &["--profile", "it"]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.press("3");
    session.wait_text("three", SHOWN_WITHIN);
    session.press("j");
    let left = wait_chart(&session, "two");
    session.press("T");
    session.wait_text("▌ auto", SHOWN_WITHIN);
    session.press("down down enter");
    wait_ground(&session, LIGHT_GROUND);
    let mut left = left;
    for _ in 0..2 {
        session.press("]");
        left = wait_wider(&session, "two", left);
    }
    session.press("M");
    session.wait_for("a free mouse", SHOWN_WITHIN, |screen| {
        (screen.mouse_protocol_mode() == MouseProtocolMode::None).then_some(())
    });
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);

    // No profile is named on the command line.
    let again = Session::start_in(&place, TUI, &[]);
    assert_eq!(wait_chart(&again, "two"), left);
    wait_ground(&again, LIGHT_GROUND);
    again.wait_for("a free mouse", SHOWN_WITHIN, |screen| {
        (screen.mouse_protocol_mode() == MouseProtocolMode::None).then_some(())
    });
    again.press("q");
    again.wait_exit(SHOWN_WITHIN);
    let forgetful = Session::start_in(&place, TUI, &["--profile", "it", "--forget"]);
    forgetful.wait_text("╭─ Nodes", SHOWN_WITHIN);
}
