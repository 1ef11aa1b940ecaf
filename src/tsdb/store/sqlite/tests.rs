//! Tests of the embedded store: the tests that every store must pass, and tests of what only this store
//! guarantees.

mod kills;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;

use db::format::FormatError;
use model::block::Rows;
use tempfile::tempdir;

use super::*;
use crate::store::{AppendMode, tests as contract};

#[tokio::test]
async fn writes_to_archived_months_update_the_archive_records() {
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    contract::archived::check(&store).await;
    contract::archived::check_newest_after_removals(&store).await;
}

#[tokio::test]
async fn store_passes_the_tests_that_all_stores_share() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a folder/datasets.sqlite");
    contract::check_all(&|| Box::new(SqliteStore::open(&path).unwrap())).await;
    contract::check_chunk_ids(&|| Box::new(SqliteStore::open(&path).unwrap())).await;
}

#[test]
fn random_writes_lead_to_the_rows_and_buckets_of_a_plain_computation() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    contract::random::check(&|| Box::new(SqliteStore::open(&path).unwrap()), 32);
}

#[test]
fn after_random_sharing_changes_each_key_sees_only_datasets_that_it_can_access() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let open = || -> Box<dyn Store> { Box::new(SqliteStore::open(&path).unwrap()) };
    contract::catalog::check_random_sharing(&open, 16);
}

#[test]
fn store_of_another_format_is_rejected() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Format(FormatError { found: 99, .. })), "{error}");
}

#[test]
fn deleting_a_dataset_leaves_no_records_of_it() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let mut connection = Connection::open(&path).unwrap();
    tables::SCHEMA.create_tables(&mut connection).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    let new = contract::new_dataset("doomed");
    let now = Timestamp::from_seconds(1);
    let made = ready(datasets::create(&mut &connection, &[new], None, now)).unwrap();
    let made = &made[0];
    let n = 60 * 1024;
    for rows in [contract::block((0..n).map(|n| (n * 9, 1.0))), contract::block([(3, 1.0)])] {
        append::append(&connection, made.id, &mut rows.clone(), AppendMode::Replace, now, None)
            .unwrap();
    }
    assert!(delete::dataset(&connection, made.id).unwrap());
    connection.execute_batch("COMMIT").unwrap();
    let count = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    let mut n_steps = 0;
    while delete::step(&connection).unwrap() {
        n_steps += 1;
    }
    assert!(n_steps > 3, "{n_steps} steps at once hold up nobody for long");
    for table in [
        "datasets", "metadata", "columns", "progress", "chunks", "tail", "buckets", "doomed",
        "postings", "terms",
    ] {
        assert_eq!(count(table), 0, "{table}");
    }
}

#[tokio::test]
async fn many_new_buckets_are_stored_in_a_chunk_that_is_joined_later() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = contract::create(&store, contract::new_dataset("many")).await;
    let n_chunks = || -> (i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM chunks WHERE resolution = 300),
            (SELECT count(*) FROM buckets WHERE resolution = 300)";
        let connection = Connection::open(&path).unwrap();
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let mut want = BTreeMap::new();
    let mut put = async |minutes: std::ops::Range<i64>, value: f64| {
        let rows: BTreeMap<i64, f64> = minutes.map(|minute| (minute * 60, value)).collect();
        contract::append(&store, id, contract::block(rows.clone())).await;
        want.extend(rows);
        contract::compare(&store, id, &want, &[(5, 40, 30, 900_000), (700, 9, 0, 90_000)]);
    };
    for batch in 0..12 {
        put(batch * 1001..(batch + 1) * 1001, 0.1).await;
        put((batch + 1) * 1001 - 1..(batch + 1) * 1001, 0.2).await;
    }
    assert_eq!(n_chunks(), (12, 1), "one of each append, and the bucket that is still open");
    put(3000..3005, 0.3).await;
    store.settle().await.unwrap();
    let (n_after, _) = n_chunks();
    assert!((2..=7).contains(&n_after), "{n_after}");
    put(3003..3600, 0.4).await;
    put(12_012..14_000, 0.5).await;
    store.settle().await.unwrap();
    assert!(crate::admin::verify(&path, None, &mut |_| {}).unwrap().is_sound());
}

