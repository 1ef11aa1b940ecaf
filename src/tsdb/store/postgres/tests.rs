//! Tests of the shared store: the tests that every store must pass, and tests of what only this store
//! guarantees.

mod database;
mod faults;
mod services;
mod stored;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::block::Series;
use model::dataset::Dtype;
use model::row::Value;
use parking_lot::Mutex;
use test_postgres::{new_database, new_pooled_database, number, run};

use self::database::{open, open_any, text};
use super::look::look;
use super::*;
use crate::admin::copy::tests::{CHANGES, copy_all, copy_some, fill};
use crate::catalog::Refusal;
use crate::store::engine::Engine;
use crate::store::sqlite::SqliteStore;
use crate::store::{AppendMode, tests as contract};

#[tokio::test]
async fn store_passes_the_tests_that_all_stores_share() {
    let Some(url) = new_database() else { return };
    contract::check_all(&|| open_any(&url)).await;
}

#[test]
fn random_writes_lead_to_the_rows_and_buckets_of_a_plain_computation() {
    let Some(url) = new_database() else { return };
    contract::random::check(&|| open_any(&url), 16);
}

#[test]
fn after_random_sharing_changes_each_key_sees_only_datasets_that_it_can_access() {
    let Some(url) = new_database() else { return };
    contract::catalog::check_random_sharing(&|| open_any(&url), 16);
}

#[tokio::test]
async fn writes_to_archived_months_update_the_archive_records() {
    let Some(url) = new_database() else { return };
    contract::archived::check(&open(&url)).await;
    contract::archived::check_newest_after_removals(&open(&url)).await;
}

#[test]
fn rows_are_read_alike_with_and_without_an_archive() {
    if new_database().is_none() {
        return;
    }
    let urls = Mutex::new(HashMap::new());
    let open_in = |folder: &Path| -> Arc<dyn Engine> {
        let mut urls = urls.lock();
        let url = urls.entry(folder.to_owned()).or_insert_with(|| new_database().unwrap());
        Arc::new(open(url))
    };
    crate::archive::tests::check_equal(&open_in, 4);
    crate::archive::tests::check_meanwhile(&open_in);
}

#[tokio::test]
async fn store_behind_a_pooler_passes_the_tests_that_all_stores_share() {
    let Some(url) = new_pooled_database() else { return };
    contract::check_all(&|| open_any(&url)).await;
    for _ in 0..3 {
        look(&url.parse().unwrap()).await.unwrap();
    }
}

/// Creates a dataset with columns of each type, and rows in which some values are missing.
async fn store_of_every_type(url: &str) -> (PostgresStore, DatasetId, Block) {
    let store = open(url);
    let dtypes = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean, Dtype::Float];
    let names = ["price", "count", "note", "is_open", "extra"];
    let columns = names.iter().map(|name| (*name).to_owned()).zip(dtypes).collect();
    let new = NewDataset { columns, ..contract::new_dataset("typed") };
    let id = contract::create(&store, new).await;
    let mut rows = Block::new(&dtypes);
    for second in 0..3000_i64 {
        rows.times.push(Timestamp::from_micros(second * 1_000_001));
        let float = f64::from(i32::try_from(second).unwrap()) / 7.0;
        let values = [
            Value::Float(float),
            Value::Integer(i64::MAX - second),
            Value::String(format!("row {second} \"ä\"")),
            Value::Boolean(second % 2 == 0),
            Value::Float(-float),
        ];
        for (place, value) in values.into_iter().enumerate() {
            if second % 7 == i64::try_from(place).unwrap() || second % 11 == 0 {
                rows.columns[place].push_missing(1);
            } else {
                rows.columns[place].push(value).unwrap();
            }
        }
    }
    contract::append(&store, id, rows.clone()).await;
    (store, id, rows)
}

#[tokio::test]
async fn values_of_every_type_are_read_unchanged() {
    let Some(url) = new_database() else { return };
    let (store, id, rows) = store_of_every_type(&url).await;
    let (read, _) = contract::newest(&store, id, 9999);
    assert_eq!((read.times, read.columns), (rows.times, rows.columns));
}

#[tokio::test]
async fn series_view_contains_all_columns_except_string_columns() {
    let Some(url) = new_database() else { return };
    let (store, id, _) = store_of_every_type(&url).await;
    let sql = "SELECT sum(value * 7)::bigint FROM datasets.series
         WHERE dataset = 'typed' AND \"column\" = 'price' AND \"timestamp\" > 'epoch'";
    let want: i64 = (1..3000).filter(|n| n % 7 != 0 && n % 11 != 0).sum();
    assert_eq!(number(&url, sql), want);
    let sql = "SELECT count(DISTINCT \"column\") FROM datasets.series WHERE dataset_id = 1";
    assert_eq!(number(&url, sql), 4, "all but strings");
    let delete = crate::catalog::ColumnChange::Delete("extra".to_owned());
    store.change(id, DatasetChange::Column(delete), Timestamp::default()).await.unwrap();
    assert_eq!(number(&url, sql), 3);
}

