//! Updates buckets after rows changed.
//!
//! A changed bucket is computed again: a bucket of five minutes from its rows in the order of their
//! timestamps, a longer bucket from shorter buckets. Only rows that come after all other rows are added
//! to the stored last bucket, since this gives the same result. The resolutions in [`KEPT`] are stored.
//! Other resolutions are computed during a read, each bucket from three or four stored buckets.
//!
//! Changed buckets and small numbers of new buckets are stored as single records, many new buckets as a
//! chunk. [`settle`] merges both into longer chunks.

use std::collections::BTreeSet;
use std::slice;

use db::statement::Statements as _;
use model::block::Block;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::{Connection, params};

use super::bucket_reader;
use super::chunks::{self, CHUNK_ROWS};
use super::rebuild_buckets::{self, BucketRebuild};
use super::series::{self, KEPT, SETTLED, SeriesId, code, micros, span};
use super::{Result, scan};
use crate::rollup::{Fold, Refolded, bucket_at, coarsen, coarsen_changed, coarser, starts_of};
use crate::span::{Span, just_before};

/// Minimum number of new buckets in an append for which the preceding single buckets are read, to store
/// both together as a chunk of at least [`NEW_CHUNK_MIN`] buckets.
const NEW_MIN: usize = 16;

/// Minimum number of new buckets that are stored as a chunk. Single records take twenty times as long to
/// write. With this minimum, a page of 250 buckets is in at most four such chunks.
const NEW_CHUNK_MIN: usize = 64;

/// Maximum distance between two changed buckets of five minutes for which one read covers both, in
/// buckets.
const GAP_MAX: i64 = 12;

/// Maximum distance between two changed hours for which one read covers both, in hours.
const LONGER_GAP_MAX: i64 = 4;

/// Maximum distance between two longer buckets for which one read of shorter buckets covers both, in
/// shorter buckets. Skipping this many takes as long as reading another chunk.
const FINER_GAP_MAX: i64 = 256;

/// Number of longer buckets that a thread computes at a time. A chunk at the boundary of two such parts
/// can be read by two threads.
const COARSER_PART: usize = 128;

/// Number of single buckets with precedence over buckets of chunks at which the store begins to merge
/// them into the chunks.
const OVER_MAX: usize = 4096;

/// Number of single buckets that are merged in one step. Each can be in a different chunk, which takes
/// about 0.1 ms.
const OVER_STEP: usize = 32;

/// Adds `rows`, which come after all stored rows, to the last bucket and to new buckets.
pub(super) fn extend(
    connection: &Connection,
    dataset: DatasetId,
    fold: Fold,
    rows: &Block,
) -> Result<()> {
    let Some(first) = rows.times.first() else { return Ok(()) };
    let [finest, ..] = KEPT;
    let start = finest.bucket_start(*first);
    let here = Span { first: start, last: start };
    let last =
        bucket_reader::read(connection, SeriesId { dataset, resolution: finest }, here)?.pop();
    extend_finest(connection, dataset, fold.buckets(rows, finest, last))
}

/// Stores new buckets of five minutes, and the longer buckets computed from them. The first new bucket
/// can replace the last stored bucket.
pub(super) fn extend_finest(
    connection: &Connection,
    dataset: DatasetId,
    mut new: Vec<Bucket>,
) -> Result<()> {
    let [finest, ..] = KEPT;
    put_new(connection, SeriesId { dataset, resolution: finest }, &new)?;
    for pair in KEPT.windows(2) {
        let [finer, resolution] = *pair else { continue };
        let Some(first) = new.first() else { return Ok(()) };
        // Also reads the finer buckets of the first longer bucket that are already stored.
        let start = resolution.bucket_start(first.timestamp);
        let mut finer_buckets = Vec::new();
        if start < first.timestamp {
            let last = just_before(first.timestamp);
            let before = Span { first: start, last };
            finer_buckets =
                bucket_reader::read(connection, SeriesId { dataset, resolution: finer }, before)?;
        }
        finer_buckets.append(&mut new);
        new = coarsen(&finer_buckets, resolution);
        put_new(connection, SeriesId { dataset, resolution }, &new)?;
    }
    Ok(())
}

