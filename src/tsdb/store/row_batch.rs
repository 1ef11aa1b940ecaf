//! Batches of a scan. A batch that never changes has an id.

use std::ops::ControlFlow;

use model::block::{Block, Rows};
use model::timestamp::Timestamp;

use super::Result;
use crate::span::Span;

/// Identity of a sealed chunk. The same id always refers to the same rows of the same dataset, in the
/// same order, with the same row numbers and creation times, even after the store is reopened.
///
/// The rows of a chunk lack columns that were added to the dataset later. A cache of data that is
/// derived from chunks must therefore include the columns of the dataset in its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId {
    /// Era of the store. A restored backup has a new era.
    pub era: i64,
    /// Number of the chunk, which is never reused.
    pub number: i64,
}

/// A batch of rows or buckets, read on demand.
#[derive(derive_more::Debug)]
pub struct RowBatch<'a> {
    /// Id of the chunk if it is sealed and lies completely within the span of the scan. `None` for
    /// buckets, for rows that can change, and for a part of a chunk at either end of the span.
    ///
    /// While late rows overlap a chunk, it has no id. Once they are merged, the chunk has a new id.
    /// Packing a chunk changes neither its rows nor its id. Archiving changes both.
    pub chunk_id: Option<ChunkId>,
    /// Number of rows in the batch, at least one.
    pub n_rows: usize,
    /// Timestamps of the first and the last row or bucket.
    pub span: Span,
    #[debug(skip)]
    rows: Box<dyn FnOnce() -> Result<Rows> + 'a>,
}

/// Visitor of the batches of a scan, in the order of their timestamps. Returns whether the scan
/// continues. The scan fails if the visitor or [`RowBatch::rows`] fails.
pub type VisitBatch<'a> = &'a mut dyn FnMut(RowBatch<'_>) -> Result<ControlFlow<()>>;

impl<'a> RowBatch<'a> {
    /// Creates a batch that reads its rows with `rows` once they are requested.
    pub(crate) fn new(
        chunk_id: Option<ChunkId>,
        n_rows: usize,
        span: Span,
        rows: impl FnOnce() -> Result<Rows> + 'a,
    ) -> Self {
        Self { chunk_id, n_rows, span, rows: Box::new(rows) }
    }

    /// Creates a batch, without an id, of rows that were already read.
    pub(crate) fn of_rows(rows: Rows) -> Self {
        let first = rows.timestamp(0).unwrap_or_default();
        let last = rows.timestamp(rows.len().saturating_sub(1)).unwrap_or_default();
        let span = Span { first: first.min(last), last: first.max(last) };
        Self { chunk_id: None, n_rows: rows.len(), span, rows: Box::new(|| Ok(rows)) }
    }

    /// Reads the rows, in ascending order. Nothing is read or decoded before this call.
    ///
    /// # Errors
    /// [`StoreError::Damaged`](super::StoreError::Damaged) if the chunk is damaged.
    pub fn rows(self) -> Result<Rows> {
        (self.rows)()
    }
}

/// Adds the rows with numbers above `after` to `found`, except those at the timestamps `replaced`, which
/// are sorted. Beyond four times `limit`, retains the rows with the lowest numbers: one more than `limit`,
/// to find out if more rows follow.
pub(crate) fn add_newer(
    found: &mut Block,
    rows: &Block,
    after: i64,
    replaced: &[Timestamp],
    limit: usize,
) {
    for (row_idx, (number, time)) in rows.ids.iter().zip(&rows.times).enumerate() {
        if *number > after && replaced.binary_search(time).is_err() {
            found.extend_from(rows, row_idx..row_idx + 1);
        }
    }
    if found.len() > limit.saturating_mul(4) {
        *found = lowest_rows(found, limit.saturating_add(1));
    }
}

/// Returns the rows with the lowest row numbers, at most `limit`, sorted by row number.
pub(crate) fn lowest_rows(rows: &Block, limit: usize) -> Block {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row_idx| rows.ids.get(*row_idx).copied());
    let mut lowest = rows.empty_like();
    for row_idx in order.into_iter().take(limit) {
        lowest.extend_from(rows, row_idx..row_idx + 1);
    }
    lowest
}
