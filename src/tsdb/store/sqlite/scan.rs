//! Reads chunks merged with single rows, which replace or complement the rows of chunks, in either
//! order. Single rows are the tail for raw rows, and single buckets for buckets.

use std::iter::Peekable;
use std::ops::{ControlFlow, Range};

use model::block::{Block, Rows};
use model::dataset::DatasetId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::chunk_index::{ChunkIndex, to_u64};
use super::chunks::{self, Chunk};
use super::series::SeriesId;
use super::tables::next_if;
use super::tail::{self, TailRow};
use super::{Result, catalog, progress};
use crate::codec::decode_rows;
use crate::span::{Order, Span};
use crate::store::row_batch::{ChunkId, RowBatch, VisitBatch};
use crate::store::{PAGE_TEXT_BYTES_MAX, PageRead};

/// Maximum number of rows in a batch.
const BATCH_ROWS: usize = 1024;

/// Passes all rows of a span to `visit`, in ascending order and in batches.
pub(super) fn batches(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    era: i64,
    visit: VisitBatch<'_>,
) -> Result<()> {
    let empty = empty(connection, dataset)?;
    let all = PageRead::raw(span, Order::Ascending, usize::MAX);
    let out = ScanOutput::new(&all, Some(era), visit);
    walk_rows(connection, dataset, span, Projection::all(empty), out)
}

/// Sorted timestamps to look up, and the output for those that chunks contain.
pub(super) type Sought<'a> = (&'a [Timestamp], &'a mut Vec<Timestamp>);

/// Parts of each row that a scan reads.
pub(super) struct Projection<'a> {
    /// A block without rows, with the columns of the dataset.
    pub(super) empty: Block,
    /// Positions of the columns to read; `None` reads all columns.
    pub(super) columns: Option<&'a [usize]>,
    /// Timestamps to look up in the chunks that the scan reads.
    pub(super) sought: Option<Sought<'a>>,
}

impl Projection<'_> {
    pub(super) const fn all(empty: Block) -> Self {
        Self { empty, columns: None, sought: None }
    }
}

/// Passes all rows of a span to `visit`, in ascending order and in blocks.
pub(super) fn blocks(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    projection: Projection<'_>,
    visit: &mut dyn FnMut(Block),
) -> Result<()> {
    let visit = &mut |batch: RowBatch<'_>| {
        if let Rows::Raw(block) = batch.rows()? {
            visit(block);
        }
        Ok(ControlFlow::Continue(()))
    };
    let out = ScanOutput::new(&PageRead::raw(span, Order::Ascending, usize::MAX), None, visit);
    walk_rows(connection, dataset, span, projection, out)
}

/// Reads a page of rows, with not many more than [`PAGE_TEXT_BYTES_MAX`] bytes of text.
pub(super) fn page(connection: &Connection, dataset: DatasetId, read: &PageRead) -> Result<Block> {
    let empty = empty(connection, dataset)?;
    let mut page = empty.clone();
    let mut n_bytes = 0;
    let visit = &mut |batch: RowBatch<'_>| {
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
    };
    if read.limit > 0 {
        let out = ScanOutput::new(read, None, visit);
        walk_rows(connection, dataset, read.span, Projection::all(empty), out)?;
    }
    Ok(page)
}

/// Reads a page like [`page`] and counts all rows of the span. `chunk_index` must contain all chunks
/// that overlap the span.
pub(super) fn counted_page(
    connection: &Connection,
    dataset: DatasetId,
    read: &PageRead,
    chunk_index: &ChunkIndex,
) -> Result<(u64, Block)> {
    let between = tail::new_timestamps(connection, dataset, read.span)?;
    let places = chunk_index.within(connection, dataset, read.span)?;
    let n_rows = places.n_rows().saturating_add(to_u64(between.len()));
    let (span, skip) = places.seek(read.span, read.order, read.skip, &between);
    Ok((n_rows, page(connection, dataset, &PageRead { span, skip, ..*read })?))
}

/// Returns the number of rows of a span.
pub(super) fn count(connection: &Connection, dataset: DatasetId, span: Span) -> Result<u64> {
    let chunk_index = ChunkIndex::read_span(connection, SeriesId::rows(dataset), span)?;
    let in_chunks = chunk_index.within(connection, dataset, span)?.n_rows();
    let between = tail::new_timestamps(connection, dataset, span)?;
    Ok(in_chunks.saturating_add(to_u64(between.len())))
}

/// Returns a block without rows that has the columns of the dataset. Fails for a deleted dataset: its
/// remaining rows cannot be decoded, since its columns are gone.
pub(super) fn empty(connection: &Connection, dataset: DatasetId) -> Result<Block> {
    let dtypes = catalog::dtypes(connection, dataset)?;
    if dtypes.is_empty() {
        progress::revision(connection, dataset)?;
    }
    Ok(Block::new(&dtypes))
}

