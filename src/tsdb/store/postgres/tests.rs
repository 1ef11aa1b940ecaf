//! The shared store keeps the contract of every store, and its own promises.
//!
//! They need a server, whose address is in `TRIPTYCH_TEST_POSTGRES`; `tests/interop/postgres/tests.sh`
//! starts one and runs them.

mod copies;
mod moves;
mod orphans;
mod owner;
mod removal;
mod segments;
mod servers;
mod views;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use sqlx::{AssertSqlSafe, Connection as _};
use task::wait;

use super::{maintenance::Unsettled, *};
use crate::store::tests as contract;

/// Counts the databases of this run.
static N_DATABASES: AtomicU32 = AtomicU32::new(0);

/// The address of a new database on the server.
pub(super) fn new_database() -> String {
    let server = server();
    let nth = N_DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("store_{}_{nth}", std::process::id());
    run(&format!("{server}/postgres"), &format!("CREATE DATABASE {name} TEMPLATE template0"));
    format!("{server}/{name}")
}

fn server() -> String {
    std::env::var("TRIPTYCH_TEST_POSTGRES").expect("the address of a server")
}

/// Connects to a database, also out of a task.
fn with_connection<T: Send>(url: &str, work: impl AsyncFnOnce(PgConnection) -> T + Send) -> T {
    let connect = || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { work(PgConnection::connect(url).await.unwrap()).await })
    };
    thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

pub(super) fn run(url: &str, sql: &str) {
    with_connection(url, async |mut c| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut c).await.unwrap();
    });
}

pub(super) fn number(url: &str, sql: &str) -> i64 {
    with_connection(url, async |mut c| {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut c).await.unwrap()
    })
}

pub(super) fn open(url: &str) -> PostgresStore {
    PostgresStore::open(&url.parse().unwrap()).unwrap()
}

