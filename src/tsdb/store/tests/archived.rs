//! Tests of the records of archived files, and of writes over archived rows.

use std::time::Duration;

use super::super::archived::{ArchiveCommit, ArchivedDeletion, ArchivedFile, Beneath};
use super::super::engine::Engine;
use super::*;
use crate::archive::month::Month;

/// Number that identifies the archiving process.
const HOLDER: i64 = 1;

/// Duration of a lease that does not expire during the tests.
const LONG: Duration = Duration::from_hours(24);

/// Returns the record of a file of January 1970, with its last row at second `last`.
fn january(stamp: i64, n_rows: u64, last: i64) -> ArchivedFile {
    ArchivedFile {
        month: Month::of(at_second(0)),
        stamp,
        key: "january.parquet".to_owned(),
        n_rows,
        n_bytes: 1000,
        sha256: [3; 32],
        tail_bytes: 100,
        tail_crc: u32::MAX,
        rows: Span { first: at_second(0), last: at_second(last) },
        last_row: 200,
        columns: -5,
        written: now(),
    }
}

async fn delete_archived(
    store: &dyn Engine,
    id: DatasetId,
    span: Span,
    archived: ArchivedDeletion,
) -> Result<u64> {
    let deletion = RowDeletion { archived: Some(archived), ..RowDeletion::new(span, now()) };
    Ok(store.delete_rows(id, deletion, Arc::new(|_| {})).await?.n_rows)
}

async fn append_over(
    store: &dyn Engine,
    id: DatasetId,
    rows: Block,
    beneath: Beneath,
) -> Result<Appended> {
    let append = Append { beneath: Some(beneath), ..replace(rows) };
    store.append(id, append, Arc::new(|_, _| ())).await
}

/// Records a file with the rows of January 1970 of a dataset, and removes these rows from the store.
pub(crate) async fn archive_january(store: &dyn Engine, id: DatasetId) {
    let month = Month::of(at_second(0));
    assert!(store.lease_archive(HOLDER, LONG).await.unwrap());
    assert!(store.announce_file(id, january(7, 1, 0), HOLDER).await.unwrap());
    let last_row = store.last_row(id).unwrap();
    let commit = ArchiveCommit { dataset: id, month, stamp: Some(7), revision: 1, last_row };
    assert!(store.commit_file(commit, HOLDER).await.unwrap());
}

/// Checks the records of archived files and the writes over archived rows of a store.
pub(crate) async fn check(store: &dyn Engine) {
    store.expect_archive();
    let id = create(store, new_dataset("archived")).await;
    let minute = |n: i64| (n * 60, f64::from(i32::try_from(n).unwrap()));
    append(store, id, block((0..100).map(minute))).await;
    append(store, id, block([(5_184_000, 1.0)])).await;
    let last_row = newest(store, id, 2).0.ids[0];
    let before = buckets(store, id, Resolution::Day);

    assert_eq!(store.last_row(id).unwrap(), last_row + 1);
    assert!(store.lease_archive(2, Duration::ZERO).await.unwrap());
    assert!(store.lease_archive(HOLDER, LONG).await.unwrap(), "the other one is over");
    assert!(store.lease_archive(HOLDER, LONG).await.unwrap(), "extended");
    assert!(!store.lease_archive(2, LONG).await.unwrap());
    let file = january(7, 100, 99 * 60);
    assert!(!store.announce_file(id, file.clone(), 2).await.unwrap(), "without the lease");
    assert!(store.announce_file(id, file.clone(), HOLDER).await.unwrap());
    assert_eq!(store.archived(id, Span::ALL).unwrap(), [], "its rows are in the store");
    assert!(store.has_archive().unwrap());
    let month = file.month;
    let commit = ArchiveCommit { dataset: id, month, stamp: Some(7), revision: 2, last_row };
    assert!(store.commit_file(commit, HOLDER).await.unwrap());
    assert_eq!(store.archived(id, Span::ALL).unwrap()[0].file, file);
    assert_eq!(store.key_in_effect().unwrap().as_ref(), Some(&file.key));
    assert_eq!(seconds_of_page(store, id, 0, 9), (1, vec![5_184_000]));
    assert_eq!(buckets(store, id, Resolution::Day), before, "buckets stay");

    let changed = try_append(store, id, block([(61, 500.0)])).await;
    assert!(matches!(changed, Err(StoreError::ArchiveChanged { .. })), "{changed:?}");
    let beneath = |stamps: &[i64]| Beneath {
        span: Span { first: at_second(0), last: at_second(299) },
        stamps: stamps.to_vec(),
        rows: block((0..5).map(minute)),
    };
    let other = append_over(store, id, block([(61, 500.0)]), beneath(&[8])).await;
    assert!(matches!(other, Err(StoreError::ArchiveChanged { .. })), "{other:?}");
    append_over(store, id, block([(60, 400.0), (61, 500.0)]), beneath(&[7])).await.unwrap();
    let first = buckets(store, id, Resolution::FiveMinutes)[0];
    assert_eq!((first.open, first.high, first.close, first.count), (0.0, 500.0, 4.0, 6));

    let deleted = store.delete_rows(id, RowDeletion::new(Span::ALL, now()), Arc::new(|_| {})).await;
    assert!(matches!(deleted, Err(StoreError::ArchiveChanged { .. })), "{deleted:?}");
    let span = Span { first: at_second(61), last: at_second(180) };
    let deletion = ArchivedDeletion {
        newest_archived: Some(at_second(99 * 60)),
        beneath: Beneath {
            span: Span::ALL,
            stamps: vec![7],
            rows: block([minute(0), minute(1), minute(4)]),
        },
        n_rows: 2,
        revision: 3,
        stored: vec![(span, 1)],
        stamp: 9,
    };
    let other = ArchivedDeletion { stored: vec![(span, 0)], ..deletion.clone() };
    let refused = delete_archived(store, id, span, other).await;
    assert!(matches!(refused, Err(StoreError::ArchiveChanged { .. })), "{refused:?}");
    // A new row in another month does not invalidate the prepared deletion.
    append(store, id, block([(5_184_000, 1.0)])).await;
    let n_gone = delete_archived(store, id, span, deletion).await.unwrap();
    assert_eq!(n_gone, 3, "one stored row and two archived ones");
    let first = buckets(store, id, Resolution::FiveMinutes)[0];
    assert_eq!((first.high, first.count), (400.0, 3));
    let months = store.archived(id, Span::ALL).unwrap();
    assert_eq!((months[0].file.stamp, months[0].cuts.len()), (9, 1));

    // A file is rejected if rows were deleted after its rows were read.
    assert!(store.announce_file(id, january(10, 98, 99 * 60), HOLDER).await.unwrap());
    let stale = ArchiveCommit { dataset: id, month, stamp: Some(10), revision: 4, last_row };
    assert!(!store.commit_file(stale, HOLDER).await.unwrap());
    let fresh = ArchiveCommit { dataset: id, month, stamp: Some(10), revision: 5, last_row };
    assert!(store.commit_file(fresh, HOLDER).await.unwrap());
    assert_eq!(seconds_of_page(store, id, 0, 9).1, [60, 5_184_000], "a newer row stays");

    check_pruned(store, id).await;
}

