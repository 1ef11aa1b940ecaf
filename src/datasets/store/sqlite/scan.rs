//! Reading raw rows: chunks and tail as one run of rows, in either order.

use std::ops::{ControlFlow, Range};

use model::{
    dataset::{DatasetId, Dtype},
    timestamp::Timestamp,
};
use rusqlite::Connection;

use super::{
    StoreError, catalog,
    chunks::{self, Chunk},
    tail::{self, Cursor, TailRow},
};
use crate::{
    block::{Block, Rows},
    query::{Order, Span},
    store::Visit,
};

/// Rows of the tail handed on in one piece.
const PIECE_ROWS: usize = 1024;

/// Shows `visit` all rows of a span in order, piece by piece.
pub(super) fn raw(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    order: Order,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let dtypes = catalog::dtypes(connection, dataset)?;
    let visit = &mut |block| visit(Rows::Raw(block));
    let out = Out { order, skip: 0, left: usize::MAX, visit };
    walk(connection, dataset, span, &dtypes, out)
}

/// Rows of a span, in order: at most `limit` after the first `skip`.
pub(super) fn page(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    order: Order,
    (skip, limit): (u64, usize),
) -> Result<Block, StoreError> {
    let dtypes = catalog::dtypes(connection, dataset)?;
    let mut page = Block::new(&dtypes);
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    let visit = &mut |block: Block| {
        page.extend_from(&block, 0..block.len());
        ControlFlow::Continue(())
    };
    if limit > 0 {
        walk(connection, dataset, span, &dtypes, Out { order, skip, left: limit, visit })?;
    }
    Ok(page)
}

/// How many rows a span has.
pub(super) fn count(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
) -> Result<u64, StoreError> {
    let in_chunks = chunks::count(connection, dataset, span)?;
    Ok(in_chunks.saturating_add(tail::count_new(connection, dataset, span)?))
}

/// Where rows go: the first ones are left out, and then so many are taken.
struct Out<'a> {
    order: Order,
    skip: usize,
    left: usize,
    visit: &'a mut dyn FnMut(Block) -> ControlFlow<()>,
}

impl Out<'_> {
    /// Which of `n` rows, that lie from the oldest to the newest, are wanted.
    fn wanted(&self, n: usize) -> Range<usize> {
        let skip = self.skip.min(n);
        let take = self.left.min(n - skip);
        match self.order {
            Order::Ascending => skip..skip + take,
            Order::Descending => n - skip - take..n - skip,
        }
    }

    /// Takes account of `n` rows, of which `taken` were handed on; whether more are wanted.
    fn passed(&mut self, n: usize, taken: usize) -> bool {
        self.skip -= self.skip.min(n);
        self.left -= taken;
        self.left > 0
    }

    /// Hands on a block of rows that are all wanted, oldest first.
    fn hand_on(&mut self, mut block: Block) -> bool {
        if block.is_empty() {
            return true;
        }
        if self.order == Order::Descending {
            block.reverse();
        }
        (self.visit)(block).is_continue()
    }

    /// Hands on what is wanted of a block, oldest first; whether more is wanted.
    fn give(&mut self, block: Block) -> bool {
        let n = block.len();
        let wanted = self.wanted(n);
        let taken = wanted.len();
        let part = if taken == n { block } else { block.part(wanted) };
        self.hand_on(part) & self.passed(n, taken)
    }
}

struct Walker<'a, 's, 'o> {
    connection: &'a Connection,
    dataset: DatasetId,
    span: Span,
    empty: Block,
    tail: Cursor<'s>,
    out: Out<'o>,
}

fn walk(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    dtypes: &[Dtype],
    out: Out<'_>,
) -> Result<(), StoreError> {
    if span.first > span.last {
        return Ok(());
    }
    let order = out.order;
    let mut statement = tail::statement(connection, order)?;
    let tail = Cursor::open(&mut statement, dataset, span)?;
    let mut walker = Walker { connection, dataset, span, empty: Block::new(dtypes), tail, out };
    let mut is_open = true;
    chunks::touching(connection, dataset, span, order, &mut |chunk| {
        is_open = walker.chunk(chunk)?;
        Ok(is_open)
    })?;
    if is_open {
        walker.tail_while(|_| true)?;
    }
    Ok(())
}

impl Walker<'_, '_, '_> {
    /// Hands on a chunk and the rows of the tail before it and within it; whether more are wanted.
    fn chunk(&mut self, chunk: Chunk) -> Result<bool, StoreError> {
        let Span { first, last } = chunk.span;
        let order = self.out.order;
        let is_before = |time: Timestamp| match order {
            Order::Ascending => time < first,
            Order::Descending => time > last,
        };
        if !self.tail_while(is_before)? {
            return Ok(false);
        }
        let mut over: Vec<TailRow> = Vec::new();
        while let Some(row) = self.tail.next_if(|time| (first..=last).contains(&time))? {
            over.push(row);
        }
        let n_new = over.iter().filter(|row| !row.replaces).count();
        let is_whole = self.span.first <= first && last <= self.span.last;
        if is_whole && self.out.skip >= chunk.n + n_new {
            return Ok(self.out.passed(chunk.n + n_new, 0));
        }
        let times = chunks::times(self.connection, self.dataset, chunk)?;
        let within = chunks::within(&times, self.span);
        if over.is_empty() {
            let wanted = self.out.wanted(within.len());
            let taken = wanted.len();
            let rows = within.start + wanted.start..within.start + wanted.end;
            let block = self.read(chunk, &times, rows)?;
            return Ok(self.out.hand_on(block) & self.out.passed(within.len(), taken));
        }
        let under = self.read(chunk, &times, within)?;
        let over = self.block_of(&over)?;
        Ok(self.out.give(under.merged(&over)))
    }

    /// Hands on the rows of the tail that come next, while `is_wanted`; whether more are wanted.
    fn tail_while(&mut self, is_wanted: impl Fn(Timestamp) -> bool) -> Result<bool, StoreError> {
        loop {
            let piece_rows = PIECE_ROWS.min(self.out.skip.saturating_add(self.out.left));
            let mut piece = Vec::new();
            while piece.len() < piece_rows
                && let Some(row) = self.tail.next_if(&is_wanted)?
            {
                piece.push(row);
            }
            if piece.is_empty() {
                return Ok(true);
            }
            let block = self.block_of(&piece)?;
            if !self.out.give(block) {
                return Ok(false);
            }
        }
    }

    fn read(
        &self,
        chunk: Chunk,
        times: &[Timestamp],
        rows: Range<usize>,
    ) -> Result<Block, StoreError> {
        let mut block = self.empty.clone();
        if !rows.is_empty() {
            chunks::read_into(self.connection, self.dataset, chunk, times, rows, &mut block)?;
        }
        Ok(block)
    }

    /// A block of rows that came in the order of the walk, oldest first.
    fn block_of(&self, rows: &[TailRow]) -> Result<Block, StoreError> {
        let mut block = self.empty.clone();
        for row in rows {
            row.read_into(self.dataset, &mut block)?;
        }
        if self.out.order == Order::Descending {
            block.reverse();
        }
        Ok(block)
    }
}
