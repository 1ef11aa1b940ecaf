//! The pictures of the README, taken of the real program.

use std::{fs, process::Command, time::Duration};

use vt100::Screen;

use super::{CHART_LEFT, PAINT_WITHIN, READY_WITHIN, SHOWN_WITHIN, wait_gone};
use crate::support::{
    ROOT, TUI,
    pty::{Session, WIDE, text},
    svg,
};

/// How long the charts may take to have something to show: losses are learned a minute after the
/// first epoch, and then change with each.
const GROWN_WITHIN: Duration = Duration::from_mins(4);

/// Epochs whose losses are learned before the Inference screen is drawn.
const N_LEARNED: u32 = 6;

/// The size that every terminal has.
const SMALL: (u16, u16) = (80, 24);

/// Workers of the local stack.
const N_WORKERS: usize = 3;

/// Datasets of the local stack.
const N_DATASETS: usize = 8;

/// Columns of a picture that a page shows; the drawing itself is larger.
const PNG_ZOOM: &str = "0.8";

/// What is told, over a corner of the screen, once all services have started.
const STARTED: &str = "✓ local stack";

/// Draws the screen as it is now.
fn shoot(session: &Session, name: &str) {
    let ground = if name.ends_with("light") { svg::LIGHT } else { svg::DARK };
    let draw = |screen: &Screen| Some(svg::draw(screen, ground));
    let svg = session.wait_for("a whole frame", SHOWN_WITHIN, draw);
    let path = format!("{ROOT}/screenshots/{name}");
    fs::write(format!("{path}.svg"), svg).unwrap();
    let convert = Command::new("rsvg-convert")
        .args(["--zoom", PNG_ZOOM, &format!("{path}.svg"), "--output", &format!("{path}.png")])
        .status();
    // Without the converter there is the SVG alone.
    if let Ok(status) = convert {
        assert!(status.success(), "{name}.png is drawn");
    }
}

/// Whether a row of the list of datasets has a sparkline.
fn has_spark(row: &str) -> bool {
    row.chars().take(usize::from(CHART_LEFT)).any(|letter| matches!(letter, '▁'..='█'))
}

/// How many epochs of the first topic have known losses: the number after its subgroup.
fn learned(screen: &Screen) -> Option<u32> {
    let text = text(screen);
    let row =
        text.lines().find_map(|line| line.split_once(" 1  processor load")?.1.split_once(" gpu "));
    row?.1.split_whitespace().next()?.parse().ok()
}

/// Opens the screen in a terminal of `size`, with the colors of `theme`, and the stack behind it.
fn open(theme: &str, size: (u16, u16)) -> Session {
    let session = Session::start(TUI, &["--theme", theme], size);
    session.wait_text("1 Clus", PAINT_WITHIN);
    session.press("1");
    session.wait_for("all nodes", READY_WITHIN, |screen| {
        let text = text(screen);
        (text.matches(" worker ").count() >= N_WORKERS).then_some(())
    });
    session
}

/// Runs a function whose results are equal, then one whose results differ; the form is in view.
fn run_two(session: &Session) {
    session.press("e");
    session.wait_text("hello.wasm", SHOWN_WITHIN);
    session.press("ctrl-r");
    session.wait_text("and all agree", SHOWN_WITHIN);
    session.press("e");
    session.wait_text("leave form", SHOWN_WITHIN);
    // The last function: its results differ from worker to worker.
    session.press("up");
    // On a small screen the list of functions covers the method.
    session.wait_text("function  whoami", SHOWN_WITHIN);
    session.press("ctrl-r");
    session.wait_text("peers disagree", SHOWN_WITHIN);
}

/// Draws the result groups of the runs, and the nodes.
fn shoot_cluster(session: &Session, name: &str) {
    session.press("1");
    session.wait_text("Result groups", SHOWN_WITHIN);
    wait_gone(session, STARTED);
    shoot(session, name);
}

/// Draws the market, once there is something to see of the other datasets, too.
fn shoot_data(session: &Session, name: &str, n_datasets: usize) {
    session.press("3");
    session.wait_text(" vol", SHOWN_WITHIN);
    wait_gone(session, STARTED);
    session.wait_for("the newest value of every dataset", SHOWN_WITHIN, |screen| {
        let text = text(screen);
        let is_dataset = |line: &&str| line.contains("synthetic_") || line.contains("machine_");
        let rows = text.lines().filter(is_dataset).filter(|row| has_spark(row));
        (rows.count() >= n_datasets).then_some(())
    });
    shoot(session, name);
}

/// The pictures in other colors and sizes: the Cluster and the Data screen.
fn shoot_variant(theme: &str, size: (u16, u16), ending: &str, n_datasets: usize) {
    let session = open(theme, size);
    run_two(&session);
    shoot_cluster(&session, &format!("cluster-{ending}"));
    shoot_data(&session, &format!("data-{ending}"), n_datasets);
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
}

#[test]
#[ignore = "writes screenshots/, and takes minutes so that charts have something to show"]
fn screenshots() {
    let session = open("dark", WIDE);
    // The history of epochs grows while the other screens are looked at; losses come last.
    session.press("4");
    session.wait_text("combined", SHOWN_WITHIN);
    run_two(&session);
    shoot(&session, "execute");
    shoot_cluster(&session, "cluster");
    shoot_data(&session, "data", N_DATASETS);
    session.press("?");
    session.wait_text("Keys — Data", SHOWN_WITHIN);
    shoot(&session, "help");
    session.press("esc");
    wait_gone(&session, "Keys — Data");
    session.press("p :");
    session.wait_text("a command, or a name", SHOWN_WITHIN);
    for letter in ["s", "y", "n"] {
        session.press(letter);
    }
    session.wait_text("synthetic_ethusd", SHOWN_WITHIN);
    shoot(&session, "palette");
    session.press("esc");
    wait_gone(&session, "$ topics");
    session.press("5");
    session.wait_text("╭─ Logs", SHOWN_WITHIN);
    shoot(&session, "logs");

    session.press("4");
    session.wait_for("losses are learned", GROWN_WITHIN, |screen| {
        learned(screen).filter(|n_epochs| *n_epochs >= N_LEARNED)
    });
    shoot(&session, "inference");
    session.press("0");
    session.wait_text("1 pinned · 8 datasets", SHOWN_WITHIN);
    session.wait_for(
        "the values of every dataset, of every topic and process",
        SHOWN_WITHIN,
        |it| {
            let text = text(it);
            let n_values = text.matches(" values").count();
            (n_values >= N_DATASETS && text.contains("MiB") && text.contains(" forecasters"))
                .then_some(())
        },
    );
    shoot(&session, "overview");
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);

    shoot_variant("light", WIDE, "light", N_DATASETS);
    // The list of a small screen has no lines of values.
    shoot_variant("dark", SMALL, "80x24", 0);
}
