//! The program and its terminal: what is asked of it, what is switched on and off again, and how a
//! program ends that broke.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use vt100::{Color, Screen};

use super::{PAINT_WITHIN, SHOWN_WITHIN};
use crate::support::{
    TUI,
    command::Home,
    process::{self, Signal},
    pty::{LIGHT, Place, Session, WIDE, text},
};

/// The background of the dark theme.
const DARK_GROUND: Color = Color::Rgb(0x11, 0x13, 0x1a);

/// The background of the light theme.
pub(super) const LIGHT_GROUND: Color = Color::Rgb(0xfb, 0xfb, 0xfd);

/// A profile without any service: a screen on which nothing happens by itself.
const NOWHERE: &str = "[profiles.nowhere]\n";

/// Opens the screen at `place`, with nothing behind it.
fn open(place: Place<'_>, more: &[&str]) -> Session {
    let place = place.configured(NOWHERE);
    let session = Session::start_in(&place, TUI, &[&["--profile", "nowhere"], more].concat());
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session
}

/// The color behind the middle of the screen.
fn ground(screen: &Screen) -> Option<Color> {
    let (rows, columns) = screen.size();
    Some(screen.cell(rows.get() / 2, columns.get() / 2)?.bgcolor())
}

/// Waits until the screen has this background.
#[track_caller]
pub(super) fn wait_ground(session: &Session, wanted: Color) {
    session.wait_for(&format!("the background {wanted:?}"), SHOWN_WITHIN, |screen| {
        (ground(screen) == Some(wanted)).then_some(())
    });
}

#[test]
fn the_theme_suits_the_background_that_the_terminal_tells() {
    wait_ground(&open(Place::default(), &[]), DARK_GROUND);
    let light = Place { background: Some(LIGHT), ..Place::default() };
    wait_ground(&open(light.clone(), &[]), LIGHT_GROUND);
    let asked = open(light, &["--no-probe"]);
    wait_ground(&asked, DARK_GROUND);
    assert!(!asked.written().windows(4).any(|four| four == b"\x1b]11"), "nothing is asked");
}