/// Stores buckets that come after all stored buckets, except that the first can replace the last stored
/// bucket. Many buckets become a chunk, except for the last of them, which later rows can change.
fn put_new(connection: &Connection, series: SeriesId, new: &[Bucket]) -> Result<()> {
    let mut single = new;
    if let ([first, ..], Some((last, closed))) = (new, new.split_last())
        && closed.len() >= NEW_MIN
        && SETTLED.contains(&series.resolution)
    {
        let after = chunks::end(connection, series)?.map_or(i64::MIN, |end| end.micros() + 1);
        let first = first.timestamp.micros();
        let before =
            Span { first: Timestamp::from_micros(after), last: Timestamp::from_micros(first - 1) };
        let mut run = bucket_reader::single(connection, series, before, CHUNK_ROWS)?;
        // `settle` handles longer runs. If the first new bucket replaces a bucket of a chunk, all new
        // buckets are stored as single records.
        if run.len() < CHUNK_ROWS && run.len() + closed.len() >= NEW_CHUNK_MIN && after <= first {
            run.extend_from_slice(closed);
            take(connection, series, &run)?;
            chunks::append_new(connection, series, &Block::from(run.as_slice()))?;
            single = slice::from_ref(last);
        }
    }
    put(connection, series, single)
}

/// Span of removed rows, with everything that affects its buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut<'a> {
    pub(super) span: Span,
    /// Timestamp before which rows were pruned.
    pub(super) kept_from: Option<Timestamp>,
    /// Archived rows that remain in the buckets at both ends of the span.
    pub(super) beneath: Option<&'a Block>,
}

/// Buckets that a write changes, computed before its rows are stored.
#[derive(Debug)]
pub(super) struct Touched {
    /// Changed buckets, for each resolution in [`KEPT`].
    folded: Vec<Refolded>,
    /// Timestamps of the new rows for which chunks already have rows.
    pub(super) held: Vec<Timestamp>,
}

/// Computes all buckets that contain `rows`, which take precedence over stored rows, which take
/// precedence over archived rows.
///
/// If an hour has fewer rows than a chunk, the whole hour is computed from rows, since reading the
/// changed buckets of five minutes reads these rows anyway. Otherwise the hour is computed from its
/// stored buckets of five minutes. A day is always computed from its hours.
pub(super) fn touched(
    connection: &Connection,
    dataset: DatasetId,
    fold: Fold,
    rows: &Block,
    beneath: Option<&Block>,
    kept_from: Option<Timestamp>,
) -> Result<Touched> {
    let [finest, longer, ..] = KEPT;
    let starts = starts_of(finest, rows.times.iter().copied());
    let longer_starts = starts_of(longer, starts.iter().copied());
    let mut touched = Touched { folded: Vec::new(), held: Vec::new() };
    let Some(first) = longer_starts.first() else { return Ok(touched) };
    let chunk = chunks::ending_from(connection, SeriesId::rows(dataset), *first)?;
    let is_sparse = |chunk: chunks::Chunk| {
        let length = chunk.span.last.micros().saturating_sub(chunk.span.first.micros());
        length >= micros(longer)
    };
    // `beneath` has archived rows only for the changed buckets of five minutes, not for the whole hour.
    let is_longer = beneath.is_none()
        && chunk.is_some_and(is_sparse)
        && kept_from.is_none_or(|kept_from| kept_from <= *first);
    let (unit, units, gap_max) = if is_longer {
        (longer, &longer_starts, LONGER_GAP_MAX)
    } else {
        (finest, &starts, GAP_MAX)
    };
    let mut folded_finest = Vec::with_capacity(starts.len());
    let columns = (scan::empty(connection, dataset)?, fold.columns());
    let mut folded_longer = Vec::new();
    let runs: Vec<(Span, &[Timestamp])> = units
        .chunk_by(|a, b| b.micros() - a.micros() <= gap_max * micros(unit))
        .filter_map(|run| {
            let last = span(unit, *run.last()?).last;
            Some((Span { first: *run.first()?, last }, run))
        })
        .collect();
    let spans: Vec<Span> = runs.iter().map(|(span, _)| *span).collect();
    let refold = BucketRebuild { dataset, fold, columns: &columns, over: Some(rows), beneath };
    let found = refold.spans(connection, &spans)?;
    touched.held = found.held;
    for ((span, run), folded) in runs.into_iter().zip(found.folded) {
        let from = starts.partition_point(|start| *start < span.first);
        let to = starts.partition_point(|start| *start <= span.last);
        for start in starts.get(from..to).unwrap_or_default() {
            folded_finest.push((*start, bucket_at(&folded, *start)));
        }
        if is_longer {
            let coarse = coarsen(&folded, longer);
            folded_longer.extend(run.iter().map(|start| (*start, bucket_at(&coarse, *start))));
        }
    }
    touched.folded.push(folded_finest);
    if is_longer {
        touched.folded.push(folded_longer);
    }
    for pair in KEPT.windows(2).skip(touched.folded.len() - 1) {
        let ([finer, resolution], Some(changed)) = (pair, touched.folded.last()) else { continue };
        let finer = SeriesId { dataset, resolution: *finer };
        touched.folded.push(coarsened(connection, finer, *resolution, changed)?);
    }
    Ok(touched)
}

