//! Merges a scan of stored rows with archived ones.

use std::{collections::VecDeque, ops::ControlFlow, ops::Range};

use model::{
    block::{Block, Rows},
    dataset::DatasetId,
    timestamp::Timestamp,
};

use super::{
    Archive,
    file::FileReader,
    months::{fails, overlap},
};
use crate::{
    span::Span,
    store::{
        Result,
        archived::ArchivedMonth,
        row_batch::{ChunkId, RowBatch, VisitBatch},
    },
};

/// Archived rows of a scan that are still to be visited.
pub(super) struct ScanMerge<'a> {
    archive: &'a Archive,
    dataset: DatasetId,
    span: Span,
    empty: Block,
    months: VecDeque<ArchivedMonth>,
    current: Option<Current<'a>>,
}

struct Current<'a> {
    month: ArchivedMonth,
    reader: FileReader<'a>,
    pieces: VecDeque<Piece>,
}

/// Rows of one page of timestamps.
struct Piece {
    rows: Range<u64>,
    last: Timestamp,
    /// Index of the page, if these are all of its rows.
    page: Option<usize>,
}

impl<'a> ScanMerge<'a> {
    pub(super) fn new(
        archive: &'a Archive,
        dataset: DatasetId,
        span: Span,
        months: Vec<ArchivedMonth>,
    ) -> Result<Self> {
        let empty = archive.empty(dataset)?;
        Ok(Self { archive, dataset, span, empty, months: months.into(), current: None })
    }

    /// Visits a batch of stored rows, after the archived ones before it and merged with those at its
    /// timestamps.
    pub(super) fn visit(
        &mut self,
        batch: RowBatch<'_>,
        visit: VisitBatch<'_>,
    ) -> Result<ControlFlow<()>> {
        if self.visit_before(Some(batch.span.first), visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut under = self.empty.clone();
        let after = Timestamp::from_micros(batch.span.last.micros().saturating_add(1));
        while let Some(rows) = self.take_before(after)? {
            under.extend_from(&rows, 0..rows.len());
        }
        if under.is_empty() {
            return visit(batch);
        }
        let Rows::Raw(over) = batch.rows()? else { return Ok(ControlFlow::Continue(())) };
        visit(RowBatch::of_rows(Rows::Raw(under.merge(&over))))
    }

    /// Visits the archived rows before `end`, or all that are left.
    pub(super) fn visit_before(
        &mut self,
        end: Option<Timestamp>,
        visit: VisitBatch<'_>,
    ) -> Result<ControlFlow<()>> {
        while self.open_next(end)? {
            let Some(Current { month, reader, pieces }) = &mut self.current else { break };
            let is_before = |piece: &Piece| end.is_none_or(|end| piece.last < end);
            let Some(piece) = pieces.pop_front_if(|piece| is_before(piece)) else {
                let Some(end) = end else { continue };
                return match self.take_before(end)? {
                    Some(rows) => visit(RowBatch::of_rows(Rows::Raw(rows))),
                    None => Ok(ControlFlow::Continue(())),
                };
            };
            let fail = fails(self.dataset, month);
            let chunk_id = piece.page.map(|page| page_id(&reader.file.sha256, page));
            let n_rows = usize::try_from(piece.rows.end - piece.rows.start).unwrap_or(usize::MAX);
            let (empty, rows) = (&self.empty, piece.rows.clone());
            let first = month.file.month.start();
            let span = Span { first, last: piece.last };
            let read = || reader.rows(rows, empty).map(Rows::Raw).map_err(fail);
            if visit(RowBatch::new(chunk_id, n_rows, span, read))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Takes the next rows before `end`, at most a page; `None` if there are none.
    fn take_before(&mut self, end: Timestamp) -> Result<Option<Block>> {
        if !self.open_next(Some(end))? {
            return Ok(None);
        }
        let Some(Current { month, reader, pieces }) = &mut self.current else { return Ok(None) };
        let Some(piece) = pieces.front_mut() else { return Ok(None) };
        let fail = fails(self.dataset, month);
        let times = reader.times(piece.rows.clone()).map_err(&fail)?;
        let n = times.partition_point(|time| *time < end) as u64;
        if n == 0 {
            return Ok(None);
        }
        let rows = piece.rows.start..piece.rows.start + n;
        piece.rows.start = rows.end;
        piece.page = None;
        if piece.rows.is_empty() {
            pieces.pop_front();
        }
        reader.rows(rows, &self.empty).map(Some).map_err(fail)
    }

    /// Opens the next month if the current one is read and that begins before `end`. Returns true if
    /// there may be rows before `end`.
    fn open_next(&mut self, end: Option<Timestamp>) -> Result<bool> {
        loop {
            if self.current.as_ref().is_some_and(|current| !current.pieces.is_empty()) {
                return Ok(true);
            }
            self.current = None;
            let begins =
                |month: &mut ArchivedMonth| end.is_none_or(|end| month.file.month.start() < end);
            let Some(month) = self.months.pop_front_if(begins) else { return Ok(false) };
            // It may have been replaced since the scan began.
            let span = month.file.month.span();
            let now = self.archive.store.archived(self.dataset, span)?.pop();
            let month = now.unwrap_or(month);
            let span = overlap(span, self.span);
            let open = self.archive.open_month(self.dataset, &month, span)?;
            let mut pieces = VecDeque::new();
            for (page, (rows, last)) in open.reader.pages().enumerate() {
                for kept in &open.kept {
                    let here = kept.start.max(rows.start)..kept.end.min(rows.end);
                    if here.is_empty() {
                        continue;
                    }
                    let last = if here.end == rows.end {
                        last
                    } else {
                        let times = open.reader.times(here.end - 1..here.end);
                        let times = times.map_err(fails(self.dataset, &month))?;
                        times.last().copied().unwrap_or(last)
                    };
                    let page = (here == rows).then_some(page);
                    pieces.push_back(Piece { rows: here, last, page });
                }
            }
            let reader = open.reader;
            self.current = Some(Current { month, reader, pieces });
        }
    }
}

/// Identifies the rows of a page by the file's content.
fn page_id(sha256: &[u8; 32], page: usize) -> ChunkId {
    let part = |at: usize| {
        let bytes = sha256.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.copied().map_or(0, i64::from_le_bytes)
    };
    let page = i64::try_from(page).unwrap_or(i64::MAX);
    ChunkId { era: part(0), number: part(8).wrapping_add(page) }
}
