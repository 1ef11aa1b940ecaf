//! Updates buckets after rows changed.
//!
//! A changed bucket is computed again: a bucket of five minutes from its rows in the order of their
//! timestamps, a longer bucket from shorter buckets. Only rows that come after all other rows are added
//! to the stored last bucket, since this gives the same result. The resolutions in [`KEPT`] are stored.
//! Other resolutions are computed during a read, each bucket from three or four stored buckets.
//!
//! Changed buckets and small numbers of new buckets are stored as single records, many new buckets as a
//! chunk. [`settle`] moves single records to chunks.

use std::slice;

use model::block::Block;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::chunks::{self, CHUNK_ROWS};
use super::rebuild_buckets::{self, BucketRebuild};
use super::series::{KEPT, SETTLED, SeriesId, micros, span};
use super::{Result, bucket_reader, scan, singles};
use crate::rollup::{Fold, Refolded, bucket_at, coarsen, coarsen_changed, starts_of};
use crate::span::{Span, just_before};

/// Minimum number of new buckets in an append for which the preceding single buckets are read, to store
/// both together as a chunk of at least [`NEW_CHUNK_MIN`] buckets.
const NEW_MIN: usize = 16;

/// Minimum number of new buckets that are stored as a chunk. Single records take twenty times as long to
/// write.
const NEW_CHUNK_MIN: usize = 64;

/// Maximum distance between two changed buckets of five minutes for which one read covers both, in
/// buckets.
const GAP_MAX: i64 = 12;

/// Maximum distance between two changed hours for which one read covers both, in hours.
const LONGER_GAP_MAX: i64 = 4;

/// Maximum distance between two longer buckets for which one read of shorter buckets covers both, in
/// shorter buckets. Skipping this many takes as long as reading another chunk.
const FINER_GAP_MAX: i64 = 256;

/// Number of longer buckets for each additional thread that computes them.
const LONGER_PER_THREAD: usize = 384;

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
        let before = just_before(first.timestamp);
        let fresh = Span {
            first: chunks::fresh_from(chunks::end(connection, series)?),
            last: just_before(last.timestamp),
        };
        let n_before = singles::count(connection, series, Span { last: before, ..fresh })?;
        // `settle` handles longer runs. If the first new bucket replaces a bucket of a chunk, all new
        // buckets are stored as single records.
        let is_short = n_before < CHUNK_ROWS && n_before + closed.len() >= NEW_CHUNK_MIN;
        if is_short && fresh.first <= first.timestamp {
            let empty = scan::empty(connection, series)?;
            let run = singles::take(connection, series, fresh, usize::MAX, empty)?;
            chunks::append(connection, series, &run.merge(&Block::from(closed)))?;
            single = slice::from_ref(last);
        }
    }
    singles::put_buckets(connection, series, single)
}

/// Buckets that a write changes, computed before its rows are stored.
#[derive(Debug, Default)]
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
    let Some(first) = longer_starts.first() else { return Ok(Touched::default()) };
    let chunk = chunks::ending_from(connection, SeriesId::rows(dataset), *first)?;
    let is_sparse = |chunk: chunks::Chunk| {
        let length = chunk.span.last.micros().saturating_sub(chunk.span.first.micros());
        length >= micros(longer)
    };
    // `beneath` has archived rows only for the changed buckets of five minutes, not for the whole hour.
    let is_longer = beneath.is_none()
        && chunk.is_some_and(is_sparse)
        && kept_from.is_none_or(|kept_from| kept_from <= *first);
    let rebuild = BucketRebuild::new(connection, dataset, fold, Some(rows), beneath)?;
    refold(connection, &rebuild, &starts, &rows.times, is_longer)
}

/// Computes the buckets of five minutes that begin at `starts`, and all longer buckets that contain
/// `times`. If `is_longer`, computes the hours of `starts` from rows, and these must be all the hours.
fn refold(
    connection: &Connection,
    rebuild: &BucketRebuild<'_>,
    starts: &[Timestamp],
    times: &[Timestamp],
    is_longer: bool,
) -> Result<Touched> {
    let [finest, longer, ..] = KEPT;
    let (unit, gap_max) = if is_longer { (longer, LONGER_GAP_MAX) } else { (finest, GAP_MAX) };
    let units = starts_of(unit, starts.iter().copied());
    let (found, held) = rebuild.runs(connection, unit, &units, gap_max)?;
    let pick = |buckets: &[Bucket], starts: &[Timestamp]| -> Refolded {
        starts.iter().map(|start| (*start, bucket_at(buckets, *start))).collect()
    };
    let mut folded = vec![pick(&found, starts)];
    if is_longer {
        folded.push(pick(&coarsen(&found, longer), &units));
    }
    for pair in KEPT.windows(2).skip(folded.len() - 1) {
        let ([finer, resolution], Some(changed)) = (pair, folded.last()) else { continue };
        let finer = SeriesId { dataset: rebuild.dataset, resolution: *finer };
        folded.push(coarsened(connection, finer, *resolution, changed, times)?);
    }
    Ok(Touched { folded, held })
}

