//! Background maintenance in small steps between writes: frees the space of deleted datasets, packs old
//! rows and buckets, and removes old records of batches.
//!
//! A thread gives the writer one step at a time, so that a write waits for at most one step.

use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use db::files::DatabaseFiles;
use db::statement::Statements as _;
use futures::executor::block_on;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use rusqlite::Connection;
use tracing::{error, warn};

use super::chunks::{self, Chunk};
use super::series::{SETTLED, SeriesId};
use super::{Result, StoreError, Writer, append, buckets, delete, scan};
use crate::store::batch::{KEPT_MICROS, PER_WRITER_MAX};
use crate::store::datasets::find;
use crate::store::session::ready;

/// Interval at which the thread looks for work and checks that the file is still in place.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Minimum number of steps after each look. Further steps follow until another job arrives.
const STEPS_MIN: u64 = 4;

/// Number of looks after which old records of batches are removed: about a minute.
const LOOKS_PER_TRIM: u32 = 60;

/// Number of latest chunks in the store that remain unpacked, since most late rows fall into them. These
/// chunks occupy about 15 MB.
const HOT_CHUNKS: i64 = 512;

/// Maximum number of records of batches that one step removes. Writers wait for a step, which takes some
/// milliseconds.
const STEP_BATCHES: i64 = 256;

/// Number of free pages that remain in the file for new rows: 1 MB.
const FREE_PAGES_KEPT: i64 = 256;

/// Number of free pages that one step returns to the disk: about 1 MB.
const FREE_PAGES_STEP: i64 = 256;

/// Starts the thread, which first does the pending work of an earlier run of the program. The thread
/// exits when the returned handle is dropped.
pub(super) fn start(writer: Arc<Writer>, files: Arc<DatabaseFiles>) -> Result<Sender<()>> {
    let (running, ended) = mpsc::channel();
    thread::Builder::new()
        .name("datasets-maintenance".to_owned())
        .spawn(move || run(&ended, &writer, &files))
        .map_err(StoreError::failed)?;
    Ok(running)
}

