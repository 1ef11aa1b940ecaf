//! Tests of appends that are sent twice.

use super::super::batch::{BatchId, StoredBatch};
use super::*;

pub(crate) fn id(writer: i64, name: &str) -> BatchId {
    BatchId { writer: key(writer), key: name.parse().unwrap(), digest: [7; 32] }
}

/// Returns an append of two rows from `second` on, which form one named batch.
pub(crate) fn named(id: BatchId, second: i64) -> Append {
    let batches = vec![Batch { id, n_rows: 2 }];
    Append { batches, ..replace(block([(second, 1.0), (second + 1, 1.0)])) }
}

/// Appends a batch and returns the revision, or `None` if the batch was already stored.
pub(crate) async fn put(store: &dyn Store, dataset: DatasetId, append: Append) -> Option<u64> {
    match store.append(dataset, append, Arc::new(|_, _| ())).await {
        Ok(appended) => Some(appended.revision),
        Err(StoreError::BatchStored) => None,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn find(store: &dyn Store, writer: i64, name: &str) -> Option<u64> {
    let found = store.find_batch(key(writer), &name.parse().unwrap()).unwrap();
    let StoredBatch { digest, appended } = found?;
    assert_eq!((digest, appended.n_rows), ([7; 32], 2));
    Some(appended.revision)
}

pub(super) async fn check(open: Open<'_>) {
    let store = open();
    let dataset = create(&*store, new_dataset("repeats")).await;
    assert_eq!(find(&*store, 1, "a"), None);
    assert_eq!(put(&*store, dataset, named(id(1, "a"), 10)).await, Some(1));
    drop(store);
    let store = open();
    assert_eq!(find(&*store, 1, "a"), Some(1));
    let unnoticed: OnCommit = Arc::new(|_, _| panic!("nothing is stored"));
    let again = store.append(dataset, named(id(1, "a"), 20), unnoticed).await;
    assert!(matches!(again, Err(StoreError::BatchStored)), "{again:?}");
    assert_eq!(put(&*store, dataset, named(id(2, "a"), 30)).await, Some(2), "another writer's");

    // A failed append stores none of its batches.
    let other = create(&*store, new_dataset("repeats elsewhere")).await;
    assert_eq!(put(&*store, other, named(id(1, "a"), 10)).await, None, "also for another dataset");
    let mut both = named(id(1, "b"), 40);
    both.batches.extend(named(id(1, "a"), 0).batches);
    assert_eq!(put(&*store, dataset, both).await, None);
    assert_eq!(find(&*store, 1, "b"), None);
    compare(&*store, dataset, &[10, 11, 30, 31].map(|second| (second, 1.0)).into(), &[]);
    compare(&*store, other, &BTreeMap::new(), &[]);
    let mut both = named(id(1, "b"), 40);
    both.batches.extend(named(id(1, "c"), 0).batches);
    assert_eq!(put(&*store, dataset, both).await, Some(3));
    assert_eq!(["b", "c"].map(|name| find(&*store, 1, name)), [Some(3); 2]);

    // The batches of a deleted dataset no longer exist, so their names can be used again.
    assert_eq!(put(&*store, other, named(id(1, "d"), 10)).await, Some(1));
    assert!(store.delete(other).await.unwrap());
    assert_eq!(find(&*store, 1, "d"), None);
    assert_eq!(put(&*store, dataset, named(id(1, "d"), 50)).await, Some(4));
    assert_eq!(find(&*store, 1, "d"), Some(4));
}

pub(super) async fn check_at_once(open: Open<'_>) {
    let store = open();
    let datasets = ["at once", "at once elsewhere"];
    let mut ids = Vec::new();
    for name in datasets {
        ids.push(create(&*store, new_dataset(name)).await);
    }
    let puts = (0..16).map(|n| put(&*store, ids[n % 2], named(id(3, "same"), 10)));
    let done = futures::future::join_all(puts).await;
    assert_eq!(done.iter().flatten().collect::<Vec<_>>(), [&1], "{done:?}");
    assert_eq!(find(&*store, 3, "same"), Some(1));
}