#[tokio::test]
async fn values_that_the_database_cannot_store_are_rejected() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let columns = vec![("note".to_owned(), Dtype::String)];
    let new = NewDataset { columns, ..contract::new_dataset("texts") };
    let id = contract::create(&store, new).await;
    for (second, note, is_stored) in
        [(0, "a\0b", false), (-300_000_000_000, "a", false), (-200_000_000_000, "a", true)]
    {
        let mut rows = Block::new(&[Dtype::String]);
        rows.times.push(Timestamp::from_seconds(second));
        rows.columns[0].push(Value::String(note.to_owned())).unwrap();
        match contract::try_append(&store, id, rows).await {
            Ok(_) => assert!(is_stored, "{second} {note:?}"),
            Err(StoreError::Refused(Refusal::Unstorable)) => assert!(!is_stored, "{second}"),
            Err(error) => panic!("{error}"),
        }
    }
    let (rows, _) = contract::newest(&store, id, 9);
    assert_eq!(rows.times, [Timestamp::from_seconds(-200_000_000_000)]);
}

#[tokio::test]
async fn page_ends_early_if_its_text_is_too_long() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let columns = vec![("note".to_owned(), Dtype::String)];
    let new = NewDataset { columns, ..contract::new_dataset("texts") };
    let id = contract::create(&store, new).await;
    let mut rows = Block::new(&[Dtype::String]);
    for second in 0..6000_i64 {
        rows.times.push(Timestamp::from_seconds(second));
        rows.columns[0].push(Value::String("a".repeat(10_000))).unwrap();
    }
    contract::append(&store, id, rows).await;
    let (first, _) = contract::newest(&store, id, 6000);
    assert_eq!(first.len(), STATEMENT_ROWS);
    let Series::String(texts) = &first.columns[0] else { panic!("not texts") };
    assert!(texts.iter().all(|text| text.as_ref().is_some_and(|text| text.len() == 10_000)));
}

#[tokio::test]
async fn merged_row_does_not_change_values_that_it_lacks() {
    let Some(url) = new_database() else { return };
    let (store, id, mut want) = store_of_every_type(&url).await;
    let mut rows = want.part(100..2000).empty_like();
    for row_idx in (100..2000).step_by(3) {
        rows.extend_from(&want, row_idx..row_idx + 1);
    }
    let Series::Float(prices) = &mut rows.columns[0] else { panic!("not floats") };
    prices.fill(Some(9.0));
    rows.columns.truncate(1);
    let merged = Append { mode: AppendMode::Merge, ..contract::replace(rows) };
    store.append(id, merged, Arc::new(|_, _| ())).await.unwrap();
    let Series::Float(prices) = &mut want.columns[0] else { panic!("not floats") };
    prices.iter_mut().take(2000).skip(100).step_by(3).for_each(|price| *price = Some(9.0));
    let (read, _) = contract::newest(&store, id, 9999);
    assert_eq!((read.times, read.columns), (want.times, want.columns));
}

#[tokio::test]
async fn latest_rows_that_fit_in_a_number_of_bytes_are_found() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("sized")).await;
    assert_eq!(store.newest_within(id, 1).unwrap(), None);
    assert_eq!(store.newest_within(id, u64::MAX).unwrap(), None);
    contract::append(&store, id, contract::block((0..10_000).map(|n| (n * 60, 1.0)))).await;
    assert_eq!(store.newest_within(id, 10_000_000).unwrap(), None);
    let half = store.newest_within(id, 600_000).unwrap().unwrap();
    let n_rows = (599_940 - half.seconds()) / 60;
    assert!((3000..7000).contains(&n_rows), "{n_rows} rows of 120 bytes");
}

#[tokio::test]
async fn many_rows_are_deleted_in_several_commits() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("many")).await;
    contract::append(&store, id, contract::block([(-1, 1.0), (9_000_000, 1.0)])).await;
    run(
        &url,
        "INSERT INTO datasets.rows SELECT dataset, to_timestamp(n), n, now(), '{1}'
         FROM (SELECT DISTINCT dataset FROM datasets.rows) d, generate_series(1, 600000) n",
    );
    let span = Span { first: Timestamp::MIN, last: Timestamp::from_seconds(8_000_000) };
    let revisions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&revisions);
    let on_commit: OnRemoval = Arc::new(move |removed| seen.lock().push(removed.revision));
    let now = Timestamp::from_seconds(1);
    let removed = store.delete_rows(id, RowDeletion::new(span, now), on_commit).await.unwrap();
    assert_eq!((removed.n_rows, removed.revision), (600_001, 4));
    assert_eq!(*revisions.lock(), [2, 3, 4]);
    contract::compare(&store, id, &[(9_000_000, 1.0)].into(), &[]);

    let seen = Arc::clone(&revisions);
    let on_commit: OnRemoval = Arc::new(move |removed| seen.lock().push(removed.revision));
    // The deletion continues without its caller.
    drop(store.delete_rows(id, RowDeletion::new(Span::ALL, now), on_commit));
    let is_done = async || revisions.lock().get(3).copied().ok_or("no commit");
    assert_eq!(task::wait::until(Duration::from_secs(30), is_done).await.unwrap(), 5);
    contract::compare(&store, id, &[].into(), &[]);
}

