//! Memory of the screen at its start and with full buffers.

use std::time::Duration;

use futures::future::join_all;
use test_bench::Row;
use tokio::runtime::Runtime;

use super::paint::others;
use crate::SIZE;
use crate::follow::{SHOWN_WITHIN, open, settle, with_datasets};
use crate::support::TRIPTYCH;
use crate::support::http::Http;
use crate::support::pty::Session;
use crate::usage::resident_mib;

/// Maximum number of log lines of the screen.
const N_LINES: usize = 20_000;

/// Concurrent requests, each of which causes a log line.
const CONCURRENCY: usize = 8;

/// Number of datasets and rows per dataset.
const SERIES: (usize, u32) = (4, 10_000);

/// Steps to older rows before more rows are loaded.
const N_STEPS: usize = 4_000;

/// Number of parts in which the rows of a dataset are loaded.
const N_PARTS: usize = 3;

/// Silence after which a screen counts as settled, and the longest wait for this silence.
const SETTLED: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(4));

/// Measures the memory of the program.
pub(crate) fn resident(runtime: &Runtime) -> Vec<Row> {
    let (at_start, charted) = charted(runtime);
    let logged = logged(runtime);
    let full = logged + charted - at_start;
    let mib = |mib: f64| format!("{mib:.1} MiB");
    let mut table = vec![
        Row::new("memory at start", mib(at_start), "20 MiB at most", at_start <= 20.0),
        Row::without_bar("memory, 4 series of 10 000 rows", mib(charted)),
        Row::without_bar("memory, a stack and 20 000 log lines", mib(logged)),
        Row::new("memory, both", mib(full), "60 MiB at most", full <= 60.0),
    ];
    for name in others() {
        let session = Session::start(name, &[], SIZE);
        settle(&session, SETTLED.0, SETTLED.1);
        table.push(Row::without_bar(&format!("  {name}, memory"), mib(resident_mib(session.pid))));
    }
    table
}

/// Returns the memory at the start, then with all datasets pinned and charted back to their oldest rows.
fn charted(runtime: &Runtime) -> (f64, f64) {
    let (service, datasets) = with_datasets(runtime, SERIES.0, SERIES.1);
    let session = open(&service);
    session.wait_text("1 Cluster", SHOWN_WITHIN);
    settle(&session, SETTLED.0, SETTLED.1);
    let at_start = resident_mib(session.pid);
    session.press("3");
    session.wait_text("live · ", SHOWN_WITHIN);
    for _ in datasets {
        session.press("p . . . .");
        for _ in 0..N_PARTS {
            session.press(&"left ".repeat(N_STEPS));
            settle(&session, SETTLED.0, SETTLED.1);
        }
        session.press("# G");
        settle(&session, SETTLED.0, SETTLED.1);
        session.press("# f down");
        settle(&session, SETTLED.0, SETTLED.1);
    }
    (at_start, resident_mib(session.pid))
}

/// Returns the memory with the local stack and the maximum number of log lines.
fn logged(runtime: &Runtime) -> f64 {
    let session = Session::start(TRIPTYCH, &[], SIZE);
    let shown = session.wait_text("3 workers · datasets", SHOWN_WITHIN);
    let (_, rest) = shown.split_once("head :").unwrap();
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    runtime.block_on(async {
        let http = Http::new(&format!("http://127.0.0.1:{port}"), None);
        let clients = (0..CONCURRENCY).map(|_| async {
            for _ in 0..N_LINES / CONCURRENCY {
                http.get("/api/v1/health").await;
            }
        });
        join_all(clients).await;
    });
    session.press("5");
    session.wait_text(" lines", SHOWN_WITHIN);
    settle(&session, SETTLED.0, SETTLED.1);
    resident_mib(session.pid)
}
