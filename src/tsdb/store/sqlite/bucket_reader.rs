//! Reads stored buckets, and computes buckets of other resolutions from stored buckets.

use std::ops::ControlFlow;

use model::block::{Block, Rows, Series};
use model::resolution::Resolution;
use model::row::Bucket;
use rusqlite::Connection;

use super::Result;
use super::chunk_index::ChunkIndexCache;
use super::scan::{self, Scan};
use super::series::{KEPT, SeriesId};
use crate::span::{Order, Span};
use crate::store::PageRead;
use crate::store::computed::Computed;
use crate::store::row_batch::{RowBatch, VisitBatch};

/// Reads the stored buckets of a span.
pub(super) fn read(connection: &Connection, series: SeriesId, span: Span) -> Result<Vec<Bucket>> {
    let read = PageRead::raw(span, Order::Ascending, usize::MAX);
    Ok(buckets_of(&scan::page(connection, series, &read)?))
}

/// Reads a page of rows or buckets, and counts all of the span if `read` requests it.
pub(super) fn page(
    connection: &Connection,
    series: SeriesId,
    read: &PageRead,
    chunk_indexes: &ChunkIndexCache,
) -> Result<(Option<u64>, Rows)> {
    if let Some(source) = source(series) {
        let page = |buckets: Computed<'_>| buckets.page(read);
        let (count, page) = computed(connection, series.resolution, source, chunk_indexes, page)?;
        return Ok((count, Rows::Buckets(page)));
    }
    let (count, block) = scan::counted_page(connection, series, read, chunk_indexes)?;
    let rows = match series.resolution {
        Resolution::Raw => Rows::Raw(block),
        _ => Rows::Buckets(buckets_of(&block)),
    };
    Ok((count, rows))
}

/// Passes the buckets of a span to `visit`, in ascending order and in batches.
pub(super) fn batches(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    chunk_indexes: &ChunkIndexCache,
    visit: VisitBatch<'_>,
) -> Result<()> {
    if let Some(source) = source(series) {
        let resolution = series.resolution;
        return computed(connection, resolution, source, chunk_indexes, |buckets| {
            buckets.scan(span, visit)
        });
    }
    let empty = scan::empty(connection, series)?;
    Scan::all(series, span, empty).batches(connection, &mut |batch| {
        let Rows::Raw(block) = batch.rows()? else { return Ok(ControlFlow::Continue(())) };
        visit(RowBatch::of_rows(Rows::Buckets(buckets_of(&block))))
    })
}

/// Calls `read` with the buckets of `resolution`, which are computed from the stored buckets of `source`.
fn computed<T>(
    connection: &Connection,
    resolution: Resolution,
    source: SeriesId,
    chunk_indexes: &ChunkIndexCache,
    read: impl FnOnce(Computed<'_>) -> Result<T>,
) -> Result<T> {
    let nth_row = &|span, order, skip| {
        let read = PageRead { skip, ..PageRead::raw(span, order, 1) };
        let (_, block) = scan::counted_page(connection, source, &read, chunk_indexes)?;
        Ok(block.times.first().copied())
    };
    let scan_rows =
        &|span, visit: VisitBatch<'_>| batches(connection, source, span, chunk_indexes, visit);
    read(Computed { resolution, fold: None, n_rows_max: u64::MAX, nth_row, scan_rows })
}

/// Returns the series from which the buckets of a series are computed, or `None` if they are stored.
fn source(SeriesId { dataset, resolution }: SeriesId) -> Option<SeriesId> {
    let finer = resolution.source().filter(|_| !KEPT.contains(&resolution))?;
    Some(SeriesId { dataset, resolution: finer })
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
