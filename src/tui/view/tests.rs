mod away;
mod first;
pub(crate) mod harness;
mod heads;
mod output;
mod past;
mod refusals;
mod sizes;
mod states;

use std::time::Duration;

use proptest::prelude::*;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::app::draw;
use crate::event::{Event, Target};
use crate::harness::Harness;
use crate::keymap::Action;
use crate::local::{Addresses, Level, LocalEvent, LocalLog};
use crate::profiles::Profile;
use crate::screens::Screen;
use crate::state::resource::Failure;
use crate::theme;

/// Sizes at which each screen has a snapshot of its main state.
const SIZES: [(u16, u16); 3] = [(160, 45), (80, 24), (60, 16)];

/// Size of the snapshots of other states.
const STATE_SIZE: (u16, u16) = SIZES[0];

#[track_caller]
fn check_text(name: &str, text: &str) {
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, text);
    });
}

/// Compares the whole screen with the snapshot for `name` and the size of the screen.
#[track_caller]
fn check(name: &str, screen: &Harness) {
    let (width, height) = screen.state.size;
    check_text(&format!("{name}-{width}x{height}"), &screen.text());
}

/// Compares the screen without header and footer with the snapshot `name`.
#[track_caller]
fn check_state(name: &str, screen: &Harness) {
    let text = screen.text();
    let lines: Vec<&str> = text.lines().collect();
    check_text(name, &lines[1..lines.len() - 1].join("\n"));
}

/// Presses keys. After each step, compares the screen with a snapshot.
#[track_caller]
fn check_steps(screen: &mut Harness, steps: &[(&str, &str)]) {
    for (keys, name) in steps {
        screen.press(keys);
        check_state(name, screen);
    }
}
#[test]
fn first_frame_names_the_services_being_started() {
    check_state("cluster-starting", &Harness::starting(160, 45));
}

#[test]
fn cluster_screen_is_drawn() {
    for (width, height) in SIZES {
        let screen = Harness::quiet((width, height));
        check("cluster-ready", &screen);
    }
    let mut screen = Harness::split(STATE_SIZE);
    check_steps(&mut screen, &[("1", "cluster-run"), ("d", "cluster-diff")]);
}

#[test]
fn cluster_screen_with_many_nodes_is_drawn() {
    for (width, height) in SIZES {
        let mut screen = Harness::ready(width, height);
        screen.take(Event::Nodes(
            screen.head(),
            Ok(harness::many_nodes()),
            Duration::from_millis(12),
        ));
        screen.state.notices.clear();
        screen.press("s s s s s s s");
        screen.press("down down down");
        check("cluster-many", &screen);
        screen.press("b b");
        check("cluster-grouped", &screen);
        screen.press("home enter down");
        check("cluster-unfolded", &screen);
    }
    let mut screen = Harness::ready(STATE_SIZE.0, STATE_SIZE.1);
    screen.take(Event::Nodes(screen.head(), Ok(harness::many_nodes()), Duration::from_millis(12)));
    screen.state.notices.clear();
    let steps = [("down A", "cluster-approve"), ("n b b home c", "cluster-cordon-group")];
    check_steps(&mut screen, &steps);
}

#[test]
fn execute_screen_is_drawn() {
    for (width, height) in SIZES {
        let mut screen = Harness::split((width, height));
        screen.state.notices.clear();
        check("execute-done", &screen);
    }
    let mut screen = Harness::quiet(STATE_SIZE);
    screen.press("e");
    check_state("execute-form", &screen);
    screen.press("ctrl-r");
    screen.pass(Duration::from_millis(1_800));
    check_state("execute-waiting", &screen);
}

#[test]
fn progress_of_a_run_is_drawn() {
    let mut screen = Harness::quiet(STATE_SIZE);
    screen.run_live();
    check_state("execute-live", &screen);
    let id = screen.state.runs.newest().unwrap().id;
    let failure = Failure::new(
        "learn what run 1 came to",
        "http://127.0.0.1:41233: connection refused",
        "check that the service runs",
    );
    screen.take(Event::RunUnreachable(id, Some(failure.clone())));
    check_state("execute-stale", &screen);
    screen.take(Event::Executed(id, Err(failure)));
    screen.state.notices.clear();
    check_state("execute-failed", &screen);
    screen.press("1");
    check_state("cluster-run-failed", &screen);
    screen.run_split();
    check_state("execute-split", &screen);
}

