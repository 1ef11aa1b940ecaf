//! Scans stored and archived rows as one sequence.

use std::ops::ControlFlow;

use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use super::Archive;
use super::months::segments;
use super::write::{BATCH_VALUES, PAGE_ROWS};
use crate::span::{Order, Span, just_after};
use crate::store::row_batch::{RowBatch, VisitBatch};
use crate::store::{PageRead, Result, StoreError};

/// Maximum number of rows in a batch of an archived month. Larger batches need fewer requests, since each
/// batch first reads the page in which it begins.
pub(super) const BATCH_ROWS: usize = if cfg!(test) { 300 } else { 16 * PAGE_ROWS };

/// Progress of a scan.
struct Progress {
    flow: ControlFlow<()>,
    /// Timestamp up to which all rows were visited. `None` if no rows were visited.
    visited: Option<Timestamp>,
}

impl Archive {
    /// Scans raw rows. If months are archived, rewritten or pruned in the meantime, the scan continues
    /// after the last visited row, so that it neither misses nor repeats rows that move from the store
    /// to a file.
    pub(super) fn scan(&self, dataset: DatasetId, span: Span, visit: VisitBatch<'_>) -> Result<()> {
        let mut rest = span;
        while !rest.is_empty() {
            let months = self.store.archived(dataset, rest)?;
            let Some(segment) = segments(rest, &months).into_iter().next() else { break };
            let Progress { flow, visited } = match segment.month {
                None => self.scan_stored(dataset, segment.span, visit)?,
                Some(_) => self.scan_month(dataset, segment.span, visit)?,
            };
            if flow.is_break() || visited.is_some_and(|visited| visited >= span.last) {
                break;
            }
            rest.first = visited.map_or(rest.first, just_after);
        }
        Ok(())
    }

    /// Visits the rows of a span without archived months, until a month of the span is archived.
    fn scan_stored(
        &self,
        dataset: DatasetId,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<Progress> {
        let mut progress = Progress { flow: ControlFlow::Continue(()), visited: None };
        let is_archived = |last: Timestamp, visited: Option<Timestamp>| {
            let first = visited.map_or(span.first, just_after);
            let months = self.store.archived(dataset, Span { first, last })?;
            Ok::<_, StoreError>(!months.is_empty())
        };
        let mut is_changed = false;
        self.store.scan(dataset, Resolution::Raw, span, &mut |batch| {
            // The batch can lack rows of a month that was archived before the batch was read.
            is_changed = is_archived(batch.span.last, progress.visited)?;
            if is_changed {
                return Ok(ControlFlow::Break(()));
            }
            let last = batch.span.last;
            progress.flow = visit(batch)?;
            progress.visited = Some(last);
            Ok(progress.flow)
        })?;
        if !is_changed && progress.flow.is_continue() && !is_archived(span.last, progress.visited)?
        {
            progress.visited = Some(span.last);
        }
        Ok(progress)
    }

    /// Visits the next rows of a span within an archived month.
    fn scan_month(
        &self,
        dataset: DatasetId,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<Progress> {
        let n_columns = self.empty(dataset)?.columns.len().max(1);
        let limit = (BATCH_VALUES / n_columns).clamp(PAGE_ROWS.min(BATCH_ROWS), BATCH_ROWS);
        let read = PageRead::raw(span, Order::Ascending, limit);
        let page = self.retry(dataset, span, |months| self.merged_page(dataset, &read, months))?;
        let last = page.rows.len().checked_sub(1).and_then(|idx| page.rows.timestamp(idx));
        if last.is_none() {
            return Ok(Progress { flow: ControlFlow::Continue(()), visited: Some(span.last) });
        }
        Ok(Progress { flow: visit(RowBatch::of_rows(page.rows))?, visited: last })
    }
}