/// Destination of a scan. Skips the first rows, then passes a limited number of rows to a visitor.
pub(super) struct ScanOutput<'a> {
    order: Order,
    skip: usize,
    /// Number of rows that are still to be passed on.
    left: usize,
    /// Era for the ids of chunks; `None` for batches without ids.
    era: Option<i64>,
    visit: VisitBatch<'a>,
}

impl<'a> ScanOutput<'a> {
    pub(super) fn new(read: &PageRead, era: Option<i64>, visit: VisitBatch<'a>) -> Self {
        let skip = usize::try_from(read.skip).unwrap_or(usize::MAX);
        Self { order: read.order, skip, left: read.limit, era, visit }
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

    /// Counts `n` rows, of which `taken` were passed to the visitor. Returns false if the limit is
    /// reached.
    fn passed(&mut self, n: usize, taken: usize) -> bool {
        self.skip -= self.skip.min(n);
        self.left -= taken;
        self.left > 0
    }

    /// Passes all rows of `block` to the visitor. The block must be in ascending order. Returns false if
    /// the visitor stops the scan.
    fn emit(&mut self, mut block: Block) -> Result<bool> {
        if block.is_empty() {
            return Ok(true);
        }
        if self.order == Order::Descending {
            block.reverse();
        }
        Ok((self.visit)(RowBatch::of_rows(Rows::Raw(block)))?.is_continue())
    }

    /// Passes the rows of `block` that are neither skipped nor beyond the limit to the visitor. The block
    /// must be in ascending order. Returns false if the scan is over.
    fn emit_wanted(&mut self, block: Block) -> Result<bool> {
        let n = block.len();
        let wanted = self.wanted(n);
        let taken = wanted.len();
        let part = if taken == n { block } else { block.part(wanted) };
        Ok(self.emit(part)? & self.passed(n, taken))
    }
}

/// A row or bucket that is not in a chunk.
pub(super) trait SingleRow: Sized {
    fn time(&self) -> Timestamp;

    /// Returns true if a chunk has a row at the same timestamp, or `None` if this is unknown.
    fn replaces(&self) -> Option<bool>;

    /// Converts rows to a block with the columns of `empty`.
    fn to_block(rows: &[Self], dataset: DatasetId, empty: &Block) -> Result<Block>;
}

impl SingleRow for TailRow {
    fn time(&self) -> Timestamp {
        self.time
    }

    fn replaces(&self) -> Option<bool> {
        Some(self.replaces)
    }

    fn to_block(rows: &[Self], dataset: DatasetId, empty: &Block) -> Result<Block> {
        let mut block = empty.clone();
        for row in rows {
            row.read_into(dataset, &mut block)?;
        }
        Ok(block)
    }
}

impl SingleRow for Bucket {
    fn time(&self) -> Timestamp {
        self.timestamp
    }

    fn replaces(&self) -> Option<bool> {
        None
    }