#[test]
fn an_answer_that_comes_late_and_in_pieces_is_no_key() {
    // Between the letters, and on both sides of the escapes at its ends.
    for cuts in [&[9, 16][..], &[1], &[1, 12, LIGHT.len() - 1], &[LIGHT.len() - 1]] {
        let session = open(Place { background: None, ..Place::default() }, &[]);
        wait_ground(&session, DARK_GROUND);
        session.press("5");
        session.wait_text("╭─ Logs", SHOWN_WITHIN);
        let mut from = 0;
        for to in cuts.iter().copied().chain([LIGHT.len()]) {
            session.send(&LIGHT[from..to]);
            // The next piece is another one: the program has taken in this one, and a key after it.
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

/// What reads the terminal hears of keys and of another size at once; neither may hide the other.
#[test]
fn a_key_in_the_moment_of_a_resize_is_taken() {
    let session = open(Place::default(), &[]);
    for round in 0..60 {
        let (key, shown) =
            if round % 2 == 0 { ("5", "╭─ Logs") } else { ("1", "╭─ Nodes") };
        session.resize((WIDE.0, WIDE.1 + round % 7));
        session.press(key);
        session.wait_text(shown, SHOWN_WITHIN);
    }
}

/// Stops a program that is the job of a shell, and checks that the terminal is the shell's until the
/// program is continued.
#[track_caller]
fn check_stop(stop: impl Fn(&Session)) {
    let place = Place::default().configured(NOWHERE);
    // A shell with jobs, in which the program is one.
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
        assert!(modes.contains("icanon") && !modes.contains("-icanon"), "lines are lines: {modes}");

        session.press("enter");
        session.wait_for("a whole frame again", SHOWN_WITHIN, |screen| {
            let is_whole = text(screen).contains("╭─ Nodes") && text(screen).ends_with(" help");
            (screen.alternate_screen() && is_whole).then_some(())
        });
        session.press("5");
        session.wait_text("╭─ Logs", SHOWN_WITHIN);
        session.press("1");
        session.wait_text("╭─ Nodes", SHOWN_WITHIN);
        // Signals of the stop itself have come by then.
        session.wait_still(Duration::from_millis(1_200), SHOWN_WITHIN, || ());
    }
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    session.assert_restored();
}

#[test]
fn stopped_by_the_shell_it_gives_the_terminal_back_and_takes_it_again() {
    check_stop(|session| session.press("ctrl-z"));
}

#[test]
fn stopped_from_elsewhere_it_gives_the_terminal_back_and_takes_it_again() {
    check_stop(|session| {
        let job = process::descendants(session.pid);
        assert_eq!(job.len(), 1, "the program alone: {job:?}");
        for pid in job {
            process::signal(pid, Signal::Stop);
        }
    });
}

#[test]
fn a_terminal_that_hangs_up_ends_it() {
    for signal in [Signal::HangUp, Signal::Terminate] {
        let session = open(Place::default(), &[]);
        process::signal(session.pid, signal);
        session.wait_exit(SHOWN_WITHIN);
        session.assert_restored();
    }
}

/// The report of a panic, which the screen must name.
#[track_caller]
#[cfg(debug_assertions)]
fn assert_reported(session: &Session) {
    let report: PathBuf = session.home().path().join("state/triptych/log/panic.txt");
    let named = report.display().to_string();
    session.wait_for("the report's name", Duration::ZERO, |screen| {
        // The name is longer than a line.
        text(screen).replace('\n', "").contains(&named).then_some(())
    });
    let text = fs::read_to_string(&report).unwrap();
    assert!(text.contains("an injected fault, at "), "{text}");
}

// Builds for release cannot be told to panic.
#[cfg(debug_assertions)]
#[test]
fn a_screen_that_breaks_is_replaced_by_why_and_the_others_go_on() {
    let session = open(Place::default(), &["--break-in", "view"]);
    for _ in 0..2 {
        session.press("5");
        let shown = session.wait_text("the Logs screen failed to draw", SHOWN_WITHIN);
        assert!(shown.contains("an injected fault, at "), "{shown}");
        session.press("1");
        session.wait_text("╭─ Nodes", SHOWN_WITHIN);
    }
    session.press("5");
    session.wait_text("the Logs screen failed to draw", SHOWN_WITHIN);
    session.press("j");
    let status = session.wait_exit(SHOWN_WITHIN);
    assert_eq!(status.exit_code(), 1, "twice in a row is enough");
    session.assert_restored();
    assert_reported(&session);
}

// Builds for release cannot be told to panic.
#[cfg(debug_assertions)]
#[test]
fn a_program_that_breaks_gives_the_terminal_back_and_says_where_the_report_is() {
    let session = open(Place::default(), &["--break-in", "update"]);
    session.press("5");
    session.wait_text("╭─ Logs", SHOWN_WITHIN);
    session.press("j");
    let status = session.wait_exit(SHOWN_WITHIN);
    assert_eq!(status.exit_code(), 101, "as every program that panics");
    session.assert_restored();
    assert_reported(&session);
}

#[test]
fn without_colors_none_is_written() {
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
fn what_is_no_terminal_is_told_in_words() {
    let said = Home::new().run(&[]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.out.is_empty() && said.err.contains("must be"), "{said:?}");

    let script = format!("{{ {TUI}; echo code $? >&2; }} | cat");
    let session = Session::start("sh", &["-c", &script], WIDE);
    session.wait_exit(SHOWN_WITHIN);
    let shown = session.wait_text("code 2", Duration::ZERO);
    assert!(shown.contains("without a terminal"), "{shown}");
    assert!(!session.written().contains(&b'\x1b'), "nothing is switched on");
}

#[test]
fn a_terminal_without_a_cursor_is_told_of_what_prints_lines() {
    let place = Place { environment: &[("TERM", "dumb")], ..Place::default() };
    let session = Session::start_in(&place, TUI, &[]);
    assert_eq!(session.wait_exit(SHOWN_WITHIN).exit_code(), 2);
    let shown = session.wait_text("TERM=dumb", Duration::ZERO);
    assert!(shown.contains("--help"), "{shown}");
    assert!(!session.written().contains(&b'\x1b'), "nothing is switched on");
}

/// How the session's terminal treats what is typed, in the words of `stty`.
fn terminal_modes(session: &Session) -> String {
    let device = fs::read_link(format!("/proc/{}/fd/0", session.pid)).unwrap();
    let script = format!("stty -a < {}", Path::new(&device).display());
    let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn copy_uses_the_tool_of_the_display_else_the_terminal() {
    let place = Place::default();
    let tool = Home::new();
    let copied = tool.path("copied");
    tool.write_program("bin/wl-copy", &format!("#!/bin/sh\nexec cat > '{copied}'\n"));
    let path = format!("{}:{}", tool.path("bin"), std::env::var("PATH").unwrap());
    let environment = [("PATH", path.as_str()), ("WAYLAND_DISPLAY", "wayland-0")];
    // Nothing listens on the port of the discard protocol.
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
        let n_sequences = session.n_times(b"\x1b]52;c;", 0);
        assert_eq!(n_sequences, usize::from(notice.contains("OSC")), "{notice}");
        session.press("q");
        session.wait_exit(SHOWN_WITHIN);
    }
    let line = fs::read_to_string(copied).unwrap();
    assert!(line.contains(" screen "), "{line}");
}

#[test]
fn times_are_shown_in_the_chosen_zone_which_the_header_names() {
    // Nothing listens on the port of the discard protocol.
    let head = ["--head", "http://127.0.0.1:9"];
    for (more, zone) in [(&[][..], " UTC"), (&["--time-zone", "Asia/Tokyo"], " JST")] {
        let session = Session::start(TUI, &[&head[..], more].concat(), (200, 50));
        session.wait_text(zone, SHOWN_WITHIN);
    }
}
