//! Keeping buckets right after rows changed.
//!
//! Buckets are recomputed, never added to: those of five minutes from the rows in the order of their
//! moments, each longer one from shorter ones. Rows that come after all others go on from the last
//! bucket, which is the same fold. Of the resolutions those in [`KEPT`] are stored; the others are
//! folded from them as they are read, three or four into one. New and changed buckets are single
//! records; [`settle`] makes chunks of old ones.

use std::collections::BTreeSet;

use model::{dataset::DatasetId, resolution::Resolution, row::Bucket, timestamp::Timestamp};
use rusqlite::{Connection, params};

use super::{
    StoreError,
    chunks::{self, CHUNK_ROWS, Strand},
    folded::{self, Page, block_of, stored},
    scan,
};
use crate::{
    block::Block,
    query::Span,
    rollup::{Fold, coarser},
};

/// The resolutions that are stored, each after the one it is folded from.
pub(super) const KEPT: [Resolution; 3] =
    [Resolution::FiveMinutes, Resolution::Hour, Resolution::Day];

/// Touched buckets this close together are read in one go.
const GAP_MAX: i64 = 12;

/// Touched longer buckets whose beginnings are at most so many shorter ones apart are folded from one
/// reading. To read a chunk costs as much as to pass over so many in it.
const FINER_GAP_MAX: i64 = 256;

/// Buckets over chunks from which on some of them are laid into their chunks.
const OVER_MAX: usize = 4096;

/// Buckets laid into chunks in one step. Each may be in a chunk of its own, which takes about 0.1 ms.
const OVER_STEP: usize = 32;

/// The number by which a resolution is stored: the length of a bucket in seconds.
pub(super) fn code(resolution: Resolution) -> i64 {
    resolution.bucket().map_or(0, |length| i64::try_from(length.as_secs()).unwrap_or(i64::MAX))
}

/// The moments of the bucket that starts at `start`.
pub(super) fn span(resolution: Resolution, start: Timestamp) -> Span {
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
    let [finest, ..] = KEPT;
    let start = finest.bucket_start(*first);
    let here = Span { first: start, last: start };
    let last = stored(connection, Strand { dataset, resolution: finest }, &Page::all(here))?.pop();
    let mut new = fold.buckets(rows, finest, last);
    for bucket in &new {
        put(connection, dataset, finest, bucket)?;
    }
    for pair in KEPT.windows(2) {
        let [finer, resolution] = *pair else { continue };
        let Some(first) = new.first() else { return Ok(()) };
        // Of the finer ones in the first bucket some were there before.
        let start = resolution.bucket_start(first.timestamp);
        let mut finer_ones = Vec::new();
        if start < first.timestamp {
            let last = Timestamp::from_micros(first.timestamp.micros() - 1);
            let before = Page::all(Span { first: start, last });
            finer_ones = stored(connection, Strand { dataset, resolution: finer }, &before)?;
        }
        finer_ones.append(&mut new);
        let start_of = |bucket: &Bucket| resolution.bucket_start(bucket.timestamp);
        for group in finer_ones.chunk_by(|a, b| start_of(a) == start_of(b)) {
            let Some(first) = group.first() else { continue };
            if let Some(bucket) = coarser(start_of(first), group.iter().copied()) {
                put(connection, dataset, resolution, &bucket)?;
                new.push(bucket);
            }
        }
    }
    Ok(())
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
    let rows = (scan::empty(connection, dataset)?, fold.columns());
    for run in starts.chunk_by(|a, b| b.micros() - a.micros() <= gap_micros) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let span = Span { first: *first, last: span(resolution, *last).last };
        let folded = fold_rows(connection, dataset, fold, span, &rows)?;
        let mut folded = folded.into_iter().peekable();
        for start in run {
            while folded.next_if(|bucket| bucket.timestamp < *start).is_some() {}
            match folded.next_if(|bucket| bucket.timestamp == *start) {
                Some(bucket) => put(connection, dataset, resolution, &bucket)?,
                None => remove(connection, dataset, resolution, *start)?,
            }
        }
    }
    coarsen(connection, dataset, touched.into_iter())
}

