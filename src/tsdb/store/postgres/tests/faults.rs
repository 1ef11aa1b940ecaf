//! Tests of lost connections, read-only databases and paused services.

use std::sync::Arc;

use db::postgres::fault::Rejection;
use sqlx::{AssertSqlSafe, Connection as _};
use task::wait;
use test_postgres::{new_database, number, run};

use super::database::open;
use super::*;

/// SQL that selects those connections of stores in a database that wait for a lock.
const WAITING: &str = "FROM pg_stat_activity WHERE application_name = 'triptych'
     AND datname = current_database() AND wait_event_type = 'Lock'";

/// Runs `sql`, which begins a transaction and locks records. Returns the connection with the open
/// transaction.
pub(super) async fn lock(url: &str, sql: &str) -> PgConnection {
    let mut c = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut c).await.unwrap();
    c
}

/// Waits until `n` connections of stores wait for a lock in the database at `url`.
pub(super) async fn await_waiting(url: &str, n: i64) {
    let sql = format!("SELECT count(*) {WAITING}");
    let look = || async { if number(url, &sql) >= n { Ok(()) } else { Err("none waits") } };
    wait::until(Duration::from_secs(30), look).await.unwrap();
}

#[tokio::test]
async fn append_is_undone_if_the_connection_is_lost_and_can_be_repeated() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("cut")).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    let mut other = lock(&url, "BEGIN; SELECT FROM datasets.datasets FOR UPDATE").await;
    let named = || contract::repeats::named(contract::repeats::id(1, "cut"), 9);
    let appended = store.append(id, named(), Arc::new(|_, _| panic!("it was not done")));
    await_waiting(&url, 1).await;
    run(&url, &format!("SELECT pg_terminate_backend(pid, 9000) {WAITING}"));
    let error = appended.await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    assert_eq!(contract::repeats::find(&store, 1, "cut"), None);
    assert_eq!(contract::repeats::put(&store, id, named()).await, Some(2));
    assert_eq!(contract::repeats::put(&store, id, named()).await, None);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.commits"), 2);
    contract::compare(&store, id, &[(1, 1.0), (9, 1.0), (10, 1.0)].into(), &[]);
}

#[tokio::test]
async fn batch_with_a_lost_commit_response_is_found_by_its_key() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("lost")).await;
    // The server closes the connection during the commit, so that the outcome is unknown.
    run(
        &url,
        "CREATE FUNCTION datasets.cut() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON datasets.commits
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION datasets.cut()",
    );
    let named = || contract::repeats::named(contract::repeats::id(1, "lost"), 9);
    let error = store.append(id, named(), Arc::new(|_, _| ())).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    run(&url, "DROP TRIGGER cut ON datasets.commits");
    let found = contract::repeats::find(&store, 1, "lost");
    let repeated = contract::repeats::put(&store, id, named()).await;
    assert_eq!(found.or(repeated), Some(1));
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.commits"), 1);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.rows"), 2);
}

#[tokio::test]
async fn writes_to_a_read_only_database_fail_as_unreachable() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("read_only")).await;
    contract::append(&store, id, contract::block([(0, 1.0)])).await;
    let database = url.rsplit('/').next().unwrap();
    let set = |value: &str| {
        let sql = format!("ALTER DATABASE {database} SET default_transaction_read_only = {value}");
        run(&url, &format!("BEGIN READ WRITE; {sql}; COMMIT"));
    };
    set("on");
    let store = open(&url);
    let refused = contract::try_append(&store, id, contract::block([(1, 1.0)])).await;
    assert!(matches!(refused, Err(StoreError::Unreachable(_))), "{refused:?}");
    assert!(matches!(store.check().await, Err(StoreError::Unreachable(_))));
    assert_eq!(Rejection::of(&refused.unwrap_err()), Some(Rejection::READ_ONLY));
    let reader = PostgresStore::open_read_only(&url.parse().unwrap()).unwrap();
    let named = reader.find_batch(KeyId::new(1), &"batch".parse().unwrap());
    assert!(matches!(named, Err(StoreError::ReadOnly)), "{named:?}");
    assert_eq!(contract::newest(&store, id, 9).0.len(), 1, "reads go on");
    set("off");
    let look = || async { contract::try_append(&store, id, contract::block([(1, 1.0)])).await };
    wait::until(Duration::from_secs(30), look).await.unwrap();
    store.check().await.unwrap();
}

#[tokio::test]
async fn missing_privilege_makes_a_store_unhealthy_and_is_named() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("denied")).await;
    drop(store);
    run(
        &url,
        "DO $$ BEGIN CREATE ROLE denied LOGIN PASSWORD 'denied';
             EXCEPTION WHEN duplicate_object THEN END $$;
         GRANT USAGE ON SCHEMA datasets TO denied;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA datasets TO denied",
    );
    let (_, place) = url.rsplit_once('@').unwrap();
    let denied = format!("postgres://denied:denied@{place}");
    let store = open(&denied);
    store.check().await.unwrap();
    run(&url, "REVOKE INSERT, DELETE ON datasets.rows FROM denied");
    let refused = contract::try_append(&store, id, contract::block([(1, 1.0)])).await;
    assert_eq!(Rejection::of(&refused.unwrap_err()), Some(Rejection::PRIVILEGE));
    let unhealthy = store.check().await.unwrap_err();
    assert_eq!(Rejection::of(&unhealthy), Some(Rejection::PRIVILEGE));
    let seen = look(&denied.parse().unwrap()).await.unwrap();
    assert_eq!(seen.lacking.unwrap(), "DELETE on datasets.rows; INSERT on datasets.rows");
}

#[tokio::test]
async fn missing_table_makes_a_store_unhealthy() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    store.check().await.unwrap();
    run(&url, "DROP TABLE datasets.rows CASCADE");
    store.check().await.unwrap_err();
}

#[tokio::test]
async fn lost_idle_connections_are_replaced() {
    let Some(url) = new_database() else { return };
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("idle")).await;
    for second in 0..3 {
        contract::append(&store, id, contract::block([(second, 1.0)])).await;
        run(
            &url,
            "SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity
             WHERE application_name = 'triptych' AND datname = current_database()",
        );
        assert_eq!(contract::newest(&store, id, 9).1, u64::try_from(second + 1).unwrap());
    }
}

#[tokio::test]
async fn slow_scan_holds_no_open_transaction() {
    let Some(url) = new_database() else { return };
    let store = Arc::new(open(&url));
    let id = contract::create(&*store, contract::new_dataset("slow")).await;
    contract::append(&*store, id, contract::block((0..9000).map(|n| (n, 1.0)))).await;
    let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'triptych'
         AND datname = current_database() AND backend_xmin IS NOT NULL";
    let visit = &mut |_| {
        assert_eq!(number(&url, open), 0);
        std::ops::ControlFlow::Continue(())
    };
    contract::scan(&*store, id, Resolution::Raw, all, visit).unwrap();
}

#[test]
#[ignore = "takes as long as a caller waits for a connection"]
fn connecting_to_a_missing_server_fails_as_unreachable() {
    let error = PostgresStore::open(&"postgres://127.0.0.1:1/x".parse().unwrap()).unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
}
