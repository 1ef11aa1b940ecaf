//! A thousand rows a second into a chart that is followed.

use std::time::Duration;

use tokio::{runtime::Runtime, time::Instant};

use crate::{
    follow::{SHOWN_WITHIN, follow, pass, rows, with_datasets},
    rows::{Row, millis, quantile},
    usage::resident_mib,
};

/// Rows a second.
const RATE: u32 = 1_000;

/// How long it goes on, once without keys and once with.
const BURST: Duration = Duration::from_secs(10);

/// How long the rows flow before anything is looked at: what is kept is full by then.
const FULL_AFTER: Duration = Duration::from_secs(15);

/// The time between two keys.
const KEYS_EVERY: Duration = Duration::from_millis(90);

/// How a frame starts.
const FRAME: &[u8] = b"\x1b[?2026h";

/// What the help shows that nothing else does.
const HELP: &str = "Keys — ";

/// Counts frames, times keys and weighs memory while the rows come.
pub(crate) fn burst(runtime: &Runtime) -> Vec<Row> {
    let (service, datasets) = with_datasets(runtime, 3, 300);
    let session = follow(&service);
    let _coming = rows(runtime, service.http(), datasets[0].clone(), RATE);
    pass(runtime, FULL_AFTER);
    let (n_written, mib_before) = (session.n_written(), resident_mib(session.pid));
    pass(runtime, BURST);
    let n_frames = session.count_written(FRAME, n_written);
    let n_bytes = session.n_written() - n_written;

    let mut takes = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < BURST {
        for (key, is_shown) in [("?", true), ("esc", false)] {
            pass(runtime, KEYS_EVERY);
            let pressed = Instant::now();
            session.press(key);
            session.wait_for("the help comes and goes", SHOWN_WITHIN, |screen| {
                (screen.contents().contains(HELP) == is_shown).then_some(())
            });
            takes.push(pressed.elapsed());
        }
    }
    let mib_after = resident_mib(session.pid);
    let slowest = quantile(&takes, 100);
    let frames_s = n_frames / usize::try_from(BURST.as_secs()).unwrap();
    vec![
        Row::new(
            "1 000 rows/s: the slowest key, until it is seen",
            format!(
                "{} ms, p50 {} ({} keys)",
                millis(slowest),
                millis(quantile(&takes, 50)),
                takes.len()
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
