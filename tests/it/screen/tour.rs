//! A first tour without configuration. Every screen shows live data, and no process is left after the
//! exit.

use std::time::Duration;

use vt100::Screen;

use super::{CHART_LEFT, N_PROCESSES, N_SIZES, PAINT_WITHIN, SHOWN_WITHIN, wait_gone, wait_nodes};
use crate::support::pty::{Place, Session, WIDE, text};
use crate::support::{TUI, process};

/// Maximum time until a topic with epochs of twelve seconds has a new value.
const CHANGED_WITHIN: Duration = Duration::from_mins(1);

/// A pager that changes the text it shows and waits for a key.
const PAGER: &str = "sed s/Hello/Paged/; read key < /dev/tty";

#[test]
fn all_screens_show_live_data_without_configuration_and_quitting_stops_all_processes() {
    let place = Place { environment: &[("PAGER", PAGER)], ..Place::default() };
    let session = Session::start_in(&place, TUI, &[]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    // This hint is shown while services start.
    session.wait_text("e then ^R", SHOWN_WITHIN);
    let nodes = wait_nodes(&session);
    assert_eq!(nodes.iter().filter(|(_, role)| role == "head").count(), 1, "{nodes:?}");

    execute(&session);
    data(&session);
    forecasts(&session);
    inference(&session);
    help(&session);
    sizes(&session);

    let pids = process::descendants(session.pid);
    assert!(pids.len() >= N_PROCESSES, "the stack runs: {pids:?}");
    session.press("q");
    assert!(session.wait_exit(SHOWN_WITHIN).success(), "exit code 0");
    session.assert_restored();
    session.assert_no_key();
    process::wait_gone(pids);
}

/// Runs the function of the prefilled form. Checks that all workers return the same result.
#[track_caller]
fn execute(session: &Session) {
    session.press("e");
    let form = session.wait_text("\"method\": \"hello.wasm\"", SHOWN_WITHIN);
    assert!(form.contains("POST /api/v1/functions/execute"), "{form}");
    session.press("ctrl-r");
    let shown = session.wait_text("peers took part", SHOWN_WITHIN);
    for wanted in ["3 peers took part, and all agree", "100 freq", "3/3 peers", "exit 0"] {
        assert!(shown.contains(wanted), "no `{wanted}` in:\n{shown}");
    }
    assert!(shown.contains("Hello from WebAssembly"), "{shown}");
    assert!(shown.contains("worker-1 worker-2 worker-3"), "the group names them:\n{shown}");
    // Keys now apply to the result instead of the form.
    session.wait_text("edit form", SHOWN_WITHIN);
    // The pager has the terminal until it exits.
    session.press("|");
    session.wait_text("Paged from WebAssembly", SHOWN_WITHIN);
    session.press("enter");
    session.wait_text("edit form", SHOWN_WITHIN);
}

/// Checks that the list shows sparklines, and that the candles of the market change.
#[track_caller]
fn data(session: &Session) {
    session.press("3");
    session.wait_text("synthetic_btcusd", SHOWN_WITHIN);
    session.wait_for("a sparkline", SHOWN_WITHIN, |screen| {
        let is_bar = |letter: char| matches!(letter, '▁'..='█');
        (1..screen.size().0.get())
            .map(|row| cells(screen, row, 0..CHART_LEFT).filter(|cell| is_bar(*cell)).count())
            .find(|n_bars| *n_bars >= 5)
    });
    let before = session.wait_for("candles", SHOWN_WITHIN, |screen| {
        Some(candles(screen)).filter(|candles| candles.len() >= 20)
    });
    session.wait_for("candles that moved", SHOWN_WITHIN, |screen| {
        Some(candles(screen)).filter(|now| now.len() >= 20 && *now != before)
    });
}

/// Returns the characters in a range of columns of a row.
fn cells(
    screen: &Screen,
    row: u16,
    columns: std::ops::Range<u16>,
) -> impl Iterator<Item = char> + '_ {
    columns.filter_map(move |column| screen.cell(row, column)?.contents().chars().next())
}

