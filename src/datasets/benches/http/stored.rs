//! Measures the size of rows on disk, and the time to open the store.

use std::fs;
use std::time::Duration;

use test_bench::http::Request;
use test_bench::{Row, mib, note, to_f64};
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::program::{Bench, Loaded};

/// Maximum number of bytes per row after compaction of old rows.
const DISK_BAR: f64 = 45.0;

/// Time limit of compaction.
const PACKED_WITHIN: Duration = Duration::from_mins(3);

/// Time without changes after which the file counts as compacted.
const STILL_FOR: Duration = Duration::from_secs(8);

/// Interval at which the size of the file is checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Maximum time to open the store.
const OPEN_BAR: Duration = Duration::from_secs(1);

/// Size of the store's file and of its free pages, according to its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Pages {
    n_bytes: u64,
    n_free_bytes: u64,
}

/// Waits until the service has compacted its rows, then measures the size of the rows.
pub(crate) async fn disk(bench: &mut Bench, loaded: &Loaded) -> Outcome<Vec<Row>> {
    let began = Instant::now();
    let (mut last, mut since) = (0, Instant::now());
    // Waits until the file and its write-ahead log, to which changed pages are written first, no longer
    // change.
    while began.elapsed() < PACKED_WITHIN && since.elapsed() < STILL_FOR {
        sleep(LOOK_EVERY).await;
        let now = used(bench)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    // Stops the service, which moves the log to the file.
    bench.stop().await?;
    let pages = pages(bench)?;
    bench.run().await?;
    let per_row =
        |n_bytes: u64| to_f64(usize::try_from(n_bytes).unwrap_or_default()) / to_f64(loaded.n_rows);
    let in_use = pages.n_bytes.saturating_sub(pages.n_free_bytes);
    note(&format!(
        "{:.1} MiB, of which {:.1} MiB are free for later rows, {:.0?} after the last figure",
        mib(pages.n_bytes),
        mib(pages.n_free_bytes),
        began.elapsed()
    ))?;
    let value =
        format!("{:.1} bytes ({:.1} with free pages)", per_row(in_use), per_row(pages.n_bytes));
    let name = "disk for a row with its buckets, cold rows packed";
    Ok(vec![Row::new(name, value, "45 bytes at most", per_row(in_use) <= DISK_BAR)])
}

/// Measures the time from the start of the process to its first response.
pub(crate) async fn open(bench: &mut Bench, loaded: &Loaded) -> Outcome<Vec<Row>> {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        best = best.min(bench.restart().await?);
    }
    let path = format!("/api/rows/?dataset={}&limit=1&ordering=-timestamp", loaded.dataset);
    let began = Instant::now();
    bench.connect().await?.send(&Request::get(&path, &bench.key)).await?.ok()?;
    let first = began.elapsed();
    let value = format!("{best:.0?}, then {first:.1?} to the newest row");
    let is_met = best + first <= OPEN_BAR;
    Ok(vec![Row::new("start of the process to its first answer", value, "1 s at most", is_met)])
}

/// Returns the number of used bytes of the file. While the write-ahead log is being written, returns a
/// different number each time.
fn used(bench: &Bench) -> Outcome<u64> {
    let pages = pages(bench)?;
    let mut log = bench.store().into_os_string();
    log.push("-wal");
    let written = fs::metadata(&log).ok().and_then(|log| log.modified().ok());
    let age = written.and_then(|at| at.elapsed().ok()).map_or(0, |age| age.as_secs());
    // A recent write to the log means that the store is still changing.
    Ok(pages.n_bytes - pages.n_free_bytes + u64::from(age < 2) * began_seconds())
}

/// Returns the current Unix time, which makes results differ from one second to the next.
fn began_seconds() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Reads the header of the store's file.
fn pages(bench: &Bench) -> Outcome<Pages> {
    use std::io::Read as _;
    let mut header = [0; 100];
    fs::File::open(bench.store())?.read_exact(&mut header)?;
    let number = |at: usize| -> u64 {
        header[at..at + 4].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    // The page size is a number of two bytes, in which 1 stands for 65 536.
    let page_bytes = match u64::from(header[16]) << 8 | u64::from(header[17]) {
        1 => 65_536,
        size => size,
    };
    let n_bytes = fs::metadata(bench.store())?.len();
    Ok(Pages { n_bytes, n_free_bytes: number(36) * page_bytes })
}
