//! Draws the pictures for the README from the running program.

use std::fs;
use std::process::Command;
use std::time::Duration;

use vt100::Screen;

use super::{CHART_LEFT, PAINT_WITHIN, READY_WITHIN, SHOWN_WITHIN, wait_gone};
use crate::support::pty::{Session, WIDE, text};
use crate::support::{ROOT, TUI, svg};

/// Maximum time until charts show enough. Losses are known a minute after the first epoch.
const GROWN_WITHIN: Duration = Duration::from_mins(4);

/// Number of epochs with known losses before the Inference screen is drawn.
const N_LEARNED: u32 = 8;

/// The usual default size of terminals.
const SMALL: (u16, u16) = (80, 24);

/// Number of workers of the local stack.
const N_WORKERS: usize = 3;

/// Number of datasets of the local stack.
const N_DATASETS: usize = 8;

/// Label before the latest value on a card of the Overview.
const NEWEST: &str = "newest ";

/// Size of the PNG relative to the SVG. With this factor, a cell has a whole number of pixels, 10 by 22,
/// so that there are no gaps.
const PNG_ZOOM: &str = "0.8333333";

/// Notice that the screen shows after all services have started.
const STARTED: &str = "✓ local stack";

/// Exclusive upper bound of the number of buckets, which thereby has one digit.
const BUCKETS_MAX: u32 = 10;

/// Time for which the animation shows each still screen.
const STILL: Duration = Duration::from_millis(2500);

/// Number of frames of the live chart in the animation, and the time for which each frame is shown.
const MOVING: (usize, Duration) = (12, Duration::from_millis(500));

/// Writes the current screen as the picture `name`. Returns the screen.
fn shoot(session: &Session, name: &str) -> Screen {
    let ground = if name.ends_with("light") { svg::LIGHT } else { svg::DARK };
    let screen = session.wait_for("a whole frame", SHOWN_WITHIN, |screen| Some(screen.clone()));
    let svg = svg::draw(&screen, ground);
    let path = format!("{ROOT}/screenshots/{name}");
    fs::write(format!("{path}.svg"), svg).unwrap();
    let convert = Command::new("rsvg-convert")
        .args(["--zoom", PNG_ZOOM, &format!("{path}.svg"), "--output", &format!("{path}.png")])
        .status();
    // If the converter is not installed, only the SVG is written.
    if let Ok(status) = convert {
        assert!(status.success(), "{name}.png is drawn");
    }
    screen
}

/// Returns the next frames of the screen, each of which differs from the previous one.
fn record(session: &Session) -> Vec<(Screen, Duration)> {
    let mut frames: Vec<(Screen, Duration)> = Vec::new();
    while frames.len() < MOVING.0 {
        let last = frames.last().map(|(screen, _)| text(screen));
        let screen = session.wait_for("another frame", SHOWN_WITHIN, |screen| {
            (last.as_ref() != Some(&text(screen))).then(|| screen.clone())
        });
        frames.push((screen, MOVING.1));
    }
    frames
}

/// Returns the number of epochs of the first topic whose losses are known. On the screen, this number
/// follows the topic's subgroup.
fn n_learned(screen: &Screen) -> Option<u32> {
    let text = text(screen);
    let row =
        text.lines().find_map(|line| line.split_once(" synthetic BTC/USD")?.1.split_once(" * "));
    row?.1.split_whitespace().next()?.parse().ok()
}

/// Returns true if each row in the list of datasets has a sparkline.
fn has_sparks(screen: &Screen) -> bool {
    let text = text(screen);
    let of_list = |line: &str| line.chars().take(usize::from(CHART_LEFT)).collect::<String>();
    let rows = text.lines().map(of_list);
    let rows = rows.filter(|row| row.contains("synthetic_") || row.contains("machine_"));
    let has_spark = |row: &String| row.chars().any(|letter| matches!(letter, '▁'..='█'));
    rows.filter(has_spark).count() >= N_DATASETS
}

