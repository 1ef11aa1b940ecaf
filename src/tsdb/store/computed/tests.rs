//! Tests of buckets that are computed during a read.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use model::dataset::DatasetId;
use test_postgres::new_database;

use super::*;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;
use crate::store::tests::{append, block, create, new_dataset};
use crate::store::{Append, Appended, Catalog, OnCommit, OnRemoval, Removed, RowDeletion, Since};

#[tokio::test]
async fn page_of_computed_buckets_reads_a_limited_number_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("rows.sqlite")).unwrap();
    let store: &dyn Store = &store;
    let dataset = create(store, new_dataset("a")).await;
    append(store, dataset, block((0..3000_u32).map(|n| (i64::from(n) * 10, f64::from(n))))).await;
    let sight = store.find(dataset).unwrap();
    let read = |name: &str, n_rows_max| {
        let (resolution, mut buckets) = (name.parse().unwrap(), Vec::new());
        let visit: VisitBatch<'_> = &mut |batch| {
            if let Rows::Buckets(more) = batch.rows()? {
                buckets.extend(more);
            }
            Ok(ControlFlow::Continue(()))
        };
        let scanned = store.computed(&sight, resolution, |buckets| {
            Computed { n_rows_max, ..buckets }.scan(Span::ALL, visit)
        });
        scanned.map(|_| buckets)
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
        let Rows::Buckets(buckets) = store.page_at(&sight, &read).unwrap().rows else { panic!() };
        buckets.iter().map(|bucket| bucket.timestamp).collect::<Vec<_>>()
    };
    let mut all = read(Order::Ascending, 0, 1000);
    assert_eq!(all.len(), 67 + 2 + 1 + 9 + 1);
    all.reverse();
    for (skip, limit) in [(0, 1), (0, 2), (0, 11), (0, 60), (0, 1000), (1, 9), (20, 40), (79, 5)] {
        let start = usize::try_from(skip).unwrap().min(all.len());
        let want = &all[start..(start + limit).min(all.len())];
        assert_eq!(read(Order::Descending, skip, limit), want, "{limit} after {skip}");
    }
}

/// A store that counts the rows and buckets that are read from another store.
#[derive(Debug)]
struct CountingStore {
    store: Box<dyn Store>,
    n_rows: AtomicUsize,
}

impl Store for CountingStore {
    fn catalog(&self) -> &(dyn Catalog + 'static) {
        self.store.catalog()
    }

    fn append(
        &self,
        dataset: DatasetId,
        append: Append,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended>> {
        self.store.append(dataset, append, on_commit)
    }

    fn delete_rows(
        &self,
        dataset: DatasetId,
        deletion: RowDeletion,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<Removed>> {
        self.store.delete_rows(dataset, deletion, on_commit)
    }

    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        let page = self.store.page(dataset, read)?;
        self.n_rows.fetch_add(page.rows.len(), Ordering::Relaxed);
        Ok(page)
    }

    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>> {
        self.store.since(dataset, after, limit)
    }

    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        self.store.scan(dataset, resolution, span, &mut |batch| {
            self.n_rows.fetch_add(batch.n_rows, Ordering::Relaxed);
            visit(batch)
        })
    }
}

/// Returns all buckets of a span, and checks pages in both orders. A page can read the rows of its own
/// and the skipped buckets, and `n_more` rows.
async fn check_pages(resolution: Resolution, seconds: &[i64], n_more: usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("rows.sqlite")).unwrap();
    check_pages_of(Box::new(store), resolution, seconds, n_more).await;
}

