//! Buckets in their table: reading them, and keeping them right after rows changed.
//!
//! Buckets are recomputed, never added to: those of five minutes from the rows in the order of their
//! moments, an hour from its five minutes, a day from its hours. Rows that come after all others go
//! on from the last bucket, which is the same fold.

use std::collections::BTreeSet;

use model::{dataset::DatasetId, resolution::Resolution, row::Bucket, timestamp::Timestamp};
use rusqlite::{Connection, Row, params};

use super::{StoreError, scan};
use crate::{
    block::{Block, Rows},
    query::{Order, Span},
    rollup::{Fold, coarser},
};

/// Touched buckets this close together are read in one go.
const GAP_MAX: i64 = 12;

/// The number by which a resolution is stored: the length of a bucket in seconds.
pub(super) fn code(resolution: Resolution) -> i64 {
    resolution.bucket().map_or(0, |length| i64::try_from(length.as_secs()).unwrap_or(i64::MAX))
}

/// The moments of the bucket that starts at `start`.
fn span(resolution: Resolution, start: Timestamp) -> Span {
    let micros = code(resolution).saturating_mul(1_000_000);
    let last = Timestamp::from_micros(start.micros().saturating_add(micros - 1));
    Span { first: start, last }
}

/// Folds `rows`, which come after all rows before them, onto the last bucket.
pub(super) fn extend(
    connection: &Connection,
    dataset: DatasetId,
    fold: Fold,
    rows: &Block,
) -> Result<(), StoreError> {
    let Some(first) = rows.times.first() else { return Ok(()) };
    let resolution = Resolution::FiveMinutes;
    let last = get(connection, dataset, resolution, resolution.bucket_start(*first))?;
    let buckets = fold.buckets(rows, resolution, last);
    for bucket in &buckets {
        put(connection, dataset, resolution, bucket)?;
    }
    coarsen(connection, dataset, buckets.iter().map(|bucket| bucket.timestamp))
}

/// Folds again all buckets that hold one of `moments`, from the rows that are stored.
pub(super) fn refold(
    connection: &Connection,
    dataset: DatasetId,
    fold: Fold,
    moments: &[Timestamp],
) -> Result<(), StoreError> {
    let resolution = Resolution::FiveMinutes;
    let touched: BTreeSet<Timestamp> =
        moments.iter().map(|moment| resolution.bucket_start(*moment)).collect();
    let starts: Vec<Timestamp> = touched.iter().copied().collect();
    let gap_micros = GAP_MAX * code(resolution) * 1_000_000;
    for run in starts.chunk_by(|a, b| b.micros() - a.micros() <= gap_micros) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let span = Span { first: *first, last: span(resolution, *last).last };
        let mut folded: Vec<Bucket> = Vec::new();
        scan::raw(connection, dataset, span, Order::Ascending, &mut |piece| {
            if let Rows::Raw(block) = piece {
                let last = folded.pop();
                folded.extend(fold.buckets(&block, resolution, last));
            }
            std::ops::ControlFlow::Continue(())
        })?;
        for start in run {
            remove(connection, dataset, resolution, *start)?;
        }
        for bucket in folded.iter().filter(|bucket| touched.contains(&bucket.timestamp)) {
            put(connection, dataset, resolution, bucket)?;
        }
    }
    coarsen(connection, dataset, touched.into_iter())
}

/// Folds again the hours and days that hold the five-minute buckets at `starts`.
fn coarsen(
    connection: &Connection,
    dataset: DatasetId,
    starts: impl Iterator<Item = Timestamp>,
) -> Result<(), StoreError> {
    let mut touched: BTreeSet<Timestamp> = starts.collect();
    for pair in Resolution::BUCKETED.windows(2) {
        let [finer, resolution] = *pair else { continue };
        touched = touched.iter().map(|start| resolution.bucket_start(*start)).collect();
        for start in &touched {
            let within = read(connection, dataset, finer, &Page::all(span(resolution, *start)))?;
            match coarser(*start, within) {
                Some(bucket) => put(connection, dataset, resolution, &bucket)?,
                None => remove(connection, dataset, resolution, *start)?,
            }
        }
    }
    Ok(())
}

