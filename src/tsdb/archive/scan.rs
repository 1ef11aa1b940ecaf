//! Scans stored and archived rows as one sequence.

use std::ops::ControlFlow;

use model::block::Rows;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use super::Archive;
use super::months::{MonthMerge, TRIES, is_damaged, segments, stamps};
use super::write::PAGE_ROWS;
use crate::span::{Order, Span, just_after, just_before};
use crate::store::archived::ArchivedMonth;
use crate::store::row_batch::{RowBatch, VisitBatch};
use crate::store::{PageRead, Result, StoreError};

/// Outcome of a scan.
#[derive(Clone, Copy)]
enum ScanEnd {
    /// All rows were visited, or the visitor ended the scan.
    Done,
    /// Rows were moved between the store and the archive during the scan.
    Changed,
}

/// Rows of a span that a scan has not visited yet.
struct Unvisited<'a> {
    archive: &'a Archive,
    dataset: DatasetId,
    span: Span,
    /// Archived months that overlapped the span when the scan began.
    months: &'a [ArchivedMonth],
}

impl Archive {
    /// Scans raw rows. If months are archived, rewritten or pruned in the meantime, the scan continues
    /// after the last visited row, so that it neither misses nor repeats rows that move from the store
    /// to a file.
    pub(super) fn scan(&self, dataset: DatasetId, span: Span, visit: VisitBatch<'_>) -> Result<()> {
        let (mut rest, mut n_tries) = (span, 0);
        while !rest.is_empty() {
            let months = self.store.archived(dataset, rest)?;
            let mut unvisited = Unvisited { archive: self, dataset, span: rest, months: &months };
            let failure = match unvisited.scan(visit) {
                Ok(ScanEnd::Done) => return Ok(()),
                Ok(ScanEnd::Changed) => StoreError::ArchiveChanged { dataset },
                Err(error) if is_damaged(&error) => {
                    self.forget_footers(&months);
                    error
                }
                Err(error) => return Err(error),
            };
            n_tries = if unvisited.span == rest { n_tries + 1 } else { 0 };
            if n_tries == TRIES {
                return Err(failure);
            }
            rest = unvisited.span;
        }
        Ok(())
    }
}

impl Unvisited<'_> {
    fn scan(&mut self, visit: VisitBatch<'_>) -> Result<ScanEnd> {
        for segment in segments(self.span, self.months) {
            let end = match segment.month {
                None => self.scan_stored(segment.span, visit)?,
                Some(month) => self.scan_month(segment.span, month, visit)?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
        Ok(ScanEnd::Done)
    }

    /// Visits the rows of a span without archived months. Returns the outcome if the scan is over.
    fn scan_stored(&mut self, span: Span, visit: VisitBatch<'_>) -> Result<Option<ScanEnd>> {
        let (store, mut end) = (&self.archive.store, None);
        store.scan(self.dataset, Resolution::Raw, span, &mut |batch| {
            // The batch can lack rows of a month that was archived before the batch was read.
            if self.is_changed(batch.span.last)? {
                end = Some(ScanEnd::Changed);
            } else if self.visit(batch, visit)?.is_break() {
                end = Some(ScanEnd::Done);
            }
            Ok(if end.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        if end.is_none() && self.is_changed(span.last)? {
            end = Some(ScanEnd::Changed);
        }
        Ok(end)
    }

    /// Visits the rows of a span within an archived month. Returns the outcome if the scan is over.
    fn scan_month(
        &mut self,
        span: Span,
        month: &ArchivedMonth,
        visit: VisitBatch<'_>,
    ) -> Result<Option<ScanEnd>> {
        let read = PageRead::raw(span, Order::Ascending, PAGE_ROWS);
        let mut merge = MonthMerge::open(self.archive, self.dataset, month, read)?;
        loop {
            let part = merge.next()?;
            let last = if part.is_last { span.last } else { just_before(merge.rest.span.first) };
            if self.is_changed(last)? {
                return Ok(Some(ScanEnd::Changed));
            }
            if !part.rows.is_empty()
                && self.visit(RowBatch::of_rows(Rows::Raw(part.rows)), visit)?.is_break()
            {
                return Ok(Some(ScanEnd::Done));
            }
            if part.is_cut {
                let read = PageRead { span: Span { first: self.span.first, ..span }, ..read };
                merge = MonthMerge::open(self.archive, self.dataset, month, read)?;
            } else if part.is_last {
                return Ok(None);
            }
        }
    }

    fn visit(&mut self, batch: RowBatch<'_>, visit: VisitBatch<'_>) -> Result<ControlFlow<()>> {
        let last = batch.span.last;
        let flow = visit(batch)?;
        self.span.first = just_after(last);
        Ok(flow)
    }

    /// Returns true if archived months up to `last` have changed since the scan began.
    fn is_changed(&self, last: Timestamp) -> Result<bool> {
        let span = Span { last, ..self.span };
        let is_within = |month: &&ArchivedMonth| !month.file.month.span().overlap(span).is_empty();
        let known = self.months.iter().filter(is_within).map(|month| month.file.stamp);
        Ok(!stamps(&self.archive.store.archived(self.dataset, span)?).into_iter().eq(known))
    }
}
