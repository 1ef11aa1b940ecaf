//! In-memory index of the chunks of a series, with the number of rows before each chunk.
//!
//! The index finds a page after many skipped rows, and counts all rows, without reading a table. The
//! index is valid until a chunk of the dataset is removed. The column `layout` of the table `progress`
//! shows this to all processes. New chunks come after all other chunks and are added to the index when
//! it is used.

use std::sync::Arc;

use model::dataset::DatasetId;
use model::timestamp::Timestamp;
use rusqlite::Connection;
use task::cache::{Cache, Capacity};

use super::Result;
use super::chunks::{self, Chunk};
use super::progress::Progress;
use super::series::SeriesId;
use crate::span::{Order, Span};

/// Maximum total size of the cached indexes, enough for some 400 000 chunks with 400 million rows.
/// Beyond it, the least recently used indexes are evicted.
const BYTES_MAX: usize = 16 << 20;

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

    /// Returns a copy of the index up to the chunk that ends at `end`.
    fn until(&self, end: Option<Timestamp>) -> Self {
        let is_there = |entry: &Entry| end.is_some_and(|end| entry.chunk.span.last <= end);
        let n = self.entries.partition_point(is_there);
        Self { entries: self.entries.get(..n).unwrap_or_default().to_vec() }
    }

    fn n_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + BYTES_EACH
    }

    /// Returns the chunks that overlap a span, and reads how many of their rows lie outside of it.
    pub(super) fn within(
        &self,
        connection: &Connection,
        dataset: DatasetId,
        span: Span,
    ) -> Result<IndexedRows<'_>> {
        let start = self.entries.partition_point(|entry| entry.chunk.span.last < span.first);
        let end = self.entries.partition_point(|entry| entry.chunk.span.first <= span.last);
        let is_any = span.first <= span.last;
        let entries = self.entries.get(start..end).filter(|_| is_any).unwrap_or_default();
        let mut places = IndexedRows { entries, n_cut_first: 0, n_cut_last: 0 };
        if let Some(Entry { chunk, .. }) = entries.first()
            && chunk.span.first < span.first
        {
            let here = chunks::within(&chunks::times(connection, dataset, *chunk)?, span);
            places.n_cut_first = to_u64(here.start);
        }
        if let Some(Entry { chunk, .. }) = entries.last()
            && chunk.span.last > span.last
        {
            let here = chunks::within(&chunks::times(connection, dataset, *chunk)?, span);
            places.n_cut_last = to_u64(chunk.n - here.end);
        }
        Ok(places)
    }
}

/// Rows of a span that are in chunks: all rows of consecutive chunks, except for the first rows of the
/// first chunk and the last rows of the last chunk.
#[derive(Debug)]
pub(super) struct IndexedRows<'a> {
    entries: &'a [Entry],
    n_cut_first: u64,
    n_cut_last: u64,
}

impl IndexedRows<'_> {
    /// Returns the number of rows.
    pub(super) fn n_rows(&self) -> u64 {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            return 0;
        };
        let n = last.n_until() - first.n_before;
        n.saturating_sub(self.n_cut_first).saturating_sub(self.n_cut_last)
    }

    /// Shortens `span` to begin, in `order`, with the last chunk that at most `skip` rows precede. Returns
    /// the shortened span and the number of rows that are still to be skipped in it. `between` has the
    /// sorted timestamps of the rows of `span` that are in no chunk.
    pub(super) fn seek(
        &self,
        span: Span,
        order: Order,
        skip: u64,
        between: &[Timestamp],
    ) -> (Span, u64) {
        let (Some((first, after_first)), Some((last, before_last))) =
            (self.entries.split_first(), self.entries.split_last())
        else {
            return (span, skip);
        };
        match order {
            Order::Ascending => {
                let n_passed = |entry: &Entry| {
                    let n = between.partition_point(|time| *time < entry.chunk.span.first);
                    let in_chunks = entry.n_before - first.n_before;
                    in_chunks.saturating_sub(self.n_cut_first).saturating_add(to_u64(n))
                };
                let n_before = after_first.partition_point(|entry| n_passed(entry) <= skip);
                let found = n_before.checked_sub(1).and_then(|idx| after_first.get(idx));
                found.map_or((span, skip), |entry| {
                    (Span { first: entry.chunk.span.first, ..span }, skip - n_passed(entry))
                })
            }
            Order::Descending => {
                let n_passed = |entry: &Entry| {
                    let n = between.partition_point(|time| *time <= entry.chunk.span.last);
                    let in_chunks = last.n_until() - entry.n_until();
                    let n = to_u64(between.len() - n);
                    in_chunks.saturating_sub(self.n_cut_last).saturating_add(n)
                };
                let idx = before_last.partition_point(|entry| n_passed(entry) > skip);
                before_last.get(idx).map_or((span, skip), |entry| {
                    (Span { last: entry.chunk.span.last, ..span }, skip - n_passed(entry))
                })
            }
        }
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
        let known = self
            .0
            .get(&series)
            .filter(|(known, _)| *known == layout)
            .map(|(_, chunk_index)| chunk_index);
        let mut chunk_index = match known {
            Some(known) if known.end() == end => return Ok(known),
            // The cached index also has chunks of commits after the snapshot.
            Some(known) if known.end() > end => return Ok(Arc::new(known.until(end))),
            Some(known) => known,
            None => Arc::default(),
        };
        let first = chunk_index.end().map_or(i64::MIN, |end| end.micros().saturating_add(1));
        let new = Span { first: Timestamp::from_micros(first), last: Timestamp::MAX };
        Arc::make_mut(&mut chunk_index).add(connection, series, new)?;
        self.0.put(series, (layout, Arc::clone(&chunk_index)), chunk_index.n_bytes());
        Ok(chunk_index)
    }
}

#[cfg(test)]
mod tests;
