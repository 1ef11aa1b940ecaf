//! The first minute of a new user: screens before and after the first run, and the effect of
//! notices.

use ratatui::layout::Position;

use super::*;
use crate::event::{Effect, InferenceEvent, Timer};
use crate::screens::execute::state::{FormField, Pane};

/// Returns the share of empty rows among the rows between header and footer.
fn empty_share(screen: &Harness) -> f64 {
    let shown = screen.text();
    let rows: Vec<&str> = shown.lines().skip(1).collect();
    let is_empty = |row: &&&str| row.chars().filter(|it| it.is_alphanumeric()).count() < 4;
    #[expect(clippy::cast_precision_loss, reason = "a screen has few rows")]
    let share = rows.iter().filter(is_empty).count() as f64 / rows.len() as f64;
    share
}

#[test]
fn first_screen_contains_advice_and_is_not_half_empty() {
    for (width, height) in [(160, 45), (80, 24)] {
        let starting = Harness::starting(width, height);
        let mut ready = Harness::ready(width, height);
        ready.state.notices.clear();
        for screen in [Box::new(starting), Box::new(ready)] {
            let shown = screen.text();
            for wanted in ["Start here", "e then ^R", "run ", "the keys of the current screen"] {
                assert!(shown.contains(wanted), "`{wanted}` is in:\n{shown}");
            }
            let is_ready = screen.state.stack.has_processes();
            let share = empty_share(&screen);
            assert!(!is_ready || share < 0.35, "{share:.2} of the rows are empty:\n{shown}");
        }
    }
    let mut screen = Harness::split((160, 45));
    screen.press("1");
    assert!(!screen.text().contains("Start here"), "after a run, its results are shown instead");
}

#[test]
fn functions_in_the_start_here_pane_are_opened_by_keys_and_clicks() {
    let mut screen = Harness::quiet((160, 45));
    screen.press("tab down enter");
    assert_eq!(screen.state.screen, Screen::Execute);
    assert_eq!(screen.state.execute.form.text(FormField::Method), "hello.wasm");
    let mut screen = Harness::quiet((160, 45));
    let shown = screen.text();
    let y = shown.lines().position(|line| line.contains("  mean  ")).expect("a function");
    let target = screen.hits().target_at(84, u16::try_from(y).unwrap());
    screen.take(Event::Click(target.expect("something to click")));
    assert_eq!(screen.state.execute.form.text(FormField::Method), "mean.wasm");
}

#[test]
fn first_steps_are_shown_on_the_smallest_screens() {
    for (width, height) in [(60, 20), (60, 16)] {
        let screen = Harness::quiet((width, height));
        screen.shows(&["Start here", "e then ^R", "worker-1"]);
    }
}

#[test]
fn topic_in_its_first_open_epoch_is_not_shown_as_failed() {
    let mut screen = Harness::after("0");
    let list =
        |last_nonce| Event::Inference(InferenceEvent::Topics(Ok(harness::topics(last_nonce))));
    screen.take(list(None));
    screen.effects.clear();
    let why = Failure { why: "not available".to_owned(), status: Some(404), ..Failure::default() };
    let topic = model::topic::TopicId::new(1).unwrap();
    let latest = |why: &Failure| InferenceEvent::Latest {
        topic,
        is_resistant: false,
        result: Err(why.clone()),
    };
    screen.take(Event::Inference(latest(&why)));
    screen.shows(&["no epoch has values yet"]);
    screen.hides(&["failed", "not available"]);
    // A value that is missing is requested again within seconds.
    screen.take(Event::TimerDue(Timer::Overview));
    let wait = screen.effects.iter().find_map(|effect| match effect {
        Effect::SetTimer(Timer::Overview, wait) => Some(*wait),
        _ => None,
    });
    assert!(wait.unwrap() <= Duration::from_secs(3), "{wait:?}");
    screen.take(list(Some(90)));
    screen.take(Event::Inference(latest(&why)));
    screen.shows(&["not available"]);
}