impl Touched {
    /// Stores the changed buckets. Must be called after the rows were stored.
    pub(super) fn put(&self, connection: &Connection, dataset: DatasetId) -> Result<()> {
        for (resolution, folded) in KEPT.into_iter().zip(&self.folded) {
            let series = SeriesId { dataset, resolution };
            put(connection, series, folded.iter().filter_map(|(_, bucket)| bucket.as_ref()))?;
            for (start, _) in folded.iter().filter(|(_, bucket)| bucket.is_none()) {
                remove(connection, series, *start)?;
            }
        }
        Ok(())
    }
}

/// Computes the buckets of `resolution` that contain `changed` buckets of the finer resolution. Uses the
/// `changed` buckets, in which `None` is a removed bucket, and otherwise the stored buckets.
fn coarsened(
    connection: &Connection,
    finer: SeriesId,
    resolution: Resolution,
    changed: &[(Timestamp, Option<Bucket>)],
) -> Result<Refolded> {
    let starts = starts_of(resolution, changed.iter().map(|(start, _)| *start));
    let gap_micros = FINER_GAP_MAX * micros(finer.resolution);
    let parts: Vec<&[Timestamp]> = starts.chunks(COARSER_PART).collect();
    let folded =
        rebuild_buckets::shared(connection, finer.dataset, parts.len(), |connection, part_idx| {
            let mut folded = Refolded::new();
            let part = parts.get(part_idx).copied().unwrap_or_default();
            for run in part.chunk_by(|a, b| b.micros() - a.micros() <= gap_micros) {
                let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
                let whole = Span { first: *first, last: span(resolution, *last).last };
                let stored = bucket_reader::read(connection, finer, whole)?;
                let from = changed.partition_point(|(start, _)| *start < whole.first);
                let to = changed.partition_point(|(start, _)| *start <= whole.last);
                let changed = changed.get(from..to).unwrap_or_default();
                folded.extend(coarsen_changed(&stored, changed, &[], resolution));
            }
            Ok(folded)
        })?;
    Ok(folded.concat())
}

