//! Prints the figures of the store, each next to its bar: `figures [--rows N] [--folder PATH]
//! [--peer-rows N] [--peers PYTHON] [--parts PART,PART] [--postgres URL] [--decimals N]`, where the
//! parts are `ingest`, `writers`, `reads`, `packed` and `late`. With the address of an empty database,
//! also measures a store in the database and, for comparison, a plain table. With a Python that has
//! `duckdb` and `chdb`, `ingest` also measures these. Values of bars have full mantissas, or
//! `--decimals` decimals.
//!
//! The dataset has one-minute bars with full mantissas, which are as hard to pack as real prices. Each
//! batch of 1000 bars is durable before the next batch is sent. The reference is a plain SQLite table
//! with buckets that upserts maintain. Next to operations that wait for the disk, the time that the disk
//! needs for a batch is printed.

#[path = "figures/bars.rs"]
mod bars;
#[path = "figures/disk.rs"]
mod disk;
#[path = "figures/peer.rs"]
mod peer;
#[path = "figures/postgres.rs"]
mod postgres;
#[path = "figures/rivals.rs"]
mod rivals;
#[path = "figures/store.rs"]
mod store;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use model::dataset::DatasetId;
use test_bench::{Outcome, Table, exit_code, print_table, to_f64};
use tokio::time::Instant;

use self::bars::{Bars, START, random};
use self::store::{Bar, Figures, Page};

/// Number of rows of a batch.
const BATCH: usize = 1000;

/// Number of reads of each kind, of which the median is reported.
const READS: usize = 2000;

/// Number of concurrent writers, each with its own dataset.
const WRITERS: usize = 8;

struct Options {
    n_rows: usize,
    n_peer_rows: usize,
    folder: Option<PathBuf>,
    peers: Option<PathBuf>,
    /// Address of an empty database; `None` skips its measurements.
    postgres: Option<String>,
    /// Number of decimals of the bars; `None` for full mantissas.
    decimals: Option<u8>,
    /// Parts to measure, or all parts if empty. Rows are ingested in any case.
    parts: Vec<String>,
}