fn get(
    connection: &Connection,
    dataset: DatasetId,
    resolution: Resolution,
    start: Timestamp,
) -> Result<Option<Bucket>, StoreError> {
    let span = Span { first: start, last: start };
    Ok(read(connection, dataset, resolution, &Page::all(span))?.pop())
}

fn put(
    connection: &Connection,
    dataset: DatasetId,
    resolution: Resolution,
    bucket: &Bucket,
) -> Result<(), StoreError> {
    let Bucket { timestamp, open, high, low, close, volume, count } = bucket;
    // A sum may overflow to infinity, and then to no number at all, which SQLite takes for null.
    let volume = if volume.is_nan() { 0.0 } else { *volume };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO buckets
             (dataset, resolution, t, open, high, low, close, volume, count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            dataset.get(),
            code(resolution),
            timestamp.micros(),
            open,
            high,
            low,
            close,
            volume,
            count
        ])?;
    Ok(())
}

fn remove(
    connection: &Connection,
    dataset: DatasetId,
    resolution: Resolution,
    start: Timestamp,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM buckets WHERE dataset = ?1 AND resolution = ?2 AND t = ?3")?
        .execute(params![dataset.get(), code(resolution), start.micros()])?;
    Ok(())
}

/// Which buckets of a resolution to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) span: Span,
    pub(super) order: Order,
    pub(super) skip: u64,
    /// How many at most; −1 for all.
    pub(super) limit: i64,
}

impl Page {
    const fn all(span: Span) -> Self {
        Self { span, order: Order::Ascending, skip: 0, limit: -1 }
    }
}

/// Reads buckets in the order asked for.
pub(super) fn read(
    connection: &Connection,
    dataset: DatasetId,
    resolution: Resolution,
    page: &Page,
) -> Result<Vec<Bucket>, StoreError> {
    let sql = match page.order {
        Order::Ascending => {
            "SELECT t, open, high, low, close, volume, count FROM buckets
             WHERE dataset = ?1 AND resolution = ?2 AND t BETWEEN ?3 AND ?4
             ORDER BY t LIMIT ?5 OFFSET ?6"
        }
        Order::Descending => {
            "SELECT t, open, high, low, close, volume, count FROM buckets
             WHERE dataset = ?1 AND resolution = ?2 AND t BETWEEN ?3 AND ?4
             ORDER BY t DESC LIMIT ?5 OFFSET ?6"
        }
    };
    let skip = i64::try_from(page.skip).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(sql)?;
    let buckets = statement.query_map(
        params![
            dataset.get(),
            code(resolution),
            page.span.first.micros(),
            page.span.last.micros(),
            page.limit,
            skip
        ],
        bucket,
    )?;
    Ok(buckets.collect::<Result<_, _>>()?)
}

/// How many buckets a span has.
pub(super) fn count(
    connection: &Connection,
    dataset: DatasetId,
    resolution: Resolution,
    span: Span,
) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM buckets
         WHERE dataset = ?1 AND resolution = ?2 AND t BETWEEN ?3 AND ?4",
    )?;
    let count = statement.query_row(
        params![dataset.get(), code(resolution), span.first.micros(), span.last.micros()],
        |row| row.get(0),
    )?;
    Ok(count)
}

fn bucket(row: &Row<'_>) -> rusqlite::Result<Bucket> {
    Ok(Bucket {
        timestamp: Timestamp::from_micros(row.get(0)?),
        open: row.get(1)?,
        high: row.get(2)?,
        low: row.get(3)?,
        close: row.get(4)?,
        volume: row.get(5)?,
        count: row.get(6)?,
    })
}
