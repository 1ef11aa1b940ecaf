//! Checks of the records of commits that removed or replaced rows.

use super::*;

/// Checks the records of appends, deletions and pruning, after the store was opened again.
pub(crate) async fn check(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("row_changes")).await;
    append(&*store, id, block((0..3000).map(|n| (n * 60, 1.0)))).await;
    append(&*store, id, block([(60, 2.0), (61, 2.0), (120, 2.0), (180, 2.0), (200_000, 2.0)]))
        .await;
    append(&*store, id, block([(61, 3.0), (200_060, 3.0)])).await;
    let start = store.last_row(id).unwrap();
    append(&*store, id, block([(62, 4.0), (200_120, 4.0)])).await;
    let span = Span { first: at_second(100), last: at_second(200_060) };
    store.delete_rows(id, RowDeletion::new(span, now()), Arc::new(|_| {})).await.unwrap();
    append(&*store, id, block([(120, 5.0), (200_120, 5.0)])).await;
    store.prune(id, at_second(100_000), 99_999, Arc::new(|_| {})).await.unwrap();
    drop(store);

    let store = open();
    let changes = store.row_changes(id, (0, 0), 99).unwrap().unwrap();
    let revisions: Vec<u64> = changes.iter().map(|change| change.revision).collect();
    assert_eq!(revisions, [2, 3, 5, 6, 7], "not the commits that only added rows");
    let spans: Vec<Option<Span>> = changes.iter().map(|change| change.removed).collect();
    let old = Span { first: Timestamp::MIN, last: Timestamp::from_micros(99_899_999_999) };
    assert_eq!(spans, [None, None, Some(span), None, Some(old)], "whole buckets are pruned");
    // `first` is the number of the first row after the bulk load. Its commit has five rows, all of which
    // replace a row except for the second and the last.
    let first = start - 6;
    let replaced = |idx: usize| -> Vec<i64> {
        let numbers = first..first + 20;
        numbers.filter(|number| changes[idx].has_replaced(*number)).map(|n| n - first).collect()
    };
    assert_eq!([0, 1, 2, 3].map(replaced), [vec![0, 2, 3], vec![5], vec![], vec![10]]);
    let last_rows = changes.iter().map(|change| change.last_row - start);
    assert!(last_rows.is_sorted() && changes[2].last_row >= start + 2);

    let after = |revision, row, limit| {
        let found = store.row_changes(id, (revision, row), limit).unwrap().unwrap();
        found.iter().map(|change| change.revision).collect::<Vec<_>>()
    };
    let last_row = store.last_row(id).unwrap();
    assert_eq!(after(5, last_row, 99), [6, 7]);
    assert_eq!(after(7, last_row, 99), Vec::<u64>::new());
    assert_eq!(after(7, start + 2, 1), [6], "rows after the given one");
    assert_eq!(after(0, 0, 2), [2, 3]);
    assert!(store.delete(id).await.unwrap());
    assert_eq!(store.row_changes(id, (0, 0), 9).unwrap(), Some(vec![]));
}
