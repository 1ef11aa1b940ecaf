//! Statements in the SQL that both engines understand.
//!
//! Values and rows have the types of [`db::sql`], where a Boolean is an integer. Texts are compared by
//! bytes. Upserts name their conflict columns.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use db::postgres::fault::timed_out;
use db::sql::{self, Column, Value};
use db::statement::Statements as _;
use futures::executor::block_on;
use rusqlite::{Connection, Params};
use sqlx::PgConnection;
use tokio::task::unconstrained;
use tokio::time::timeout;

use super::{Result, StoreError};

/// Connection for a transaction or for single reads.
pub(super) struct Session<'c>(Engine<'c>);

enum Engine<'c> {
    Sqlite(&'c Connection),
    Postgres(RefCell<&'c mut PgConnection>),
}

/// Row of a result.
pub(super) type Row<'r> = sql::Row<'r, StoreError>;

/// Lock on an epoch until the end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Other transactions cannot change the epoch's state.
    Shared,
    /// Other transactions cannot change the epoch or add submissions.
    Exclusive,
}

/// Values of a statement, in order.
pub(super) trait Values: Sized {
    /// Calls `work` with the values.
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T;
}

impl<V: Value, const N: usize> Values for [V; N] {
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T {
        work(&self.each_ref().map(|value| value as &dyn Value))
    }
}

impl Values for &[&dyn Value] {
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T {
        work(self)
    }
}

/// Values of several types.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn db::sql::Value),*] as &[&dyn db::sql::Value]
    };
}
pub(super) use values;

impl<'c> From<&'c Connection> for Session<'c> {
    fn from(connection: &'c Connection) -> Self {
        Self(Engine::Sqlite(connection))
    }
}

impl<'c> From<&'c mut PgConnection> for Session<'c> {
    fn from(connection: &'c mut PgConnection) -> Self {
        Self(Engine::Postgres(RefCell::new(connection)))
    }
}

impl Session<'_> {
    /// Returns true if other services can change the same rows.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self.0, Engine::Postgres(_))
    }

    /// Returns the suffix of a `SELECT` that locks its rows. A file has a single writer and needs no
    /// locks.
    pub(super) const fn locking(&self, lock: Lock) -> &'static str {
        match (&self.0, lock) {
            (Engine::Sqlite(_), _) => "",
            (Engine::Postgres(_), Lock::Shared) => " FOR SHARE",
            (Engine::Postgres(_), Lock::Exclusive) => " FOR UPDATE",
        }
    }

    /// Runs a statement without results and returns the number of changed rows.
    pub(super) fn run(&self, sql: &str, values: impl Values) -> Result<usize> {
        values.lend(|values| match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.run(sql, bound(values))?),
            Engine::Postgres(connection) => {
                let query = sql::query(sql, values.iter().copied())?;
                let done = wait(query.execute(&mut **connection.borrow_mut()))?;
                Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
            }
        })
    }

    /// Runs statements without values or results.
    #[cfg(test)]
    pub(super) fn run_batch(&self, sql: &str) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Engine::Postgres(connection) => {
                let batch = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
                wait(batch.execute(&mut **connection.borrow_mut()))?;
                Ok(())
            }
        }
    }

    /// Returns the first row as converted by `read`, or `None` without rows.
    pub(super) fn find<T>(
        &self,
        sql: &str,
        values: impl Values,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.all(sql, values, read)?.into_iter().next())
    }

    /// Returns all rows as converted by `read`.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: impl Values,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        values.lend(|values| match &self.0 {
            Engine::Sqlite(connection) => {
                let read = |row: &rusqlite::Row<'_>| Ok(read(&Row::from(row)));
                connection.all(sql, bound(values), read)?.into_iter().collect()
            }
            Engine::Postgres(connection) => {
                let query = sql::query(sql, values.iter().copied())?;
                let rows = wait(query.fetch_all(&mut **connection.borrow_mut()))?;
                rows.iter().map(|row| read(&Row::from(row))).collect()
            }
        })
    }

    /// Returns the first column of a row that always exists, such as that of a count.
    pub(super) fn value<T: Column>(&self, sql: &str, values: impl Values) -> Result<T> {
        let found = self.find(sql, values, |row| row.get(0))?;
        found.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }
}

/// Blocks until a PostgreSQL operation is done or times out. Works on any thread, since the operation is
/// excluded from the cooperative budget of a runtime's task.
pub(super) fn wait<T, E: From<sqlx::Error>>(
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    // Shorter than the timeout of a handler, so that the response contains the reason.
    let step = timeout(Duration::from_secs(8), step);
    block_on(unconstrained(step)).unwrap_or_else(|_| Err(timed_out().into()))
}

fn bound<'v>(values: &'v [&'v dyn Value]) -> impl Params + 'v {
    sql::params(values.iter().copied())
}
