//! Reference for the figures: the same bars in a plain SQLite table, with buckets that upserts maintain.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};
use tokio::time::Instant;

use crate::bars::Bars;
use crate::{BATCH, Outcome};

/// Schema, and settings for the same durability, number of rows per commit and length of the log as in
/// the store.
const TABLES: &str = "
PRAGMA journal_mode = wal;
PRAGMA synchronous = full;
PRAGMA wal_autocheckpoint = 4000;
CREATE TABLE bars (
    dataset INTEGER, t INTEGER, id INTEGER, created INTEGER,
    open REAL, high REAL, low REAL, close REAL, volume REAL, notional REAL, trades REAL,
    PRIMARY KEY (dataset, t)
) WITHOUT ROWID;
CREATE TABLE buckets (
    dataset INTEGER, resolution INTEGER, t INTEGER,
    open REAL, high REAL, low REAL, close REAL, volume REAL, count INTEGER,
    PRIMARY KEY (dataset, resolution, t)
) WITHOUT ROWID;
";

/// Inserts a row, or replaces the row with the same timestamp.
const INSERT: &str =
    "INSERT OR REPLACE INTO bars VALUES (1, ?1, ?2, ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// Adds the rows of a batch to a bucket. The result is correct only if rows arrive in ascending order.
const UPSERT: &str = "INSERT INTO buckets VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO UPDATE SET high = max(high, excluded.high), low = min(low, excluded.low),
close = excluded.close, volume = volume + excluded.volume, count = count + excluded.count";

/// Ingests `n` rows in batches and returns the rows per second. The buckets of 5 minutes, an hour and a
/// day are computed for each batch and then added to the stored buckets.
pub(crate) fn ingest(path: &Path, n: usize) -> Outcome<f64> {
    fs::remove_file(path).ok();
    let mut connection = Connection::open(path)?;
    connection.execute_batch(TABLES)?;
    let mut bars = Bars::new();
    let (mut taken, mut left, mut row_id) = (Duration::ZERO, n, 0_i64);
    while left > 0 {
        let batch: Vec<_> = bars.by_ref().take(BATCH.min(left)).collect();
        left -= batch.len();
        let start = Instant::now();
        let write = connection.transaction()?;
        let mut insert = write.prepare_cached(INSERT)?;
        for (minute, [open, high, low, close, volume, notional, trades]) in &batch {
            row_id += 1;
            insert.execute(params![
                minute * 60_000_000,
                row_id,
                open,
                high,
                low,
                close,
                volume,
                notional,
                trades
            ])?;
        }
        let mut upsert = write.prepare_cached(UPSERT)?;
        for length in [5, 60, 1440] {
            for group in batch.chunk_by(|a, b| a.0 / length == b.0 / length) {
                let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
                let high = group.iter().map(|bar| bar.1[1]).fold(f64::MIN, f64::max);
                let low = group.iter().map(|bar| bar.1[2]).fold(f64::MAX, f64::min);
                let volume: f64 = group.iter().map(|bar| bar.1[4]).sum();
                let start = first.0 / length * length * 60_000_000;
                upsert.execute(params![
                    length * 60,
                    start,
                    first.1[0],
                    high,
                    low,
                    last.1[3],
                    volume,
                    group.len()
                ])?;
            }
        }
        drop((insert, upsert));
        write.commit()?;
        taken += start.elapsed();
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    Ok(n as f64 / taken.as_secs_f64())
}
