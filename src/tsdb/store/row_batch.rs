//! What a scan hands out batch by batch, and which batches never change.

use std::ops::ControlFlow;

use model::block::Rows;

use super::Result;
use crate::span::Span;

/// Identifies a sealed chunk, whose rows never change: the same id stands for the same rows of the
/// same dataset, in the same order, with the same numbers and creation times, also after the store was
/// opened again.
///
/// Columns that were added to the dataset later are not in the rows: a cache of what is made of a
/// chunk needs the dataset's columns in its key, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId {
    /// The life of the store: another one after it was restored from a copy.
    pub era: i64,
    /// The chunk's number, which is never given twice.
    pub number: i64,
}

/// A run of rows or buckets, read on demand.
#[derive(derive_more::Debug)]
pub struct RowBatch<'a> {
    /// The id of a sealed chunk that lies within the span of the scan as a whole; `None` for rows that
    /// may change, for the part of a chunk at an end of the span, and for buckets.
    ///
    /// A chunk under late rows has no id until they are merged into it, and another one after that.
    /// Packing a chunk changes neither its rows nor its id. One that goes to an object, or comes back, has
    /// another id from then on.
    pub chunk_id: Option<ChunkId>,
    /// How many rows it has, at least one.
    pub n_rows: usize,
    /// Timestamps of its first and its last row or bucket.
    pub span: Span,
    #[debug(skip)]
    rows: Box<dyn FnOnce() -> Result<Rows> + 'a>,
}

/// Receives batches in the order of their timestamps, and returns whether to go on. An error of its
/// own, or of [`RowBatch::rows`], ends the scan with it.
pub type VisitBatch<'a> = &'a mut dyn FnMut(RowBatch<'_>) -> Result<ControlFlow<()>>;

impl<'a> RowBatch<'a> {
    /// A batch whose rows are read by `rows`.
    pub(crate) fn new(
        chunk_id: Option<ChunkId>,
        n_rows: usize,
        span: Span,
        rows: impl FnOnce() -> Result<Rows> + 'a,
    ) -> Self {
        Self { chunk_id, n_rows, span, rows: Box::new(rows) }
    }

    /// A batch without an id, of rows that were read.
    pub(crate) fn of_rows(rows: Rows) -> Self {
        let first = rows.timestamp(0).unwrap_or_default();
        let last = rows.timestamp(rows.len().saturating_sub(1)).unwrap_or_default();
        let span = Span { first: first.min(last), last: first.max(last) };
        Self { chunk_id: None, n_rows: rows.len(), span, rows: Box::new(|| Ok(rows)) }
    }

    /// Reads the rows, oldest first. A batch whose rows are not read costs nothing.
    ///
    /// # Errors
    /// [`StoreError::Damaged`](super::StoreError::Damaged) if what is stored is not what was written.
    pub fn rows(self) -> Result<Rows> {
        (self.rows)()
    }
}
