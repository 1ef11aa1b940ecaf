//! Prints the figures of the store, each beside its bar: `figures [--rows N] [--folder PATH]
//! [--peer-rows N]`.
//!
//! One dataset of one-minute bars with full mantissas, as hard to pack as real ones; batches of 1000,
//! each on the disk before the next. Rows in SQLite, with buckets kept by upserts, are the yardstick.

#[path = "figures/bars.rs"]
mod bars;
#[path = "figures/peer.rs"]
mod peer;
#[path = "figures/table.rs"]
mod table;

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use datasets::figures::{Bar, Figures, Page};
use model::dataset::DatasetId;
use tokio::time::Instant;

use self::{
    bars::{Bars, START, random},
    table::{Table, note},
};

/// What a figure comes to, or what kept it from being taken.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Rows of a batch.
const BATCH: usize = 1000;

/// Reads of one kind, of which the median counts.
const READS: usize = 2000;

struct Asked {
    n_rows: usize,
    n_peer_rows: usize,
    folder: Option<PathBuf>,
}

fn main() -> Outcome<ExitCode> {
    let asked = asked(env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let path = asked.folder.clone().unwrap_or_else(|| folder.path().to_owned());
    fs::create_dir_all(&path)?;
    let mut table = Table::default();
    runtime.block_on(measure(&asked, &path, &mut table))?;
    table.print()
}

fn asked(mut arguments: impl Iterator<Item = String>) -> Outcome<Asked> {
    let mut asked = Asked { n_rows: 5_000_000, n_peer_rows: 1_000_000, folder: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        match argument.as_str() {
            // Cargo says so to every bench.
            "--bench" => {}
            "--rows" => asked.n_rows = value()?.parse()?,
            "--peer-rows" => asked.n_peer_rows = value()?.parse()?,
            "--folder" => asked.folder = Some(value()?.into()),
            _ => return Err(format!("{argument} is not known").into()),
        }
    }
    Ok(asked)
}

async fn measure(asked: &Asked, folder: &Path, table: &mut Table) -> Outcome<()> {
    let n = asked.n_rows;
    let path = folder.join("figures.sqlite");
    for file in ["figures.sqlite", "figures.sqlite-wal", "figures.sqlite-shm", "peer.sqlite"] {
        fs::remove_file(folder.join(file)).ok();
    }
    let store = Figures::open(&path)?;
    let id = store.create("btcusd_1min").await?;
    let rate = ingest(&store, id, n).await?;
    table.at_least("ingest, batches of 1000", rate / 1e6, 0.7, "M rows/s");
    let peer = peer::ingest(&folder.join("peer.sqlite"), asked.n_peer_rows)?;
    table.at_least("the same in SQLite rows with buckets", peer / 1e6, 0.0, "M rows/s");
    table.at_least("ingest over SQLite rows", rate / peer, 2.0, "x");
    reads(&store, id, n, "fresh", table)?;
    let start = Instant::now();
    store.settle().await?;
    note(&format!("packed in {:.1} s", start.elapsed().as_secs_f64()))?;
    drop(store);
    close(&path)?;
    let n_bytes = fs::metadata(&path)?.len();
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    table.at_most("disk, cold data packed", n_bytes as f64 / n as f64, 45.0, "bytes a row");
    let start = Instant::now();
    let store = Figures::open(&path)?;
    store.page(id, Page::Newest, 1)?;
    table.at_most("open", start.elapsed().as_secs_f64(), 1.0, "s");
    reads(&store, id, n, "packed", table)?;
    late(&store, id, n, table).await
}

/// Waits until the file of a closed store holds everything.
fn close(path: &Path) -> Outcome<()> {
    let connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

async fn ingest(store: &Figures, id: DatasetId, n: usize) -> Outcome<f64> {
    let mut bars = Bars::new();
    let mut taken = Duration::ZERO;
    let mut left = n;
    while left > 0 {
        let batch: Vec<Bar> = bars.by_ref().take(BATCH.min(left)).collect();
        left -= batch.len();
        let start = Instant::now();
        store.append(id, &batch).await?;
        taken += start.elapsed();
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    Ok(n as f64 / taken.as_secs_f64())
}

fn reads(store: &Figures, id: DatasetId, n: usize, what: &str, table: &mut Table) -> Outcome<()> {
    let n_minutes = i64::try_from(n)?;
    let mut draw = random(7);
    let mut some_minute = || START + draw(n_minutes.unsigned_abs()).cast_signed() * 9 / 10;
    let cursor = median(READS, || store.page(id, Page::After(some_minute()), 250).map(|_| ()))?;
    table.at_most(&format!("page of 250 by cursor, {what}"), cursor * 1e6, 60.0, "us");
    let newest = median(READS, || store.page(id, Page::Newest, 100).map(|_| ()))?;
    table.at_most(&format!("newest 100, {what}"), newest * 1e6, 20.0, "us");
    let middle = Page::Offset(u64::try_from(n / 2)?);
    let offset = median(READS / 10, || store.page(id, middle, 250).map(|_| ()))?;
    let name = format!("offset page and count in the middle, {what}, over cursor");
    table.at_most(&name, offset / cursor, 5.0, "x");
    let start = Instant::now();
    let (n_read, _) = store.scan(id)?;
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    let rate = n_read as f64 / start.elapsed().as_secs_f64();
    table.at_least(&format!("scan, {what}"), rate / 1e6, 2.0, "M rows/s");
    Ok(())
}

/// Late rows: a thousand in one day, and all over the years.
async fn late(store: &Figures, id: DatasetId, n: usize, table: &mut Table) -> Outcome<()> {
    let n_minutes = u64::try_from(n)?;
    let mut draw = random(11);
    for (what, bar_ms, span) in [("in one day", 5.0, 1440), ("all over", 20.0, n_minutes)] {
        let mut taken = Vec::new();
        for _ in 0..5 {
            let from = draw((n_minutes - span).max(1));
            let mut minutes: Vec<u64> = (0..4 * BATCH).map(|_| from + draw(span)).collect();
            minutes.sort_unstable();
            minutes.dedup();
            let step = minutes.len().div_ceil(BATCH).max(1);
            let minutes = minutes.iter().step_by(step).take(BATCH);
            let mut bars = Bars::new();
            let late: Vec<Bar> = minutes
                .filter_map(|minute| Some((START + minute.cast_signed(), bars.next()?.1)))
                .collect();
            let start = Instant::now();
            store.append(id, &late).await?;
            taken.push(start.elapsed().as_secs_f64());
        }
        taken.sort_unstable_by(f64::total_cmp);
        let median = taken.get(taken.len() / 2).copied().unwrap_or_default();
        table.at_most(&format!("1000 late rows {what}"), median * 1e3, bar_ms, "ms");
    }
    Ok(())
}

/// The median of how many seconds `work` takes.
fn median<E>(times: usize, mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        work()?;
        taken.push(start.elapsed().as_secs_f64());
    }
    taken.sort_unstable_by(f64::total_cmp);
    Ok(taken.get(taken.len() / 2).copied().unwrap_or_default())
}