/// Checks that a prune removes an archived month only as a whole, and the stored rows in it only
/// afterwards.
async fn check_pruned(store: &dyn Engine, id: DatasetId) {
    let prune = async |second| {
        store.prune(id, at_second(second), 999, Arc::new(|_| {})).await.unwrap().n_rows
    };
    assert_eq!(prune(2_000_000).await, 0, "a row over it stays");
    assert_eq!(prune(2_678_400).await, 98);
    assert_eq!(store.archived(id, Span::ALL).unwrap(), []);
    assert_eq!(prune(2_678_400).await, 1, "the row over it");
    let refused = try_append(store, id, block([(99 * 60, 1.0)])).await;
    assert!(matches!(refused, Err(StoreError::Pruned { .. })), "{refused:?}");
    assert_eq!(store.doomed_file(LONG).unwrap(), None, "a reader may still use it");
    let (_, month, key) = store.doomed_file(Duration::ZERO).unwrap().unwrap();
    assert_eq!((month, &*key), (Month::of(at_second(0)), "january.parquet"));
    store.forget_file(id, key).await.unwrap();
    assert_eq!(store.doomed_file(Duration::ZERO).unwrap(), None);
    assert!(!store.has_archive().unwrap());
    check_newest(store, id, Some(at_second(5_184_000)));
    let n_gone =
        store.delete_rows(id, RowDeletion::new(Span::ALL, now()), Arc::new(|_| {})).await.unwrap();
    assert_eq!(n_gone.n_rows, 1, "no archived rows are left");
}

/// Checks the timestamp of the latest row after a deletion, between whose preparation and commit a later
/// month was archived, and after prunes.
pub(crate) async fn check_newest_after_removals(store: &dyn Engine) {
    store.expect_archive();
    let id = create(store, new_dataset("newest")).await;
    append(store, id, block([(0, 1.0), (60, 2.0)])).await;
    append(store, id, block([(2_678_400, 3.0), (2_678_460, 4.0)])).await;
    assert!(store.lease_archive(HOLDER, LONG).await.unwrap());
    let archive = async |stamp, start: i64| {
        let rows = Span { first: at_second(start), last: at_second(start + 60) };
        let month = Month::of(rows.first);
        let key = format!("{month}.parquet");
        let file = ArchivedFile { month, key, rows, ..january(stamp, 2, 0) };
        assert!(store.announce_file(id, file, HOLDER).await.unwrap());
        let last_row = store.last_row(id).unwrap();
        let commit =
            ArchiveCommit { dataset: id, month, stamp: Some(stamp), revision: 9, last_row };
        assert!(store.commit_file(commit, HOLDER).await.unwrap());
    };
    archive(1, 0).await;
    // Prepares a deletion before the second month is archived.
    let span = Span { first: at_second(0), last: at_second(0) };
    let deletion = ArchivedDeletion {
        newest_archived: Some(at_second(60)),
        beneath: Beneath { span: Span::ALL, stamps: vec![1], rows: block([(60, 2.0)]) },
        n_rows: 1,
        revision: 2,
        stored: vec![(span, 0)],
        stamp: 5,
    };
    archive(2, 2_678_400).await;
    let stale = delete_archived(store, id, span, deletion.clone()).await;
    assert!(matches!(stale, Err(StoreError::ArchiveChanged { .. })), "{stale:?}");
    let deletion = ArchivedDeletion {
        newest_archived: Some(at_second(2_678_460)),
        beneath: Beneath { stamps: vec![1, 2], ..deletion.beneath },
        ..deletion
    };
    delete_archived(store, id, span, deletion).await.unwrap();
    check_newest(store, id, Some(at_second(2_678_460)));
    let pruned = store.prune(id, at_second(2_678_400), 999, Arc::new(|_| {})).await.unwrap().n_rows;
    assert_eq!(pruned, 2);
    check_newest(store, id, Some(at_second(2_678_460)));
    let pruned = store.prune(id, at_second(6_000_000), 999, Arc::new(|_| {})).await.unwrap().n_rows;
    assert_eq!(pruned, 2);
    check_newest(store, id, None);
}
