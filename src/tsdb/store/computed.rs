//! Buckets of any length, computed during a read from raw rows or stored buckets.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use model::block::Rows;
use model::resolution::Resolution;
use model::row::Bucket;

use super::row_batch::{RowBatch, VisitBatch};
use super::{Count, PageOfRows, PageRead, Result, Sight, Store, StoreError};
use crate::rollup::{Fold, coarsen};
use crate::span::{Order, Span, just_before};

/// Maximum number of rows or stored buckets from which a read computes its buckets. This many take about
/// a second.
const SOURCE_ROWS_MAX: u64 = 5_000_000;

/// Factor by which the searched part of a span grows until it contains enough of the latest buckets.
const GROWTH: u32 = 4;

impl dyn Store {
    /// Reads a page like [`Store::page`], at any resolution. `sight` is the dataset as the caller has
    /// read it before. A page of computed buckets has its revision, and the rows of this revision or a
    /// later one.
    ///
    /// # Errors
    /// [`StoreError::TooManySourceRows`], and the errors of [`Store::page`].
    pub fn page_at(&self, sight: &Sight, read: &PageRead) -> Result<PageOfRows> {
        let (dataset, span) = (sight.dataset.id, read.span);
        let Resolution::Every(length, _) = read.resolution else { return self.page(dataset, read) };
        if read.order == Order::Ascending || read.count == Count::All {
            return Ok(self.compute_page(sight, read)?.0);
        }
        let n_wanted = read.skip.saturating_add(u64::try_from(read.limit).unwrap_or(u64::MAX));
        let newest = PageRead {
            resolution: read.resolution.source().unwrap_or(Resolution::Raw),
            ..PageRead::raw(source_span(read.resolution, span), Order::Descending, 1)
        };
        let newest = self.page(dataset, &newest)?.rows.timestamp(0).unwrap_or(span.first);
        let mut length = length.saturating_mul(u32::try_from(n_wanted).unwrap_or(u32::MAX));
        loop {
            let first = span.first.max(read.resolution.bucket_start(newest) - length);
            let part = PageRead { span: Span { first, ..span }, ..*read };
            let (page, n_buckets) = self.compute_page(sight, &part)?;
            if n_buckets >= n_wanted || first == span.first {
                return Ok(page);
            }
            length = length.saturating_mul(GROWTH);
        }
    }

