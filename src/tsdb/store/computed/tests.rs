use super::*;
use crate::store::sqlite::SqliteStore;
use crate::store::tests::{append, block, create, new_dataset};

#[tokio::test]
async fn computed_buckets_are_bounded_by_the_rows_they_need() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("rows.sqlite")).unwrap();
    let store: &dyn Store = &store;
    let dataset = create(store, new_dataset("a")).await;
    append(store, dataset, block((0..3000_u32).map(|n| (i64::from(n) * 10, f64::from(n))))).await;
    let sight = store.sight(None, &DatasetRef::Id(dataset)).unwrap().unwrap();
    let read = |name: &str, source_rows_max| {
        let (resolution, mut buckets) = (name.parse().unwrap(), Vec::new());
        let visit: VisitBatch<'_> = &mut |batch| {
            if let Rows::Buckets(more) = batch.rows()? {
                buckets.extend(more);
            }
            Ok(ControlFlow::Continue(()))
        };
        compute(store, &sight, (resolution, Span::ALL), source_rows_max, visit).map(|()| buckets)
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
    let sight = store.sight(None, &DatasetRef::Id(dataset)).unwrap().unwrap();
    let read = |order, skip, limit| {
        let resolution = Resolution::Every(Duration::from_secs(45));
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
