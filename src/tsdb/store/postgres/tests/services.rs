//! Tests of several services on one database, including a read-only service.

use std::collections::BTreeSet;
use std::thread;

use super::database::open;
use super::*;
use crate::catalog::Change;
use test_postgres::{new_database, number, run};

#[tokio::test]
async fn commits_of_several_services_have_one_order_without_gaps() {
    let Some(url) = new_database() else { return };
    let stores = [open(&url), open(&url), open(&url)];
    let id = contract::create(&stores[0], contract::new_dataset("shared")).await;
    let append = async |idx: usize| {
        let mut revisions = Vec::new();
        for n in 0..30_i64 {
            let second = n * 3 + i64::try_from(idx).unwrap();
            let rows = contract::block([(second, 1.0)]);
            revisions.push(contract::append(&stores[idx], id, rows).await.revision);
        }
        assert!(revisions.is_sorted(), "{revisions:?}");
        revisions
    };
    let (a, b, c) = tokio::join!(append(0), append(1), append(2));
    let all: BTreeSet<u64> = [a, b, c].concat().into_iter().collect();
    assert_eq!(all, (1..=90).collect(), "each number once");
    let since = stores[1].since(id, 0, 999).unwrap().unwrap();
    assert_eq!((since.rows.ids, since.revision), ((1..=90).collect(), 90));
    let commits = stores[2].commits(id, 0, 999).unwrap();
    assert!(commits.iter().map(|commit| commit.revision).eq(1..=90));
    assert!(commits.iter().map(|commit| commit.first_row).eq(1..=90));
    contract::compare(&stores[2], id, &(0..90).map(|second| (second, 1.0)).collect(), &[]);
}

#[tokio::test]
async fn batch_that_several_services_store_concurrently_is_stored_once() {
    let Some(url) = new_database() else { return };
    let stores = [open(&url), open(&url), open(&url)];
    let mut datasets = Vec::new();
    for name in ["one", "other"] {
        datasets.push(contract::create(&stores[0], contract::new_dataset(name)).await);
    }
    for n in 0..20 {
        let puts = (0..6).map(|idx| {
            let batch = contract::repeats::named(contract::repeats::id(1, &format!("b{n}")), n * 2);
            contract::repeats::put(&stores[idx % 3], datasets[idx / 3], batch)
        });
        let done = futures::future::join_all(puts).await;
        assert_eq!(done.iter().flatten().count(), 1, "{done:?}");
    }
    let sql = "SELECT sum(revision)::bigint FROM datasets.datasets";
    assert_eq!(number(&url, sql), 20);
}

#[tokio::test]
async fn concurrent_changes_do_not_give_two_public_datasets_one_name() {
    let Some(url) = new_database() else { return };
    let stores = [open(&url), open(&url), open(&url)];
    for n in 0..20 {
        let name = format!("d{n}");
        let new = |owner, name: &str, tags| contract::catalog::dataset_of(owner, name, tags);
        let renamed = contract::create(&stores[0], new(2, &format!("old{n}"), &["public"])).await;
        let attached = contract::create(&stores[0], new(3, &name, &[])).await;
        let change = Change { name: Some(name.clone()), ..Change::default() };
        let done = tokio::join!(
            stores[0]
                .create(vec![new(1, &name, &["public"])], Timestamp::from_seconds(2_000_000_000)),
            stores[1].change(
                renamed,
                DatasetChange::Description(change),
                Timestamp::from_seconds(2_000_000_000)
            ),
            stores[2].change_tag(TagChange::Attach(attached, "public".to_owned())),
        );
        let is_done = [done.0.is_ok(), done.1.is_ok(), done.2.is_ok()];
        assert_eq!(is_done.into_iter().filter(|is_ok| *is_ok).count(), 1, "{done:?}");
    }
}

#[tokio::test]
async fn service_without_the_archive_of_another_service_rejects_reads_instead_of_omitting_rows() {
    let Some(url) = new_database() else { return };
    let stores = [open(&url), open(&url)];
    let [without, with] = &stores;
    let id = contract::create(without, contract::new_dataset("archived")).await;
    contract::append(without, id, contract::block([(0, 1.0)])).await;
    let recent = contract::create(without, contract::new_dataset("recent")).await;
    contract::append(without, recent, contract::block([(0, 1.0)])).await;
    with.expect_archive();
    contract::archived::archive_january(with, id).await;
    let page = PageRead::raw(Span::ALL, Order::Ascending, 9);
    assert_eq!(with.page(id, &page).unwrap().rows.len(), 0, "the row is in the file");
    let read = without.page(id, &page);
    assert!(matches!(read, Err(StoreError::NoArchive)), "{read:?}");
    let since = without.since(id, 0, 9);
    assert!(matches!(since, Err(StoreError::NoArchive)), "{since:?}");
    let written = contract::try_append(without, id, contract::block([(0, 2.0)])).await;
    assert!(matches!(written, Err(StoreError::NoArchive)), "{written:?}");
    let deletion = RowDeletion::new(Span::ALL, Timestamp::from_seconds(60));
    let deleted = without.delete_rows(id, deletion, Arc::new(|_| {})).await;
    assert!(matches!(deleted, Err(StoreError::NoArchive)), "{deleted:?}");
    let checked = without.check().await;
    assert!(matches!(checked, Err(StoreError::NoArchive)), "{checked:?}");
    with.check().await.unwrap();
    assert_eq!(without.page(recent, &page).unwrap().rows.len(), 1);
}

