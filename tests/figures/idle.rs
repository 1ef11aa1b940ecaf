//! Usage of the screen without input.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use test_bench::Row;
use tokio::runtime::Runtime;

use super::paint::others;
use crate::SIZE;
use crate::follow::{SHOWN_WITHIN, follow, insert_rows, settle, sleep, with_datasets};
use crate::support::TRIPTYCH;
use crate::support::pty::Session;
use crate::usage::usage;

/// Duration of a measurement.
const PERIOD: Duration = Duration::from_secs(15);

/// Duration of the measurement without a server.
const AWAY: Duration = Duration::from_mins(1);

/// Time without output after which a screen counts as settled.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Maximum time until a screen is settled.
const SETTLED_WITHIN: Duration = Duration::from_secs(8);

/// Usage per second.
struct Idle {
    bytes_s: f64,
    cpu_percent: f64,
    wakes_s: f64,
}

impl Idle {
    fn measure(runtime: &Runtime, session: &Session, time: Duration) -> Self {
        let (before, n_before) = (usage(session.pid), session.n_written());
        sleep(runtime, time);
        let (after, n_after) = (usage(session.pid), session.n_written());
        let seconds = time.as_secs_f64();
        let count = |n: u64| f64::from(u32::try_from(n).unwrap());
        let n_bytes = u64::try_from(n_after - n_before).unwrap();
        Self {
            bytes_s: count(n_bytes) / seconds,
            cpu_percent: (after.cpu.saturating_sub(before.cpu)).as_secs_f64() / seconds * 100.0,
            wakes_s: count(after.n_wakes.saturating_sub(before.n_wakes)) / seconds,
        }
    }

    fn text(&self) -> String {
        let Self { bytes_s, cpu_percent, wakes_s } = self;
        format!("{bytes_s:.0} B/s, {cpu_percent:.2} % CPU, {wakes_s:.1} wake-ups/s")
    }
}

/// Measures a screen with a service that receives no rows.
pub(crate) fn quiet(runtime: &Runtime) -> Vec<Row> {
    let (service, _) = with_datasets(runtime, 3, 300);
    let session = follow(&service);
    session.press("1");
    settle(&session, SETTLED_AFTER, SETTLED_WITHIN);
    let ours = Idle::measure(runtime, &session, PERIOD);
    let is_met = ours.bytes_s == 0.0 && ours.cpu_percent <= 0.05 && ours.wakes_s <= 2.0;
    let bar = "0 B, 0.05 % CPU, 2 wake-ups/s";
    let mut table = vec![Row::new("idle, everything quiet", ours.text(), bar, is_met)];
    for name in others() {
        let session = Session::start(name, &[], SIZE);
        settle(&session, SETTLED_AFTER, SETTLED_WITHIN);
        let theirs = Idle::measure(runtime, &session, PERIOD);
        table.push(Row::without_bar(&format!("  {name}, idle"), theirs.text()));
    }
    table
}

/// Measures a chart that receives a row per second, while a topic is polled.
pub(crate) fn with_a_stream(runtime: &Runtime) -> Vec<Row> {
    let session = Session::start(TRIPTYCH, &[], SIZE);
    session.wait_text("3 workers · datasets", SHOWN_WITHIN);
    session.press("4");
    settle(&session, SETTLED_AFTER, SETTLED_WITHIN);
    session.press("3");
    session.wait_text("live · ", SHOWN_WITHIN);
    settle(&session, SETTLED_AFTER, SETTLED_WITHIN);
    let ours = Idle::measure(runtime, &session, PERIOD);
    let is_met = ours.bytes_s <= 6_000.0 && ours.cpu_percent <= 0.6;
    vec![Row::new("a row a second and a topic", ours.text(), "6 kB/s, 0.6 % CPU", is_met)]
}

/// Measures a screen with a stopped service.
pub(crate) fn storm(runtime: &Runtime) -> Vec<Row> {
    let (mut service, datasets) = with_datasets(runtime, 3, 300);
    let state = TempDir::new().unwrap();
    let folder = state.path().display().to_string();
    let arguments = ["--datasets", &service.address()];
    let environment = [("TRIPTYCH_API_KEY", service.key()), ("XDG_STATE_HOME", folder.as_str())];
    let session = Session::start_with(TRIPTYCH, &arguments, SIZE, &environment);
    session.wait_text("1 Cluster", SHOWN_WITHIN);
    session.press("3");
    session.wait_text("live · ", SHOWN_WITHIN);
    let inserting = insert_rows(runtime, service.http(), datasets[0].clone(), 1);
    sleep(runtime, SETTLED_AFTER);
    drop(inserting);
    sleep(runtime, SETTLED_AFTER);
    service.stop();
    let ours = Idle::measure(runtime, &session, AWAY);
    let logs = fs::read_dir(state.path().join("triptych").join("log")).unwrap();
    let logs = logs.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let n_lines: usize = logs.map(|log| log.lines().count()).sum();
    let value = format!("{}, {n_lines} log lines", ours.text());
    let is_met = ours.cpu_percent <= 0.2 && n_lines <= 2;
    vec![Row::new("the server is away for a minute", value, "0.2 % CPU, a line a change", is_met)]
}
