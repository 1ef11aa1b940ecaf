//! Latency of a key press, bytes of its answer, and the cost of a frame.

use std::time::Duration;

use tokio::{runtime::Runtime, time::Instant};

use super::paint::others;
use crate::{
    SIZE,
    follow::{SHOWN_WITHIN, follow, rows, settle, with_datasets},
    rows::{Row, quantile, told},
    support::{TRIPTYCH, pty::Session},
    usage::drawn_for,
};

/// Keys of a figure: up and down in turn.
const N_KEYS: usize = 80;

/// A key's output is complete after this much silence.
const SILENCE: Duration = Duration::from_millis(30);

/// The silence before a key; the stream breaks it once a second.
const PAUSE: Duration = Duration::from_millis(120);

/// The longest wait for silence, and for an answer.
const WITHIN: Duration = Duration::from_secs(1);

/// Measurements of key presses.
#[derive(Default)]
struct Keys {
    /// From a key to the first byte.
    answered: Vec<Duration>,
    /// Bytes of each answer.
    n_bytes: Vec<usize>,
    /// Time on a processor of the thread that draws, for each key.
    drawn: Vec<Duration>,
}

impl Keys {
    /// Presses up and down in turn.
    fn press(session: &Session, is_ours: bool) -> Self {
        let mut keys = Self::default();
        for number in 0..N_KEYS {
            settle(session, PAUSE, WITHIN);
            let n_before = session.n_written();
            let drawn = is_ours.then(|| drawn_for(session.pid));
            let pressed = Instant::now();
            session.press(if number % 2 == 0 { "down" } else { "up" });
            let Some(answered) = session.wrote_past(n_before, WITHIN) else { continue };
            settle(session, SILENCE, WITHIN);
            keys.answered.push(answered - pressed);
            keys.n_bytes.push(session.n_written() - n_before);
            keys.drawn.extend(drawn.map(|before| drawn_for(session.pid).saturating_sub(before)));
        }
        keys
    }

    fn bytes(&self) -> usize {
        let mut sorted = self.n_bytes.clone();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    }
}

/// Moves the selection in the list of datasets while one of them is followed.
pub(crate) fn latency(runtime: &Runtime) -> Vec<Row> {
    let (service, datasets) = with_datasets(runtime, 30, 300);
    let _coming = rows(runtime, service.http(), datasets[0].clone(), 1);
    let session = follow(&service);
    let keys = Keys::press(&session, true);
    let (middle, high) = (quantile(&keys.answered, 50), quantile(&keys.answered, 95));
    let is_met = middle <= Duration::from_millis(5) && high <= Duration::from_millis(12);
    let value = told(&keys.answered, 95);
    let bar = "p50 5, p95 12 ms at most";
    let mut table = vec![
        Row::new("key to first byte, one live stream", value, bar, is_met),
        // Another dataset is another chart.
        Row::told("bytes for another dataset", format!("p50 {} B", keys.bytes())),
    ];
    for name in others() {
        let session = Session::start(name, &[], SIZE);
        settle(&session, PAUSE, 2 * WITHIN);
        let keys = Keys::press(&session, false);
        if !keys.answered.is_empty() {
            let value = told(&keys.answered, 95);
            table.push(Row::told(&format!("  {name}, key to first byte"), value));
            let value = format!("p50 {} B", keys.bytes());
            table.push(Row::told(&format!("  {name}, bytes for a key"), value));
        }
    }
    table
}

/// What a key costs on each screen of a whole stack, from its decoding to the last byte of its frame.
pub(crate) fn frames(_: &Runtime) -> Vec<Row> {
    let session = Session::start(TRIPTYCH, &[], SIZE);
    session.wait_text("3 workers · datasets", SHOWN_WITHIN);
    let screens =
        [("0", "Overview"), ("1", "Cluster"), ("3", "Data"), ("4", "Inference"), ("5", "Logs")];
    let mut table = Vec::new();
    for (key, name) in screens {
        session.press(key);
        settle(&session, PAUSE, 2 * WITHIN);
        let keys = Keys::press(&session, true);
        let (middle, high) = (quantile(&keys.drawn, 50), quantile(&keys.drawn, 99));
        let is_met = middle <= Duration::from_millis(2) && high <= Duration::from_millis(8);
        let (value, bar) = (told(&keys.drawn, 99), "p50 2, p99 8 ms at most");
        table.push(Row::new(&format!("a key's frame, {name}"), value, bar, is_met));
        if name == "Cluster" {
            let (what, bytes) = ("bytes for a move of the selection", keys.bytes());
            table.push(Row::new(what, format!("p50 {bytes} B"), "600 B at most", bytes <= 600));
        }
    }
    table
}
