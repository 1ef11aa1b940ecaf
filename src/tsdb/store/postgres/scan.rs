//! Showing all rows or buckets of a span to a visitor, batch by batch, in one snapshot.

use std::ops::ControlFlow;

use db::postgres::connections::Transaction;
use model::{
    block::{Block, Rows},
    resolution::Resolution,
    timestamp::Timestamp,
};

use super::{
    PostgresStore, Result, StoreError, catalog, chunks, cold::ReadAhead, pages, place::Place,
    servers::Server, tail,
};
use crate::{
    span::{Order, Span},
    store::{
        row_batch::{ChunkId, RowBatch, VisitBatch},
        series::SeriesId,
    },
};

/// Chunks whose places are read at a time, with the rows of the tail among them.
const PLACES: i64 = 1024;

/// Shows `visit` all rows or buckets of a span, oldest first. Blocks.
pub(super) fn scan(
    store: &PostgresStore,
    server: &Server,
    id: SeriesId,
    span: Span,
    visit: VisitBatch<'_>,
) -> Result<()> {
    let mut c = store.step(async { Ok(server.connections.snapshot().await?) })?;
    let from = Source { store, server, id };
    let result = match id.resolution {
        Resolution::Raw => rows(from, &mut c, span, visit),
        _ => buckets(from, &mut c, span, visit),
    };
    store.wait(c.finish(result))
}

fn buckets(
    from: Source<'_>,
    c: &mut Transaction,
    mut span: Span,
    visit: VisitBatch<'_>,
) -> Result<()> {
    let Source { store, id, .. } = from;
    from.empty_rows(c)?;
    while let Some((rows, left)) = store.step(pages::next_buckets(c, id, span))? {
        if visit(RowBatch::of_rows(rows))?.is_break() {
            break;
        }
        span = left;
    }
    Ok(())
}

/// What is scanned, and where.
#[derive(Clone, Copy)]
struct Source<'a> {
    store: &'a PostgresStore,
    server: &'a Server,
    id: SeriesId,
}

impl Source<'_> {
    /// A block of the dataset's columns without rows.
    ///
    /// # Errors
    /// Also if a standby answers which lacks what callers have seen.
    fn empty_rows(self, c: &mut Transaction) -> Result<Block> {
        let (revision, empty) = self.store.step(catalog::columns(c, self.id.dataset))?;
        self.store.check_seen(self.server, self.id.dataset, revision)?;
        Ok(empty)
    }
}

fn rows(
    from: Source<'_>,
    c: &mut Transaction,
    mut span: Span,
    visit: VisitBatch<'_>,
) -> Result<()> {
    let Source { store, id, .. } = from;
    let empty = from.empty_rows(c)?;
    let mut ahead = ReadAhead::new(store.cold.clone(), id.dataset);
    while span.first <= span.last {
        let places = store.step(chunks::places(c, id, span, PLACES))?;
        let is_last = i64::try_from(places.len()).unwrap_or(PLACES) < PLACES;
        let end = places.last().map(|place| place.span.last).filter(|_| !is_last);
        let here = Span { last: end.unwrap_or(span.last).min(span.last), ..span };
        let tail =
            store.step(tail::read(c, &empty, id.dataset, here, Order::Ascending, i64::MAX))?;
        ahead.enter(&places);
        let mut run = Run { from, span: here, empty: &empty, tail, n_passed: 0, ahead: &mut ahead };
        for place in places {
            if run.chunk(c, place, visit)?.is_break() {
                return Ok(());
            }
        }
        if run.tail_before(None, visit)?.is_break() || end.is_none() {
            return Ok(());
        }
        span.first = Timestamp::from_micros(here.last.micros().saturating_add(1));
    }
    Ok(())
}

/// Some chunks, one after another, and the rows of the tail among them.
struct Run<'a> {
    from: Source<'a>,
    span: Span,
    empty: &'a Block,
    tail: Block,
    /// Rows of the tail that were handed on.
    n_passed: usize,
    ahead: &'a mut ReadAhead,
}

impl Run<'_> {
    /// Hands on a chunk and the rows of the tail before it and within it.
    fn chunk(
        &mut self,
        c: &mut Transaction,
        place: Place,
        visit: VisitBatch<'_>,
    ) -> Result<ControlFlow<()>> {
        if self.tail_before(Some(place.span.first), visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let end = self.tail.first_after(place.span.last).max(self.n_passed);
        let over = self.n_passed..end;
        self.n_passed = end;
        let Source { store, server, id } = self.from;
        let dataset = id.dataset;
        let is_whole = self.span.first <= place.span.first && place.span.last <= self.span.last;
        let within = self.span;
        let (empty, ahead) = (self.empty, &mut *self.ahead);
        let mut read = |c: &mut Transaction| {
            let mut rows = empty.clone();
            let fetched = store.step(ahead.read(place))?;
            let chunk = store.step(chunks::read_one(c, id, place, &fetched))?;
            chunk.decode(dataset, within, &mut rows, None)?;
            Ok::<_, StoreError>(rows)
        };
        if is_whole && over.is_empty() {
            let chunk_id = match place.key() {
                None => ChunkId { era: server.era, number: place.id },
                // As random as an era is.
                Some((object, offset)) => {
                    let (_, era) = object.as_u64_pair();
                    ChunkId { era: era.cast_signed(), number: offset }
                }
            };
            return visit(RowBatch::new(Some(chunk_id), place.n, || read(c).map(Rows::Raw)));
        }
        let mut rows = read(c)?;
        if !over.is_empty() {
            rows = rows.merge(&self.tail.part(over));
        }
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        visit(RowBatch::of_rows(Rows::Raw(rows)))
    }

    /// Hands on the next rows of the tail, up to `end` or all.
    fn tail_before(
        &mut self,
        end: Option<Timestamp>,
        visit: VisitBatch<'_>,
    ) -> Result<ControlFlow<()>> {
        let end = end.map_or(self.tail.len(), |end| self.tail.first_not_before(end));
        let rows = self.n_passed..end.max(self.n_passed);
        self.n_passed = rows.end;
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        visit(RowBatch::of_rows(Rows::Raw(self.tail.part(rows))))
    }
}
