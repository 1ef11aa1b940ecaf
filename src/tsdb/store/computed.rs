//! Buckets of any length, computed during a read from raw rows or stored buckets.

use std::ops::ControlFlow;
use std::time::Duration;

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

/// Maximum number of attempts to compute a page while commits change the dataset. The last attempt is
/// returned even if the dataset changed again, with the earlier revision, so that it is not cached.
const READS_MAX: u32 = 3;

/// Factor by which the searched part of a span grows until it contains enough of the latest buckets.
const GROWTH: u32 = 8;

impl dyn Store {
    /// Reads a page like [`Store::page`], at any resolution. `sight` is the dataset as the caller has read
    /// it before, possibly at an earlier revision than the page.
    ///
    /// # Errors
    /// [`StoreError::TooManySourceRows`], and the errors of [`Store::page`].
    pub fn page_at(&self, sight: &Sight, read: &PageRead) -> Result<PageOfRows> {
        let Resolution::Every(length, _) = read.resolution else {
            return self.page(sight.dataset.id, read);
        };
        let mut latest = sight.clone();
        let mut n_reads = 1;
        loop {
            let page = self.compute_page(&latest, read, length)?;
            // The page is computed in several scans. If rows were committed between them, its buckets
            // can be inconsistent, so the page is computed again.
            let after = self.find(sight.dataset.id)?;
            if after.revision == latest.revision || n_reads == READS_MAX {
                return Ok(page);
            }
            latest = after;
            n_reads += 1;
        }
    }

    /// Computes the buckets of a page in several scans.
    fn compute_page(&self, sight: &Sight, read: &PageRead, length: Duration) -> Result<PageOfRows> {
        let PageRead { resolution, span, order, skip, limit, count } = *read;
        let n_wanted = skip.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX));
        let count = match count {
            Count::All => Some(self.count_at(sight, resolution, span)?),
            Count::Nothing => None,
        };
        let (part, range) = match (order, count) {
            (Order::Ascending, _) => (span, skip..n_wanted),
            (Order::Descending, count) => {
                let (part, n) = match count {
                    Some(n) => (span, n),
                    None => self.latest_part(sight, resolution, length, span, n_wanted)?,
                };
                (part, n.saturating_sub(n_wanted)..n.saturating_sub(skip))
            }
        };
        let (mut buckets, mut n_seen) = (Vec::new(), 0);
        self.scan_at(sight, resolution, part, &mut |batch| {
            if let Rows::Buckets(batch) = batch.rows()? {
                for bucket in batch {
                    buckets.extend(range.contains(&n_seen).then_some(bucket));
                    n_seen += 1;
                }
            }
            let is_done = n_seen >= range.end;
            Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if order == Order::Descending {
            buckets.reverse();
        }
        Ok(PageOfRows { count, rows: Rows::Buckets(buckets), revision: sight.revision })
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

    fn count_at(&self, sight: &Sight, resolution: Resolution, span: Span) -> Result<u64> {
        let mut n_buckets = 0;
        self.scan_at(sight, resolution, span, &mut |batch| {
            n_buckets += u64::try_from(batch.n_rows).unwrap_or(u64::MAX);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(n_buckets)
    }

    /// Returns a part at the end of `span` with at least `n_wanted` buckets, and its number of buckets.
    /// Returns the whole span if it has fewer buckets.
    fn latest_part(
        &self,
        sight: &Sight,
        resolution: Resolution,
        length: Duration,
        span: Span,
        n_wanted: u64,
    ) -> Result<(Span, u64)> {
        let source = resolution.source().unwrap_or(Resolution::Raw);
        let (mut rest, mut n_found, mut growth) = (span, 0, 1);
        loop {
            let newest = PageRead {
                resolution: source,
                span: source_span(resolution, rest),
                ..PageRead::raw(rest, Order::Descending, 1)
            };
            // The search continues at the latest row before the part. This skips gaps, which would
            // otherwise make the part grow until it contains too many rows.
            let Some(newest) = self.page(sight.dataset.id, &newest)?.rows.timestamp(0) else {
                return Ok((span, n_found));
            };
            let n_missing = u32::try_from(n_wanted - n_found).unwrap_or(u32::MAX);
            let wanted = length.saturating_mul(n_missing).saturating_mul(growth);
            let first = span.first.max(resolution.bucket_start(newest) - wanted);
            let n = match self.count_at(sight, resolution, Span { first, ..rest }) {
                Err(StoreError::TooManySourceRows { .. }) if growth > 1 => {
                    growth = 1;
                    continue;
                }
                n => n?,
            };
            n_found += n;
            if n_found >= n_wanted || first == span.first {
                return Ok((Span { first, ..span }, n_found));
            }
            rest.last = just_before(first);
            let is_sparse = n < u64::from(n_missing) / 2;
            growth = if is_sparse { growth.saturating_mul(GROWTH) } else { 1 };
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
