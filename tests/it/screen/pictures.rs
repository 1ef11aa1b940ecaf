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
const N_LEARNED: u32 = 8;

/// The size that every terminal has.
const SMALL: (u16, u16) = (80, 24);

/// Workers of the local stack.
const N_WORKERS: usize = 3;

/// Datasets of the local stack.
const N_DATASETS: usize = 8;

/// How a card of the Overview begins what it says of its newest value.
const NEWEST: &str = "newest ";

/// The size of the PNG beside that of the drawing: a cell has whole pixels then,
/// 10 by 22, and no seams.
const PNG_ZOOM: &str = "0.8333333";

/// What is told, over a corner of the screen, once all services have started.
const STARTED: &str = "✓ local stack";

/// Buckets that workers are asked for at the most, less one: a digit.
const BUCKETS_MAX: u32 = 10;

/// Time that the animation shows a screen that does not move.
const STILL: Duration = Duration::from_millis(2500);

/// Frames of the live chart in the animation, and the time it shows each.
const MOVING: (usize, Duration) = (12, Duration::from_millis(500));

/// Draws the screen as it is now, and returns it.
fn shoot(session: &Session, name: &str) -> Screen {
    let ground = if name.ends_with("light") { svg::LIGHT } else { svg::DARK };
    let screen = session.wait_for("a whole frame", SHOWN_WITHIN, |screen| Some(screen.clone()));
    let svg = svg::draw(&screen, ground);
    let path = format!("{ROOT}/screenshots/{name}");
    fs::write(format!("{path}.svg"), svg).unwrap();
    let convert = Command::new("rsvg-convert")
        .args(["--zoom", PNG_ZOOM, &format!("{path}.svg"), "--output", &format!("{path}.png")])
        .status();
    // Without the converter there is the SVG alone.
    if let Ok(status) = convert {
        assert!(status.success(), "{name}.png is drawn");
    }
    screen
}

/// Returns the next frames of the screen that differ from the ones before them.
fn moving(session: &Session) -> Vec<(Screen, Duration)> {
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

/// How many epochs of the first topic have known losses: the number after its subgroup.
fn learned(screen: &Screen) -> Option<u32> {
    let text = text(screen);
    let row =
        text.lines().find_map(|line| line.split_once(" synthetic BTC/USD")?.1.split_once(" * "));
    row?.1.split_whitespace().next()?.parse().ok()
}

/// Whether the list of datasets has a sparkline and a value in each row.
fn has_sparks(screen: &Screen) -> bool {
    let text = text(screen);
    let of_list = |line: &str| line.chars().take(usize::from(CHART_LEFT)).collect::<String>();
    let rows = text.lines().map(of_list);
    let rows = rows.filter(|row| row.contains("synthetic_") || row.contains("machine_"));
    let has_spark = |row: &String| row.chars().any(|letter| matches!(letter, '▁'..='█'));
    rows.filter(has_spark).count() >= N_DATASETS
}

/// Opens the screen with the stack behind it, and waits until no notice is in its corner.
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

/// Presses `keys`, which start run `number`, and waits until that has ended.
fn run(session: &Session, number: u32, keys: &str) {
    session.press(keys);
    session.wait_for(&format!("run {number} has ended"), SHOWN_WITHIN, |screen| {
        let text = text(screen);
        let is_over = text.contains("✓ done") || text.contains("✗ failed");
        (text.contains(&format!("─ Run {number} ─")) && is_over).then_some(())
    });
}

/// Opens the form.
fn open_form(session: &Session) {
    session.press("e");
    session.wait_text("esc done", SHOWN_WITHIN);
}

/// Runs functions: some whose results are equal, one on more nodes than there are, and last one
/// whose results may differ. The form is in view, and no notice.
fn run_some(session: &Session) {
    open_form(session);
    session.wait_text("function  hello", SHOWN_WITHIN);
    // Where compilers are slow, the first run of a function may be too late.
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
    // The form opens at the function; three fields on is how many nodes.
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

/// Asks workers for the bucket that each is in, of ever more, until they are not all in one. The
/// field of arguments is edited, and empty. The first run is the one of `number`; returns the last.
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
    panic!("workers are in one bucket, of however many");
}

/// Brings a dataset into view by its name.
fn chart(session: &Session, dataset: &str) {
    session.press(":");
    session.wait_text("a command or a name", SHOWN_WITHIN);
    for letter in dataset.chars() {
        session.press(&letter.to_string());
    }
    session.wait_text(&format!("{dataset} "), SHOWN_WITHIN);
    session.press("enter");
    wait_gone(session, "$ topics");
    session.wait_text(&format!("─ {dataset} ─"), SHOWN_WITHIN);
}

/// Shows the screen in the colors of the theme that is `keys` away in the list.
fn take_theme(session: &Session, keys: &str) {
    session.press("T");
    session.wait_text("goes back", SHOWN_WITHIN);
    session.press(keys);
    session.press("enter");
    wait_gone(session, "goes back");
}

/// Brings the market into view, live.
fn show_data(session: &Session) {
    session.press("3");
    session.wait_for("a live chart", SHOWN_WITHIN, |screen| {
        let text = text(screen);
        let title = text.lines().nth(1)?;
        (title.contains("live") && text.contains(" vol")).then_some(())
    });
}

/// Draws the Cluster and the Data screen, in other colors or at another size.
fn shoot_both(session: &Session, ending: &str) {
    session.press("1");
    session.wait_text("─ Result groups ─", SHOWN_WITHIN);
    shoot(session, &format!("cluster-{ending}"));
    show_data(session);
    shoot(session, &format!("data-{ending}"));
}

/// Draws the Overview, once each card has its whole line and each topic its value.
fn shoot_overview(session: &Session) -> Screen {
    session.press("0");
    session.wait_for("all values", GROWN_WITHIN, |screen| {
        let text = text(screen);
        // Those that are pinned have a stream.
        let n_whole = text.matches(NEWEST).count() + text.matches("live ·").count();
        let is_known = text.contains("MiB") && text.contains(" forecasters");
        let is_fresh = !text.contains("m ago");
        (n_whole >= N_DATASETS && is_known && is_fresh).then_some(())
    });
    shoot(session, "overview")
}

#[test]
#[ignore = "writes screenshots/, and takes minutes so that charts have something to show"]
fn screenshots() {
    let session = open();
    // The history of epochs grows while the other screens are looked at.
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
        learned(screen).filter(|n_epochs| *n_epochs >= N_LEARNED)
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
    tour.extend(moving(&session));
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

    // Below `dark` stands `light`, and below that `cvd`.
    take_theme(&session, "down");
    shoot_both(&session, "light");
    take_theme(&session, "down");
    session.press("1");
    session.wait_text("─ Result groups ─", SHOWN_WITHIN);
    show_data(&session);
    shoot(&session, "data-cvd");
    take_theme(&session, "up up");
    session.resize(SMALL);
    session.wait_text("1 Clus", SHOWN_WITHIN);
    shoot_both(&session, "80x24");
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
}
