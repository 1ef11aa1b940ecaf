//! Scans stored and archived rows as one sequence.

use std::ops::ControlFlow;

use model::dataset::DatasetId;
use model::resolution::Resolution;

use super::Archive;
use super::months::{Segment, segments};
use crate::span::{Order, Span, just_after};
use crate::store::row_batch::{RowBatch, VisitBatch};
use crate::store::{PageRead, Result};

/// Maximum number of rows in a batch of an archived month.
pub(super) const BATCH_ROWS: usize = if cfg!(test) { 300 } else { 65_536 };

/// Maximum number of values in a batch of more than one row.
const BATCH_VALUES: usize = 1_000_000;

impl Archive {
    /// Scans raw rows. If months are archived, rewritten or pruned in the meantime, the scan continues
    /// after the last visited row, so that it neither misses nor repeats rows that move from the store
    /// to a file.
    pub(super) fn scan(
        &self,
        dataset: DatasetId,
        mut rest: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        let n_columns = self.empty(dataset)?.0.columns.len().max(1);
        let limit = (BATCH_VALUES / n_columns).clamp(1, BATCH_ROWS);
        while !rest.is_empty() {
            let months = self.store.archived(dataset, rest)?;
            let segment = segments(rest, &months).into_iter().next();
            let Some(Segment { span: part, month }) = segment else { break };
            let mut is_stopped = false;
            let visited = if month.is_some() {
                let read = PageRead::raw(part, Order::Ascending, limit);
                let read = |months: &[_]| self.merged_page(dataset, &read, months);
                let rows = self.retry(dataset, part, read)?.rows;
                match rows.timestamp(rows.len().saturating_sub(1)) {
                    Some(last) => {
                        is_stopped = visit(RowBatch::of_rows(rows))?.is_break();
                        Some(last)
                    }
                    None => Some(part.last),
                }
            } else {
                let mut visited = None;
                // A batch can lack rows of a month that was archived before the batch was read.
                let mut is_archived = false;
                self.store.scan(dataset, Resolution::Raw, part, &mut |batch| {
                    let last = batch.span.last;
                    let first = visited.map_or(part.first, just_after);
                    is_archived = !self.store.archived(dataset, Span { first, last })?.is_empty();
                    if !is_archived {
                        is_stopped = visit(batch)?.is_break();
                        visited = Some(last);
                    }
                    let is_done = is_archived || is_stopped;
                    Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                let unvisited = Span { first: visited.map_or(part.first, just_after), ..part };
                let is_whole = !is_archived && self.store.archived(dataset, unvisited)?.is_empty();
                if is_whole { Some(part.last) } else { visited }
            };
            if is_stopped || visited.is_some_and(|visited| visited >= rest.last) {
                break;
            }
            rest.first = visited.map_or(rest.first, just_after);
        }
        Ok(())
    }
}