/// Starts the screen with the local stack, and waits until the notice about its start is gone.
fn open() -> Session {
    let session = Session::start(TUI, &["--theme", "dark"], WIDE);
    session.wait_text("1 Clus", PAINT_WITHIN);
    session.press("1");
    session.wait_for("all nodes", READY_WITHIN, |screen| {
        let text = text(screen);
        (text.matches(" worker ").count() >= N_WORKERS).then_some(())
    });
    wait_gone(&session, STARTED);
    session
}

/// Presses `keys`, which start the run with this `number`. Waits until the run is complete.
fn run(session: &Session, number: u32, keys: &str) {
    session.press(keys);
    session.wait_for(&format!("run {number} has ended"), SHOWN_WITHIN, |screen| {
        let text = text(screen);
        let is_over = text.contains("✓ done") || text.contains("✗ failed");
        (text.contains(&format!("─ Run {number} ─")) && is_over).then_some(())
    });
}

/// Opens the form for executions.
fn open_form(session: &Session) {
    session.press("e");
    session.wait_text("esc done", SHOWN_WITHIN);
}

/// Starts three runs: with equal results, on more nodes than there are, and with different results.
fn run_some(session: &Session) {
    open_form(session);
    session.wait_text("function  hello", SHOWN_WITHIN);
    // With an unoptimized compiler, the first run of a function may time out.
    session.press("up");
    session.wait_text("function  whoami", SHOWN_WITHIN);
    run(session, 1, "ctrl-r");
    run(session, 2, "R");
    open_form(session);
    session.press("down");
    session.wait_text("function  hello", SHOWN_WITHIN);
    run(session, 3, "ctrl-r");
    for number in 4..=8 {
        run(session, number, "R");
    }
    open_form(session);
    // The focus is on the function. The field for the number of nodes is three fields further.
    session.press("tab tab tab backspace 9");
    run(session, 9, "ctrl-r");
    open_form(session);
    session.press("backspace 3 shift-tab shift-tab shift-tab up");
    session.wait_text("function  whoami", SHOWN_WITHIN);
    session.press("tab tab tab tab tab tab");
    let last = disagree(session, 10);
    for number in last + 1..=last + 4 {
        run(session, number, "R");
    }
    wait_gone(session, "failed to");
}

/// Runs `whoami` with an increasing number of buckets until the workers are in different buckets. The
/// field of arguments must be focused and empty. The first run has `number`. Returns the number of the
/// last run.
fn disagree(session: &Session, number: u32) -> u32 {
    for (number, n_buckets) in (number..).zip(2..BUCKETS_MAX) {
        if n_buckets > 2 {
            open_form(session);
            session.press("backspace");
        }
        session.press(&n_buckets.to_string());
        session.wait_text(&format!("arguments  {n_buckets}"), SHOWN_WITHIN);
        run(session, number, "ctrl-r");
        if session.wait_text("peers took part", SHOWN_WITHIN).contains("peers disagree") {
            return number;
        }
    }
    panic!("all workers are in the same bucket");
}

/// Opens the chart of a dataset by its name.
fn chart(session: &Session, dataset: &str) {
    session.press(":");
    session.wait_text("a command or a name", SHOWN_WITHIN);
    session.type_text(dataset);
    session.wait_text(&format!("{dataset} "), SHOWN_WITHIN);
    session.press("enter");
    wait_gone(session, "$ topics");
    session.wait_text(&format!("─ {dataset} ─"), SHOWN_WITHIN);
}

/// Selects the theme to which `keys` lead in the list of themes.
fn select_theme(session: &Session, keys: &str) {
    session.press("T");
    session.wait_text("goes back", SHOWN_WITHIN);
    session.press(keys);
    session.press("enter");
    wait_gone(session, "goes back");
}