#[test]
fn outcome_of_a_run_is_the_same_on_all_screens() {
    let mut screen = Harness::after("e ctrl-r 3");
    let id = screen.state.runs.newest().unwrap().id;
    screen.press("esc 3");
    screen.take(Event::Executed(id, Ok(Box::new(harness::split_response()))));
    let notice = screen.state.notices.past().next().unwrap();
    assert_eq!((notice.level, notice.detail.as_str()), (Level::Warn, "3 peers, 2 results"));
    for key in ["0", "1"] {
        screen.press(key);
        let shown = screen.text();
        let row = shown.lines().find(|line| line.contains("! 14:02:3")).unwrap_or_default();
        assert!(row.contains("hello"), "{shown}");
    }
}

#[test]
fn unknown_method_shows_the_methods_that_the_head_lists() {
    let mut screen = Harness::after("e tab tab ctrl-u");
    screen.type_text("nope.wasm");
    screen.press("tab");
    screen.shows(&["└ the head lists divide.wasm, hello.wasm,"]);
}

#[test]
fn changed_poll_interval_is_reported() {
    let screen = Harness::after("4 +");
    let notice = screen.state.notices.past().next().unwrap();
    assert!(notice.text.starts_with("topics are read every "), "{}", notice.text);
}

#[test]
fn help_explains_the_symbols() {
    let mut screen = Harness::ready(160, 60);
    screen.press("1 ?");
    let shown = screen.text();
    for words in ["● live: a stream", "◉ up", "! not responding", "◌ as last listed"] {
        let words = words.replacen(' ', "  ", 1);
        assert!(shown.contains(&words), "{words} in {shown}");
    }
}

#[test]
fn execute_screen_focuses_the_form_without_editing_it() {
    let mut screen = Harness::split((160, 45));
    let before = screen.state.execute.form.preview();
    screen.press("1 2");
    assert_eq!(screen.state.execute.focus, Pane::Form);
    screen.press(": esc j j k ? esc / 3");
    assert_eq!(screen.state.screen, Screen::Data, "keys are commands");
    screen.press("2 enter 3");
    assert_eq!(screen.state.screen, Screen::Execute, "keys are text once the form is edited");
    assert_ne!(screen.state.execute.form.preview(), before);
    screen.press("ctrl-z");
    assert_eq!(screen.state.execute.form.preview(), before);
    screen.press("esc 3");
    assert_eq!(screen.state.screen, Screen::Data);
    screen.take(Event::Click(Target::Screen(Screen::Execute)));
    assert_eq!(screen.state.execute.focus, Pane::Form);
}

#[test]
fn local_nodes_are_shown_by_name_on_all_screens() {
    for (width, height) in [(160, 45), (80, 24)] {
        let mut screen = Harness::quiet((width, height));
        screen.shows(&["worker-2 12D"]);
        screen.run_split();
        screen.shows(&["worker-1 worker-2"]);
        screen.press("1 / w o r k e r - 2 enter");
        screen.shows(&["● worker-2", " 1 · 1 local"]);
    }
}

/// Returns the rows between header and footer.
fn middle(screen: &Harness) -> Vec<String> {
    let buffer = screen.drawn(theme::Name::Dark);
    let (width, height) = (buffer.area.width, buffer.area.height);
    let cell = |x, y| buffer.cell(Position::new(x, y)).unwrap().symbol().to_owned();
    (1..height - 1).map(|y| (0..width).map(|x| cell(x, y)).collect()).collect()
}

#[test]
fn notice_does_not_cover_panes() {
    for (width, height) in [(160, 45), (80, 24)] {
        let mut screen = Harness::split((width, height));
        screen.state.notices.clear();
        let before = middle(&screen);
        screen.state.notify("preset \"mean x3\" saved", String::new());
        assert!(screen.text().lines().last().unwrap().contains("✓ preset"), "{}", screen.text());
        assert_eq!(middle(&screen), before);
        // A long notice takes several rows of the footer. The panes above still fit.
        let why = "connection refused; ".repeat(12);
        screen.state.notify_failure(&Failure::new("wait", why, ""));
        let shown = screen.text();
        let lines: Vec<&str> = shown.lines().collect();
        let end = lines.iter().rposition(|line| line.contains('╰')).unwrap();
        let notice = lines.iter().position(|line| line.contains("✗ failed to wait")).unwrap();
        assert_eq!(notice, end + 1, "{shown}");
    }
}

