//! Records of the archive, and writes over archived rows.

use super::{
    super::archived::{
        ArchiveCommit, ArchiveLease, ArchiveRecords, ArchivedFile, Beneath, RowDeletion,
    },
    *,
};
use crate::archive::month::Month;

/// The process that writes files.
const HOLDER: i64 = 1;

fn lease(holder: i64) -> ArchiveLease {
    ArchiveLease { holder, now: at_second(0), until: at_second(60) }
}

/// A file of January 1970 with rows until `last`.
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

async fn append_over(
    store: &dyn ArchiveRecords,
    id: DatasetId,
    rows: Block,
    beneath: Beneath,
) -> Result<Appended> {
    store.append_over(id, replace(rows), beneath, Box::new(|_, _| ())).await
}

/// Checks what a store does with records of archived rows.
pub(crate) async fn check(store: &dyn ArchiveRecords) {
    let id = create(store, new_dataset("archived")).await;
    let minute = |n: i64| (n * 60, f64::from(i32::try_from(n).unwrap()));
    append(store, id, block((0..100).map(minute))).await;
    append(store, id, block([(5_184_000, 1.0)])).await;
    let last_row = newest(store, id, 2).0.ids[0];
    let before = buckets(store, id, Resolution::Day);

    assert!(store.lease_archive(lease(HOLDER)).await.unwrap());
    assert!(!store.lease_archive(lease(2)).await.unwrap());
    let file = january(7, 100, 99 * 60);
    assert!(!store.announce_file(id, file.clone(), 2).await.unwrap(), "without the lease");
    assert!(store.announce_file(id, file.clone(), HOLDER).await.unwrap());
    assert_eq!(store.archived(id, ALL).unwrap(), [], "its rows are in the store");
    assert!(store.has_archive().unwrap());
    let month = file.month;
    let commit = ArchiveCommit { dataset: id, month, stamp: Some(7), revision: 2, last_row };
    assert!(store.commit_file(commit, HOLDER).await.unwrap());
    assert_eq!(store.archived(id, ALL).unwrap()[0].file, file);
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

    let deleted = store.delete_rows(id, ALL, now(), Box::new(|_| {})).await;
    assert!(matches!(deleted, Err(StoreError::ArchiveChanged { .. })), "{deleted:?}");
    let deletion = RowDeletion {
        span: Span { first: at_second(61), last: at_second(180) },
        now: now(),
        newest_archived: Some(at_second(99 * 60)),
        beneath: Beneath { rows: block([minute(0), minute(1), minute(4)]), ..beneath(&[7]) },
        revision: 3,
        n_rows: 2,
        stamp: 9,
    };
    let n_gone = store.delete_over(id, deletion, Box::new(|_| {})).await.unwrap();
    assert_eq!(n_gone, 3, "one stored row and two archived ones");
    let first = buckets(store, id, Resolution::FiveMinutes)[0];
    assert_eq!((first.high, first.count), (400.0, 3));
    let months = store.archived(id, ALL).unwrap();
    assert_eq!((months[0].file.stamp, months[0].cuts.len()), (9, 1));

    // A file that was read before rows were deleted does not take effect.
    assert!(store.announce_file(id, january(10, 98, 99 * 60), HOLDER).await.unwrap());
    let stale = ArchiveCommit { dataset: id, month, stamp: Some(10), revision: 3, last_row };
    assert!(!store.commit_file(stale, HOLDER).await.unwrap());
    let fresh = ArchiveCommit { dataset: id, month, stamp: Some(10), revision: 4, last_row };
    assert!(store.commit_file(fresh, HOLDER).await.unwrap());
    assert_eq!(seconds_of_page(store, id, 0, 9).1, [60, 5_184_000], "a newer row stays");

    let n_pruned = store.prune_files(id, vec![10], None, Box::new(|_| {})).await.unwrap();
    assert_eq!(n_pruned, 98);
    let refused = try_append(store, id, block([(99 * 60, 1.0)])).await;
    assert!(matches!(refused, Err(StoreError::Pruned { .. })), "{refused:?}");
    let doomed = store.doomed_files(Timestamp::MAX, 9).unwrap();
    assert_eq!(doomed, [(id, "january.parquet".to_owned())]);
    store.forget_file(id, doomed[0].1.clone()).await.unwrap();
    assert!(!store.has_archive().unwrap());
    check_newest(store, id, Some(at_second(5_184_000)));
}
