//! Frames of the past.

use super::*;
use crate::event::Effect;

/// Returns a screen that has shown the Cluster, the Data and the Logs screen, two seconds each.
fn toured() -> Harness {
    let mut screen = Harness::quiet(STATE_SIZE);
    for key in ["1", "3", "5"] {
        screen.press(key);
        screen.draw();
        screen.pass(Duration::from_secs(2));
    }
    screen
}

#[test]
fn keys_go_back_and_forth_through_the_frames_of_the_past() {
    let mut screen = toured();
    let live = screen.text();
    screen.press("<");
    screen.shows(&["Datasets", "past: 14:02:34, 4 s ago", "esc live"]);
    screen.press("<");
    screen.shows(&["worker-1", "past: 14:02:32, 6 s ago"]);
    check("past", &screen);
    screen.press("<");
    screen.shows(&["past: 14:02:32"]);
    screen.press(">");
    screen.shows(&["past: 14:02:34"]);
    screen.press("home");
    screen.shows(&["past: 14:02:32"]);
    screen.press("pgdn");
    assert_eq!(screen.text(), live, "the live screen follows the last frame");
    screen.press("< esc");
    assert_eq!(screen.text(), live);
    screen.press("< end");
    assert_eq!(screen.text(), live);
}

#[test]
fn live_screen_continues_while_the_past_is_in_view() {
    let mut screen = toured();
    screen.press("<");
    let past = screen.text();
    let log = LocalLog {
        process: "worker-1".to_owned(),
        level: Level::Info,
        time: screen.state.now,
        message: "arrived meanwhile".to_owned(),
        fields: [("peer", "12D3KooW")].into_iter().collect(),
    };
    screen.take(Event::Local(LocalEvent::Log(log)));
    screen.draw();
    assert_eq!(screen.text(), past);
    screen.press("esc");
    screen.shows(&["arrived meanwhile"]);
}

#[test]
fn other_keys_have_no_effect_in_the_past_or_return_to_the_live_screen_first() {
    let mut screen = toured();
    screen.press("<");
    let past = screen.text();
    for key in ["1", "x", "e", "enter", "z"] {
        screen.press(key);
        assert_eq!(screen.text(), past, "{key}");
    }
    screen.take(Event::Paste("text".to_owned()));
    assert_eq!(screen.text(), past);
    screen.press("f1");
    screen.shows(&["Keys — Logs"]);
    screen.press("esc");
    screen.run_split();
    screen.press("5 <");
    assert_eq!(screen.effects_of("q"), [Effect::Quit]);
}

#[test]
fn frame_of_the_past_is_drawn_at_every_size_without_panic() {
    let mut screen = toured();
    screen.press("<");
    for size in [(1, 1), (60, 16), (80, 24), (200, 60)] {
        screen.state.size = size;
        screen.text();
    }
    screen.shows(&["Datasets", "past: 14:02:34"]);
}

#[test]
fn nothing_earlier_is_reported_on_the_first_frame() {
    let mut screen = Harness::quiet(STATE_SIZE);
    screen.draw();
    screen.press("<");
    screen.shows(&["nothing earlier was shown yet"]);
}
