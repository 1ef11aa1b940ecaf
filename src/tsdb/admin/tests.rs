//! Tests of verification, backup and restore.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use model::block::Rows;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use rusqlite::Connection;
use task::file::UNFINISHED_PREFIX;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::span::Span;
use crate::store::sqlite::SqliteStore;
use crate::store::tests::{append, block, create, new_dataset, newest, scan};
use crate::store::{Catalog as _, Store};

/// Creates a store with packed chunks, unpacked chunks, and rows in the tail, some of which are late.
async fn store_in(folder: &TempDir) -> (PathBuf, DatasetId) {
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = create(&store, new_dataset("kept")).await;
    append(&store, id, block((0..9_000).map(|n| (n * 60, 1.5)))).await;
    store.settle().await.unwrap();
    append(&store, id, block((9_000..12_000).map(|n| (n * 60, 2.5)))).await;
    append(&store, id, block([(61, 7.0), (120, 8.0), (900_000, 9.0)])).await;
    (path, id)
}

fn verified(path: &Path) -> Report {
    let mut last = None;
    let report = verify(path, None, &mut |progress| {
        assert!(progress.n_done <= progress.n_all);
        last = Some(progress);
    });
    assert!(last.is_some());
    report.unwrap()
}

fn n_rows(store: &dyn Store, id: DatasetId) -> usize {
    let mut n_rows = 0;
    let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    scan(store, id, Resolution::Raw, all, &mut |batch| {
        if let Rows::Raw(block) = batch {
            n_rows += block.len();
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    n_rows
}

/// Changes the file with SQL, bypassing the store, and returns the faults that a verification then
/// finds.
#[track_caller]
fn faults_after(path: &Path, sql: &str) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
    drop(connection);
    let report = verified(path);
    assert!(!report.is_sound());
    report.faults
}

#[tokio::test]
async fn verifying_an_unchanged_store_finds_no_faults() {
    let folder = tempdir().unwrap();
    let (path, _) = store_in(&folder).await;
    let report = verified(&path);
    assert_eq!(report.faults, [""; 0]);
    assert_eq!((report.n_datasets, report.n_rows), (1, 12_002));
    assert!(report.n_buckets > 2600, "{}", report.n_buckets);
}

#[tokio::test]
async fn verifying_a_store_finds_a_changed_bucket() {
    let folder = tempdir().unwrap();
    let (path, _) = store_in(&folder).await;
    let sql = "UPDATE buckets SET high = 99 WHERE resolution = 300 AND t = 0";
    let faults = faults_after(&path, sql);
    let [five_minutes, hour] = &faults[..] else { panic!("{faults:?}") };
    assert!(five_minutes.contains("the 5m bucket at 1970-01-01T00:00:00Z is"), "{five_minutes}");
    assert!(hour.contains("the 1h bucket"), "an hour is compared with its buckets: {hour}");
}

#[tokio::test]
async fn verifying_a_store_finds_a_damaged_chunk_among_intact_chunks() {
    let folder = tempdir().unwrap();
    let (path, id) = store_in(&folder).await;
    let flipped =
        "UPDATE chunks SET body = CAST(substr(body, 1, 700) || x'55' || substr(body, 702) AS BLOB)
                   WHERE id = (SELECT min(id) FROM chunks WHERE t_first > 0)";
    let faults = faults_after(&path, flipped);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("wrong checksum"), "{}", faults[0]);

    let store = SqliteStore::open(&path).unwrap();
    let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    let scanned = scan(&store, id, Resolution::Raw, all, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(scanned, Err(StoreError::Damaged { .. })), "{scanned:?}");
    let beside = Span { first: Timestamp::from_seconds(400_000), last: Timestamp::MAX };
    scan(&store, id, Resolution::Raw, beside, &mut |_| ControlFlow::Continue(())).unwrap();
    append(&store, id, block([(800_000, 1.0)])).await;
    assert_eq!(newest(&store, id, 2).0.len(), 2);
}

#[tokio::test]
async fn backup_of_a_store_in_use_can_be_restored() {
    let folder = tempdir().unwrap();
    let (path, id) = store_in(&folder).await;
    let store = SqliteStore::open(&path).unwrap();
    let copy = folder.path().join("copy.sqlite");
    let n_bytes = backup(&path, &copy).unwrap();
    assert_eq!(n_bytes, fs::metadata(&copy).unwrap().len());
    assert!(matches!(backup(&path, &copy), Err(AdminError::Exists { .. })));
    let folder_not_utf8 = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::create_dir(&folder_not_utf8).unwrap();
    let unnamed = backup(&path, &folder_not_utf8.join("copy.sqlite"));
    let Err(AdminError::File { path: unnamed, .. }) = unnamed else { panic!("{unnamed:?}") };
    assert!(unnamed.starts_with(&folder_not_utf8), "{unnamed:?}");
    assert!(verified(&copy).is_sound());

    append(&store, id, block([(1_000_000, 1.0)])).await;
    let refused = restore(&copy, &path).unwrap_err();
    assert!(matches!(refused, AdminError::InUse { .. }), "{refused}");
    assert_eq!(n_rows(&store, id), 12_003);
    let names = |store: &SqliteStore| {
        let mut names = Vec::new();
        let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        store
            .scan(id, Resolution::Raw, all, &mut |batch| {
                names.extend(batch.chunk_id);
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        names
    };
    let before = names(&store);
    drop(store);

    assert!(restore(&copy, &path).unwrap().is_sound());
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(n_rows(&store, id), 12_002);
    assert!(names(&store).iter().all(|name| !before.contains(name)), "another life");
    let names = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
    let is_draft =
        |name: &std::ffi::OsString| name.to_string_lossy().starts_with(UNFINISHED_PREFIX);
    assert_eq!(names.filter(is_draft).count(), 0);
}

#[tokio::test]
async fn backup_with_faults_is_not_restored() {
    let folder = tempdir().unwrap();
    let (path, id) = store_in(&folder).await;
    let copy = folder.path().join("copy.sqlite");
    backup(&path, &copy).unwrap();
    faults_after(&copy, "DELETE FROM buckets WHERE resolution = 86400 AND t = 0");
    let refused = restore(&copy, &path).unwrap_err();
    assert!(refused.to_string().contains("the 1d bucket at 1970-01-01"), "{refused}");
    assert_eq!(n_rows(&SqliteStore::open(&path).unwrap(), id), 12_002);
    let missing = restore(&folder.path().join("none"), &path);
    assert!(matches!(missing, Err(AdminError::Missing { .. })));
}