#[test]
fn cluster_screen_without_a_head_shows_advice() {
    let (width, height) = STATE_SIZE;
    let mut screen = Harness::starting(width, height);
    screen.take(Event::Local(LocalEvent::Ready(crate::local::LocalReady::default())));
    screen.state.notices.clear();
    check_state("cluster-empty", &screen);
    screen.use_heads(&["http://10.0.0.5:8080"]);
    screen.press("r");
    check_state("cluster-loading", &screen);
    let failure = Failure::new(
        "list the nodes",
        "http://10.0.0.5:8080: connection refused",
        "check that the service runs and that the address is right",
    );
    screen.take(Event::Nodes(screen.head(), Err(failure), Duration::ZERO));
    screen.state.notices.clear();
    check_state("cluster-failed", &screen);
}

#[test]
fn local_processes_and_the_node_form_are_drawn() {
    let mut screen = Harness::ready(STATE_SIZE.0, STATE_SIZE.1);
    let usage = |cpu, mib: u64| crate::local::Usage {
        cpu_percent: Some(cpu),
        memory_bytes: mib << 20,
        is_suspended: false,
    };
    screen.take(Event::Usage(vec![
        ("head".to_owned(), usage(0.4, 16)),
        ("worker-1".to_owned(), usage(112.5, 38)),
        ("datasets".to_owned(), usage(2.0, 1_320)),
    ]));
    let exited = LocalEvent::Exited { process: "worker-3".to_owned(), code: Some(1) };
    screen.take(Event::Local(exited));
    screen.state.notices.clear();
    let listed = ("tab tab tab down", "cluster-processes");
    check_steps(&mut screen, &[listed, ("a", "cluster-adding"), ("esc D", "cluster-stop")]);
}

#[test]
fn presets_and_the_list_of_functions_are_drawn() {
    let mut screen = Harness::ready(STATE_SIZE.0, STATE_SIZE.1);
    screen.change_presets("e ctrl-s enter");
    screen.state.notices.clear();
    let steps = [("ctrl-o", "execute-presets"), ("esc down", "execute-functions")];
    check_steps(&mut screen, &steps);
}

#[test]
fn logs_screen_is_drawn() {
    for (width, height) in SIZES {
        let mut screen = Harness::quiet((width, height));
        screen.press("5");
        check("logs", &screen);
    }
    let mut screen = Harness::quiet(STATE_SIZE);
    let steps = [
        ("5 / r o l l enter w", "logs-searched"),
        ("&", "logs-filtered"),
        ("enter", "logs-fields"),
        ("esc / space n o w h e r e", "logs-none"),
    ];
    check_steps(&mut screen, &steps);
}

#[test]
fn overlays_are_drawn() {
    let mut screen = Harness::quiet(STATE_SIZE);
    let steps = [
        (": r e s", "palette"),
        ("esc T down", "themes"),
        ("esc Y", "copy-as"),
        ("esc !", "notices"),
        ("esc ?", "help"),
        ("p a n e", "help-filtered"),
    ];
    check_steps(&mut screen, &steps);
}

#[test]
fn overview_screen_is_drawn() {
    for (width, height) in SIZES {
        let mut screen = Harness::split((width, height));
        screen.state.notices.clear();
        screen.press("0 down");
        check("overview", &screen);
        screen.press("up enter");
        assert_eq!(screen.state.screen, Screen::Cluster);
    }
}

#[test]
fn profiles_and_the_key_form_are_drawn() {
    let mut screen = Harness::quiet(STATE_SIZE);
    let addresses = Addresses {
        heads: vec!["https://head.example.org".to_owned()],
        datasets: Some("https://data.example.org/api".to_owned()),
        ..Addresses::default()
    };
    screen.state.profiles.list = vec![Profile { name: "far".to_owned(), addresses }];
    screen.press("P down");
    check_state("profiles", &screen);
    screen.press("e");
    screen.take(Event::Paste("UP-not-a-key".to_owned()));
    screen.press("enter");
    check_state("key", &screen);
    assert!(!screen.text().contains("not-a-key"), "a key is never shown");
}

