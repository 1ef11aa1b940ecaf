//! The screen as it was: frames of the past, and recordings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::Value;
use vt100::Screen;

use super::{PAINT_WITHIN, SHOWN_WITHIN, wait_gone};
use crate::support::TUI;
use crate::support::pty::{Place, Session, WIDE, text};

/// Configuration of a profile without services.
const NOWHERE: &str = "[profiles.nowhere]\n";

/// Starts the screen with `arguments` in a terminal without services.
fn open(arguments: &[&str]) -> Session {
    let place = Place::default().with_config(NOWHERE);
    let session = Session::start_in(&place, TUI, &[&["--profile", "nowhere"], arguments].concat());
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session
}

/// Returns the events of a recording that are of this kind: seconds and text.
fn events(lines: &[Value], code: &str) -> Vec<(f64, String)> {
    let events = lines.iter().skip(1).filter(|line| line[1] == code);
    events.map(|line| (line[0].as_f64().unwrap(), line[2].as_str().unwrap().to_owned())).collect()
}

/// Returns true for the upper border of the Logs screen in a terminal of 120 columns.
fn is_top_of_logs(line: &str) -> bool {
    line.starts_with("╭─ Logs") && line.ends_with('╮') && line.chars().count() == 120
}

/// Returns the screen after all output of a recording.
fn replayed(lines: &[Value]) -> String {
    let size = |number: u64| u16::try_from(number).unwrap().try_into().unwrap();
    let (rows, columns) = (&lines[0]["height"], &lines[0]["width"]);
    let (rows, columns) = (size(rows.as_u64().unwrap()), size(columns.as_u64().unwrap()));
    let mut player = vt100::Parser::new(rows, columns, 0);
    for line in &lines[1..] {
        let data = line[2].as_str().unwrap();
        if line[1] == "r" {
            let (columns, rows) = data.split_once('x').unwrap();
            let [rows, columns] = [rows, columns].map(|it| size(it.parse().unwrap()));
            player.screen_mut().set_size(rows, columns);
        } else {
            player.process(data.as_bytes());
        }
    }
    text(player.screen())
}

#[test]
fn recording_replays_the_screen_and_contains_no_key() {
    let session = open(&["--record", "session.cast"]);
    session.press("5");
    session.resize((120, 30));
    session.wait_for("the Logs screen in the new size", SHOWN_WITHIN, |screen| {
        text(screen).lines().find(|line| is_top_of_logs(line)).map(str::to_owned)
    });
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    session.assert_restored();

    let path = session.home().path().join("session.cast");
    let recorded = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> =
        recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["version"], 2);
    assert_eq!((&lines[0]["width"], &lines[0]["height"]), (&WIDE.0.into(), &WIDE.1.into()));
    assert_eq!(events(&lines, "r").len(), 1);
    let output = events(&lines, "o");
    assert!(output.is_sorted_by_key(|(seconds, _)| *seconds), "{output:?}");
    let written = String::from_utf8(session.written()).unwrap();
    let is_written = |(_, text): &(f64, String)| written.contains(text);
    assert!(output.iter().all(is_written), "only output of the screen is recorded");
    let last = replayed(&lines);
    assert!(last.lines().any(is_top_of_logs), "{last}");
    assert!(!recorded.contains("UP-"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    session.assert_no_key();
}

#[test]
fn recording_does_not_replace_a_file() {
    let place = Place::default().with_config(NOWHERE);
    let path = place.home.path().join("session.cast");
    fs::write(&path, "kept").unwrap();
    let arguments = ["--profile", "nowhere", "--record", "session.cast"];
    let session = Session::start_in(&place, TUI, &arguments);
    session.wait_text("cannot create the recording session.cast: File exists", SHOWN_WITHIN);
    assert!(!session.wait_exit(SHOWN_WITHIN).success());
    assert_eq!(fs::read_to_string(path).unwrap(), "kept");
}

/// Returns the last row of the screen.
fn last_row(screen: &Screen) -> String {
    text(screen).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn keys_show_an_earlier_frame_and_return_to_the_live_screen() {
    let session = open(&[]);
    // Frames of the same second are stored as one.
    session.wait_still(Duration::from_secs(1), SHOWN_WITHIN, || ());
    session.press("5");
    session.wait_text("╭─ Logs", SHOWN_WITHIN);
    session.press("<");
    session.wait_for("a frame of the past", SHOWN_WITHIN, |screen| {
        let is_past = last_row(screen).contains("ago") && last_row(screen).contains("esc live");
        (is_past && text(screen).contains("╭─ Nodes")).then_some(())
    });
    session.press("esc");
    wait_gone(&session, "esc live");
    session.wait_text("╭─ Logs", SHOWN_WITHIN);
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    session.assert_restored();
}