    fn to_block(rows: &[Self], _: DatasetId, _: &Block) -> Result<Block> {
        Ok(rows.into())
    }
}

struct Walker<'a, 'o, I: Iterator> {
    connection: &'a Connection,
    series: SeriesId,
    span: Span,
    projection: Projection<'a>,
    singles: Peekable<I>,
    out: ScanOutput<'o>,
}

fn walk_rows(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    projection: Projection<'_>,
    out: ScanOutput<'_>,
) -> Result<()> {
    let mut statement = tail::statement(connection, out.order)?;
    let tail = tail::open(&mut statement, dataset, span)?;
    walk(connection, SeriesId::rows(dataset), span, tail, projection, out)
}

/// Passes the rows of a span to `out`. `singles` are the rows that are not in chunks, in the order of
/// `out`. A single row replaces the row of a chunk at the same timestamp.
pub(super) fn walk<S: SingleRow>(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    singles: impl Iterator<Item = rusqlite::Result<S>>,
    projection: Projection<'_>,
    out: ScanOutput<'_>,
) -> Result<()> {
    if span.is_empty() {
        return Ok(());
    }
    let (order, singles) = (out.order, singles.peekable());
    let mut walker = Walker { connection, series, span, projection, singles, out };
    let mut is_open = true;
    chunks::touching(connection, series, span, order, &mut |chunk| {
        is_open = walker.chunk(chunk)?;
        Ok(is_open)
    })?;
    if is_open {
        walker.singles_while(|_| true)?;
    }
    Ok(())
}

impl<S: SingleRow, I: Iterator<Item = rusqlite::Result<S>>> Walker<'_, '_, I> {
    /// Passes on a chunk, with the single rows before and within it. Returns false if the scan is over.
    fn chunk(&mut self, chunk: Chunk) -> Result<bool> {
        let Span { first, last } = chunk.span;
        let order = self.out.order;
        let is_before = |time: Timestamp| match order {
            Order::Ascending => time < first,
            Order::Descending => time > last,
        };
        if !self.singles_while(|row| is_before(row.time()))? {
            return Ok(false);
        }
        let mut over: Vec<S> = Vec::new();
        while let Some(row) =
            next_if(&mut self.singles, |row: &S| (first..=last).contains(&row.time()))?
        {
            over.push(row);
        }
        let is_whole = self.span.first <= first && last <= self.span.last;
        let n_new = over.iter().map(|row| row.replaces().map(|replaces| usize::from(!replaces)));
        let n_rows = n_new.sum::<Option<usize>>().map(|n_new| chunk.n + n_new);
        if let Some(n_rows) = n_rows.filter(|n_rows| is_whole && self.out.skip >= *n_rows) {
            return Ok(self.out.passed(n_rows, 0));
        }
        if is_whole && over.is_empty() && self.out.era.is_some() {
            return self.sealed(chunk);
        }
        let (under, n_within) = self.within(chunk, over.is_empty())?;
        if over.is_empty() {
            let taken = under.len();
            return Ok(self.out.emit(under)? & self.out.passed(n_within, taken));
        }
        let over = self.block_of(&over)?;
        self.out.emit_wanted(under.merge(&over))
    }

    /// Reads the rows of a chunk within the span. If `is_wanted_only`, reads only rows that are neither
    /// skipped nor beyond the limit. Returns the rows, and the number of all rows of the chunk within
    /// the span.
    fn within(&mut self, chunk: Chunk, is_wanted_only: bool) -> Result<(Block, usize)> {
        let Self { connection, series, span, projection, out, .. } = self;
        let Projection { empty, columns, sought } = projection;
        chunks::open(connection, series.dataset, chunk, |timestamps, body| {
            let within = chunks::within(timestamps, *span);
            if let Some((sought, found)) = sought {
                let first = span.first.max(chunk.span.first);
                let last = span.last.min(chunk.span.last);
                let from = sought.partition_point(|timestamp| *timestamp < first);
                let here = sought.get(from..).unwrap_or_default().iter();
                let here = here.take_while(|timestamp| **timestamp <= last);
                found.extend(here.filter(|timestamp| timestamps.binary_search(timestamp).is_ok()));
            }
            let n_within = within.len();
            let wanted_rows = if is_wanted_only { out.wanted(n_within) } else { 0..n_within };
            let rows = within.start + wanted_rows.start..within.start + wanted_rows.end;
            let mut block = empty.clone();
            if !rows.is_empty() {
                decode_rows(&mut block, timestamps, body, rows, *columns)?;
            }
            Ok((block, n_within))
        })
    }

    /// Passes on a complete chunk that no single rows overlap. Returns false if the visitor stops the
    /// scan.
    fn sealed(&mut self, chunk: Chunk) -> Result<bool> {
        let chunk_id = self.out.era.map(|era| ChunkId { era, number: chunk.id });
        let (connection, series, empty) = (self.connection, self.series, &self.projection.empty);
        let batch = RowBatch::new(chunk_id, chunk.n, chunk.span, || {
            chunks::read(connection, series, chunk, empty.clone()).map(Rows::Raw)
        });
        Ok((self.out.visit)(batch)?.is_continue())
    }

    /// Passes the next rows that are not in chunks to the visitor, and stops before the first row that
    /// `is_wanted` rejects. Returns false if the scan is over.
    fn singles_while(&mut self, is_wanted: impl Fn(&S) -> bool) -> Result<bool> {
        loop {
            let piece_rows = BATCH_ROWS.min(self.out.skip.saturating_add(self.out.left));
            let mut batch = Vec::new();
            while batch.len() < piece_rows
                && let Some(row) = next_if(&mut self.singles, &is_wanted)?
            {
                batch.push(row);
            }
            if batch.is_empty() {
                return Ok(true);
            }
            let block = self.block_of(&batch)?;
            if !self.out.emit_wanted(block)? {
                return Ok(false);
            }
        }
    }

    /// Converts rows, which are in the order of the scan, to a block in ascending order.
    fn block_of(&self, rows: &[S]) -> Result<Block> {
        let mut block = S::to_block(rows, self.series.dataset, &self.projection.empty)?;
        if self.out.order == Order::Descending {
            block.reverse();
        }
        Ok(block)
    }
}
