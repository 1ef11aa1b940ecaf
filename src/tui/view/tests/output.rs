//! The output of a run: scrolled in both directions, wrapped, searched, saved, and shown in a
//! pager.

use super::*;
use crate::event::Effect;
use crate::harness::{failed_response, split_response};

/// Returns a screen of 160 by 45 cells, with a run that has a single result group with the output
/// `stdout`.
fn printed(stdout: &str) -> Harness {
    let mut response = failed_response();
    response.results[0].result.stdout = stdout.to_owned();
    let mut screen = Harness::ready(160, 45);
    let id = screen.run();
    screen.take(Event::Executed(id, Ok(Box::new(response))));
    screen.state.notices.clear();
    screen
}

fn lines(n: usize) -> String {
    (1..=n).map(|number| format!("line number {number}")).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check_shown(screen: &Harness, wanted: &[&str], unwanted: &[&str]) {
    screen.shows(wanted);
    screen.hides(unwanted);
}

#[test]
fn end_key_jumps_to_the_end_of_an_output() {
    for (screen, leave) in [("2 esc", "2 esc"), ("1 tab tab", "1")] {
        for key in ["end", "G"] {
            let mut output = printed(&lines(300));
            output.press(screen);
            check_shown(
                &output,
                &["  1 line number 1 ", "line 1 of 300", "█"],
                &["line number 300"],
            );
            output.press(key);
            check_shown(&output, &["line number 300"], &["  1 line number 1 "]);
            output.press("up");
            check_shown(&output, &["line number 299"], &["line number 300"]);
            output.press("home");
            check_shown(&output, &["  1 line number 1 "], &["line number 299"]);
            output.press(leave);
        }
    }
}

#[test]
fn long_lines_wrap_or_scroll_sideways() {
    let mut screen =
        printed(&format!("start {} middle {} the end\n", "a".repeat(90), "b".repeat(90)));
    check_shown(&screen, &["1 start aaa"], &["the end", "middle"]);
    screen.press("w");
    check_shown(&screen, &["1 start aaa", "middle", "the end"], &[]);
    screen.press("w right right right right right right right right right right right right");
    check_shown(&screen, &["middle"], &["1 start aaa"]);
    screen.press("left left left left left left left left left left left left");
    check_shown(&screen, &["1 start aaa"], &["middle"]);
}

#[test]
fn output_is_searched_in_both_directions() {
    let mut screen = printed(&lines(300));
    screen.press("/");
    screen.type_text("number 17");
    check_shown(&screen, &["⌕ number 17", "line number 17 "], &[]);
    screen.press("enter n");
    check_shown(&screen, &["line number 170"], &[]);
    screen.press("N");
    check_shown(&screen, &["line number 17 "], &["line number 170"]);
    screen.press("esc");
    check_shown(&screen, &["line number 17 "], &["⌕ number"]);
    screen.press("/");
    screen.type_text("r 29[89]$");
    check_shown(&screen, &["⌕ r 29[89]$", "line number 298"], &["line number 17 "]);
    screen.press("esc /");
    screen.type_text("!number ..?$");
    check_shown(&screen, &["line number 100 "], &["line number 97 "]);
}

#[test]
fn json_output_is_shown_formatted_or_raw() {
    let mut screen = printed("{\"mean\":67431.22,\"n\":288}");
    check_shown(&screen, &["stdout as JSON", "1 {", "2   \"mean\": 67431.22,"], &[]);
    screen.press("p");
    check_shown(&screen, &["1 {\"mean\":67431.22,\"n\":288}"], &["as JSON"]);
}

#[test]
fn output_can_be_saved_or_opened_in_a_pager() {
    let mut screen = printed("one\ntwo\n");
    screen.press("x");
    check_shown(&screen, &["run-1-stdout.txt", "writes it as it is shown"], &[]);
    let asked = screen.effects_of("enter");
    let [Effect::Save { path, text, what }] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((text.as_str(), what.as_str()), ("one\ntwo\n", "2 lines"));
    screen.take(Event::Saved { path: path.clone(), what: what.clone(), result: Ok(()) });
    assert_eq!(screen.effects_of("|"), [Effect::Page("one\ntwo\n".to_owned())]);
}

#[test]
fn comparison_shows_the_number_of_lines_left_out() {
    let mut response = split_response();
    response.results[0].result.stdout = lines(900);
    response.results[1].result.stdout = lines(450);
    let mut screen = Harness::ready(160, 45);
    let id = screen.run();
    screen.take(Event::Executed(id, Ok(Box::new(response))));
    screen.press("d");
    let stop = "compared up to line 400: 500 more lines of group 1 and 50 of group 2 are left out";
    check_shown(&screen, &["group 1 ▸ group 2", stop, "lines below"], &[]);
    screen.press("G");
    check_shown(&screen, &["line number 400", stop], &["line number 200"]);
}
