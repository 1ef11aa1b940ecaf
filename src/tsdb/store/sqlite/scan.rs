//! Reads the rows or the stored buckets of a series, in either order: chunks merged with single records,
//! which replace or complement the rows of chunks.

use std::ops::{ControlFlow, Range};

use model::block::{Block, Rows};
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::chunk_index::{ChunkIndex, ChunkIndexCache};
use super::chunks::{self, Chunk};
use super::series::SeriesId;
use super::singles::{self, Singles};
use super::{Result, catalog, progress};
use crate::codec::decode_rows;
use crate::span::{Order, Span};
use crate::store::row_batch::{ChunkId, RowBatch, VisitBatch};
use crate::store::{Count, PAGE_TEXT_BYTES_MAX, PageRead};

/// Maximum number of single records in a batch.
const BATCH_ROWS: usize = 1024;

/// Returns a block without rows that has the columns of the series. Fails for a deleted dataset: its
/// remaining rows cannot be decoded, since its columns are gone.
pub(super) fn empty(connection: &Connection, series: SeriesId) -> Result<Block> {
    if series.resolution != Resolution::Raw {
        return Ok(Block::from([].as_slice()));
    }
    let dtypes = catalog::dtypes(connection, series.dataset)?;
    if dtypes.is_empty() {
        progress::revision(connection, series.dataset)?;
    }
    Ok(Block::new(&dtypes))
}

/// Reads a page, with not many more than [`PAGE_TEXT_BYTES_MAX`] bytes of text.
pub(super) fn page(connection: &Connection, series: SeriesId, read: &PageRead) -> Result<Block> {
    let empty = empty(connection, series)?;
    let mut page = empty.clone();
    let mut n_bytes = 0;
    let skip = usize::try_from(read.skip).unwrap_or(usize::MAX);
    let all = Scan::all(series, read.span, empty);
    Scan { order: read.order, skip, left: read.limit, ..all }.batches(
        connection,
        &mut |batch| {
            if let Rows::Raw(block) = batch.rows()? {
                n_bytes += block.text_bytes();
                if page.is_empty() {
                    page = block;
                } else {
                    page.extend_from(&block, 0..block.len());
                }
            }
            let is_full = n_bytes > PAGE_TEXT_BYTES_MAX;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        },
    )?;
    Ok(page)
}

/// Reads a page like [`page`], and counts all rows of the span if `read` requests it.
pub(super) fn counted_page(
    connection: &Connection,
    series: SeriesId,
    read: &PageRead,
    chunk_indexes: &ChunkIndexCache,
) -> Result<(Option<u64>, Block)> {
    let is_counted = read.count == Count::All;
    if !is_counted && read.skip == 0 {
        return Ok((None, page(connection, series, read)?));
    }
    let chunk_index = chunk_indexes.read(connection, series)?;
    let places = chunk_index.within(connection, series, read.span)?;
    let n_rows = is_counted.then_some(places.n_rows());
    let (span, skip) = places.seek(read.span, read.order, read.skip);
    Ok((n_rows, page(connection, series, &PageRead { span, skip, ..*read })?))
}

/// Returns the number of rows of a span.
pub(super) fn count(connection: &Connection, series: SeriesId, span: Span) -> Result<u64> {
    let chunk_index = ChunkIndex::read_span(connection, series, span)?;
    Ok(chunk_index.within(connection, series, span)?.n_rows())
}

/// Sorted timestamps to look up, and the output for those that chunks contain.
pub(super) type Sought<'a> = (&'a [Timestamp], &'a mut Vec<Timestamp>);

/// A scan of the rows of a series.
pub(super) struct Scan<'a> {
    pub(super) series: SeriesId,
    pub(super) span: Span,
    pub(super) order: Order,
    /// Number of rows that are still to be skipped.
    pub(super) skip: usize,
    /// Number of rows that are still to be passed to the visitor.
    pub(super) left: usize,
    /// A block without rows, with the columns of the series.
    pub(super) empty: Block,
    /// Positions of the columns to read; `None` reads all columns.
    pub(super) columns: Option<&'a [usize]>,
    /// Timestamps to look up in the chunks that the scan reads.
    pub(super) sought: Option<Sought<'a>>,
    /// Era for the ids of chunks; `None` for batches without ids.
    pub(super) era: Option<i64>,
}

