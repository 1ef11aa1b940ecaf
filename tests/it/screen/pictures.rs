//! The pictures of the README, taken of the real program.

use std::{fs, process::Command, time::Duration};

use vt100::Screen;

use super::{CHART_LEFT, PAINT_WITHIN, SHOWN_WITHIN, wait_gone, wait_nodes};
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

/// Datasets of the local stack.
const N_DATASETS: usize = 8;

/// Columns of a picture that a page shows; the drawing itself is larger.
const PNG_ZOOM: &str = "0.8";

/// Draws the screen as it is now.
fn shoot(session: &Session, name: &str) {
    let svg = session.wait_for("a whole frame", SHOWN_WITHIN, |screen| Some(svg::draw(screen)));
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

#[test]
#[ignore = "writes screenshots/, and takes minutes so that charts have something to show"]
fn screenshots() {
    let session = Session::start(TUI, &[], WIDE);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    wait_nodes(&session);
    // The history of epochs grows while the other screens are looked at; losses come last.
    session.press("4");
    session.wait_text("combined", SHOWN_WITHIN);

    session.press("e");
    session.wait_text("\"method\": \"hello.wasm\"", SHOWN_WITHIN);
    session.press("ctrl-r");
    session.wait_text("and all agree", SHOWN_WITHIN);
    session.press("e");
    session.wait_text("leave form", SHOWN_WITHIN);
    // The last function: its results differ from worker to worker.
    session.press("up");
    session.wait_text("\"method\": \"whoami.wasm\"", SHOWN_WITHIN);
    session.press("ctrl-r");
    session.wait_text("peers disagree", SHOWN_WITHIN);
    shoot(&session, "execute");
    session.press("1");
    session.wait_text("Result groups", SHOWN_WITHIN);
    shoot(&session, "cluster");

    session.press("3");
    session.wait_for("the newest value of every dataset", SHOWN_WITHIN, |screen| {
        let text = text(screen);
        let rows = text.lines().filter(|line| {
            line.contains("synthetic_") && line.contains("usd_1min") || line.contains("machine_")
        });
        (rows.filter(|row| has_spark(row)).count() >= N_DATASETS).then_some(())
    });
    shoot(&session, "data");
    session.press("?");
    session.wait_text("Keys — Data", SHOWN_WITHIN);
    shoot(&session, "help");
    session.press("esc");
    wait_gone(&session, "Keys — Data");
    session.press("5");
    session.wait_text("╭─ Logs", SHOWN_WITHIN);
    shoot(&session, "logs");

    session.press("4");
    session.wait_for("losses are learned", GROWN_WITHIN, |screen| {
        learned(screen).filter(|n_epochs| *n_epochs >= N_LEARNED)
    });
    shoot(&session, "inference");
}
