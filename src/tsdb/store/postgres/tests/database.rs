//! Creates stores in test databases and queries these databases directly.

use sqlx::AssertSqlSafe;
use test_postgres::with_connection;

use super::*;

pub(in super::super) fn text(url: &str, sql: &str) -> String {
    with_connection(url, async |mut c| {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut c).await.unwrap()
    })
}

pub(in super::super) fn open(url: &str) -> PostgresStore {
    PostgresStore::open(&url.parse().unwrap()).unwrap()
}

pub(in super::super) fn open_any(url: &str) -> Box<dyn Store> {
    Box::new(open(url))
}
