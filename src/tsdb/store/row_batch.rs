//! Batches of a scan and the identity of batches that never change.

use std::ops::ControlFlow;

use model::block::{Block, Rows};

use super::Result;
use crate::span::Span;

/// Identity of a sealed chunk. An id always refers to the same rows of the same dataset, in the same
/// order and with the same numbers and creation times, even after the store is reopened.
///
/// The rows lack columns that were added to the dataset later. Therefore the key of a cache of derived
/// data must include the columns of the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId {
    /// Era of the store, which changes when the store is restored from a backup.
    pub era: i64,
    /// Number of the chunk, which is never reused.
    pub number: i64,
}

/// A batch of rows or buckets, read on demand.
#[derive(derive_more::Debug)]
pub struct RowBatch<'a> {
    /// Id of a sealed chunk that lies completely within the span of the scan. `None` for buckets, for
    /// rows that may change, and for a part of a chunk at an end of the span.
    ///
    /// A chunk that late rows overlap has no id until they are merged. Then the chunk has a new id.
    /// Packing a chunk changes neither its rows nor its id. Archiving changes both.
    pub chunk_id: Option<ChunkId>,
    /// Number of rows, at least one.
    pub n_rows: usize,
    /// Timestamps of the first and the last row or bucket.
    pub span: Span,
    #[debug(skip)]
    rows: Box<dyn FnOnce() -> Result<Rows> + 'a>,
}

/// Visitor that receives batches in the order of their timestamps and returns whether to continue. The
/// scan stops if the visitor or [`RowBatch::rows`] fails.
pub type VisitBatch<'a> = &'a mut dyn FnMut(RowBatch<'_>) -> Result<ControlFlow<()>>;

impl<'a> RowBatch<'a> {
    /// Creates a batch that calls `rows` when its rows are requested.
    pub(crate) fn new(
        chunk_id: Option<ChunkId>,
        n_rows: usize,
        span: Span,
        rows: impl FnOnce() -> Result<Rows> + 'a,
    ) -> Self {
        Self { chunk_id, n_rows, span, rows: Box::new(rows) }
    }

    /// Creates a batch of rows that were already read. It has no id.
    pub(crate) fn of_rows(rows: Rows) -> Self {
        let first = rows.timestamp(0).unwrap_or_default();
        let last = rows.timestamp(rows.len().saturating_sub(1)).unwrap_or_default();
        let span = Span { first: first.min(last), last: first.max(last) };
        Self { chunk_id: None, n_rows: rows.len(), span, rows: Box::new(|| Ok(rows)) }
    }

    /// Reads the rows in ascending order. A batch costs nothing unless this is called.
    ///
    /// # Errors
    /// [`StoreError::Damaged`](super::StoreError::Damaged) if the chunk is damaged.
    pub fn rows(self) -> Result<Rows> {
        (self.rows)()
    }
}

/// Returns the rows with the lowest numbers, at most `limit`, in the order of their numbers.
pub(crate) fn lowest_rows(rows: &Block, limit: usize) -> Block {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row_idx| rows.ids.get(*row_idx).copied());
    let mut lowest = rows.empty_like();
    for row_idx in order.into_iter().take(limit) {
        lowest.extend_from(rows, row_idx..row_idx + 1);
    }
    lowest
}