#[test]
fn click_closes_an_overlay_or_confirms_its_row() {
    let mut screen = Harness::after(":");
    let theme = Theme::new(theme::Name::Dark, theme::depth::Depth::TrueColor);
    let area = Rect::new(0, 0, 160, 45);
    let hits = draw(area, &mut Buffer::empty(area), &screen.state, &theme);
    assert_eq!(hits.target_at(2, 40), Some(Target::Action(Action::Back)));
    assert_eq!(hits.target_at(60, 8), Some(Target::Row { pane: 0, row: 1 }));
    screen.take(Event::Click(Target::Row { pane: 0, row: 1 }));
    assert_eq!((screen.state.screen, screen.state.overlays.len()), (Screen::Execute, 0));
}

#[test]
fn values_stay_visible_after_a_failed_request() {
    let mut screen = Harness::quiet((160, 45));
    screen.pass(Duration::from_mins(1));
    let failure = Failure::new(
        "list the nodes",
        "http://127.0.0.1:41233: connection refused",
        "check that the service runs and that the address is right",
    );
    screen.take(Event::Nodes(screen.head(), Err(failure), Duration::ZERO));
    check_state("cluster-stale", &screen);
}

#[test]
fn too_small_terminal_shows_the_required_size() {
    check("small", &Harness::ready(40, 8));
    Harness::ready(15, 5).shows(&["60×16 needed", "15×5 now"]);
}

#[test]
fn no_color_variable_disables_colors() {
    let mut screen = Harness::split((160, 45));
    for keys in ["1", "2", "3", "4", "5", "?"] {
        screen.press(keys);
        let buffer = screen.drawn(theme::Name::Mono);
        let is_plain = |color| color == Color::Reset;
        assert!(
            buffer.content().iter().all(|cell| is_plain(cell.fg) && is_plain(cell.bg)),
            "{keys}"
        );
        assert!(buffer.content().iter().any(|cell| cell.modifier != Modifier::empty()), "{keys}");
        screen.press("esc");
    }
}

#[test]
fn selected_row_is_drawn_in_reverse_if_there_are_few_colors() {
    let screen = Harness::ready(160, 45);
    for name in [theme::Name::Mono, theme::Name::Ansi16] {
        let buffer = screen.drawn(name);
        let head = (0..45).find(|y| (0..160).any(|x| buffer[(x, *y)].symbol() == "●") && *y > 0);
        let row: Vec<_> = (2..70).map(|x| buffer[(x, head.unwrap())].clone()).collect();
        assert!(row.iter().all(|cell| cell.modifier.contains(Modifier::REVERSED)), "{name}");
        assert!(row.iter().all(|cell| cell.fg == Color::Reset), "{name}");
    }
}

#[test]
fn pane_of_the_overview_can_be_zoomed() {
    let mut screen = Harness::split((160, 45));
    screen.press("0 z");
    screen.shows(&["─ Runs ─"]);
    screen.hides(&["─ Cluster ─"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No screen, size or text makes drawing panic.
    #[test]
    fn every_screen_is_drawn_at_any_size_without_panic(
        width in 1_u16..200,
        height in 1_u16..70,
        keys in prop::sample::subsequence(
            vec![
                "0", "1", "2", "3", "4", "5", "esc", "z", "tab", "d", "o", "?", "w", "G", "/", "f1", "a",
                "D", "e", "ctrl-s", "ctrl-o", "down", "s", "S", ":", "T", "!", "P", "enter",
            ],
            0..8,
        ),
        is_live in any::<bool>(),
        text in "[a-z日本語🦀\u{301}\t\u{7f}]{0,40}",
    ) {
        let mut screen = Harness::ready(160, 45);
        screen.take(Event::Local(LocalEvent::Log(LocalLog {
            process: text.clone(),
            level: Level::Error,
            time: screen.state.now,
            message: text.clone(),
            fields: [(&text, &text)].into_iter().collect(),
        })));
        if is_live {
            screen.run_live();
        } else {
            screen.run_split();
        }
        for key in keys {
            screen.press(key);
        }
        screen.take(Event::Paste(text.clone()));
        screen.state.size = (width, height);
        screen.state.notify(text.clone(), text);
        screen.drawn(theme::Name::Light);
    }
}