fn open_any(url: &str) -> Box<dyn Store> {
    Box::new(open(url))
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn it_keeps_the_contract() {
    let url = new_database();
    contract::check_all(&|| open_any(&url)).await;
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn any_order_of_deeds_gives_what_a_plain_recomputation_gives() {
    let url = new_database();
    contract::random::check(&|| open_any(&url), 32);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn any_order_of_sharing_shows_each_key_what_it_may_see() {
    let url = new_database();
    contract::catalog::check_random_sharing(&|| open_any(&url), 16);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn commits_of_several_services_are_in_one_order_without_gaps() {
    let url = new_database();
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
    let sql = "SELECT count(*) FROM datasets.feed f JOIN datasets.tail t
         ON t.dataset = f.dataset AND t.id = f.first_row_id WHERE f.rows = 1";
    assert_eq!(number(&url, sql), 90, "the feed has each commit with its row");
    contract::compare(&stores[2], id, &(0..90).map(|second| (second, 1.0)).collect(), &[]);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_batch_that_several_services_take_at_once_is_stored_once() {
    let url = new_database();
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
    let sql = "SELECT sum(revision)::bigint FROM datasets.head";
    assert_eq!(number(&url, sql), 20);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_batch_after_all_others_is_stored_by_one_statement() {
    let url = new_database();
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("named")).await;
    let put = async |name: &str, second: i64| {
        let batch = contract::repeats::named(contract::repeats::id(1, name), second);
        contract::repeats::put(&store, id, batch).await
    };
    // A transaction of several ends with another one.
    let is_last = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'triptych'
         AND datname = current_database() AND query LIKE 'WITH locked%'";
    assert_eq!((put("a", 0).await, number(&url, is_last)), (Some(1), 0));
    assert_eq!((put("b", 2).await, number(&url, is_last)), (Some(2), 1));
    assert_eq!((put("a", 4).await, number(&url, is_last)), (None, 1));
    assert_eq!((put("c", 4).await, number(&url, is_last)), (Some(3), 1));
    contract::compare(&store, id, &(0..6).map(|second| (second, 1.0)).collect(), &[]);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn batches_of_yesterday_and_of_very_many_the_oldest_are_forgotten() {
    let url = new_database();
    let store = open(&url);
    run(
        &url,
        "INSERT INTO datasets.batches SELECT writer, n::text, 1, 1, 1, '', at
         FROM generate_series(1, 100700) n, (VALUES (7, 0), (8, 1)) w (writer, is_new),
         LATERAL (SELECT (extract(epoch FROM now()) * 1000000)::bigint - 100000000 + n
             - CASE WHEN is_new = 0 AND n <= 600 THEN 86400000000 ELSE 0 END AS at) a
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
#[ignore = "needs a PostgreSQL server"]
async fn an_append_notices_what_others_changed() {
    let url = new_database();
    let stores = [open(&url), open(&url)];
    let [mine, other] = &stores;
    let id = contract::create(mine, contract::new_dataset("shared")).await;
    let mut want = BTreeMap::new();
    let mut second = 0;
    let mut next = |n: i64| -> BTreeMap<i64, f64> {
        second += n * 7;
        (0..n).map(|nth| (second - nth * 7, 1.0)).collect()
    };
    for round in 0..24_i64 {
        // Few for the tail, and enough for chunks of rows and of buckets.
        for n in [1, 3, 900, 40, 5000, 300, 300, 300, 300] {
            let rows = next(n);
            contract::append(mine, id, contract::block(rows.clone())).await;
            want.extend(rows);
        }
        let now = Timestamp::from_seconds(round);
        match round % 4 {
            0 => {
                let rows = next(5);
                contract::append(other, id, contract::block(rows.clone())).await;
                want.extend(rows);
            }
            1 => {
                let rows: BTreeMap<i64, f64> =
                    want.keys().rev().step_by(9).take(99).map(|t| (*t, 2.0)).collect();
                contract::append(other, id, contract::block(rows.clone())).await;
                want.extend(rows);
            }
            2 => other.settle().await.unwrap(),
            _ => {
                let column = (format!("added_{round}"), model::dataset::Dtype::Float);
                let change = DatasetChange::NewColumns(vec![column]);
                other.change(id, change, now).await.unwrap();
            }
        }
    }
    let first = *want.keys().next().unwrap();
    contract::compare(other, id, &want, &[(9, 99, first + 3_000, 99_999)]);
    let gaps = "SELECT count(*) FROM datasets.head h WHERE revision
         <> (SELECT count(*) FROM datasets.feed f WHERE f.dataset = h.dataset)";
    assert_eq!(number(&url, gaps), 0, "each revision is in the feed once");
}

/// Counts the connections of stores that wait for a lock in a database.
pub(super) const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'triptych'
     AND datname = current_database() AND wait_event_type = 'Lock'";

/// Waits until a connection of a store waits for a lock in the database at `url`.
pub(super) async fn await_waiting(url: &str) {
    let look = || async { if number(url, WAITING) > 0 { Ok(()) } else { Err("none waits") } };
    wait::until(Duration::from_secs(9), look).await.unwrap();
}

/// Appends a row while another transaction has the dataset's lock, ends the connection under it, runs
/// `meanwhile` in that transaction, and returns the outcome of the append.
async fn append_on_a_cut_connection(meanwhile: &'static str) -> (String, Result<Appended>) {
    let url = new_database();
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("cut")).await;
    for second in 0..3 {
        contract::append(&store, id, contract::block([(second, 1.0)])).await;
    }
    let mut other = PgConnection::connect(&url).await.unwrap();
    let lock = "BEGIN; SELECT FROM datasets.head FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let append = contract::repeats::named(contract::repeats::id(1, "cut"), 9);
    let appended = store.append(id, append, Box::new(|_, _| ()));
    let waiting = "FROM pg_stat_activity WHERE application_name = 'triptych'
         AND datname = current_database() AND wait_event_type = 'Lock'";
    while number(&url, &format!("SELECT count(*) {waiting}")) == 0 {}
    run(&url, &format!("SELECT pg_terminate_backend(pid, 9000) {waiting}"));
    // It waits again, on another connection.
    while number(&url, &format!("SELECT count(*) {waiting}")) == 0 {}
    sqlx::raw_sql(meanwhile).execute(&mut other).await.unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    (url, appended.await)
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn an_append_whose_connection_was_cut_is_done_once() {
    let (url, appended) = append_on_a_cut_connection("SELECT").await;
    assert_eq!(appended.unwrap().revision, 4);
    assert_eq!(number(&url, "SELECT revision FROM datasets.head"), 4);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.feed"), 4);
    assert_eq!(contract::repeats::find(&open(&url), 1, "cut"), Some(4));
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn an_append_that_may_have_been_done_is_not_repeated() {
    let sql = "UPDATE datasets.head SET revision = revision + 1";
    let (url, appended) = append_on_a_cut_connection(sql).await;
    let error = appended.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    assert_eq!(number(&url, "SELECT revision FROM datasets.head"), 4);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.feed"), 3);
    assert_eq!(contract::repeats::find(&open(&url), 1, "cut"), None);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn an_append_that_was_cut_and_finds_no_connection_may_have_been_done() {
    let url = new_database();
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("cut")).await;
    for second in 0..3 {
        contract::append(&store, id, contract::block([(second, 1.0)])).await;
    }
    let (server, database) = url.rsplit_once('/').unwrap();
    let of_server = format!("{server}/postgres");
    let mut other = PgConnection::connect(&url).await.unwrap();
    let lock = "BEGIN; SELECT FROM datasets.head FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let append = contract::repeats::named(contract::repeats::id(1, "cut"), 9);
    let appended = store.append(id, append, Box::new(|_, _| ()));
    await_waiting(&url).await;
    run(&of_server, &format!("ALTER DATABASE {database} ALLOW_CONNECTIONS false"));
    let cut = "SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity
         WHERE application_name = 'triptych' AND datname =";
    run(&of_server, &format!("{cut} '{database}'"));
    let error = appended.await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)) && !error.is_unasked(), "{error:?}");
    run(&of_server, &format!("ALTER DATABASE {database} ALLOW_CONNECTIONS true"));
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_database_that_takes_no_writes_is_unreachable_for_them() {
    let url = new_database();
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("read_only")).await;
    let database = url.rsplit('/').next().unwrap();
    let set = |value: &str| {
        let sql = format!("ALTER DATABASE {database} SET default_transaction_read_only = {value}");
        run(&url, &format!("BEGIN READ WRITE; {sql}; COMMIT"));
    };
    contract::append(&store, id, contract::block([(0, 1.0)])).await;
    set("on");
    // Of connections made since.
    let store = open(&url);
    let error = store.check().await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    let error = contract::try_append(&store, id, contract::block([(1, 1.0)])).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    assert_eq!(contract::newest(&store, id, 9).0.len(), 1, "reads go on");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn idle_connections_that_are_lost_are_replaced_unnoticed() {
    let url = new_database();
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("lost")).await;
    for second in 0..5 {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE application_name = 'triptych' AND datname = current_database()";
        run(&url, sql);
        assert_eq!(contract::newest(&store, id, 9).0.len(), usize::try_from(second).unwrap());
        run(&url, sql);
        contract::append(&store, id, contract::block([(second, 1.0)])).await;
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn reads_go_on_while_writers_wait_with_their_connections() {
    let url = new_database();
    let store = open(&url);
    let mut datasets = Vec::new();
    for n in 0..i64::from(2 * CONNECTIONS.n_max) {
        let name = format!("waiting {n}");
        datasets.push(contract::create(&store, contract::new_dataset(&name)).await);
    }
    // Commits that wait for a standby do the same: the connections of writers are taken.
    let mut other = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK datasets.feed").execute(&mut other).await.unwrap();
    let row = || contract::block([(1, 1.0)]);
    let append = |id: &DatasetId| contract::try_append(&store, *id, row());
    let read = async {
        while number(&url, WAITING) < i64::try_from(CONNECTIONS.n_writers).unwrap() {
            tokio::task::yield_now().await;
        }
        for id in &datasets {
            assert!(store.sight(None, &DatasetRef::Id(*id)).unwrap().is_some());
        }
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    };
    let (appended, ()) = tokio::join!(futures::future::join_all(datasets.iter().map(append)), read);
    assert!(appended.iter().all(Result::is_ok), "{appended:?}");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server, and takes as long as that waits for a paused service"]
async fn a_service_paused_in_mid_write_keeps_others_out_for_seconds_only() {
    let url = new_database();
    let stores = [open(&url), open(&url)];
    let id = contract::create(&stores[0], contract::new_dataset("paused")).await;
    let mut paused = stores[1]
        .within(|| futures::executor::block_on(stores[1].servers.first().connections.begin_write()))
        .unwrap();
    sqlx::query("SELECT FROM head FOR UPDATE").execute(&mut *paused).await.unwrap();
    // The first attempts wait for the lock as long as a caller does.
    let mut n_attempts = 0;
    while let Err(error) = contract::try_append(&stores[0], id, contract::block([(1, 1.0)])).await {
        assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
        n_attempts += 1;
        assert!(n_attempts < 9, "the lock is held by a service that does nothing");
    }
    let error = paused.finish(Ok::<_, StoreError>(())).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "its write is undone: {error}");
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn services_that_start_at_once_make_one_store() {
    let url = new_database();
    let eras = thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&url).era())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(eras.len(), 1);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_service_paused_while_it_starts_does_not_keep_others_from_it() {
    let url = new_database();
    let store = open(&url);
    let mut paused = store
        .within(|| futures::executor::block_on(store.servers.first().connections.begin_write()))
        .unwrap();
    tables::SCHEMA.open(&mut paused).await.unwrap();
    drop(open(&url));
    paused.finish(Ok::<_, StoreError>(())).await.unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn a_store_of_another_format_is_refused() {
    let url = new_database();
    drop(open(&url));
    run(&url, "UPDATE datasets.format SET version = 99");
    let error = PostgresStore::open(&url.parse().unwrap()).unwrap_err();
    assert!(matches!(error, StoreError::Format { found: 99, .. }), "{error}");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_deleted_dataset_leaves_nothing_behind() {
    let url = new_database();
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("doomed")).await;
    for rows in [contract::block((0..9000).map(|n| (n * 99, 1.0))), contract::block([(3, 1.0)])] {
        contract::append(&store, id, rows).await;
    }
    assert!(store.delete(id).await.unwrap());
    store.settle().await.unwrap();
    for table in [
        "datasets",
        "metadata",
        "columns",
        "head",
        "chunks",
        "tail",
        "buckets",
        "feed",
        "doomed",
        "unsettled",
    ] {
        let sql = format!("SELECT count(*) FROM datasets.{table}");
        assert_eq!(number(&url, &sql), 0, "{table}");
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn late_rows_and_loose_buckets_are_packed_in_the_background() {
    let url = new_database();
    // Its own maintenance would begin among the appends where these take longer than it waits.
    let store = PostgresStore::connect(&url.parse().unwrap()).unwrap();
    let id = contract::create(&store, contract::new_dataset("late")).await;
    let mut want: BTreeMap<i64, f64> = (0..4096).map(|n| (n * 600, 1.0)).collect();
    contract::append(&store, id, contract::block(want.clone())).await;
    for part in 0..50_i64 {
        let late: BTreeMap<i64, f64> = (0..60).map(|n| ((n * 50 + part) * 700 + 7, 2.0)).collect();
        contract::append(&store, id, contract::block(late.clone())).await;
        want.extend(late);
    }
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.unsettled"), 1);
    maintenance::settle_all(&store.servers.first().connections, None, Unsettled::Much)
        .await
        .unwrap();
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.unsettled"), 0);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.tail"), 0);
    let sql = "SELECT count(*) FROM datasets.buckets WHERE resolution = 300";
    assert!(number(&url, sql) < 64, "what the next rows need stays single");
    contract::compare(&store, id, &want, &[(9, 99, 3_000, 200_000)]);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn people_see_datasets_and_buckets_in_views() {
    let url = new_database();
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("seen")).await;
    contract::append(&store, id, contract::block((0..3000).map(|n| (n, 1.0)))).await;
    contract::append(&store, id, contract::block([(7, 2.0), (9000, 2.0)])).await;
    let sql = "SELECT rows::bigint FROM datasets.overview
         WHERE name = 'seen' AND newest = 'epoch'::timestamptz + interval '9000 s'";
    assert_eq!(number(&url, sql), 3001);
    let sql = "SELECT count FROM datasets.bars WHERE name = 'seen' AND length = '1 day'";
    assert_eq!(number(&url, sql), 3001);
}

#[test]
#[ignore = "takes as long as a caller waits for a connection"]
fn a_server_that_is_not_there_is_unreachable() {
    let error = PostgresStore::open(&"postgres://127.0.0.1:1/x".parse().unwrap()).unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn copies_to_and_from_files_are_equal() {
    use crate::admin::copy::tests::{copy_all, copy_some, fill};
    use crate::store::sqlite::SqliteStore;

    let (url, folder) = (new_database(), tempfile::tempdir().unwrap());
    let file = |name: &str| SqliteStore::open(&folder.path().join(name)).unwrap();
    let (from, back) = (file("from.db"), file("back.db"));
    fill(&from);
    for n_commits in 1..4 {
        copy_some(&from, &open(&url), n_commits);
    }
    let there = open(&url);
    let copied = copy_all(&from, &there);
    copy_some(&there, &back, 2);
    assert_eq!(copy_all(&there, &back), copied);
    // New datasets do not get the numbers of copies.
    let new = contract::new_dataset("next");
    let made = futures::executor::block_on(there.create(vec![new], Timestamp::default())).unwrap();
    assert_eq!(made[0].id.get(), 6);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn late_rows_and_other_changes_are_copied_by_the_next_run() {
    use crate::admin::copy::tests::{change, copy_all, fill};
    use crate::store::sqlite::SqliteStore;

    let (url, folder) = (new_database(), tempfile::tempdir().unwrap());
    let file = |name: &str| SqliteStore::open(&folder.path().join(name)).unwrap();
    let (from, there, back) = (file("from.db"), open(&url), file("back.db"));
    fill(&from);
    let first = copy_all(&from, &there);
    assert_eq!(copy_all(&there, &back), first);
    change(&from);
    let newest = || contract::newest(&there, first[0].id, 1).0.ids;
    let number = newest();
    let second = copy_all(&from, &there);
    assert_ne!(second[0], first[0]);
    assert_eq!(newest(), number, "what is equal is not copied again");
    assert_eq!(copy_all(&from, &there), second);
    assert_eq!(copy_all(&there, &back), second);
}
