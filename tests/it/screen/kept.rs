//! What outlives a session, and what must not: where one was, and keys.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::json;
use vt100::{MouseProtocolMode, Screen};

use super::{
    PAINT_WITHIN, SHOWN_WITHIN,
    terminal::{LIGHT_GROUND, wait_ground},
    wait_gone,
};
use crate::support::{
    TUI,
    datasets::Service,
    pty::{Place, Session, text},
};

/// A service with the datasets `one`, `two` and `three`, and a place where profile `it` names it.
async fn at_service(background: Option<&'static [u8]>) -> (Service, Place<'static>) {
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
    let place = place.configured(&profile);
    (service, place)
}

/// Waits until `name` is charted, and returns the column at which the chart begins.
fn wait_charted(session: &Session, name: &str) -> usize {
    session.wait_for(&format!("{name} is charted"), SHOWN_WITHIN, |screen| chart_at(screen, name))
}

/// Waits until the chart of `name` begins after `left`, and returns where.
fn wait_wider(session: &Session, name: &str, left: usize) -> usize {
    session.wait_for(&format!("the list is wider than {left}"), SHOWN_WITHIN, |screen| {
        chart_at(screen, name).filter(|now| *now > left)
    })
}

/// The column at which the chart of `name` begins.
fn chart_at(screen: &Screen, name: &str) -> Option<usize> {
    let text = text(screen);
    let (before, _) = text.lines().find_map(|line| line.split_once(&format!("╭─ {name} ")))?;
    Some(before.chars().count())
}

/// Closes what lies over the screen, one by one.
fn while_open(session: &Session) {
    for overlay in ["╭─ API key of it", "╭─ Profiles"] {
        if session.wait_for("a frame", SHOWN_WITHIN, |screen| Some(text(screen))).contains(overlay)
        {
            session.press("esc");
            wait_gone(session, overlay);
        }
    }
}

/// All files below `folder`, with their content.
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

/// A key without what all keys begin with.
fn digits(key: &str) -> &str {
    key.strip_prefix("UP-").unwrap()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_key_is_entered_tried_and_kept_and_never_seen() {
    let (service, place) = at_service(Place::default().background).await;
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
        session.wait_text("•••▏", SHOWN_WITHIN);
        session.press("enter");
        session.wait_text(shown, SHOWN_WITHIN);
        while_open(&session);
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
        assert!(!holds(&session.written(), digits(service.key())), "not even without its start");
    }
    let (kept, others): (Vec<_>, Vec<_>) = files(session.home().path())
        .into_iter()
        .partition(|(_, content)| content.trim_ascii() == service.key().as_bytes());
    let [(path, _)] = &kept[..] else { panic!("one file is the key: {kept:?}") };
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    for (path, content) in others {
        let has_key = [wrong, service.key()].iter().any(|key| holds(&content, digits(key)));
        assert!(!has_key, "a key is in {path}");
    }
}

#[tokio::test]
async fn the_next_session_is_where_the_last_one_was_left() {
    let (service, place) = at_service(Place::default().background).await;
    let environment = [("TRIPTYCH_API_KEY", service.key())];
    let place = Place { environment: &environment, ..place };
    let session = Session::start_in(&place, TUI, &["--profile", "it"]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.press("3");
    session.wait_text("three", SHOWN_WITHIN);
    session.press("j");
    let left = wait_charted(&session, "two");
    session.press("T");
    session.wait_text("▌ auto", SHOWN_WITHIN);
    session.press("down down enter");
    wait_ground(&session, LIGHT_GROUND);
    let mut left = left;
    for _ in 0..2 {
        session.press(">");
        left = wait_wider(&session, "two", left);
    }
    session.press("M");
    session.wait_for("a free mouse", SHOWN_WITHIN, |screen| {
        (screen.mouse_protocol_mode() == MouseProtocolMode::None).then_some(())
    });
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);

    // Nothing on the command line says which profile it was.
    let again = Session::start_in(&place, TUI, &[]);
    assert_eq!(wait_charted(&again, "two"), left);
    wait_ground(&again, LIGHT_GROUND);
    again.wait_for("a free mouse", SHOWN_WITHIN, |screen| {
        (screen.mouse_protocol_mode() == MouseProtocolMode::None).then_some(())
    });
    again.press("q");
    again.wait_exit(SHOWN_WITHIN);
    let forgetful = Session::start_in(&place, TUI, &["--profile", "it", "--forget"]);
    forgetful.wait_text("╭─ Nodes", SHOWN_WITHIN);
}
