//! Reads stored buckets, and computes buckets of other resolutions from stored buckets.

use std::mem;
use std::ops::ControlFlow;
use std::time::Duration;

use db::statement::Statements as _;
use model::block::{Block, Rows, Series};
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::{Connection, Row};

use super::Result;
use super::chunk_index::{ChunkIndex, ChunkIndexCache, to_u64};
use super::chunks;
use super::scan::{self, Projection, ScanOutput};
use super::series::{self, KEPT, SeriesId};
use crate::rollup::coarser;
use crate::span::{Order, Span};
use crate::store::PageRead;
use crate::store::row_batch::{RowBatch, VisitBatch};

/// Smallest difference between two timestamps.
const STEP: Duration = Duration::from_micros(1);

/// Number of buckets per batch of a scan.
const BATCH_BUCKETS: usize = 4096;

/// Returns a request for all buckets of a span.
const fn all(resolution: Resolution, span: Span) -> PageRead {
    PageRead { resolution, ..PageRead::raw(span, Order::Ascending, usize::MAX) }
}

/// Reads the buckets of a span.
pub(super) fn read(connection: &Connection, series: SeriesId, span: Span) -> Result<Vec<Bucket>> {
    page(connection, series.dataset, &all(series.resolution, span))
}

/// Reads a page of buckets.
pub(super) fn page(
    connection: &Connection,
    dataset: DatasetId,
    read: &PageRead,
) -> Result<Vec<Bucket>> {
    let mut taken = Vec::new();
    if read.limit > 0 {
        walk(connection, dataset, read, &mut |bucket| {
            taken.push(bucket);
            let is_full = taken.len() >= read.limit;
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    Ok(taken)
}

/// Returns the number of buckets of a span.
pub(super) fn count(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    chunk_indexes: &ChunkIndexCache,
) -> Result<u64> {
    if KEPT.contains(&series.resolution) {
        let chunk_index = chunk_indexes.read(connection, series)?;
        return count_stored(connection, series, span, &chunk_index);
    }
    let mut n = 0;
    walk(connection, series.dataset, &all(series.resolution, span), &mut |_| {
        n += 1;
        ControlFlow::Continue(())
    })?;
    Ok(n)
}

/// Passes the buckets of a page to `visit`. Can pass more buckets than the limit of the page.
fn walk(
    connection: &Connection,
    dataset: DatasetId,
    read: &PageRead,
    visit: &mut dyn FnMut(Bucket) -> ControlFlow<()>,
) -> Result<()> {
    let PageRead { resolution, span, order, mut skip, limit, .. } = *read;
    if KEPT.contains(&resolution) {
        return walk_stored(connection, dataset, read, visit);
    }
    let Some(finer) = resolution.source() else { return Ok(()) };
    // Each bucket is computed from at most four finer buckets.
    let n_skipped = usize::try_from(skip).unwrap_or(usize::MAX);
    let limit = n_skipped.saturating_add(limit).saturating_add(1).saturating_mul(4);
    let mut group: Vec<Bucket> = Vec::new();
    let mut flow = ControlFlow::Continue(());
    let mut emit = |group: &mut Vec<Bucket>| {
        if order == Order::Descending {
            group.reverse();
        }
        let start = group.first().map(|first| resolution.bucket_start(first.timestamp));
        match start.and_then(|start| coarser(start, group.drain(..))) {
            Some(bucket) if skip == 0 => visit(bucket),
            folded => {
                skip -= u64::from(folded.is_some());
                ControlFlow::Continue(())
            }
        }
    };
    let span = whole_buckets(resolution, span);
    let whole = PageRead { resolution: finer, span, skip: 0, limit, ..*read };
    walk_stored(connection, dataset, &whole, &mut |bucket| {
        let start = resolution.bucket_start(bucket.timestamp);
        if group.last().is_some_and(|last| resolution.bucket_start(last.timestamp) != start) {
            flow = emit(&mut group);
        }
        group.push(bucket);
        flow
    })?;
    if flow.is_continue() {
        // Emits the last group, which no later bucket completes.
        _ = emit(&mut group);
    }
    Ok(())
}

/// Passes the buckets of a span to `visit`, in ascending order and in batches.
pub(super) fn batches(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    visit: VisitBatch<'_>,
) -> Result<()> {
    let mut batch = Vec::new();
    let mut flow = Ok(ControlFlow::Continue(()));
    walk(connection, series.dataset, &all(series.resolution, span), &mut |bucket| {
        batch.push(bucket);
        if batch.len() == BATCH_BUCKETS {
            flow = visit(RowBatch::of_rows(Rows::Buckets(mem::take(&mut batch))));
        }
        if let Ok(flow) = flow { flow } else { ControlFlow::Break(()) }
    })?;
    if flow?.is_continue() && !batch.is_empty() {
        visit(RowBatch::of_rows(Rows::Buckets(batch))).map(|_| ())?;
    }
    Ok(())
}

/// Returns the span of all timestamps in the buckets that start within `span`.
fn whole_buckets(resolution: Resolution, span: Span) -> Span {
    let floor = resolution.bucket_start(span.first);
    let is_aligned = floor == span.first;
    let first = if is_aligned { floor } else { series::span(resolution, floor).last + STEP };
    Span { first, last: series::span(resolution, resolution.bucket_start(span.last)).last }
}

fn walk_stored(
    connection: &Connection,
    dataset: DatasetId,
    read: &PageRead,
    visit: &mut dyn FnMut(Bucket) -> ControlFlow<()>,
) -> Result<()> {
    let series = SeriesId { dataset, resolution: read.resolution };
    let mut statement = connection.prepare_cached(&single_sql(read.order))?;
    let (dataset, resolution, first, last) = series.within(read.span);
    let singles = statement.query_map([dataset, resolution, first, last, -1], bucket)?;
    let visit = &mut |batch: RowBatch<'_>| {
        let Rows::Raw(block) = batch.rows()? else { return Ok(ControlFlow::Continue(())) };
        Ok(buckets_of(&block).try_for_each(&mut *visit))
    };
    let projection = Projection::all(Block::from([].as_slice()));
    let out = ScanOutput::new(read, None, visit);
    scan::walk(connection, series, read.span, singles, projection, out)
}

fn count_stored(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    chunk_index: &ChunkIndex,
) -> Result<u64> {
    let n_single = count_single(connection, series, span)?;
    let Some(end) = chunks::end(connection, series)? else { return Ok(to_u64(n_single)) };
    let in_chunks = chunk_index.within(connection, series.dataset, span)?.n_rows();
    // Subtracts the single buckets that replace a bucket of a chunk, which are counted twice.
    let over = Span { first: span.first, last: span.last.min(end) };
    let over = single(connection, series, over, usize::MAX)?;
    let over: Vec<Timestamp> = over.into_iter().map(|bucket| bucket.timestamp).collect();
    let n_twice = chunks::find_times(connection, series, &over)?.len();
    Ok((in_chunks + to_u64(n_single)).saturating_sub(to_u64(n_twice)))
}

fn single_sql(order: Order) -> String {
    format!(
        "SELECT t, open, high, low, close, volume, count FROM buckets
         WHERE dataset = ?1 AND resolution = ?2 AND t BETWEEN ?3 AND ?4 ORDER BY t {} LIMIT ?5",
        series::direction(order)
    )
}

/// Reads the first single buckets of a span, at most `limit`. A single bucket is stored as its own
/// record, not in a chunk.
pub(super) fn single(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    limit: usize,
) -> Result<Vec<Bucket>> {
    let mut statement = connection.prepare_cached(&single_sql(Order::Ascending))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let (dataset, resolution, first, last) = series.within(span);
    let found = statement.query_map([dataset, resolution, first, last, limit], bucket)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Returns the number of single buckets of a span.
pub(super) fn count_single(connection: &Connection, series: SeriesId, span: Span) -> Result<usize> {
    let sql = "SELECT count(*) FROM buckets
         WHERE dataset = ?1 AND resolution = ?2 AND t BETWEEN ?3 AND ?4";
    Ok(connection.value(sql, series.within(span))?)
}

/// Returns the buckets in a block, as the inverse of [`Block::from`].
fn buckets_of(block: &Block) -> impl Iterator<Item = Bucket> + '_ {
    let numbers = [0, 1, 2, 3, 4].map(|place: usize| match block.columns.get(place) {
        Some(Series::Float(values)) => values.as_slice(),
        _ => &[],
    });
    let counts = match block.columns.last() {
        Some(Series::Integer(counts)) => counts.as_slice(),
        _ => &[],
    };
    block.times.iter().enumerate().map(move |(row_idx, time)| {
        let number = |column: &[Option<f64>]| column.get(row_idx).copied().flatten();
        let [open, high, low, close, volume] =
            numbers.each_ref().map(|column| number(column).unwrap_or_default());
        let count = counts.get(row_idx).copied().flatten().unwrap_or_default();
        let count = u64::try_from(count).unwrap_or_default();
        Bucket { timestamp: *time, open, high, low, close, volume, count }
    })
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