/// Checks pages like [`check_pages`], on an empty store.
async fn check_pages_of(
    store: Box<dyn Store>,
    resolution: Resolution,
    seconds: &[i64],
    n_more: usize,
) {
    let counting = CountingStore { store, n_rows: AtomicUsize::new(0) };
    let store: &dyn Store = &counting;
    let dataset = create(store, new_dataset("a")).await;
    append(store, dataset, block(seconds.iter().map(|second| (*second, 1.0)))).await;
    let sight = store.find(dataset).unwrap();
    let mut all = Vec::new();
    store
        .scan_at(&sight, resolution, Span::ALL, &mut |batch| {
            let Rows::Buckets(buckets) = batch.rows()? else { panic!("not buckets") };
            all.extend(buckets);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    let n_folded = all.iter().map(|bucket| bucket.count).sum::<u64>();
    assert_eq!(n_folded, seconds.len() as u64, "{resolution}: {all:?}");
    for order in [Order::Ascending, Order::Descending] {
        for (skip, limit) in
            [(0, 1), (0, 7), (0, 100), (3, 40), (90, 10), (0, 100_000), (90_000, 9)]
        {
            counting.n_rows.store(0, Ordering::Relaxed);
            let read = PageRead { resolution, skip, ..PageRead::raw(Span::ALL, order, limit) };
            let page = store.page_at(&sight, &read).unwrap();
            let n_read = counting.n_rows.load(Ordering::Relaxed);
            let n_skipped = usize::try_from(skip).unwrap();
            let until = all.len().min(n_skipped + limit);
            let want: Vec<Bucket> = match order {
                Order::Ascending => all[n_skipped.min(until)..until].to_vec(),
                Order::Descending => {
                    all.iter().rev().take(until).skip(n_skipped).copied().collect()
                }
            };
            let needed = match order {
                Order::Ascending => &all[..until],
                Order::Descending => &all[all.len() - until..],
            };
            let n_needed = needed.iter().map(|bucket| bucket.count).sum::<u64>();
            let n_most = usize::try_from(n_needed).unwrap() + n_more;
            assert_eq!(page.rows, Rows::Buckets(want), "{resolution} {read:?}");
            assert!(n_read <= n_most, "{read:?}: {n_read} rows were read, {n_needed} are needed");
        }
        let read = PageRead { resolution, count: Count::All, ..PageRead::raw(Span::ALL, order, 3) };
        let page = store.page_at(&sight, &read).unwrap();
        assert_eq!((page.count, page.rows.len()), (Some(all.len() as u64), all.len().min(3)));
    }
}

#[tokio::test]
async fn page_of_computed_buckets_reads_each_source_row_once() {
    let seconds = Resolution::Every(Duration::from_secs(45), None);
    let dense: Vec<i64> = (0..20_000).map(|n| n * 10).collect();
    check_pages(seconds, &dense, 20).await;
    // A row for each day, and days with a row for each second of an hour.
    let sparse: Vec<i64> = (0..5000).map(|n| n * 86_400).collect();
    check_pages(seconds, &sparse, 1100).await;
    let hours =
        (0..20).flat_map(|day| (0..3600).map(move |n| day * 86_400 + n)).collect::<Vec<_>>();
    check_pages(seconds, &hours, 1100).await;
    // Old rows are dense.
    let then_sparse: Vec<i64> = (0..10_000).chain((1..200).map(|n| n * 86_400)).collect();
    check_pages(seconds, &then_sparse, 1100).await;
    if let Some(url) = new_database() {
        let store = PostgresStore::open(&url.parse().unwrap()).unwrap();
        check_pages_of(Box::new(store), seconds, &then_sparse, 1100).await;
    }
}

#[tokio::test]
async fn page_of_days_in_a_time_zone_reads_each_source_row_once() {
    for zone in
        ["Europe/Berlin", "America/Havana", "Asia/Beirut", "America/St_Johns", "Pacific/Apia"]
    {
        for name in ["1d", "2d"] {
            let days = name.parse::<Resolution>().unwrap().in_zone(zone.parse().unwrap()).unwrap();
            // Four years, beginning in 2008, with a row for each two hours and a gap of two months.
            let starts = (0..4 * 4383).map(|n| 1_199_145_600 + n * 7200);
            let seconds: Vec<i64> = starts.filter(|at| at / 5_184_000 != 240).collect();
            check_pages(days, &seconds, 1100).await;
        }
    }
}

#[tokio::test]
async fn pages_have_rows_at_the_ends_of_the_calendar() {
    let (first, last) = (Timestamp::MIN.seconds(), Timestamp::MAX.seconds());
    for length in [1, 45, 420] {
        let resolution = Resolution::Every(Duration::from_secs(length), None);
        check_pages(resolution, &[first, first + 60, 0, 7, last - 60, last], 1100).await;
    }
}
