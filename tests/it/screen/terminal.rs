//! The program and its terminal: queries and replies, modes, suspension, panics and missing terminals.

use std::fs;
use std::path::Path;
use std::time::Duration;

use vt100::{Color, Screen};

use super::{PAINT_WITHIN, SHOWN_WITHIN};
use crate::support::TUI;
use crate::support::command::Home;
use crate::support::process::{self, Signal};
use crate::support::pty::{LIGHT, Place, Session, WIDE, text};

/// Background of the dark theme.
const DARK_GROUND: Color = Color::Rgb(0x11, 0x13, 0x1a);

/// Background of the light theme.
pub(super) const LIGHT_GROUND: Color = Color::Rgb(0xfb, 0xfb, 0xfd);

/// Configuration of a profile without services, so that the screen does not change.
const NOWHERE: &str = "[profiles.nowhere]\n";

/// Starts the screen in `place` without services.
fn open(place: Place<'_>, more: &[&str]) -> Session {
    let place = place.with_config(NOWHERE);
    let session = Session::start_in(&place, TUI, &[&["--profile", "nowhere"], more].concat());
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session
}

/// Returns the background color in the middle of the screen.
fn ground(screen: &Screen) -> Option<Color> {
    let (rows, columns) = screen.size();
    Some(screen.cell(rows.get() / 2, columns.get() / 2)?.bgcolor())
}

/// Waits until the screen has the background `wanted`.
#[track_caller]
pub(super) fn wait_ground(session: &Session, wanted: Color) {
    session.wait_for(&format!("the background {wanted:?}"), SHOWN_WITHIN, |screen| {
        (ground(screen) == Some(wanted)).then_some(())
    });
}

#[test]
fn theme_is_chosen_by_the_background_of_the_terminal() {
    wait_ground(&open(Place::default(), &[]), DARK_GROUND);
    let light = Place { background: Some(LIGHT), ..Place::default() };
    wait_ground(&open(light.clone(), &[]), LIGHT_GROUND);
    let session = open(light, &["--no-probe"]);
    wait_ground(&session, DARK_GROUND);
    assert_eq!(session.count_written(b"\x1b]11", 0), 0, "no query");
}

#[test]
fn late_terminal_reply_in_pieces_is_not_interpreted_as_keys() {
    // The reply is cut between its letters, and next to the escapes at both ends.
    for cuts in [&[9, 16][..], &[1], &[1, 12, LIGHT.len() - 1], &[LIGHT.len() - 1]] {
        let session = open(Place { background: None, ..Place::default() }, &[]);
        wait_ground(&session, DARK_GROUND);
        session.press("5");
        session.wait_text("╭─ Logs", SHOWN_WITHIN);
        let mut from = 0;
        for to in cuts.iter().copied().chain([LIGHT.len()]) {
            session.send(&LIGHT[from..to]);
            // The program has read this piece before the next piece is sent.
            session.resize((WIDE.0, WIDE.1 + u16::try_from(to).unwrap()));
            session.wait_for("the new size", SHOWN_WITHIN, |screen| {
                text(screen).ends_with(" help").then_some(())
            });
            from = to;
        }
        wait_ground(&session, LIGHT_GROUND);
        session.press("/");
        session.press("x");
        let shown = session.wait_text("⌕ x", SHOWN_WITHIN);
        assert!(!shown.contains("rgb") && !shown.contains("fbfb"), "{shown}");
        session.press("ctrl-c ctrl-c");
        session.wait_exit(SHOWN_WITHIN);
    }
}

#[test]
fn key_pressed_during_a_resize_is_not_lost() {
    let session = open(Place::default(), &[]);
    for round in 0..60 {
        let (key, shown) =
            if round % 2 == 0 { ("5", "╭─ Logs") } else { ("1", "╭─ Nodes") };
        session.resize((WIDE.0, WIDE.1 + round % 7));
        session.press(key);
        session.wait_text(shown, SHOWN_WITHIN);
    }
}

/// Suspends a program by `stop`. Checks that the program returns the terminal to its shell until it is
/// resumed.
#[track_caller]
fn check_stop(stop: impl Fn(&Session)) {
    let place = Place::default().with_config(NOWHERE);
    let script = format!(
        "set -m; {TUI} --profile nowhere; echo shell has it; read key; fg; echo again; read key; fg"
    );
    let session = Session::start_in(&place, "sh", &["-c", &script]);
    session.wait_text("1 Cluster", PAINT_WITHIN);

    for shell in ["shell has it", "again"] {
        stop(&session);
        session.wait_text(shell, SHOWN_WITHIN);
        session.assert_restored();
        let modes = terminal_modes(&session);
        assert!(modes.contains("icanon") && !modes.contains("-icanon"), "line mode: {modes}");

        session.press("enter");
        session.wait_for("a whole frame again", SHOWN_WITHIN, |screen| {
            let is_whole = text(screen).contains("╭─ Nodes") && text(screen).ends_with(" help");
            (screen.alternate_screen() && is_whole).then_some(())
        });
        session.press("5");
        session.wait_text("╭─ Logs", SHOWN_WITHIN);
        session.press("1");
        session.wait_text("╭─ Nodes", SHOWN_WITHIN);
        // After this time without output, all signals of this stop have arrived.
        session.wait_still(Duration::from_millis(1_200), SHOWN_WITHIN, || ());
    }
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    session.assert_restored();
}

#[test]
fn terminal_is_restored_while_the_screen_is_suspended_by_a_key() {
    check_stop(|session| session.press("ctrl-z"));
}

