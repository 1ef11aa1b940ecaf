//! A chart that receives a thousand rows per second.

use std::time::Duration;

use test_bench::{Row, quantile};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::follow::{SHOWN_WITHIN, follow, insert_rows, sleep, with_datasets};
use crate::rows::millis;
use crate::usage::resident_mib;

/// Rows per second.
const RATE: u32 = 1_000;

/// Duration of each measurement, without and with keys.
const BURST: Duration = Duration::from_secs(10);

/// Time after which the stored rows have reached their limit.
const FULL_AFTER: Duration = Duration::from_secs(15);

/// Time between two keys.
const KEYS_EVERY: Duration = Duration::from_millis(90);

/// Beginning of a frame.
const FRAME: &[u8] = b"\x1b[?2026h";

/// Text that only the help shows.
const HELP: &str = "Keys — ";

/// Measures frames, key latency and memory while rows arrive.
pub(crate) fn burst(runtime: &Runtime) -> Vec<Row> {
    let (service, datasets) = with_datasets(runtime, 3, 300);
    let session = follow(&service);
    let _inserting = insert_rows(runtime, service.http(), datasets[0].clone(), RATE);
    sleep(runtime, FULL_AFTER);
    let (n_written, mib_before) = (session.n_written(), resident_mib(session.pid));
    sleep(runtime, BURST);
    let n_frames = session.count_written(FRAME, n_written);
    let n_bytes = session.n_written() - n_written;

    let mut latencies = Vec::new();
    let start = Instant::now();
    while start.elapsed() < BURST {
        for (key, is_shown) in [("?", true), ("esc", false)] {
            sleep(runtime, KEYS_EVERY);
            let pressed = Instant::now();
            session.press(key);
            session.wait_for("the help opens and closes", SHOWN_WITHIN, |screen| {
                (screen.contents().contains(HELP) == is_shown).then_some(())
            });
            latencies.push(pressed.elapsed());
        }
    }
    let mib_after = resident_mib(session.pid);
    let slowest = quantile(&latencies, 100);
    let frames_s = n_frames / usize::try_from(BURST.as_secs()).unwrap();
    vec![
        Row::new(
            "1 000 rows/s: the slowest key",
            format!(
                "{} ms, p50 {} ({} keys)",
                millis(slowest),
                millis(quantile(&latencies, 50)),
                latencies.len()
            ),
            "20 ms at most",
            slowest <= Duration::from_millis(20),
        ),
        Row::new(
            "1 000 rows/s: frames",
            format!("{n_frames} in 10 s, {} kB/s", n_bytes / 10_000),
            "10 a second at most",
            frames_s <= 10,
        ),
        Row::new(
            "1 000 rows/s: memory from second 15 to 35",
            format!("{mib_before:.1} to {mib_after:.1} MiB"),
            "flat: 2 MiB more at most",
            mib_after - mib_before <= 2.0,
        ),
    ]
}