    /// Computes the buckets of a page. Also returns the number of buckets that were computed.
    fn compute_page(&self, sight: &Sight, read: &PageRead) -> Result<(PageOfRows, u64)> {
        let PageRead { resolution, span, order, skip, limit, count } = *read;
        let is_counted = count == Count::All;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let n_wanted = skip.saturating_add(limit);
        let (mut buckets, mut n_seen) = (VecDeque::new(), 0_u64);
        self.scan_at(sight, resolution, span, &mut |batch| {
            let Rows::Buckets(batch) = batch.rows()? else { return Ok(ControlFlow::Break(())) };
            n_seen += batch.len() as u64;
            buckets.extend(batch);
            match order {
                Order::Ascending => buckets.truncate(n_wanted),
                Order::Descending => drop(buckets.drain(..buckets.len().saturating_sub(n_wanted))),
            }
            let is_done = order == Order::Ascending && !is_counted && buckets.len() >= n_wanted;
            Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let mut buckets = Vec::from(buckets);
        if order == Order::Descending {
            buckets.reverse();
        }
        let rows = Rows::Buckets(buckets.into_iter().skip(skip).collect());
        let count = is_counted.then_some(n_seen);
        Ok((PageOfRows { count, rows, revision: sight.revision }, n_seen))
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
        match resolution {
            Resolution::Every(..) => compute(self, sight, resolution, span, SOURCE_ROWS_MAX, visit),
            _ => self.scan(sight.dataset.id, resolution, span, visit),
        }
    }
}

/// Computes the buckets of `span` from at most `source_rows_max` rows or stored buckets.
fn compute(
    store: &dyn Store,
    sight: &Sight,
    resolution: Resolution,
    span: Span,
    source_rows_max: u64,
    visit: VisitBatch<'_>,
) -> Result<()> {
    let source = resolution.source().unwrap_or(Resolution::Raw);
    let fold = Fold::for_dataset(&sight.columns, &sight.dataset.metadata);
    let Some(fold) = fold.filter(|_| span.first <= span.last) else { return Ok(()) };
    let mut n_rows = 0_u64;
    let mut is_stopped = false;
    // Bucket of the last row, which rows of the next batch can extend.
    let mut last: Option<Bucket> = None;
    let mut pass = |buckets: Vec<Bucket>| {
        if buckets.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        visit(RowBatch::of_rows(Rows::Buckets(buckets)))
    };
    store.scan(sight.dataset.id, source, source_span(resolution, span), &mut |batch| {
        n_rows = n_rows.saturating_add(u64::try_from(batch.n_rows).unwrap_or(u64::MAX));
        if n_rows > source_rows_max {
            return Err(StoreError::TooManySourceRows { resolution, n_max: source_rows_max });
        }
        let mut buckets = match batch.rows()? {
            Rows::Raw(block) => fold.buckets(&block, resolution, last.take()),
            Rows::Buckets(finer) => {
                coarsen(&last.take().into_iter().chain(finer).collect::<Vec<_>>(), resolution)
            }
        };
        last = buckets.pop();
        let flow = pass(buckets)?;
        is_stopped = flow.is_break();
        Ok(flow)
    })?;
    if is_stopped {
        return Ok(());
    }
    pass(last.into_iter().collect()).map(|_| ())
}

/// Returns the span of all rows that belong to buckets that start within `span`.
fn source_span(resolution: Resolution, span: Span) -> Span {
    let first = resolution.bucket_start(span.first);
    let first = if first < span.first { resolution.bucket_end(span.first) } else { first };
    Span { first, last: just_before(resolution.bucket_end(span.last)) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::sqlite::SqliteStore;
    use crate::store::tests::{append, block, create, new_dataset};

    #[tokio::test]
    async fn page_of_computed_buckets_reads_a_limited_number_of_rows() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("rows.sqlite")).unwrap();
        let store: &dyn Store = &store;
        let dataset = create(store, new_dataset("a")).await;
        append(store, dataset, block((0..3000_u32).map(|n| (i64::from(n) * 10, f64::from(n)))))
            .await;
        let sight = store.find(dataset).unwrap();
        let read = |name: &str, source_rows_max| {
            let (resolution, mut buckets) = (name.parse().unwrap(), Vec::new());
            let visit: VisitBatch<'_> = &mut |batch| {
                if let Rows::Buckets(more) = batch.rows()? {
                    buckets.extend(more);
                }
                Ok(ControlFlow::Continue(()))
            };
            compute(store, &sight, resolution, Span::ALL, source_rows_max, visit).map(|()| buckets)
        };
        let buckets = read("45s", 3000).unwrap();
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 3000);
        assert_eq!((buckets[1].open, buckets[1].close, buckets[1].count), (5.0, 8.0, 4));
        let error = read("45s", 2999).unwrap_err().to_string();
        assert!(error.contains("resolution=45s would be computed from more than 2999"), "{error}");
        assert_eq!(read("10m", 100).unwrap().len(), 50, "from buckets of five minutes");
    }

    #[tokio::test]
    async fn latest_buckets_are_found_across_gaps() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("rows.sqlite")).unwrap();
        let store: &dyn Store = &store;
        let dataset = create(store, new_dataset("a")).await;
        let clusters = [(0, 300), (40_000, 3), (900_000, 1), (9_000_000, 40), (90_000_000, 1)];
        let seconds = clusters.iter().flat_map(|(start, n)| (0..*n).map(move |n| start + n * 10));
        append(store, dataset, block(seconds.map(|second| (second, 1.0)))).await;
        let sight = store.find(dataset).unwrap();
        let read = |order, skip, limit| {
            let resolution = Resolution::Every(Duration::from_secs(45), None);
            let read = PageRead {
                resolution,
                skip,
                count: Count::Nothing,
                ..PageRead::raw(Span::ALL, order, limit)
            };
            let Rows::Buckets(buckets) = store.page_at(&sight, &read).unwrap().rows else {
                panic!()
            };
            buckets.iter().map(|bucket| bucket.timestamp).collect::<Vec<_>>()
        };
        let mut all = read(Order::Ascending, 0, 1000);
        assert_eq!(all.len(), 67 + 2 + 1 + 9 + 1);
        all.reverse();
        for (skip, limit) in
            [(0, 1), (0, 2), (0, 11), (0, 60), (0, 1000), (1, 9), (20, 40), (79, 5)]
        {
            let start = usize::try_from(skip).unwrap().min(all.len());
            let want = &all[start..(start + limit).min(all.len())];
            assert_eq!(read(Order::Descending, skip, limit), want, "{limit} after {skip}");
        }
    }
}
