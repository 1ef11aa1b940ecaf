//! Databases of tests, and what is asked of them besides the store.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use sqlx::{AssertSqlSafe, Connection as _, Decode, Type, postgres::Postgres};

use super::*;

/// Counts the databases of this run.
static N_DATABASES: AtomicU32 = AtomicU32::new(0);

/// The address of a new database on the server.
pub(in super::super) fn new_database() -> String {
    let server = std::env::var("TRIPTYCH_TEST_POSTGRES").expect("the address of a server");
    let nth = N_DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("store_{}_{nth}", std::process::id());
    run(&format!("{server}/postgres"), &format!("CREATE DATABASE {name} TEMPLATE template0"));
    format!("{server}/{name}")
}

/// Connects to a database, also out of a task.
fn with_connection<T: Send>(url: &str, work: impl AsyncFnOnce(PgConnection) -> T + Send) -> T {
    let connect = || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { work(PgConnection::connect(url).await.unwrap()).await })
    };
    thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

pub(in super::super) fn run(url: &str, sql: &str) {
    with_connection(url, async |mut c| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut c).await.unwrap();
    });
}

fn value<T>(url: &str, sql: &str) -> T
where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres> + Send + Unpin,
{
    with_connection(url, async |mut c| {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut c).await.unwrap()
    })
}

pub(in super::super) fn number(url: &str, sql: &str) -> i64 {
    value(url, sql)
}

pub(in super::super) fn text(url: &str, sql: &str) -> String {
    value(url, sql)
}

pub(in super::super) fn open(url: &str) -> PostgresStore {
    PostgresStore::open(&url.parse().unwrap()).unwrap()
}

pub(in super::super) fn open_any(url: &str) -> Box<dyn Store> {
    Box::new(open(url))
}
