//! Buckets that are not stored, computed during a read from raw rows or shorter buckets.

use std::ops::ControlFlow;

use model::block::Rows;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

use super::row_batch::{RowBatch, VisitBatch};
use super::{Count, PageOfRows, PageRead, Result, Sight, Store, StoreError};
use crate::rollup::{Fold, coarsen};
use crate::span::{Order, Span, just_before};

/// Maximum number of rows or stored buckets from which a read computes its buckets. This many take about
/// a second.
const SOURCE_ROWS_MAX: u64 = 5_000_000;

/// Maximum number of buckets that a page computes at a time, apart from those of [`SPARSE_ROWS`] rows.
/// It limits the memory for skipped buckets.
const WINDOW_BUCKETS: u32 = 8192;

/// Minimum number of source rows of a window of a page, except the first window. Without it, each row of
/// a dataset with long gaps would need a window of its own.
const SPARSE_ROWS: u64 = 1024;

impl dyn Store {
    /// Reads a page like [`Store::page`], at any resolution. `sight` is the dataset as the caller has
    /// read it before. A page of computed buckets has its revision, and the rows of this revision or of
    /// later ones. A commit during the read can affect only a part of the page.
    ///
    /// # Errors
    /// [`StoreError::TooManySourceRows`], and the errors of [`Store::page`].
    pub fn page_at(&self, sight: &Sight, read: &PageRead) -> Result<PageOfRows> {
        let Resolution::Every(..) = read.resolution else {
            return self.page(sight.dataset.id, read);
        };
        let page = self.computed(sight, read.resolution, |computed| computed.page(read))?;
        let (count, rows) = page.unwrap_or_default();
        let count = count.or((read.count == Count::All).then_some(0));
        Ok(PageOfRows { count, rows: Rows::Buckets(rows), revision: sight.revision })
    }

    /// Passes rows or buckets to `visit` like [`Store::scan`], at any resolution.
    ///
    /// # Errors
    /// [`StoreError::TooManySourceRows`], and the errors of [`Store::scan`].
    pub fn scan_at(
        &self,
        sight: &Sight,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        let Resolution::Every(..) = resolution else {
            return self.scan(sight.dataset.id, resolution, span, visit);
        };
        self.computed(sight, resolution, |computed| computed.scan(span, visit)).map(|_| ())
    }

    /// Calls `read` with the computed buckets of a dataset. Returns `None` if the dataset has no buckets.
    fn computed<T>(
        &self,
        sight: &Sight,
        resolution: Resolution,
        read: impl FnOnce(Computed<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let fold = Fold::for_dataset(&sight.columns, &sight.dataset.metadata);
        if fold.is_none() {
            return Ok(None);
        }
        let (dataset, source) = (sight.dataset.id, resolution.source().unwrap_or(Resolution::Raw));
        let nth_row = |span, order, skip| {
            let read = PageRead { resolution: source, skip, ..PageRead::raw(span, order, 1) };
            Ok(self.page(dataset, &read)?.rows.timestamp(0))
        };
        let scan_rows = |span, visit: VisitBatch<'_>| self.scan(dataset, source, span, visit);
        let n_rows_max = SOURCE_ROWS_MAX;
        let (nth_row, scan_rows) = (&nth_row, &scan_rows);
        read(Computed { resolution, fold, n_rows_max, nth_row, scan_rows }).map(Some)
    }
}

/// Buckets of a dataset that are computed from its rows or from shorter buckets, called source rows.
pub(super) struct Computed<'a> {
    pub(super) resolution: Resolution,
    /// Columns to fold; `None` if the source rows are buckets.
    pub(super) fold: Option<Fold>,
    /// Maximum number of source rows of a read.
    pub(super) n_rows_max: u64,
    /// Returns the timestamp of the source row of a span that a number of rows precede in an order.
    pub(super) nth_row: &'a dyn Fn(Span, Order, u64) -> Result<Option<Timestamp>>,
    /// Passes the source rows of a span to a visitor.
    pub(super) scan_rows: &'a dyn Fn(Span, VisitBatch<'_>) -> Result<()>,
}