#[tokio::test]
async fn compaction_keeps_the_buckets_next_to_a_damaged_chunk() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = contract::create(&store, contract::new_dataset("damaged")).await;
    for batch in 0..12 {
        let minutes = batch * 1001..(batch + 1) * 1001;
        let rows = minutes.map(|minute| (minute * 60, 0.1));
        contract::append(&store, id, contract::block(rows)).await;
    }
    let damage = |connection: &Connection| {
        let sql = "UPDATE chunks SET body = x'00' WHERE id IN
            (SELECT id FROM chunks WHERE resolution = 300 ORDER BY t_last LIMIT 1 OFFSET 2)";
        Ok(connection.execute(sql, [])?)
    };
    assert_eq!(store.writer.run(damage, |_| {}).await.unwrap(), 1);
    let span = Span { first: Timestamp::MIN, last: Timestamp::from_seconds(100_000) };
    let n_buckets = || {
        let mut n = 0;
        contract::scan(&store, id, Resolution::FiveMinutes, span, &mut |batch| {
            n += batch.len();
            ControlFlow::Continue(())
        })
        .unwrap();
        n
    };
    let n_before = n_buckets();
    store.settle().await.unwrap();
    assert_eq!(n_buckets(), n_before);
    drop(store);
    let report = crate::admin::verify(&path, None, &mut |_| {}).unwrap();
    assert_eq!((report.n_rows, report.n_faults), (12_012, 1));
}

/// Scans a store and returns the seconds of its rows.
fn scanned(store: &SqliteStore, id: DatasetId) -> Result<Vec<i64>, StoreError> {
    let mut seconds = Vec::new();
    let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    contract::scan(store, id, Resolution::Raw, all, &mut |batch| {
        if let Rows::Raw(block) = batch {
            seconds.extend(block.times.iter().map(|time| time.seconds()));
        }
        ControlFlow::Continue(())
    })?;
    Ok(seconds)
}

#[tokio::test]
async fn full_disk_is_reported_and_loses_no_rows() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = contract::create(&store, contract::new_dataset("full")).await;
    store.limit_pages(120).await.unwrap();
    let mut want = BTreeMap::new();
    let refused = loop {
        let first = i64::try_from(want.len()).unwrap();
        let rows: BTreeMap<i64, f64> = (first..first + 700).map(|n| (n, 1.0 / 3.0)).collect();
        let block = contract::block(rows.clone());
        match contract::try_append(&store, id, block).await {
            Ok(_) => want.extend(rows),
            Err(error) => break error,
        }
        assert!(want.len() < 1_000_000, "the disk never fills");
    };
    assert!(matches!(refused, StoreError::Full), "{refused:?}");
    assert!(!want.is_empty());
    contract::compare(&store, id, &want, &[(3, 9, 0, 5_000)]);
    // A smaller write than the rejected one succeeds, but is no proof that the store has enough space
    // again.
    contract::append(&store, id, contract::block([(-5, 1.0)])).await;
    want.insert(-5, 1.0);
    let checked = store.check().await;
    assert!(matches!(checked, Err(StoreError::Full)), "{checked:?}");
    store.limit_pages(1_000_000).await.unwrap();
    let first = i64::try_from(want.len()).unwrap();
    let rows = (first..first + 700).map(|n| (n, 1.0 / 3.0));
    contract::append(&store, id, contract::block(rows.clone())).await;
    want.extend(rows);
    store.check().await.unwrap();
    drop(store);
    contract::compare(&SqliteStore::open(&path).unwrap(), id, &want, &[]);
}

#[tokio::test]
async fn store_locks_its_file_and_fails_after_the_file_is_replaced() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = contract::create(&store, contract::new_dataset("kept")).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    assert!(matches!(SqliteStore::open(&path), Err(StoreError::InUse)));
    let copy = folder.path().join("copy");
    crate::admin::backup(&path, &copy).unwrap();
    contract::append(&store, id, contract::block((2..9_000).map(|n| (n, 1.0)))).await;
    fs::rename(copy, &path).unwrap();
    let block = contract::block([(9_999, 2.0)]);
    let on_commit: OnCommit = Arc::new(|_, _| panic!("it is not durable"));
    let refused = store.append(id, contract::replace(block), on_commit).await;
    assert!(matches!(refused, Err(StoreError::Replaced)), "{refused:?}");
    assert!(matches!(store.check().await, Err(StoreError::Replaced)));
    assert!(matches!(scanned(&store, id), Err(StoreError::Replaced)));
    drop(store);
    assert_eq!(scanned(&SqliteStore::open(&path).unwrap(), id).unwrap(), [1]);
}

#[tokio::test]
async fn first_read_after_the_file_is_deleted_fails() {
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    let id = contract::create(&store, contract::new_dataset("gone")).await;
    fs::remove_dir_all(folder.path()).unwrap();
    let read = scanned(&store, id);
    assert!(matches!(read, Err(StoreError::Replaced)), "{read:?}");
}