/// Removes the buckets of a span whose rows are gone, and folds again those at its ends from what is
/// left. Those before `kept_from`, whose rows are not there, stay unless the span covers them.
pub(super) fn cut(
    connection: &Connection,
    dataset: DatasetId,
    fold: Fold,
    span: Span,
    kept_from: Option<Timestamp>,
) -> Result<(), StoreError> {
    let rows = (scan::empty(connection, dataset)?, fold.columns());
    let mut finer = None;
    for resolution in KEPT {
        let strand = Strand { dataset, resolution };
        let length = code(resolution).saturating_mul(1_000_000);
        connection
            .prepare_cached(
                "DELETE FROM buckets WHERE dataset = ?1 AND resolution = ?2
                 AND t BETWEEN ?3 AND ?4",
            )?
            .execute(params![
                dataset.get(),
                code(resolution),
                span.first.micros(),
                span.last.micros() - (length - 1)
            ])?;
        let last = Timestamp::from_micros(span.last.micros() - (length - 1));
        if span.first <= last {
            let whole = Span { first: span.first, last };
            chunks::cut(connection, strand, whole, &block_of(&[]))?;
        }
        let ends = BTreeSet::from([span.first, span.last].map(|end| resolution.bucket_start(end)));
        for start in ends {
            let bucket = self::span(resolution, start);
            // The end of the last bucket there is may be later than a moment can be.
            let bucket_last = bucket.first.micros().saturating_add(length - 1);
            if span.first <= bucket.first && bucket_last <= span.last.micros() {
                continue;
            }
            let folded = match finer {
                None if kept_from.is_some_and(|kept_from| start < kept_from) => continue,
                None => fold_rows(connection, dataset, fold, bucket, &rows)?.pop(),
                Some(resolution) => {
                    let finer = Strand { dataset, resolution };
                    coarser(start, stored(connection, finer, &Page::all(bucket))?)
                }
            };
            match folded {
                Some(bucket) => put(connection, dataset, resolution, &bucket)?,
                None => remove(connection, dataset, resolution, start)?,
            }
        }
        finer = Some(resolution);
    }
    Ok(())
}

/// The five-minute buckets of the rows of a span, read as rows with values of some columns.
pub(super) fn fold_rows(
    connection: &Connection,
    dataset: DatasetId,
    fold: Fold,
    span: Span,
    (empty, wanted): &(Block, Vec<usize>),
) -> Result<Vec<Bucket>, StoreError> {
    let [resolution, ..] = KEPT;
    let mut folded: Vec<Bucket> = Vec::new();
    scan::blocks(connection, dataset, span, (empty.clone(), wanted), &mut |block| {
        let last = folded.pop();
        folded.extend(fold.buckets(&block, resolution, last));
    })?;
    Ok(folded)
}

/// Folds again the coarser buckets that hold the five-minute buckets at `starts`.
fn coarsen(
    connection: &Connection,
    dataset: DatasetId,
    starts: impl Iterator<Item = Timestamp>,
) -> Result<(), StoreError> {
    let mut touched: BTreeSet<Timestamp> = starts.collect();
    for pair in KEPT.windows(2) {
        let [finer, resolution] = *pair else { continue };
        touched = touched.iter().map(|start| resolution.bucket_start(*start)).collect();
        let gap_micros = FINER_GAP_MAX * code(finer) * 1_000_000;
        let finer = Strand { dataset, resolution: finer };
        let starts: Vec<Timestamp> = touched.iter().copied().collect();
        for run in starts.chunk_by(|a, b| b.micros() - a.micros() <= gap_micros) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let within = Span { first: *first, last: span(resolution, *last).last };
            let within = stored(connection, finer, &Page::all(within))?;
            for start in run {
                let end = span(resolution, *start).last;
                let from = within.partition_point(|bucket| bucket.timestamp < *start);
                let to = within.partition_point(|bucket| bucket.timestamp <= end);
                let group = within.get(from..to).unwrap_or_default();
                match coarser(*start, group.iter().copied()) {
                    Some(bucket) => put(connection, dataset, resolution, &bucket)?,
                    None => remove(connection, dataset, resolution, *start)?,
                }
            }
        }
    }
    Ok(())
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
    let here = Span { first: start, last: start };
    chunks::cut(connection, Strand { dataset, resolution }, here, &block_of(&[]))
}

/// Makes a chunk of old buckets before `before`, or lays some buckets into their chunks; whether
/// there was something to do.
pub(super) fn settle(
    connection: &Connection,
    strand: Strand,
    before: Timestamp,
) -> Result<bool, StoreError> {
    let end = chunks::end(connection, strand)?;
    let fresh_from =
        end.map_or(Timestamp::MIN, |end| Timestamp::from_micros(end.micros().saturating_add(1)));
    let old = Span { first: fresh_from, last: Timestamp::from_micros(before.micros() - 1) };
    let fresh = folded::single(connection, strand, old, CHUNK_ROWS)?;
    if fresh.len() == CHUNK_ROWS {
        chunks::append(connection, strand, &block_of(&fresh))?;
        return take(connection, strand, &fresh).map(|()| true);
    }
    let Some(end) = end else { return Ok(false) };
    let over = Span { first: Timestamp::MIN, last: end };
    if folded::count_single(connection, strand, over)? < OVER_MAX {
        return Ok(false);
    }
    let some = folded::single(connection, strand, over, OVER_STEP)?;
    chunks::overlay(connection, strand, &block_of(&some))?;
    take(connection, strand, &some).map(|()| true)
}

/// Removes single buckets that are in a chunk now.
fn take(connection: &Connection, strand: Strand, buckets: &[Bucket]) -> Result<(), StoreError> {
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return Ok(()) };
    connection
        .prepare_cached(
            "DELETE FROM buckets WHERE dataset = ?1 AND resolution = ?2 AND t BETWEEN ?3 AND ?4",
        )?
        .execute(params![
            strand.dataset.get(),
            code(strand.resolution),
            first.timestamp.micros(),
            last.timestamp.micros()
        ])?;
    Ok(())
}