impl Options {
    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

fn main() -> Outcome<ExitCode> {
    let options = parse_options(env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let path = options.folder.clone().unwrap_or_else(|| folder.path().to_owned());
    fs::create_dir_all(&path)?;
    let mut table = Table::default();
    runtime.block_on(measure(&options, &path, &mut table))?;
    Ok(exit_code(print_table(table.rows())?))
}

fn parse_options(mut arguments: impl Iterator<Item = String>) -> Outcome<Options> {
    let mut options = Options {
        n_rows: 5_000_000,
        n_peer_rows: 1_000_000,
        folder: None,
        peers: None,
        postgres: None,
        decimals: None,
        parts: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        match argument.as_str() {
            // Ignores an argument that cargo passes to every benchmark.
            "--bench" => {}
            "--rows" => options.n_rows = value()?.parse()?,
            "--peer-rows" => options.n_peer_rows = value()?.parse()?,
            "--folder" => options.folder = Some(value()?.into()),
            "--peers" => options.peers = Some(value()?.into()),
            "--decimals" => options.decimals = Some(value()?.parse()?),
            "--postgres" => options.postgres = Some(value()?),
            "--parts" => options.parts = value()?.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("{argument} is not known").into()),
        }
    }
    Ok(options)
}

async fn measure(options: &Options, folder: &Path, table: &mut Table) -> Outcome<()> {
    let n = options.n_rows;
    let path = folder.join("figures.sqlite");
    for store in ["figures", "writers", "peer"] {
        for ending in ["", "-wal", "-shm"] {
            fs::remove_file(folder.join(format!("{store}.sqlite{ending}"))).ok();
        }
    }
    let store = Figures::open(&path)?;
    let id = store.create("btcusd_1min").await?;
    let rate = ingest(&store, id, n, Bars::new().rounded(options.decimals)).await?;
    table.at_least("ingest, batches of 1000", rate / 1e6, 0.7, "M rows/s");
    if options.wants("ingest") {
        let sync = disk::sync(folder)?;
        table.add("the disk, to keep what a batch writes", sync * 1e6, "us");
        let peer = peer::ingest(&folder.join("peer.sqlite"), options.n_peer_rows)?;
        table.add("ingest in SQLite rows with buckets", peer / 1e6, "M rows/s");
        table.at_least("ingest over SQLite rows", rate / peer, 2.0, "x");
    }
    if let Some(python) = options.peers.as_deref().filter(|_| options.wants("ingest")) {
        for rival in rivals::ingest(python, folder, options.n_peer_rows)? {
            let rivals::Rival { peer, what, rate: theirs } = rival;
            table.add(&format!("{what}, {peer}"), theirs / 1e6, "M rows/s");
            let name = format!("ingest over {peer}, {what}");
            match (peer.as_str(), what.as_str()) {
                ("duckdb", "ingest with buckets") => {
                    table.at_least(&name, rate / theirs, 5.0, "x");
                }
                _ => table.add(&name, rate / theirs, "x"),
            }
        }
    }
    if let Some(url) = &options.postgres {
        postgres::measure(url, &store, id, n, table).await?;
    }
    if options.wants("writers") {
        let rate = writers(&folder.join("writers.sqlite"), n / 5).await?;
        let name = format!("ingest by {WRITERS} writers at once");
        table.at_least(&name, rate / 1e6, 0.7, "M rows/s");
    }
    if options.wants("reads") {
        reads(&store, id, n, "fresh", table)?;
    }
    let store =
        if options.wants("packed") { packed(store, &path, id, n, table).await? } else { store };
    if options.wants("late") { late(&store, id, n, table).await } else { Ok(()) }
}

/// Packs all rows and reads them. Returns the reopened store.
async fn packed(
    store: Figures,
    path: &Path,
    id: DatasetId,
    n: usize,
    table: &mut Table,
) -> Outcome<Figures> {
    let start = Instant::now();
    store.settle().await?;
    table.add("packing all rows", start.elapsed().as_secs_f64(), "s");
    drop(store);
    close(path)?;
    let n_bytes = usize::try_from(fs::metadata(path)?.len())?;
    table.at_most("disk, cold data packed", to_f64(n_bytes) / to_f64(n), 45.0, "bytes a row");
    let start = Instant::now();
    let store = Figures::open(path)?;
    store.page(id, Page::Newest, 1)?;
    table.at_most("open", start.elapsed().as_secs_f64() * 1e3, 1000.0, "ms");
    reads(&store, id, n, "packed", table)?;
    Ok(store)
}

/// Returns the number of rows per second of all concurrent writers together, which share commits.
async fn writers(path: &Path, n: usize) -> Outcome<f64> {
    let store = Figures::open(path)?;
    let mut ids = Vec::new();
    for writer in 0..WRITERS {
        ids.push(store.create(&format!("writer_{writer}")).await?);
    }
    // Creates the bars before the measurement, since all writers share one thread.
    let mut bars = Bars::new();
    let batches: Vec<Vec<Bar>> =
        (0..n / WRITERS / BATCH).map(|_| bars.by_ref().take(BATCH).collect()).collect();
    let start = Instant::now();
    futures::future::try_join_all(ids.into_iter().map(async |id| {
        for batch in &batches {
            store.append(id, batch).await?;
        }
        Outcome::Ok(())
    }))
    .await?;
    Ok(to_f64(batches.len() * BATCH * WRITERS) / start.elapsed().as_secs_f64())
}

/// Moves the write-ahead log of a closed store to its file.
fn close(path: &Path) -> Outcome<()> {
    let connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

async fn ingest(store: &Figures, id: DatasetId, n: usize, mut bars: Bars) -> Outcome<f64> {
    let mut taken = Duration::ZERO;
    let mut left = n;
    while left > 0 {
        let batch: Vec<Bar> = bars.by_ref().take(BATCH.min(left)).collect();
        left -= batch.len();
        let start = Instant::now();
        store.append(id, &batch).await?;
        taken += start.elapsed();
    }
    Ok(to_f64(n) / taken.as_secs_f64())
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
    let rate = to_f64(n_read) / start.elapsed().as_secs_f64();
    table.at_least(&format!("scan, {what}"), rate / 1e6, 2.0, "M rows/s");
    Ok(())
}

/// Measures appends of a thousand late rows: first within one day, then spread over all years.
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

/// Calls `work` `times` times and returns the median duration of a call in seconds.
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