#[tokio::test]
async fn records_of_batches_are_deleted_by_age_and_beyond_the_maximum_number() {
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    let fill = |connection: &Connection| {
        Ok(connection.execute_batch(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 100700)
             INSERT INTO batches SELECT writer, n, n, 1, 1, 1, x'00', unixepoch() * 1000000 - age
             FROM n, (SELECT 7 AS writer, 86300000000 AS age UNION SELECT 8, 0) WHERE writer = 8 OR n < 1000;
             UPDATE batches SET at = at - 200000000 WHERE writer = 7 AND n <= 600;",
        )?)
    };
    store.writer.run(fill, |()| {}).await.unwrap();
    store.settle().await.unwrap();
    let count = |connection: &Connection| {
        let sql = "SELECT writer, min(n), count(*) FROM batches GROUP BY writer";
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<rusqlite::Result<Vec<(i64, i64, i64)>>>()?)
    };
    let kept = store.writer.run(count, |_| {}).await.unwrap();
    assert_eq!(kept, [(7, 601, 399), (8, 701, 100_000)]);
}

#[tokio::test]
async fn read_only_file_can_be_read_but_not_written() {
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    let id = contract::create(&store, contract::new_dataset("read-only")).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    let forbid =
        |connection: &Connection| Ok(connection.pragma_update(None, "query_only", true)?);
    store.writer.run(forbid, |()| {}).await.unwrap();
    let block = contract::block([(2, 2.0)]);
    let refused = contract::try_append(&store, id, block).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
    assert_eq!(scanned(&store, id).unwrap(), [1]);
}

#[tokio::test]
async fn damaged_file_causes_errors_and_no_wrong_rows() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = contract::create(&store, contract::new_dataset("damaged")).await;
    contract::append(&store, id, contract::block((0..20_000).map(|n| (n, 1.0 / 3.0)))).await;
    let checkpoint = folder.path().join("whole.sqlite");
    drop(store);
    crate::admin::backup(&path, &checkpoint).unwrap();
    let whole = fs::read(&checkpoint).unwrap();
    let mut n_errors = 0;
    for flip in 0..24 {
        let mut bytes = whole.clone();
        // Leaves the first pages intact, which contain the schema.
        let at = 20_000 + (bytes.len() - 20_000) / 24 * flip;
        for byte in &mut bytes[at..at + 40] {
            *byte ^= 0x5A;
        }
        let damaged = folder.path().join(format!("damaged_{flip}.sqlite"));
        fs::write(&damaged, bytes).unwrap();
        let read = SqliteStore::open(&damaged).and_then(|store| scanned(&store, id));
        match read {
            Ok(seconds) => assert!(
                seconds.iter().copied().eq(0..20_000) || seconds.is_empty(),
                "of {} rows after damage {flip} at {at}",
                seconds.len()
            ),
            Err(_) => n_errors += 1,
        }
    }
    assert!(n_errors > 3, "{n_errors} of 24 were noticed, the others hit buckets or nothing");
}

#[test]
fn old_row_changes_are_forgotten() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(tables::SCHEMA.tables).unwrap();
    connection.execute_batch("INSERT INTO datasets VALUES (1, 'a', 'a', '', NULL, 0, 0)").unwrap();
    let id = DatasetId::new(1).unwrap();
    for revision in 1..=4224_u32 {
        let last_row = i64::from(revision) * 10;
        let change = RowChange::removal(revision.into(), last_row, Span::ALL);
        ready(row_changes::record(&mut &connection, id, &change)).unwrap();
    }
    let read = |after| ready(row_changes::read(&mut &connection, id, (after, 42_240), 9)).unwrap();
    assert_eq!(read(128), None, "the change after it may be missing");
    let changes = read(129).unwrap();
    assert_eq!((changes.len(), changes[0].revision), (9, 130));
    assert_eq!(read(4224), Some(vec![]));
}

#[tokio::test]
async fn file_in_an_old_format_is_read_and_written() {
    let folder = tempdir().unwrap();
    let stored = |version: i64| {
        let file = format!("store/sqlite/tests/format_{version}.sqlite.zst");
        Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
    };
    if contract::stored::is_written() {
        let filled = folder.path().join("filled.sqlite");
        contract::stored::fill(&SqliteStore::open(&filled).unwrap()).await;
        let copy = folder.path().join("copy.sqlite");
        crate::admin::backup(&filled, &copy).unwrap();
        let packed = zstd::encode_all(fs::File::open(copy).unwrap(), 19).unwrap();
        fs::write(stored(tables::SCHEMA.version), packed).unwrap();
    }
    for version in 10..=tables::SCHEMA.version {
        let path = folder.path().join(format!("{version}.sqlite"));
        let bytes = zstd::decode_all(fs::File::open(stored(version)).unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        contract::stored::check(&SqliteStore::open(&path).unwrap()).await;
        assert!(crate::admin::verify(&path, None, &mut |_| {}).unwrap().is_sound());
    }
}
