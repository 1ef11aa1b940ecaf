//! Tests that cached chunk indexes remain correct while this or another process writes.

use std::collections::BTreeMap;

use tempfile::tempdir;

use super::*;
use crate::store::sqlite::{SqliteStore, scan};
use crate::store::tests::{self as contract, Read};
use crate::store::{Catalog as _, RowDeletion, Store as _};

/// Pages to read, at both ends and in the middle of about 9000 seconds.
const READS: [Read; 4] =
    [(0, 5, 0, 99_999), (4000, 5, 0, 99_999), (2500, 9, 700, 7000), (8990, 50, -9, 99_999)];

#[tokio::test]
async fn chunks_written_by_another_process_are_found() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let reader = SqliteStore::open(&path).unwrap();
    // Removes the lock, so that a second store can be opened, as by a program that does not know the
    // lock.
    std::fs::remove_file(folder.path().join("datasets.sqlite.lock")).unwrap();
    let writer = SqliteStore::open(&path).unwrap();
    let id = contract::create(&writer, contract::new_dataset("shared")).await;
    let mut want: BTreeMap<i64, f64> = (0..6000).map(|n| (n, 0.5)).collect();
    contract::append(&writer, id, contract::block(want.clone())).await;
    contract::compare(&reader, id, &want, &READS);
    let later = [
        // In this order: chunks at the end, a late row, late rows that overlap chunks, and a few rows at
        // the end.
        (6000..9000).map(|n| (n, 1.5)).collect(),
        vec![(-7, 2.5), (31, 2.5)],
        (500..2500).map(|n| (n * 2, 3.5)).chain((0..700).map(|n| (-1000 + n, 3.5))).collect(),
        vec![(9000, 4.5), (9001, 4.5)],
    ];
    for rows in later {
        contract::append(&writer, id, contract::block(rows.clone())).await;
        want.extend(rows);
        contract::compare(&reader, id, &want, &READS);
    }
    let gone = Span { first: Timestamp::from_seconds(3000), last: Timestamp::from_seconds(5500) };
    writer
        .delete_rows(id, RowDeletion::new(gone, Timestamp::from_seconds(1)), Arc::new(|_| {}))
        .await
        .unwrap();
    want.retain(|second, _| !(3000..=5500).contains(second));
    contract::compare(&reader, id, &want, &READS);
    writer.settle().await.unwrap();
    contract::compare(&reader, id, &want, &READS);
    assert!(
        writer
            .prune(id, Timestamp::from_seconds(2400), 99_999, Arc::new(|_| {}))
            .await
            .unwrap()
            .n_rows
            > 0
    );
    let kept: Vec<i64> =
        contract::newest(&reader, id, 99_999).0.times.iter().map(|time| time.seconds()).collect();
    for skip in [0, 1000, 3000] {
        let from = usize::try_from(skip).unwrap();
        let (count, page) = contract::seconds_of_page(&reader, id, skip, 3);
        assert_eq!((count, &page[..]), (kept.len() as u64, &kept[from..from + 3]));
    }
}

#[tokio::test]
async fn reader_of_an_earlier_snapshot_finds_the_chunks_of_that_snapshot() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = contract::create(&store, contract::new_dataset("timestamps")).await;
    contract::append(&store, id, contract::block((0..4000).map(|n| (n, 0.5)))).await;
    let series = SeriesId::rows(id);
    let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    let count = |connection: &Connection| {
        let chunk_index = store.chunk_indexes.read(connection, series).unwrap();
        let n_rows = chunk_index.within(connection, series, all).unwrap().n_rows();
        assert_eq!(n_rows, scan::count(connection, series, all).unwrap());
        n_rows
    };
    let mut early = Connection::open(&path).unwrap();
    let early = early.transaction().unwrap();
    assert_eq!(scan::count(&early, series, all).unwrap(), 4000);
    contract::append(&store, id, contract::block((4000..7000).map(|n| (n, 0.5)))).await;
    let late = Connection::open(&path).unwrap();
    assert_eq!((count(&late), count(&early), count(&late)), (7000, 4000, 7000));
    let first = Span { first: Timestamp::MIN, last: Timestamp::from_seconds(999) };
    store
        .delete_rows(id, RowDeletion::new(first, Timestamp::from_seconds(1)), Arc::new(|_| {}))
        .await
        .unwrap();
    assert_eq!((count(&late), count(&early), count(&late)), (6000, 4000, 6000));
}

#[tokio::test]
async fn index_larger_than_the_cache_is_read_once() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = contract::create(&store, contract::new_dataset("long")).await;
    contract::append(&store, id, contract::block((0..150_000).map(|n| (n, 0.5)))).await;
    let connection = Connection::open(&path).unwrap();
    let read = || store.chunk_indexes.read(&connection, SeriesId::rows(id)).unwrap();
    assert!(read().entries.len() * size_of::<Entry>() > BYTES_MAX);
    assert!(Arc::ptr_eq(&read(), &read()));
}