impl Scan<'_> {
    /// Creates a scan of all rows of a span, in ascending order. `empty` is a block without rows, with
    /// the columns of the series.
    pub(super) const fn all(series: SeriesId, span: Span, empty: Block) -> Self {
        let order = Order::Ascending;
        let (skip, left) = (0, usize::MAX);
        Self { series, span, order, skip, left, empty, columns: None, sought: None, era: None }
    }

    /// Passes the rows to `visit` in blocks.
    pub(super) fn blocks(
        self,
        connection: &Connection,
        visit: &mut dyn FnMut(Block),
    ) -> Result<()> {
        self.batches(connection, &mut |batch| {
            if let Rows::Raw(block) = batch.rows()? {
                visit(block);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Passes the rows to `visit` in batches.
    pub(super) fn batches(mut self, connection: &Connection, visit: VisitBatch<'_>) -> Result<()> {
        let Self { series, span, order, left, .. } = self;
        if span.is_empty() || left == 0 {
            return Ok(());
        }
        let mut statement = singles::statement(connection, series, order)?;
        let mut singles = singles::open(&mut statement, series, span)?;
        let mut is_open = true;
        chunks::touching(connection, series, span, order, &mut |chunk| {
            is_open = self.chunk(connection, chunk, &mut singles, visit)?;
            Ok(is_open)
        })?;
        if is_open {
            self.singles_while(&mut singles, |_| true, visit)?;
        }
        Ok(())
    }

    /// Returns the rows among the next `n` that are neither skipped nor beyond the limit, as a range of
    /// their indices in ascending order of time.
    fn wanted(&self, n: usize) -> Range<usize> {
        let skip = self.skip.min(n);
        let take = self.left.min(n - skip);
        match self.order {
            Order::Ascending => skip..skip + take,
            Order::Descending => n - skip - take..n - skip,
        }
    }

    /// Passes `block`, the wanted rows among the next `n` in ascending order, to the visitor. Returns
    /// false if the scan is over.
    fn emit(&mut self, mut block: Block, n: usize, visit: VisitBatch<'_>) -> Result<bool> {
        self.skip -= self.skip.min(n);
        self.left -= block.len();
        if block.is_empty() {
            return Ok(true);
        }
        if self.order == Order::Descending {
            block.reverse();
        }
        Ok(visit(RowBatch::of_rows(Rows::Raw(block)))?.is_continue() && self.left > 0)
    }

    /// Passes the wanted rows of `block`, the next rows in ascending order, to the visitor. Returns false
    /// if the scan is over.
    fn emit_wanted(&mut self, block: Block, visit: VisitBatch<'_>) -> Result<bool> {
        let n = block.len();
        let wanted = self.wanted(n);
        let part = if wanted.len() == n { block } else { block.part(wanted) };
        self.emit(part, n, visit)
    }

    /// Passes on a chunk, with the single records before and within it. Returns false if the scan is
    /// over.
    fn chunk(
        &mut self,
        connection: &Connection,
        chunk: Chunk,
        singles: &mut Singles<'_>,
        visit: VisitBatch<'_>,
    ) -> Result<bool> {
        let Span { first, last } = chunk.span;
        let order = self.order;
        let is_before = |time: Timestamp| match order {
            Order::Ascending => time < first,
            Order::Descending => time > last,
        };
        if !self.singles_while(singles, is_before, visit)? {
            return Ok(false);
        }
        let mut over = self.empty.clone();
        let is_within = |time| (first..=last).contains(&time);
        let n_rows = chunk.n + singles.read_while(&mut over, usize::MAX, is_within)?;
        if self.span.first <= first && last <= self.span.last {
            let is_known = over.is_empty() || self.series.resolution == Resolution::Raw;
            if is_known && self.skip >= n_rows {
                return self.emit(over.empty_like(), n_rows, visit);
            }
            if let Some(era) = self.era.filter(|_| over.is_empty()) {
                return self.sealed(connection, chunk, era, visit);
            }
        }
        let (under, n_within) = self.read(connection, chunk, over.is_empty())?;
        if over.is_empty() {
            return self.emit(under, n_within, visit);
        }
        if order == Order::Descending {
            over.reverse();
        }
        self.emit_wanted(under.merge(&over), visit)
    }

    /// Reads the rows of a chunk within the span. If `is_wanted_only`, reads only rows that are neither
    /// skipped nor beyond the limit. Returns the rows, and the number of all rows of the chunk within
    /// the span.
    fn read(
        &mut self,
        connection: &Connection,
        chunk: Chunk,
        is_wanted_only: bool,
    ) -> Result<(Block, usize)> {
        chunks::open(connection, self.series.dataset, chunk, |timestamps, body| {
            let within = self.span.indices(timestamps);
            if let Some((sought, found)) = &mut self.sought {
                let here = self.span.overlap(chunk.span).indices(sought);
                let here = sought.get(here).unwrap_or_default().iter();
                found.extend(here.filter(|timestamp| timestamps.binary_search(timestamp).is_ok()));
            }
            let n_within = within.len();
            let wanted = if is_wanted_only { self.wanted(n_within) } else { 0..n_within };
            let rows = within.start + wanted.start..within.start + wanted.end;
            let mut block = self.empty.clone();
            if !rows.is_empty() {
                decode_rows(&mut block, timestamps, body, rows, self.columns)?;
            }
            Ok((block, n_within))
        })
    }

    /// Passes on a complete chunk that no single records overlap. Returns false if the visitor stops the
    /// scan.
    fn sealed(
        &self,
        connection: &Connection,
        chunk: Chunk,
        era: i64,
        visit: VisitBatch<'_>,
    ) -> Result<bool> {
        let chunk_id = Some(ChunkId { era, number: chunk.id });
        let batch = RowBatch::new(chunk_id, chunk.n, chunk.span, || {
            chunks::read(connection, self.series, chunk, self.empty.clone()).map(Rows::Raw)
        });
        Ok(visit(batch)?.is_continue())
    }

    /// Passes the next single records to the visitor, and stops before the first record at a timestamp
    /// that `is_wanted` rejects. Returns false if the scan is over.
    fn singles_while(
        &mut self,
        singles: &mut Singles<'_>,
        is_wanted: impl Fn(Timestamp) -> bool,
        visit: VisitBatch<'_>,
    ) -> Result<bool> {
        loop {
            let limit = BATCH_ROWS.min(self.skip.saturating_add(self.left));
            let mut block = self.empty.clone();
            singles.read_while(&mut block, limit, &is_wanted)?;
            if block.is_empty() {
                return Ok(true);
            }
            if self.order == Order::Descending {
                block.reverse();
            }
            if !self.emit_wanted(block, visit)? {
                return Ok(false);
            }
        }
    }
}