fn run(ended: &Receiver<()>, writer: &Writer, files: &DatabaseFiles) {
    let mut seen = None;
    let mut n_looks = LOOKS_PER_TRIM;
    let is_over = || ended.try_recv() == Err(TryRecvError::Disconnected);
    while files.check() {
        // Skips the look if no job has changed the store since all work was done.
        if seen != Some(writer.n_jobs()) {
            let mut done = Ok(());
            if n_looks >= LOOKS_PER_TRIM {
                n_looks = 0;
                done = block_on(trim_batches(writer, is_over));
            }
            match done.and_then(|()| do_some(writer, is_over)) {
                Ok(is_done) => seen = is_done.then(|| writer.n_jobs()),
                Err(StoreError::Closed) => return,
                Err(error) => {
                    // The failed work is retried after the next write.
                    warn!(error = &error as &dyn Error, "maintenance of the dataset store failed");
                    seen = Some(writer.n_jobs());
                }
            }
        }
        n_looks = n_looks.saturating_add(1);
        if ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Does steps until nothing is left to do, or another job arrives after [`STEPS_MIN`]. Returns true if
/// nothing is left to do.
fn do_some(writer: &Writer, is_over: impl Fn() -> bool) -> Result<bool> {
    let (start, mut n_steps) = (writer.n_jobs(), 0);
    while !is_over() && (n_steps < STEPS_MIN || writer.n_jobs() == start + n_steps) {
        if !writer.run_blocking(|connection: &Connection| step(connection, HOT_CHUNKS))? {
            return Ok(true);
        }
        n_steps += 1;
    }
    Ok(false)
}

/// Completes all maintenance, including the packing of the latest chunks.
pub(super) async fn settle(writer: &Writer) -> Result<()> {
    while writer.run(|connection: &Connection| step(connection, 0), |_| {}).await? {}
    trim_batches(writer, || false).await
}

/// Does one step of maintenance, for which writers wait. Returns true if more work can remain.
fn step(connection: &Connection, n_hot: i64) -> Result<bool> {
    Ok(delete::step(connection)? || compact(connection, n_hot)? || shrink(connection)?)
}

/// Removes old records of named batches.
async fn trim_batches(writer: &Writer, is_over: impl Fn() -> bool) -> Result<()> {
    let mut after = i64::MIN;
    while !is_over()
        && let Some(next) = writer.run(move |c: &Connection| trim(c, after), |_| {}).await?
    {
        after = next;
    }
    Ok(())
}

/// Removes some old records of batches of one writer: the writer with the lowest number above `after`.
/// Returns the number to pass as `after` to the next call, or `None` if there is no such writer.
fn trim(connection: &Connection, after: i64) -> Result<Option<i64>> {
    let next = "SELECT writer FROM batches WHERE writer > ?1 ORDER BY writer LIMIT 1";
    let found = connection.find(next, [after], |row| row.get(0))?;
    let Some::<i64>(writer) = found else { return Ok(None) };
    let n_gone = connection.run(
        "DELETE FROM batches WHERE writer = ?1
         AND n < (SELECT min(n) FROM batches WHERE writer = ?1) + ?2
         AND (at < CAST(unixepoch('subsec') * 1000000 AS INTEGER) - ?3
             OR n <= (SELECT max(n) FROM batches WHERE writer = ?1) - ?4)",
        [writer, STEP_BATCHES, KEPT_MICROS, PER_WRITER_MAX],
    )?;
    Ok(Some(if n_gone > 0 { after } else { writer }))
}

/// Packs the oldest unpacked chunk and the buckets before it, unless the chunk is among the latest
/// `n_hot`. Without such a chunk, merges some late rows into their chunks. Returns true if more work can
/// remain.
fn compact(connection: &Connection, n_hot: i64) -> Result<bool> {
    let Some((dataset, chunk)) = chunks::unpacked(connection, n_hot)? else {
        return append::settle_some(connection);
    };
    if is_intact(dataset, Resolution::Raw, pack(connection, dataset, chunk))? {
        for resolution in SETTLED {
            let before = resolution.bucket_start(chunk.span.first);
            let settled = buckets::settle(connection, SeriesId { dataset, resolution }, before);
            is_intact(dataset, resolution, settled)?;
        }
    } else {
        chunks::leave(connection, chunk)?;
    }
    Ok(true)
}

/// Returns false and logs the damage if a step failed since a chunk is damaged.
fn is_intact<T>(dataset: DatasetId, resolution: Resolution, step: Result<T>) -> Result<bool> {
    match step {
        Err(StoreError::Damaged { source, .. }) => {
            error!(dataset.id = %dataset, %resolution, error = %source,
                "a chunk of dataset {dataset} is damaged; restore the store from a backup");
            Ok(false)
        }
        // The dataset was deleted, so its chunks will be removed soon and need no packing.
        Err(StoreError::NoDataset { .. }) => Ok(false),
        step => step.map(|_| true),
    }
}

fn pack(connection: &Connection, dataset: DatasetId, chunk: Chunk) -> Result<()> {
    let series = SeriesId::rows(dataset);
    let mut rows = chunks::read(connection, series, chunk, scan::empty(connection, series)?)?;
    rows.clear_columns(&ready(find(&mut &*connection, dataset))?.columns);
    chunks::pack(connection, chunk, &rows)
}

/// Returns some free space to the disk. Returns true if more can be returned.
fn shrink(connection: &Connection) -> Result<bool> {
    let n_free: i64 = connection.value("PRAGMA freelist_count", [])?;
    let n_pages = (n_free - FREE_PAGES_KEPT).min(FREE_PAGES_STEP);
    if n_pages <= 0 {
        return Ok(false);
    }
    connection.all(&format!("PRAGMA incremental_vacuum({n_pages})"), [], |_| Ok(()))?;
    // The number does not decrease in a file of an earlier version that was created without
    // `auto_vacuum`.
    Ok(connection.value::<i64>("PRAGMA freelist_count", [])? < n_free)
}