/// Opens the Data screen with the live market.
fn show_data(session: &Session) {
    session.press("3");
    session.wait_for("a live chart", SHOWN_WITHIN, |screen| {
        let text = text(screen);
        let title = text.lines().nth(1)?;
        (title.contains("live") && text.contains(" vol")).then_some(())
    });
}

/// Draws the Cluster screen and the Data screen. `ending` is appended to the names of the pictures.
fn shoot_both(session: &Session, ending: &str) {
    session.press("1");
    session.wait_text("─ Result groups ─", SHOWN_WITHIN);
    shoot(session, &format!("cluster-{ending}"));
    show_data(session);
    shoot(session, &format!("data-{ending}"));
}

/// Draws the Overview once every card and every topic shows its values.
fn shoot_overview(session: &Session) -> Screen {
    session.press("0");
    session.wait_for("all values", GROWN_WITHIN, |screen| {
        let text = text(screen);
        // Pinned datasets show the state of their stream instead of this label.
        let n_whole = text.matches(NEWEST).count() + text.matches("live ·").count();
        let is_known = text.contains("MiB") && text.contains(" forecasters");
        let is_fresh = !text.contains("m ago");
        (n_whole >= N_DATASETS && is_known && is_fresh).then_some(())
    });
    shoot(session, "overview")
}

#[test]
#[ignore = "writes screenshots/ and waits minutes for data in the charts"]
fn screenshots_of_all_screens_are_written() {
    let session = open();
    // Wait on the Inference screen, while the history of epochs grows.
    session.press("4");
    session.wait_text("combined", SHOWN_WITHIN);
    run_some(&session);
    let execute = shoot(&session, "execute");
    for pinned in ["machine_cpu", "synthetic_ethusd"] {
        chart(&session, pinned);
        session.press("p");
        session.wait_text("★", SHOWN_WITHIN);
    }
    chart(&session, "synthetic_btcusd");
    session.press("4 t");
    session.wait_text("─ Topic 2 ", SHOWN_WITHIN);
    session.wait_for("losses are learned", GROWN_WITHIN, |screen| {
        n_learned(screen).filter(|n_epochs| *n_epochs >= N_LEARNED)
    });
    let inference = shoot(&session, "inference");
    session.press("5");
    session.wait_text("─ Logs ─", SHOWN_WITHIN);
    shoot(&session, "logs");
    session.press("1");
    session.wait_text("/min", GROWN_WITHIN);
    let cluster = shoot(&session, "cluster");
    let overview = shoot_overview(&session);
    show_data(&session);
    session.wait_for("a line of each dataset", SHOWN_WITHIN, |it| has_sparks(it).then_some(()));
    let mut tour = vec![(overview, STILL)];
    tour.extend(record(&session));
    tour.extend([cluster, execute, inference].map(|screen| (screen, STILL)));
    fs::write(format!("{ROOT}/screenshots/tour.svg"), svg::animate(&tour, svg::DARK)).unwrap();
    session.press("left left left left left left left left left left left left");
    session.wait_text("┊", SHOWN_WITHIN);
    shoot(&session, "data");
    session.press("?");
    session.wait_text("Keys — Data", SHOWN_WITHIN);
    shoot(&session, "help");
    session.press("esc");
    wait_gone(&session, "Keys — Data");
    session.press(":");
    session.wait_text("a command or a name", SHOWN_WITHIN);
    session.press("s y n");
    session.wait_text("❯ syn", SHOWN_WITHIN);
    shoot(&session, "palette");
    session.press("esc");
    wait_gone(&session, "$ topics");

    // The themes `light` and `cvd` follow `dark`.
    select_theme(&session, "down");
    shoot_both(&session, "light");
    select_theme(&session, "down");
    session.press("1");
    session.wait_text("─ Result groups ─", SHOWN_WITHIN);
    show_data(&session);
    shoot(&session, "data-cvd");
    select_theme(&session, "up up");
    session.resize(SMALL);
    session.wait_text("1 Clus", SHOWN_WITHIN);
    shoot_both(&session, "80x24");
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
}