#[test]
fn notice_is_hidden_while_a_pane_shows_the_same_failure() {
    let screen = Harness::ready(160, 45);
    assert!(!screen.text().contains("✓ local stack"), "the pane of processes shows what runs");
    let n_past = screen.state.notices.past().len();
    assert!(n_past > 0, "the notice is stored to be read later");
    let failure = Failure::new("list the nodes", "connection refused", "");
    for (key, n_notices) in [("1", 0), ("3", 1)] {
        let mut screen = Harness::starting(160, 45);
        screen.take(Event::Local(LocalEvent::Ready(crate::local::LocalReady::default())));
        screen.use_heads(&["http://10.0.0.5:8080"]);
        screen.state.notices.clear();
        screen.press(key);
        screen.take(Event::Nodes(screen.head(), Err(failure.clone()), Duration::ZERO));
        assert_eq!(screen.state.notices.iter().count(), n_notices, "screen {key}");
    }
}

/// Checks that the footer contains `words` if `is_shown` is true, otherwise that it does not.
#[track_caller]
fn check_hint(screen: &Harness, words: &str, is_shown: bool) {
    let shown = screen.text();
    let footer = shown.lines().last().unwrap();
    assert_eq!(footer.contains(words), is_shown, "{words} in {footer}");
}

#[test]
fn hints_in_the_footer_name_all_keys_and_depend_on_the_mode() {
    let mut screen = Harness::after("3");
    check_hint(&screen, ", . resolution", true);
    check_hint(&screen, "+ - zoom in/out", true);
    screen.press("#");
    check_hint(&screen, "# chart", true);
    check_hint(&screen, "indicators", false);
    screen.press("5 z");
    check_hint(&screen, "z unzoom", true);
    screen.press("z");
    check_hint(&screen, ", . level", true);
    screen.press("space");
    check_hint(&screen, "space resume", true);
    screen.press("1");
    check_hint(&screen, "diff groups", false);
    screen.run_split();
    check_hint(&screen, "d diff groups", true);
    check_hint(&screen, ", . older/newer", true);
}

#[test]
fn errors_of_form_fields_are_not_truncated() {
    for (width, height) in [(160, 45), (80, 24), (60, 16)] {
        let mut screen = Harness::ready(width, height);
        screen.press("e tab tab tab tab tab tab tab");
        screen.type_text(&format!("A={} no-equals-sign-{}", "x".repeat(8), "y".repeat(60)));
        screen.press("tab shift-tab");
        let shown: String = screen.text().split_whitespace().collect();
        let shown = shown.replace(['│', '╭', '╰', '─'], "");
        let wanted = format!("`no-equals-sign-{}`isnotNAME=value", "y".repeat(60));
        assert!(shown.contains(&wanted), "{}", screen.text());
    }
}

#[test]
fn keys_are_named_if_the_font_has_only_ascii_symbols() {
    let mut screen = Harness::quiet((160, 45));
    let symbols = crate::widget::symbols::Symbols::Ascii;
    screen.state.symbols = symbols;
    screen.state.keys = std::mem::take(&mut screen.state.keys).with_symbols(symbols);
    screen.shows(&["enter open", "e execute"]);
    screen.press("?");
    screen.shows(&["enter  open", "down  j  down", "left  h  scroll"]);
    screen.hides(&["E  open"]);
}

#[test]
fn help_shows_whole_descriptions_at_every_size() {
    for size in [(80, 24), (100, 30), (160, 45)] {
        for screen_key in ["1", "4"] {
            let mut screen = Harness::quiet(size);
            screen.press(screen_key);
            screen.press("?");
            let mut shown = screen.text();
            for _ in 0..8 {
                screen.press("pgdn");
                shown += &screen.text();
            }
            let titles = ["copy as id, JSON, CSV or curl", "back through what was shown"];
            for title in titles.into_iter().chain([Action::Quit.title()]) {
                assert!(shown.contains(title), "no `{title}` at {size:?} in\n{shown}");
            }
        }
    }
}