#[tokio::test]
async fn append_includes_changes_of_other_services() {
    let Some(url) = new_database() else { return };
    let stores = [open(&url), open(&url)];
    let [mine, other] = &stores;
    let id = contract::create(mine, contract::new_dataset("shared")).await;
    let mut want = BTreeMap::new();
    let mut second = 0;
    let mut next = |n: i64| -> BTreeMap<i64, f64> {
        second += n * 7;
        (0..n).map(|nth| (second - nth * 7, 1.0)).collect()
    };
    for round in 0..12_i64 {
        for n in [1, 3, 900, 40, 5000, 300] {
            let rows = next(n);
            contract::append(mine, id, contract::block(rows.clone())).await;
            want.extend(rows);
        }
        let rows: BTreeMap<i64, f64> = match round % 3 {
            0 => next(5),
            1 => want.keys().rev().step_by(9).take(99).map(|second| (*second, 2.0)).collect(),
            _ => {
                let column = (format!("added_{round}"), Dtype::Float);
                let change = DatasetChange::NewColumns(vec![column]);
                other.change(id, change, Timestamp::from_seconds(round)).await.unwrap();
                continue;
            }
        };
        contract::append(other, id, contract::block(rows.clone())).await;
        want.extend(rows);
    }
    let first = *want.keys().next().unwrap();
    contract::compare(other, id, &want, &[(9, 99, first + 3_000, 99_999)]);
    let gaps = "SELECT count(*) FROM datasets.datasets d WHERE revision
         <> (SELECT count(*) FROM datasets.commits f WHERE f.dataset = d.id)";
    assert_eq!(number(&url, gaps), 0, "each revision is on record once");
}

#[tokio::test]
async fn column_added_while_an_append_waits_is_included_in_buckets() {
    let Some(url) = new_database() else { return };
    let [mine, other] = [open(&url), open(&url)];
    let columns = vec![("note".to_owned(), Dtype::String)];
    let new = NewDataset { columns, ..contract::new_dataset("folded") };
    let id = contract::create(&mine, new).await;
    let mut rows = Block::new(&[Dtype::String, Dtype::Float]);
    rows.times.push(Timestamp::from_seconds(1));
    rows.columns[0].push_missing(1);
    rows.columns[1].push(Value::Float(1.0)).unwrap();
    let column = DatasetChange::NewColumns(vec![("value".to_owned(), Dtype::Float)]);
    // The lock makes the append wait for the change of the other service, so that its snapshot is
    // outdated.
    let lock = "BEGIN; SELECT FROM datasets.datasets FOR UPDATE";
    let mut c = faults::lock(&url, lock).await;
    let change = other.change(id, column, Timestamp::default());
    faults::await_waiting(&url, 1).await;
    let append = mine.append(id, contract::replace(rows), Arc::new(|_, _| ()));
    faults::await_waiting(&url, 2).await;
    sqlx::raw_sql("COMMIT").execute(&mut c).await.unwrap();
    change.await.unwrap();
    append.await.unwrap();
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.buckets"), 5);
}

#[tokio::test]
async fn commit_is_announced_only_to_other_services() {
    let Some(url) = new_database() else { return };
    let [mine, other] = [open(&url), open(&url)];
    let listening = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let look = || async { if number(&url, listening) == 2 { Ok(()) } else { Err("not yet") } };
    task::wait::until(Duration::from_secs(30), look).await.unwrap();
    let id = contract::create(&mine, contract::new_dataset("hinted")).await;
    other.hinted().await;
    contract::append(&mine, id, contract::block([(1, 1.0)])).await;
    other.hinted().await;
    assert!(mine.hinted().now_or_never().is_none(), "not to itself");
}

#[test]
fn services_that_start_concurrently_create_one_store() {
    let Some(url) = new_database() else { return };
    let eras = thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&url).era())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(eras.len(), 1);
}

#[test]
fn store_of_another_format_is_rejected() {
    let Some(url) = new_database() else { return };
    drop(open(&url));
    for format in [9, 99] {
        run(&url, &format!("UPDATE datasets.format SET version = {format}"));
        for open in [PostgresStore::open, PostgresStore::open_read_only] {
            let error = open(&url.parse().unwrap()).unwrap_err();
            assert!(matches!(&error, StoreError::Format(it) if it.found == format), "{error}");
        }
    }
}

#[tokio::test]
async fn read_only_store_reads_and_rejects_writes() {
    let Some(url) = new_database() else { return };
    let parsed = url.parse().unwrap();
    assert!(PostgresStore::open_read_only(&parsed).is_err(), "it creates no tables");
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("read")).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    let database = url.rsplit('/').next().unwrap();
    run(&url, &format!("ALTER DATABASE {database} SET default_transaction_read_only = on"));
    let reader = PostgresStore::open_read_only(&parsed).unwrap();
    assert!(reader.is_read_only());
    reader.check().await.unwrap();
    contract::compare(&reader, id, &[(1, 1.0)].into(), &[]);
    let refused = contract::try_append(&reader, id, contract::block([(2, 1.0)])).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
}
