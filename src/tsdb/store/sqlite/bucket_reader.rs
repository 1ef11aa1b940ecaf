//! Reads stored buckets, and computes buckets of other resolutions from stored buckets.

use std::ops::ControlFlow;

use model::block::{Block, Rows, Series};
use model::resolution::Resolution;
use model::row::Bucket;
use rusqlite::Connection;

use super::Result;
use super::chunk_index::{ChunkIndexCache, to_u64};
use super::scan::{self, Scan};
use super::series::{self, KEPT, SeriesId};
use crate::rollup::coarsen;
use crate::span::{Order, Span};
use crate::store::row_batch::{RowBatch, VisitBatch};
use crate::store::{Count, PageRead};

/// Reads the stored buckets of a span.
pub(super) fn read(connection: &Connection, series: SeriesId, span: Span) -> Result<Vec<Bucket>> {
    let read = PageRead::raw(span, Order::Ascending, usize::MAX);
    Ok(buckets_of(&scan::page(connection, series, &read)?))
}

/// Reads a page of buckets, and counts all buckets of the span if `read` requests it.
pub(super) fn page(
    connection: &Connection,
    series: SeriesId,
    read: &PageRead,
    chunk_indexes: &ChunkIndexCache,
) -> Result<(Option<u64>, Vec<Bucket>)> {
    let PageRead { resolution, span, order, skip, limit, count } = *read;
    let Some(source) = source(series) else {
        let (count, block) = scan::counted_page(connection, series, read, chunk_indexes)?;
        return Ok((count, buckets_of(&block)));
    };
    let mut n_buckets = 0;
    if count == Count::All {
        batches(connection, series, span, &mut |batch| {
            n_buckets += to_u64(batch.n_rows);
            Ok(ControlFlow::Continue(()))
        })?;
    }
    // Each bucket is computed from at most four finer buckets. The finer buckets of the last one can be
    // incomplete.
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    let n_finer = skip.saturating_add(limit).saturating_add(1).saturating_mul(4);
    let finer = PageRead::raw(source_span(resolution, span), order, n_finer);
    let mut finer = scan::page(connection, source, &finer)?;
    let is_descending = order == Order::Descending;
    if is_descending {
        finer.reverse();
    }
    let mut buckets = coarsen(&buckets_of(&finer), resolution);
    if is_descending {
        buckets.reverse();
    }
    let page = buckets.into_iter().skip(skip).take(limit).collect();
    Ok(((count == Count::All).then_some(n_buckets), page))
}

/// Passes the buckets of a span to `visit`, in ascending order and in batches.
pub(super) fn batches(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    visit: VisitBatch<'_>,
) -> Result<()> {
    let source_of = source(series);
    let source = source_of.unwrap_or(series);
    let span = if source_of.is_some() { source_span(series.resolution, span) } else { span };
    let mut flow = ControlFlow::Continue(());
    // Bucket of the last finer bucket, which finer buckets of the next batch can extend.
    let mut last: Option<Bucket> = None;
    let mut pass = |buckets: Vec<Bucket>| {
        if buckets.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        visit(RowBatch::of_rows(Rows::Buckets(buckets)))
    };
    let empty = scan::empty(connection, source)?;
    Scan::all(source, span, empty).batches(connection, &mut |batch| {
        let Rows::Raw(block) = batch.rows()? else { return Ok(ControlFlow::Continue(())) };
        let mut buckets = buckets_of(&block);
        if source_of.is_some() {
            let finer: Vec<Bucket> = last.take().into_iter().chain(buckets).collect();
            buckets = coarsen(&finer, series.resolution);
            last = buckets.pop();
        }
        flow = pass(buckets)?;
        Ok(flow)
    })?;
    if flow.is_continue() { pass(last.into_iter().collect()).map(drop) } else { Ok(()) }
}

/// Returns the series from which the buckets of a series are computed, or `None` if they are stored.
fn source(SeriesId { dataset, resolution }: SeriesId) -> Option<SeriesId> {
    let finer = resolution.source().filter(|_| !KEPT.contains(&resolution))?;
    Some(SeriesId { dataset, resolution: finer })
}

/// Returns the span of all timestamps in the buckets that start within `span`.
fn source_span(resolution: Resolution, span: Span) -> Span {
    let first = resolution.bucket_start(span.first);
    let first = if first < span.first { resolution.bucket_end(span.first) } else { first };
    Span { first, last: series::span(resolution, resolution.bucket_start(span.last)).last }
}

/// Returns the buckets in a block, as the inverse of [`Block::from`].
fn buckets_of(block: &Block) -> Vec<Bucket> {
    let numbers = [0, 1, 2, 3, 4].map(|place: usize| match block.columns.get(place) {
        Some(Series::Float(values)) => values.as_slice(),
        _ => &[],
    });
    let counts = match block.columns.last() {
        Some(Series::Integer(counts)) => counts.as_slice(),
        _ => &[],
    };
    let bucket = |(row_idx, time)| {
        let number = |column: &[Option<f64>]| column.get(row_idx).copied().flatten();
        let [open, high, low, close, volume] =
            numbers.each_ref().map(|column| number(column).unwrap_or_default());
        let count = counts.get(row_idx).copied().flatten().unwrap_or_default();
        let count = u64::try_from(count).unwrap_or_default();
        Bucket { timestamp: time, open, high, low, close, volume, count }
    };
    block.times.iter().copied().enumerate().map(bucket).collect()
}
