//! Latency and output of key presses. Cost of a frame.

use std::time::Duration;

use test_bench::{Row, quantile};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::paint::others;
use crate::SIZE;
use crate::follow::{SHOWN_WITHIN, follow, insert_rows, settle, with_datasets};
use crate::rows::summary;
use crate::support::TRIPTYCH;
use crate::support::pty::{Session, text};
use crate::usage::drawing_time;

/// Number of keys.
const N_KEYS: usize = 80;

/// Keys that move the selection.
const MOVES: [&str; 2] = ["down", "up"];

/// Number of rows of each compared dataset.
const N_COMPARED: u32 = 10_000;

/// Silence after which the output of a key is complete.
const SILENCE: Duration = Duration::from_millis(30);

/// Silence before a key. The stream interrupts the silence once per second.
const PAUSE: Duration = Duration::from_millis(120);

/// Longest wait for silence and for output.
const WITHIN: Duration = Duration::from_secs(1);

/// Measurements of key presses.
#[derive(Default)]
struct Keys {
    /// Time from a key to the first byte.
    latencies: Vec<Duration>,
    /// Bytes of output for each key.
    n_bytes: Vec<usize>,
    /// Processor time of the drawing thread for each key.
    drawing: Vec<Duration>,
}

impl Keys {
    /// Presses two keys alternately.
    fn press(session: &Session, pair: [&str; 2], is_ours: bool) -> Self {
        let mut keys = Self::default();
        for number in 0..N_KEYS {
            settle(session, PAUSE, WITHIN);
            let n_before = session.n_written();
            let before = is_ours.then(|| drawing_time(session.pid));
            let pressed = Instant::now();
            session.press(pair[number % 2]);
            let Some(written) = session.wrote_past(n_before, WITHIN) else { continue };
            settle(session, SILENCE, WITHIN);
            keys.latencies.push(written - pressed);
            keys.n_bytes.push(session.n_written() - n_before);
            keys.drawing
                .extend(before.map(|before| drawing_time(session.pid).saturating_sub(before)));
        }
        keys
    }

    /// Returns the median of the output.
    fn bytes(&self) -> usize {
        let mut sorted = self.n_bytes.clone();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    }
}

/// Measures the time to move the selection in the list of datasets while a dataset is followed.
pub(crate) fn latency(runtime: &Runtime) -> Vec<Row> {
    let (service, datasets) = with_datasets(runtime, 30, 300);
    let _inserting = insert_rows(runtime, service.http(), datasets[0].clone(), 1);
    let session = follow(&service);
    let keys = Keys::press(&session, MOVES, true);
    let (middle, high) = (quantile(&keys.latencies, 50), quantile(&keys.latencies, 95));
    let is_met = middle <= Duration::from_millis(5) && high <= Duration::from_millis(12);
    let value = summary(&keys.latencies, 95);
    let bar = "p50 5, p95 12 ms at most";
    let mut table = vec![
        Row::new("key to first byte, one live stream", value, bar, is_met),
        // Selecting another dataset also draws its chart.
        Row::without_bar("bytes for another dataset", format!("p50 {} B", keys.bytes())),
    ];
    for name in others() {
        let session = Session::start(name, &[], SIZE);
        settle(&session, PAUSE, 2 * WITHIN);
        let keys = Keys::press(&session, MOVES, false);
        if !keys.latencies.is_empty() {
            let value = summary(&keys.latencies, 95);
            table.push(Row::without_bar(&format!("  {name}, key to first byte"), value));
            let value = format!("p50 {} B", keys.bytes());
            table.push(Row::without_bar(&format!("  {name}, bytes for a key"), value));
        }
    }
    table
}

/// Measures the processor time of a key on each screen with the local stack.
pub(crate) fn frames(_: &Runtime) -> Vec<Row> {
    let session = Session::start(TRIPTYCH, &[], SIZE);
    session.wait_text("3 workers · datasets", SHOWN_WITHIN);
    let screens =
        [("0", "Overview"), ("1", "Cluster"), ("3", "Data"), ("4", "Inference"), ("5", "Logs")];
    let mut table = Vec::new();
    for (key, name) in screens {
        session.press(key);
        settle(&session, PAUSE, 2 * WITHIN);
        let keys = Keys::press(&session, MOVES, true);
        let (middle, high) = (quantile(&keys.drawing, 50), quantile(&keys.drawing, 99));
        let is_met = middle <= Duration::from_millis(2) && high <= Duration::from_millis(8);
        let (value, bar) = (summary(&keys.drawing, 99), "p50 2, p99 8 ms at most");
        table.push(Row::new(&format!("a key's frame, {name}"), value, bar, is_met));
        if name == "Cluster" {
            let (what, bytes) = ("bytes for a move of the selection", keys.bytes());
            table.push(Row::new(what, format!("p50 {bytes} B"), "600 B at most", bytes <= 600));
        }
    }
    table
}

/// Measures the processor time of a key that moves the crosshair while four datasets are compared and
/// all their rows are loaded.
pub(crate) fn compared(runtime: &Runtime) -> Vec<Row> {
    let (service, _) = with_datasets(runtime, 4, N_COMPARED);
    let session = follow(&service);
    // With the densest points, the crosshair moves by 16 rows.
    session.press("d down d down d down - -");
    session.wait_for("a legend of four lines", SHOWN_WITHIN, |screen| {
        let is_legend = |line: &str| line.matches("● load-").count() >= 4;
        text(screen).lines().find(|line| is_legend(line) && !line.contains("loading")).map(drop)
    });
    for _ in 0..N_COMPARED / 16 / 25 + 2 {
        (0..25).for_each(|_| session.press("left"));
        settle(&session, PAUSE, 2 * WITHIN);
    }
    session.wait_text("history to", SHOWN_WITHIN);
    let keys = Keys::press(&session, ["right", "left"], true);
    let high = quantile(&keys.drawing, 99);
    let is_met = high <= Duration::from_millis(16);
    let value = summary(&keys.drawing, 99);
    vec![Row::new(
        "a key's frame, four of 10 000 rows compared",
        value,
        "p99 16 ms at most",
        is_met,
    )]
}
