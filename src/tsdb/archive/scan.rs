//! Scans stored rows merged with archived ones.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use model::block::{Block, Rows};
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use super::Archive;
use super::file::FileReader;
use super::months::{TRIES, fails, is_damaged, stamps};
use crate::span::{Span, just_after, just_before};
use crate::store::archived::ArchivedMonth;
use crate::store::row_batch::{ChunkId, RowBatch, VisitBatch};
use crate::store::{Result, StoreError};

impl Archive {
    /// Scans raw rows. Continues after the last visited row when months were archived, rewritten or
    /// pruned in the meantime, so that rows on their way from the store to a file are neither
    /// missed nor repeated.
    pub(super) fn scan(&self, dataset: DatasetId, span: Span, visit: VisitBatch<'_>) -> Result<()> {
        let (mut rest, mut n_tries) = (span, 0);
        while rest.first <= rest.last {
            let months = self.store.archived(dataset, rest)?;
            let mut merge = ScanMerge {
                archive: self,
                dataset,
                span: rest,
                empty: self.empty(dataset)?,
                unopened: months.iter().cloned().collect(),
                months,
                current: None,
                reached: None,
            };
            let failure = match merge.run(visit) {
                Ok(Outcome::Done) => return Ok(()),
                Ok(Outcome::Changed) => StoreError::ArchiveChanged { dataset },
                Err(error) if is_damaged(&error) => {
                    self.forget_footers(&merge.months);
                    error
                }
                Err(error) => return Err(error),
            };
            n_tries = if merge.reached.is_some() { 0 } else { n_tries + 1 };
            if n_tries == TRIES {
                return Err(failure);
            }
            rest = merge.unvisited();
        }
        Ok(())
    }
}

/// Outcome of a scan.
enum Outcome {
    /// All rows were visited, or the visitor stopped.
    Done,
    /// Rows were moved between the store and the archive.
    Changed,
}

/// A scan of stored rows merged with the archived rows of some files.
struct ScanMerge<'a> {
    archive: &'a Archive,
    dataset: DatasetId,
    span: Span,
    empty: Block,
    /// Months that touched the span before the scan.
    months: Vec<ArchivedMonth>,
    unopened: VecDeque<ArchivedMonth>,
    current: Option<Current<'a>>,
    /// Timestamp of the last visited row.
    reached: Option<Timestamp>,
}

struct Current<'a> {
    month: ArchivedMonth,
    reader: FileReader<'a>,
    pieces: VecDeque<Piece>,
}

/// Rows of a page of timestamps.
struct Piece {
    rows: Range<u64>,
    span: Span,
    /// Index of the page, if these are all of its rows.
    page: Option<usize>,
}