#[test]
fn terminal_is_restored_while_the_screen_is_suspended_by_a_signal() {
    check_stop(|session| {
        let job = process::descendants(session.pid);
        assert_eq!(job.len(), 1, "only the program: {job:?}");
        for pid in job {
            process::signal(pid, Signal::Stop);
        }
    });
}

#[test]
fn hangup_and_sigterm_end_the_screen() {
    for signal in [Signal::HangUp, Signal::Terminate] {
        let session = open(Place::default(), &[]);
        process::signal(session.pid, signal);
        session.wait_exit(SHOWN_WITHIN);
        session.assert_restored();
    }
}

// Only debug builds have `--break-in`.
#[cfg(debug_assertions)]
#[test]
fn panic_in_an_update_restores_the_terminal_and_names_the_report() {
    let session = open(Place::default(), &["--break-in", "an injected fault"]);
    session.press("5");
    session.wait_text("╭─ Logs", SHOWN_WITHIN);
    session.press("j");
    let status = session.wait_exit(SHOWN_WITHIN);
    assert_eq!(status.exit_code(), 101, "exit code of a panic");
    session.assert_restored();
    let report = session.home().path().join("state/triptych/log/panic.txt");
    let named = report.display().to_string();
    session.wait_for("the path of the report", Duration::ZERO, |screen| {
        // The path may wrap, so the lines are joined.
        text(screen).replace('\n', "").contains(&named).then_some(())
    });
    let text = fs::read_to_string(&report).unwrap();
    assert!(text.contains("an injected fault, at "), "{text}");
}

#[test]
fn no_color_variable_disables_all_colors() {
    let place = Place { environment: &[("NO_COLOR", "1")], ..Place::default() };
    let session = open(place, &["--theme", "dark"]);
    for (key, shown) in [("2", "POST /api"), ("3", "╭─ Data"), ("4", "╭─ Inf"), ("5", "╭─ Logs")]
    {
        session.press(key);
        session.wait_text(shown, SHOWN_WITHIN);
        session.press("esc");
        session.wait_still(Duration::from_millis(200), SHOWN_WITHIN, || ());
    }
    session.press("T");
    session.wait_text("high-contrast", SHOWN_WITHIN);
    session.assert_colorless();
}

#[test]
fn screen_without_a_terminal_is_refused() {
    let output = Home::new().run(&[]);
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.out.is_empty() && output.err.contains("must be"), "{output:?}");

    let script = format!("{{ {TUI}; echo code $? >&2; }} | cat");
    let session = Session::start("sh", &["-c", &script], WIDE);
    session.wait_exit(SHOWN_WITHIN);
    let shown = session.wait_text("code 2", Duration::ZERO);
    assert!(shown.contains("must be a terminal"), "{shown}");
    assert!(!session.written().contains(&b'\x1b'), "no mode is set");
}

#[test]
fn dumb_terminal_is_refused_with_a_hint() {
    let place = Place { environment: &[("TERM", "dumb")], ..Place::default() };
    let session = Session::start_in(&place, TUI, &[]);
    assert_eq!(session.wait_exit(SHOWN_WITHIN).exit_code(), 2);
    let shown = session.wait_text("TERM=dumb", Duration::ZERO);
    assert!(shown.contains("--help"), "{shown}");
    assert!(!session.written().contains(&b'\x1b'), "no mode is set");
}

/// Returns the output of `stty -a` in the session's terminal.
fn terminal_modes(session: &Session) -> String {
    let device = fs::read_link(format!("/proc/{}/fd/0", session.pid)).unwrap();
    let script = format!("stty -a < {}", Path::new(&device).display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn text_is_copied_with_a_clipboard_tool_or_else_by_the_terminal() {
    let place = Place::default();
    let tool = Home::new();
    let copied = tool.path("copied");
    tool.write_program("bin/wl-copy", &format!("#!/bin/sh\nexec cat > '{copied}'\n"));
    let path = format!("{}:{}", tool.path("bin"), std::env::var("PATH").unwrap());
    let environment = [("PATH", path.as_str()), ("WAYLAND_DISPLAY", "wayland-0")];
    // Nothing listens at the port of the discard protocol.
    let arguments = ["--head", "http://127.0.0.1:9"];
    for (environment, notice) in
        [(&environment[..], "with wl-copy"), (&environment[..1], "to the terminal by OSC 52")]
    {
        let place = Place { environment, ..place.clone() };
        let session = Session::start_in(&place, TUI, &arguments);
        session.press("5");
        session.wait_text("failed to list the nodes", SHOWN_WITHIN);
        session.press("y");
        session.wait_text(notice, SHOWN_WITHIN);
        let n_sequences = session.count_written(b"\x1b]52;c;", 0);
        assert_eq!(n_sequences, usize::from(notice.contains("OSC")), "{notice}");
        session.press("q");
        session.wait_exit(SHOWN_WITHIN);
    }
    let line = fs::read_to_string(copied).unwrap();
    assert!(line.contains(" screen "), "{line}");
}

#[test]
fn header_names_the_chosen_time_zone() {
    // Nothing listens at the port of the discard protocol.
    let head = ["--head", "http://127.0.0.1:9"];
    for (more, zone) in [(&[][..], " UTC"), (&["--time-zone", "Asia/Tokyo"], " JST")] {
        let session = Session::start(TUI, &[&head[..], more].concat(), (200, 50));
        session.wait_text(zone, SHOWN_WITHIN);
    }
}