impl Computed<'_> {
    /// Reads a page, and counts all buckets of the span if `read` requests it.
    ///
    /// Computes the buckets of one window after the other. A window is a part of the span with whole
    /// buckets, directly after the previous window in the order of the page. No row is folded twice. Of the
    /// rows after the page, at most [`SPARSE_ROWS`] are read.
    pub(super) fn page(&self, read: &PageRead) -> Result<(Option<u64>, Vec<Bucket>)> {
        let PageRead { order, mut skip, limit, .. } = *read;
        let is_counted = read.count == Count::All;
        let (mut page, mut n_buckets, mut n_rows) = (Vec::new(), 0, 0);
        let mut rest = self.source_span(read.span);
        while is_counted || page.len() < limit {
            let n_left = if is_counted {
                u64::MAX
            } else {
                skip.saturating_add((limit - page.len()) as u64)
            };
            let Some(end) = self.window_end(rest, order, n_left, n_rows == 0)? else { break };
            let (window, later) = rest.split(order, end);
            let mut buckets = Vec::new();
            self.scan_source(window, &mut n_rows, &mut |batch| {
                if let Rows::Buckets(more) = batch.rows()? {
                    buckets.extend(more);
                }
                Ok(ControlFlow::Continue(()))
            })?;
            if order == Order::Descending {
                buckets.reverse();
            }
            let n_skipped = skip.min(buckets.len() as u64);
            skip -= n_skipped;
            n_buckets += buckets.len() as u64;
            let n_skipped = usize::try_from(n_skipped).unwrap_or(usize::MAX);
            page.extend(buckets.into_iter().skip(n_skipped).take(limit - page.len()));
            if end == order.last_of(rest) {
                break;
            }
            rest = later;
        }
        Ok((is_counted.then_some(n_buckets), page))
    }

    /// Returns the end of the next window of a page, or `None` if `rest` has no rows. The window has about
    /// `n_left` buckets, or [`WINDOW_BUCKETS`] if these are fewer, and begins with the first bucket that
    /// has rows. If this is not the first window, it can have more buckets if these have at most
    /// [`SPARSE_ROWS`] rows.
    fn window_end(
        &self,
        rest: Span,
        order: Order,
        n_left: u64,
        is_first: bool,
    ) -> Result<Option<Timestamp>> {
        let Some(near) = (self.nth_row)(rest, order, 0)? else { return Ok(None) };
        let far = if is_first { Some(near) } else { (self.nth_row)(rest, order, SPARSE_ROWS - 1)? };
        let Some(far) = far else { return Ok(Some(order.last_of(rest))) };
        let n_buckets = u32::try_from(n_left).map_or(WINDOW_BUCKETS, |n| n.min(WINDOW_BUCKETS));
        let length = self.resolution.bucket().unwrap_or_default();
        let reach = length.saturating_mul(n_buckets.saturating_sub(1));
        let start = |at| self.resolution.bucket_start(at);
        Ok(Some(match order {
            Order::Ascending => {
                let last = self.bucket_last(start(near) + reach).max(self.bucket_last(far));
                last.min(rest.last)
            }
            Order::Descending => {
                start(self.bucket_last(near) - reach).min(start(far)).max(rest.first)
            }
        }))
    }

    /// Passes the buckets of a span to `visit`, in ascending order and in batches.
    pub(super) fn scan(&self, span: Span, visit: VisitBatch<'_>) -> Result<()> {
        self.scan_source(self.source_span(span), &mut 0, visit)
    }

    /// Passes the buckets of the source rows of a span to `visit`. Adds the number of rows to `n_rows`.
    fn scan_source(&self, span: Span, n_rows: &mut u64, visit: VisitBatch<'_>) -> Result<()> {
        let Self { resolution, n_rows_max, .. } = *self;
        let mut flow = ControlFlow::Continue(());
        // Bucket of the last row, which rows of the next batch can extend.
        let mut last: Option<Bucket> = None;
        let mut pass = |buckets: Vec<Bucket>| {
            if buckets.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            visit(RowBatch::of_rows(Rows::Buckets(buckets)))
        };
        (self.scan_rows)(span, &mut |batch| {
            *n_rows += batch.n_rows as u64;
            if *n_rows > n_rows_max {
                return Err(StoreError::TooManySourceRows { resolution, n_max: n_rows_max });
            }
            let mut buckets = match (batch.rows()?, self.fold) {
                (Rows::Raw(block), Some(fold)) => fold.buckets(&block, resolution, last.take()),
                (Rows::Raw(_), None) => Vec::new(),
                (Rows::Buckets(finer), _) => {
                    coarsen(&last.take().into_iter().chain(finer).collect::<Vec<_>>(), resolution)
                }
            };
            last = buckets.pop();
            flow = pass(buckets)?;
            Ok(flow)
        })?;
        if flow.is_continue() { pass(last.into_iter().collect()).map(drop) } else { Ok(()) }
    }

    /// Returns the span of all source rows that belong to buckets that start within `span`.
    fn source_span(&self, span: Span) -> Span {
        let first = self.resolution.bucket_start(span.first);
        let first = if first < span.first { self.resolution.bucket_end(span.first) } else { first };
        Span { first, last: self.bucket_last(span.last) }
    }

    /// Returns the last timestamp of the bucket that contains `at`.
    fn bucket_last(&self, at: Timestamp) -> Timestamp {
        // At the end of the calendar, the end of the bucket can be equal to `at`.
        just_before(self.resolution.bucket_end(at)).max(at)
    }
}

#[cfg(test)]
mod tests;