impl ScanMerge<'_> {
    fn run(&mut self, visit: VisitBatch<'_>) -> Result<Outcome> {
        let (store, dataset, span) = (&self.archive.store, self.dataset, self.span);
        let mut outcome = None;
        store.scan(dataset, Resolution::Raw, span, &mut |batch| {
            // The batch lacks rows of months that were archived before it was read.
            if self.is_changed(batch.span.last)? {
                outcome = Some(Outcome::Changed);
            } else if self.visit(batch, visit)?.is_break() {
                outcome = Some(Outcome::Done);
            }
            Ok(outcome.as_ref().map_or(ControlFlow::Continue(()), |_| ControlFlow::Break(())))
        })?;
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
        if self.is_changed(span.last)? {
            return Ok(Outcome::Changed);
        }
        self.visit_until(span.last, visit).map(|_| Outcome::Done)
    }

    /// Returns the span of the rows that were not visited.
    fn unvisited(&self) -> Span {
        Span { first: self.reached.map_or(self.span.first, just_after), ..self.span }
    }

    /// Returns true if the archived months up to `last` have changed since the scan began.
    fn is_changed(&self, last: Timestamp) -> Result<bool> {
        let span = Span { last, ..self.unvisited() };
        let is_within = |month: &&ArchivedMonth| !month.file.month.span().overlap(span).is_empty();
        let known = self.months.iter().filter(is_within).map(|month| month.file.stamp);
        Ok(!stamps(&self.archive.store.archived(self.dataset, span)?).into_iter().eq(known))
    }

    fn show(&mut self, batch: RowBatch<'_>, visit: VisitBatch<'_>) -> Result<ControlFlow<()>> {
        let last = batch.span.last;
        let flow = visit(batch)?;
        self.reached = Some(last);
        Ok(flow)
    }

    /// Visits a batch of stored rows, after the archived rows before it. If there are archived rows
    /// within, the batch is divided by their pages.
    fn visit(&mut self, batch: RowBatch<'_>, visit: VisitBatch<'_>) -> Result<ControlFlow<()>> {
        let Span { first, last } = batch.span;
        if self.visit_until(just_before(first), visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if !self.has_rows_until(last)? {
            return self.show(batch, visit);
        }
        let Rows::Raw(over) = batch.rows()? else { return Ok(ControlFlow::Continue(())) };
        let mut from = 0;
        while let Some(next) = over.times.get(from) {
            if self.visit_until(just_before(*next), visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let under = self.take_until(last)?.unwrap_or_else(|| self.empty.clone());
            let until = under.times.last().map_or(over.len(), |end| over.first_after(*end));
            let rows = under.merge(&over.part(from..until));
            from = until;
            if self.show(RowBatch::of_rows(Rows::Raw(rows)), visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits the pieces of archived rows that end by `last`.
    fn visit_until(&mut self, last: Timestamp, visit: VisitBatch<'_>) -> Result<ControlFlow<()>> {
        while self.has_rows_until(last)?
            && let Some(Current { month, reader, pieces }) = &mut self.current
            && let Some(piece) = pieces.pop_front_if(|piece| piece.span.last <= last)
        {
            let (fail, reader) = (fails(self.dataset, month), reader.clone());
            let (empty, rows) = (self.empty.clone(), piece.rows);
            let n_rows = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
            let chunk_id = piece.page.map(|page| page_id(&reader.file.sha256, page));
            let read = move || reader.rows(rows, &empty).map(Rows::Raw).map_err(fail);
            let batch = match chunk_id {
                Some(_) => RowBatch::new(chunk_id, n_rows, piece.span, read),
                None => RowBatch::of_rows(read()?),
            };
            let flow = self.show(batch, visit)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Removes and returns the next archived rows up to `last`, at most a page. Returns `None` if there
    /// are none.
    fn take_until(&mut self, last: Timestamp) -> Result<Option<Block>> {
        if !self.has_rows_until(last)? {
            return Ok(None);
        }
        let Some(Current { month, reader, pieces }) = &mut self.current else { return Ok(None) };
        let Some(piece) = pieces.front_mut() else { return Ok(None) };
        let fail = fails(self.dataset, month);
        let mut rows = piece.rows.clone();
        if piece.span.last <= last {
            pieces.pop_front();
        } else {
            let times = reader.times(rows.clone()).map_err(&fail)?;
            let n = times.partition_point(|time| *time <= last);
            rows.end = rows.start + n as u64;
            piece.rows.start = rows.end;
            piece.span.first = times.get(n).copied().unwrap_or(piece.span.last);
            piece.page = None;
        }
        reader.rows(rows, &self.empty).map(Some).map_err(fail)
    }

    /// Opens the file of the archived rows up to `last`. Returns true if there are any.
    fn has_rows_until(&mut self, last: Timestamp) -> Result<bool> {
        loop {
            let piece = self.current.as_ref().and_then(|current| current.pieces.front());
            if let Some(piece) = piece {
                return Ok(piece.span.first <= last);
            }
            self.current = None;
            let begins = |month: &mut ArchivedMonth| month.file.month.start() <= last;
            let Some(month) = self.unopened.pop_front_if(begins) else { return Ok(false) };
            let span = month.file.month.span().overlap(self.span);
            let open = self.archive.open_month(self.dataset, &month, span)?;
            let fail = fails(self.dataset, &month);
            let mut pieces = VecDeque::new();
            for (page, (rows, span)) in open.reader.pages().enumerate() {
                for kept in &open.kept {
                    let here = kept.start.max(rows.start)..kept.end.min(rows.end);
                    if here.is_empty() {
                        continue;
                    }
                    let is_whole = here == rows;
                    let span = if is_whole {
                        span
                    } else {
                        let times = open.reader.times(here.clone()).map_err(&fail)?;
                        let ends = times.first().copied().zip(times.last().copied());
                        ends.map_or(span, |(first, last)| Span { first, last })
                    };
                    pieces.push_back(Piece { rows: here, span, page: is_whole.then_some(page) });
                }
            }
            self.current = Some(Current { month, reader: open.reader, pieces });
        }
    }
}

/// Returns the identity of the rows of a page, by the content of the file.
fn page_id(sha256: &[u8; 32], page: usize) -> ChunkId {
    let part = |at: usize| {
        let bytes = sha256.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.copied().map_or(0, i64::from_le_bytes)
    };
    let page = i64::try_from(page).unwrap_or(i64::MAX);
    ChunkId { era: part(0), number: part(8).wrapping_add(page) }
}
