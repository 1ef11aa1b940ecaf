//! In-memory index of the chunks of a series, with the number of rows before each chunk.
//!
//! The index finds a page after many skipped rows, and counts all rows, without reading a table. The
//! index is valid until a chunk of the dataset is removed. The column `layout` of the table `progress`
//! shows this to all processes. New chunks come after all other chunks and are added to the index when
//! it is used.

use std::ops::Range;
use std::sync::Arc;

use model::timestamp::Timestamp;
use rusqlite::Connection;
use task::cache::{Cache, Capacity};

use super::Result;
use super::chunks::{self, Chunk};
use super::progress::Progress;
use super::series::SeriesId;
use super::singles;
use crate::span::{Order, Span};

/// Maximum total size of the cached indexes, enough for some 400 000 chunks with 400 million rows.
/// Beyond it, the least recently used indexes are evicted. A larger index counts only half of this
/// size, since each page of its series would otherwise read it again.
const BYTES_MAX: usize = if cfg!(test) { 4096 } else { 16 << 20 };

/// Approximate size of an index without its entries.
const BYTES_EACH: usize = 256;

/// Index entries of the chunks of a series, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct ChunkIndex {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    chunk: Chunk,
    /// Number of rows in all chunks before this chunk.
    n_before: u64,
}

impl Entry {
    fn n_until(&self) -> u64 {
        self.n_before.saturating_add(to_u64(self.chunk.n))
    }
}

impl ChunkIndex {
    /// Creates an index of only the chunks that overlap a span.
    pub(super) fn read_span(connection: &Connection, series: SeriesId, span: Span) -> Result<Self> {
        let mut chunk_index = Self::default();
        chunk_index.add(connection, series, span)?;
        Ok(chunk_index)
    }

    fn add(&mut self, connection: &Connection, series: SeriesId, span: Span) -> Result<()> {
        chunks::touching(connection, series, span, Order::Ascending, &mut |chunk| {
            let n_before = self.entries.last().map_or(0, Entry::n_until);
            self.entries.push(Entry { chunk, n_before });
            Ok(true)
        })
    }

    fn end(&self) -> Option<Timestamp> {
        self.entries.last().map(|entry| entry.chunk.span.last)
    }

    /// Returns the rows of a span. Reads how many rows of the chunks at both ends lie outside of it, and
    /// which single records add rows.
    pub(super) fn within(
        &self,
        connection: &Connection,
        series: SeriesId,
        span: Span,
    ) -> Result<IndexedRows<'_>> {
        let start = self.entries.partition_point(|entry| entry.chunk.span.last < span.first);
        let end = self.entries.partition_point(|entry| entry.chunk.span.first <= span.last);
        let entries = self.entries.get(start..end).filter(|_| !span.is_empty()).unwrap_or_default();
        let rows_of = |entry: &Entry| -> Result<Range<usize>> {
            let Span { first, last } = entry.chunk.span;
            if span.first <= first && last <= span.last {
                return Ok(0..entry.chunk.n);
            }
            Ok(span.indices(&chunks::times(connection, series.dataset, entry.chunk)?))
        };
        let mut rows = 0..0;
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            rows.start = first.n_before + to_u64(rows_of(first)?.start);
            rows.end = last.n_before + to_u64(rows_of(last)?.end);
        }
        Ok(IndexedRows { entries, rows, between: singles::new_times(connection, series, span)? })
    }
}

/// Rows of a span: rows of consecutive chunks, and single records that do not replace any of them.
#[derive(Debug)]
pub(super) struct IndexedRows<'a> {
    entries: &'a [Entry],
    /// Numbers of the rows in chunks, counted from the first chunk of the index.
    rows: Range<u64>,
    /// Sorted timestamps of the single records.
    between: Vec<Timestamp>,
}

impl IndexedRows<'_> {
    /// Returns the number of rows.
    pub(super) fn n_rows(&self) -> u64 {
        self.rows.end.saturating_sub(self.rows.start).saturating_add(to_u64(self.between.len()))
    }

    /// Shortens `span` to begin, in `order`, with the last chunk that at most `skip` rows precede. Returns
    /// the shortened span and the number of rows that are still to be skipped in it.
    pub(super) fn seek(&self, span: Span, order: Order, skip: u64) -> (Span, u64) {
        let n_before = |entry: &Entry| {
            let n_single = self.between.partition_point(|time| *time < entry.chunk.span.first);
            entry.n_before.saturating_sub(self.rows.start).saturating_add(to_u64(n_single))
        };
        let n_after = |entry: &Entry| {
            let n_until = self.between.partition_point(|time| *time <= entry.chunk.span.last);
            let n_single = to_u64(self.between.len() - n_until);
            self.rows.end.saturating_sub(entry.n_until()).saturating_add(n_single)
        };
        let found = match order {
            Order::Ascending => {
                let n = self.entries.partition_point(|entry| n_before(entry) <= skip);
                self.entries.get(..n).and_then(<[_]>::last).map(|entry| {
                    let first = entry.chunk.span.first.max(span.first);
                    (Span { first, ..span }, skip - n_before(entry))
                })
            }
            Order::Descending => {
                let idx = self.entries.partition_point(|entry| n_after(entry) > skip);
                self.entries.get(idx).map(|entry| {
                    let last = entry.chunk.span.last.min(span.last);
                    (Span { last, ..span }, skip - n_after(entry))
                })
            }
        };
        found.unwrap_or((span, skip))
    }
}

pub(super) fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Recently used indexes, each with the value of `layout` for which it is valid.
#[derive(Debug)]
pub(super) struct ChunkIndexCache(Cache<SeriesId, (i64, Arc<ChunkIndex>)>);

impl Default for ChunkIndexCache {
    fn default() -> Self {
        Self(Cache::new(Capacity { n_values_max: usize::MAX, bytes_max: BYTES_MAX }))
    }
}

impl ChunkIndexCache {
    /// Returns the index of all chunks of a series in the snapshot of `connection`.
    pub(super) fn read(
        &self,
        connection: &Connection,
        series: SeriesId,
    ) -> Result<Arc<ChunkIndex>> {
        let layout = Progress::read(connection, series.dataset)?.layout;
        let end = chunks::end(connection, series)?;
        let known = self.0.get(&series).filter(|(known, _)| *known == layout);
        let mut chunk_index = known.map(|(_, chunk_index)| chunk_index).unwrap_or_default();
        if chunk_index.end() == end {
            return Ok(chunk_index);
        }
        // The cached index also has chunks of commits after the snapshot.
        if chunk_index.end() > end {
            return Ok(Arc::new(ChunkIndex::read_span(connection, series, Span::ALL)?));
        }
        let new = Span { first: chunks::fresh_from(chunk_index.end()), last: Timestamp::MAX };
        Arc::make_mut(&mut chunk_index).add(connection, series, new)?;
        let n_bytes = chunk_index.entries.capacity() * size_of::<Entry>() + BYTES_EACH;
        self.0.put(series, (layout, Arc::clone(&chunk_index)), n_bytes.min(BYTES_MAX / 2));
        Ok(chunk_index)
    }
}

#[cfg(test)]
mod tests;