impl Touched {
    /// Stores the changed buckets. Must be called after the rows were stored.
    pub(super) fn put(&self, connection: &Connection, dataset: DatasetId) -> Result<()> {
        for (resolution, folded) in KEPT.into_iter().zip(&self.folded) {
            let series = SeriesId { dataset, resolution };
            let buckets = folded.iter().filter_map(|(_, bucket)| bucket.as_ref());
            singles::put_buckets(connection, series, buckets)?;
            for (start, _) in folded.iter().filter(|(_, bucket)| bucket.is_none()) {
                remove(connection, series, Span { first: *start, last: *start })?;
            }
        }
        Ok(())
    }
}

/// Computes the buckets of `resolution` that contain `times`. Uses the `changed` buckets of the finer
/// resolution, in which `None` is a removed bucket, and otherwise the stored buckets.
fn coarsened(
    connection: &Connection,
    finer: SeriesId,
    resolution: Resolution,
    changed: &[(Timestamp, Option<Bucket>)],
    times: &[Timestamp],
) -> Result<Refolded> {
    let starts = starts_of(resolution, times.iter().copied());
    let gap_micros = FINER_GAP_MAX * micros(finer.resolution);
    let read = |connection: &Connection, starts: &[Timestamp]| {
        let mut folded = Refolded::new();
        for run in starts.chunk_by(|a, b| b.micros() - a.micros() <= gap_micros) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let whole = Span { first: *first, last: span(resolution, *last).last };
            let stored = bucket_reader::read(connection, finer, whole)?;
            let from = changed.partition_point(|(start, _)| *start < whole.first);
            let to = changed.partition_point(|(start, _)| *start <= whole.last);
            let changed = changed.get(from..to).unwrap_or_default();
            folded.extend(coarsen_changed(&stored, changed, run, resolution));
        }
        Ok(folded)
    };
    let dataset = finer.dataset;
    let folded = rebuild_buckets::shared(connection, dataset, &starts, LONGER_PER_THREAD, read)?;
    Ok(folded.concat())
}

/// Updates buckets after the rows of a span were removed: deletes the buckets within the span and
/// computes the buckets at both ends again. Buckets of pruned rows, before `kept_from`, remain unless
/// the span covers them completely. `beneath` has the archived rows that remain in the buckets at both
/// ends.
pub(super) fn cut(
    connection: &Connection,
    dataset: DatasetId,
    fold: Fold,
    removed: Span,
    kept_from: Option<Timestamp>,
    beneath: Option<&Block>,
) -> Result<()> {
    for resolution in KEPT {
        let last = Timestamp::from_micros(removed.last.micros() - (micros(resolution) - 1));
        if removed.first <= last {
            remove(connection, SeriesId { dataset, resolution }, Span { last, ..removed })?;
        }
    }
    let [finest, ..] = KEPT;
    let ends = [removed.first, removed.last];
    let mut starts = starts_of(finest, ends);
    starts.retain(|start| kept_from.is_none_or(|kept_from| kept_from <= *start));
    let rebuild = BucketRebuild::new(connection, dataset, fold, None, beneath)?;
    refold(connection, &rebuild, &starts, &ends, false)?.put(connection, dataset)
}

/// Removes the buckets that start within a span.
fn remove(connection: &Connection, series: SeriesId, span: Span) -> Result<()> {
    singles::remove(connection, series, span)?;
    chunks::cut(connection, series, span, &scan::empty(connection, series)?)
}

/// Does one step of maintenance: turns single buckets before `before` into a chunk, joins short chunks,
/// or merges some single buckets into their chunks.
pub(super) fn settle(connection: &Connection, series: SeriesId, before: Timestamp) -> Result<()> {
    let end = chunks::end(connection, series)?;
    let empty = scan::empty(connection, series)?;
    let fresh = Span { first: chunks::fresh_from(end), last: just_before(before) };
    if singles::count(connection, series, fresh)? >= CHUNK_ROWS {
        let run = singles::take(connection, series, fresh, CHUNK_ROWS, empty)?;
        return chunks::insert_all(connection, series, &run, false);
    }
    let mut n = 0;
    let new = chunks::new_before(connection, series, before)?;
    if let Some(last) = new.iter().position(|chunk| {
        n += chunk.n;
        n >= CHUNK_ROWS
    }) {
        let oldest = new.get(..=last).unwrap_or_default();
        return chunks::join(connection, series, oldest, empty);
    }
    let over = Span { first: Timestamp::MIN, last: end.unwrap_or(Timestamp::MIN) };
    if singles::count(connection, series, over)? >= OVER_MAX {
        let some = singles::take(connection, series, over, OVER_STEP, empty)?;
        chunks::overlay(connection, series, &some)?;
    }
    Ok(())
}