/// Updates buckets after the rows of a span were removed: deletes the buckets within the span and
/// computes the buckets at both ends again. Buckets of pruned rows, before `kept_from`, remain unless
/// the span covers them completely.
pub(super) fn cut(
    connection: &Connection,
    dataset: DatasetId,
    fold: Fold,
    Cut { span, kept_from, beneath }: Cut<'_>,
) -> Result<()> {
    let columns = (scan::empty(connection, dataset)?, fold.columns());
    let rebuild = BucketRebuild { dataset, fold, columns: &columns, over: None, beneath };
    let mut finer = None;
    for resolution in KEPT {
        let series = SeriesId { dataset, resolution };
        let length = micros(resolution);
        let last = Timestamp::from_micros(span.last.micros() - (length - 1));
        if span.first <= last {
            let whole = Span { first: span.first, last };
            delete_single(connection, series, whole)?;
            chunks::cut(connection, series, whole, &Block::from([].as_slice()))?;
        }
        let ends = BTreeSet::from([span.first, span.last].map(|end| resolution.bucket_start(end)));
        for start in ends {
            let bucket = series::span(resolution, start);
            // Saturates, since the last possible bucket ends after the maximum timestamp.
            let bucket_last = bucket.first.micros().saturating_add(length - 1);
            if span.first <= bucket.first && bucket_last <= span.last.micros() {
                continue;
            }
            let folded = match finer {
                None if kept_from.is_some_and(|kept_from| start < kept_from) => continue,
                None => rebuild.fold(connection, bucket, &mut Vec::new())?.pop(),
                Some(resolution) => {
                    let finer = SeriesId { dataset, resolution };
                    coarser(start, bucket_reader::read(connection, finer, bucket)?)
                }
            };
            match folded {
                Some(bucket) => put(connection, series, [&bucket])?,
                None => remove(connection, series, start)?,
            }
        }
        finer = Some(resolution);
    }
    Ok(())
}

/// Stores buckets as single records.
fn put<'a>(
    connection: &Connection,
    SeriesId { dataset, resolution }: SeriesId,
    buckets: impl IntoIterator<Item = &'a Bucket>,
) -> Result<()> {
    let (dataset, resolution) = (dataset.get(), code(resolution));
    for bucket in buckets {
        let Bucket { timestamp, open, high, low, close, volume, count } = *bucket;
        let start = timestamp.micros();
        connection.run(
            "INSERT OR REPLACE INTO buckets
             (dataset, resolution, t, open, high, low, close, volume, count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![dataset, resolution, start, open, high, low, close, volume, count],
        )?;
    }
    Ok(())
}

fn remove(connection: &Connection, series: SeriesId, start: Timestamp) -> Result<()> {
    let here = Span { first: start, last: start };
    delete_single(connection, series, here)?;
    chunks::cut(connection, series, here, &Block::from([].as_slice()))
}

/// Deletes the single buckets of a span.
fn delete_single(connection: &Connection, series: SeriesId, span: Span) -> Result<()> {
    let sql = "DELETE FROM buckets WHERE dataset = ?1 AND resolution = ?2 AND t BETWEEN ?3 AND ?4";
    connection.run(sql, series.within(span))?;
    Ok(())
}

/// Does one step of maintenance: turns single buckets before `before` into a chunk, joins short chunks,
/// or merges some single buckets into their chunks. Returns false if nothing was left to do.
pub(super) fn settle(connection: &Connection, series: SeriesId, before: Timestamp) -> Result<bool> {
    let end = chunks::end(connection, series)?;
    let old = Span { first: chunks::fresh_from(end), last: just_before(before) };
    let fresh = bucket_reader::single(connection, series, old, CHUNK_ROWS)?;
    if fresh.len() == CHUNK_ROWS {
        chunks::append(connection, series, &Block::from(fresh.as_slice()))?;
        return take(connection, series, &fresh).map(|()| true);
    }
    let Some(end) = end else { return Ok(false) };
    let new = chunks::new_before(connection, series, before)?;
    let mut n = 0;
    if let Some(last) = new.iter().position(|chunk| {
        n += chunk.n;
        n >= CHUNK_ROWS
    }) {
        let oldest = new.get(..=last).unwrap_or_default();
        return chunks::join(connection, series, oldest, Block::from([].as_slice())).map(|()| true);
    }
    let over = Span { first: Timestamp::MIN, last: end };
    if bucket_reader::count_single(connection, series, over)? < OVER_MAX {
        return Ok(false);
    }
    let some = bucket_reader::single(connection, series, over, OVER_STEP)?;
    chunks::overlay(connection, series, &Block::from(some.as_slice()))?;
    take(connection, series, &some).map(|()| true)
}

/// Deletes single buckets that were stored in a chunk.
fn take(connection: &Connection, series: SeriesId, buckets: &[Bucket]) -> Result<()> {
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return Ok(()) };
    let span = Span { first: first.timestamp, last: last.timestamp };
    delete_single(connection, series, span)
}