#[test]
fn every_postgres_table_has_a_primary_key() {
    let Some(url) = new_database() else { return };
    drop(open(&url));
    let sql = "SELECT coalesce(string_agg(relname, ' '), '') FROM pg_class c
         WHERE relnamespace = 'datasets'::regnamespace AND relkind IN ('r', 'p')
         AND relname <> 'format'
         AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)";
    assert_eq!(text(&url, sql), "");
}

#[tokio::test]
async fn table_of_rows_can_be_partitioned() {
    let Some(url) = new_database() else { return };
    drop(open(&url));
    run(
        &url,
        "DROP VIEW datasets.series; DROP TABLE datasets.rows;
         CREATE TABLE datasets.rows (dataset bigint NOT NULL, ts timestamptz NOT NULL,
             id bigint NOT NULL, created_at timestamptz NOT NULL, numbers float8[],
             integers bigint[], texts text[], PRIMARY KEY (dataset, ts)) PARTITION BY RANGE (ts);
         CREATE TABLE datasets.rows_old PARTITION OF datasets.rows
             FOR VALUES FROM (MINVALUE) TO ('1970-01-02');
         CREATE TABLE datasets.rows_new PARTITION OF datasets.rows DEFAULT",
    );
    contract::check_all(&|| open_any(&url)).await;
}

#[tokio::test]
async fn deleting_a_dataset_leaves_no_records_of_it() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("doomed")).await;
    for rows in [contract::block((0..25_000).map(|n| (n * 99, 1.0))), contract::block([(3, 1.0)])] {
        contract::append(&store, id, rows).await;
    }
    assert!(store.delete(id).await.unwrap());
    store.settle().await.unwrap();
    for table in ["datasets", "columns", "rows", "buckets", "commits", "row_changes", "doomed"] {
        let sql = format!("SELECT count(*) FROM datasets.{table}");
        assert_eq!(number(&url, &sql), 0, "{table}");
    }
}

#[tokio::test]
async fn records_of_batches_are_deleted_by_age_and_beyond_the_maximum_number() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    run(
        &url,
        "INSERT INTO datasets.batches SELECT writer, n::text, 1, 1, 1, '',
             now() - interval '100 seconds' + n * interval '1 microsecond'
             - CASE WHEN is_new = 0 AND n <= 600 THEN interval '1 day' ELSE '0' END
         FROM generate_series(1, 100700) n, (VALUES (7, 0), (8, 1)) w (writer, is_new)
         WHERE writer = 8 OR n < 1000",
    );
    store.settle().await.unwrap();
    for (writer, first, n) in [(7, 601, 399), (8, 701, 100_000)] {
        let sql = format!(
            "SELECT count(*) FROM datasets.batches WHERE writer = {writer} AND batch::int >= {first}"
        );
        assert_eq!(number(&url, &sql), n);
    }
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.batches"), 100_399);
}

#[tokio::test]
async fn records_of_old_commits_are_deleted() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("old")).await;
    for second in 0..4 {
        contract::append(&store, id, contract::block([(second, 1.0)])).await;
    }
    run(&url, "UPDATE datasets.commits SET at = at - interval '25 hours' WHERE revision < 3");
    store.settle().await.unwrap();
    assert_eq!(store.since(id, 1, 9).unwrap(), None, "the next one is forgotten");
    assert_eq!(store.since(id, 2, 9).unwrap().unwrap().rows.ids, [3, 4]);
    assert_eq!(store.commits(id, 0, 9).unwrap().first().unwrap().revision, 3);
}

#[test]
fn copy_from_sqlite_and_back_equals_the_original() {
    let Some(url) = new_database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| SqliteStore::open(&folder.path().join(name)).unwrap();
    let (from, back) = (file("from.db"), file("back.db"));
    fill(&from);
    for n_commits in 1..4 {
        copy_some(&from, &open(&url), n_commits);
    }
    let there = open(&url);
    let copied = copy_all(&from, &there);
    copy_some(&there, &back, 2);
    assert!(copy_all(&there, &back) == copied);
    // A new dataset must not get the id of a copy.
    let new = contract::new_dataset("next");
    let made = futures::executor::block_on(there.create(vec![new], Timestamp::default())).unwrap();
    assert_eq!(made[0].id.get(), 6);
}

#[test]
fn changes_of_the_source_are_copied_by_the_next_run() {
    let Some(url) = new_database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| SqliteStore::open(&folder.path().join(name)).unwrap();
    let (from, there, back) = (file("from.db"), open(&url), file("back.db"));
    fill(&from);
    let first = copy_all(&from, &there);
    assert!(copy_all(&there, &back) == first);
    for change in CHANGES {
        change(&from);
    }
    let second = copy_all(&from, &there);
    assert!(second[0] != first[0]);
    assert!(copy_all(&there, &back) == second);
}