/// Returns the characters of the candles in the chart, each with its position.
fn candles(screen: &Screen) -> Vec<(u16, usize, char)> {
    let (rows, columns) = screen.size();
    // The borders of the pane are excluded.
    let (rows, columns) = (6..rows.get() - 3, CHART_LEFT + 2..columns.get() - 12);
    rows.flat_map(|row| {
        let cells = cells(screen, row, columns.clone()).enumerate();
        let parts = cells.filter(|(_, cell)| matches!(cell, '█' | '▀' | '▄' | '│' | '╵' | '╷'));
        parts.map(move |(column, cell)| (row, column, cell)).collect::<Vec<_>>()
    })
    .collect()
}

/// Checks that a regression shows its combined value and a classification the values of its labels, also
/// in the next epoch.
#[track_caller]
fn inference(session: &Session) {
    session.press("4");
    session.wait_for("a combined value", SHOWN_WITHIN, combined);
    session.press("t");
    let labels = ["up", "down", "flat"];
    // While the market barely moves, the values of several epochs are equal, so epochs are compared.
    let epoch = |screen: &Screen| {
        let are_shown = labels.iter().all(|label| label_value(screen, label).is_some());
        let text = text(screen);
        let nonce = text.split("nonce ").nth(1)?.split(' ').next()?;
        are_shown.then(|| nonce.to_owned())
    };
    let before = session.wait_for("values of all labels", SHOWN_WITHIN, epoch);
    session.wait_for(&format!("an epoch other than {before}"), CHANGED_WITHIN, |screen| {
        epoch(screen).filter(|now| *now != before)
    });
}

/// Checks that the chart of the market shows the forecasts of the topic that predicts its price, and
/// that a key selects the next topic, which predicts a direction, and then none.
#[track_caller]
fn forecasts(session: &Session) {
    session.press("3");
    session.wait_text("forecast 12 s of topic 1, mean error", CHANGED_WITHIN);
    session.press("F");
    session.wait_text("topic 2 predicts a direction", SHOWN_WITHIN);
    session.press("F");
    wait_gone(session, "topic 2 predicts");
    session.press("F");
    session.wait_text("forecast 12 s of topic 1, mean error", SHOWN_WITHIN);
}

/// Returns the number that is shown below the word `combined`.
fn combined(screen: &Screen) -> Option<f64> {
    let text = text(screen);
    let mut lines = text.lines();
    let head = "◆ combined";
    let names = lines
        .find(|line| ["naive", "inferers", "forecasters"].iter().all(|name| line.contains(name)))?;
    let column = names.split_once(head)?.0.chars().count();
    let below: String = lines.next()?.chars().skip(column).take(head.len()).collect();
    below.split_whitespace().next()?.parse().ok()
}

/// Returns the combined value of `label`, which is shown after its bar.
fn label_value(screen: &Screen, label: &str) -> Option<String> {
    let text = text(screen);
    let mut lines = text.lines().filter(|line| line.contains('◆') && line.contains('◇'));
    let line = lines.find(|line| line.split_whitespace().any(|word| word == label))?;
    let number = line.rsplit_once('◆')?.1.split_whitespace().next()?;
    number.parse::<f64>().is_ok().then(|| number.to_owned())
}

/// Checks that the screen adapts to any size of the terminal.
#[track_caller]
fn sizes(session: &Session) {
    for step in 0..N_SIZES {
        session.resize((1 + step * 7 % 200, 1 + step * 5 % 60));
    }
    session.resize((40, 10));
    session.wait_text("60×16", SHOWN_WITHIN);
    session.resize((80, 24));
    session.wait_text("4 Infer", SHOWN_WITHIN);
    session.resize(WIDE);
    session.wait_text("4 Inference", SHOWN_WITHIN);
}

/// Checks that the help shows the keys of the current screen.
#[track_caller]
fn help(session: &Session) {
    session.press("?");
    let shown = session.wait_text("Keys — Inference", SHOWN_WITHIN);
    assert!(shown.contains("next topic") && shown.contains("command palette"), "{shown}");
    session.press("esc");
    wait_gone(session, "Keys — Inference");
}
