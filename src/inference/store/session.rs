//! Statements to the database that holds a network, in the SQL that its engines share.
//!
//! Values and rows are as [`db::sql`] has them: a Boolean is an integer. Texts compare by their bytes. A
//! statement that changes rows names the columns by which it conflicts.

use std::{cell::RefCell, future::Future, time::Duration};

use db::{
    postgres::fault::timed_out,
    sql::{self, Column, Value},
};
use futures::executor::block_on;
use rusqlite::{Connection, OptionalExtension as _, Params};
use sqlx::{PgConnection, Postgres, postgres::PgArguments, query::Query};
use tokio::{task::unconstrained, time::timeout};

use super::StoreError;

/// How long a statement may take: less than a handler has, so that its caller gets the reason.
const STEP_WITHIN: Duration = Duration::from_secs(8);

/// What statements run on: a transaction, or single reads.
pub(super) struct Session<'c>(Engine<'c>);

enum Engine<'c> {
    Sqlite(&'c Connection),
    Postgres(RefCell<&'c mut PgConnection>),
}

/// A row that a statement gives.
pub(super) type Row<'r> = sql::Row<'r, StoreError>;

/// What a service that changes an epoch needs of it until the end of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Nobody else changes its state.
    Shared,
    /// Nobody else changes it, or adds to it.
    Exclusive,
}

/// The values that a statement takes, in order.
pub(super) trait Values: Sized {
    /// Does `work` with all of them.
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
    /// Whether other services may change the same rows.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self.0, Engine::Postgres(_))
    }

    /// The end of a `SELECT` that takes `lock` of its rows. A file has one writer, who needs none.
    pub(super) const fn locking(&self, lock: Lock) -> &'static str {
        match (&self.0, lock) {
            (Engine::Sqlite(_), _) => "",
            (Engine::Postgres(_), Lock::Shared) => " FOR SHARE",
            (Engine::Postgres(_), Lock::Exclusive) => " FOR UPDATE",
        }
    }

    /// Runs a statement without results; how many rows it changed.
    pub(super) fn run(&self, sql: &str, values: impl Values) -> Result<usize, StoreError> {
        match &self.0 {
            Engine::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                Ok(values.lend(|values| statement.execute(bound(values)))?)
            }
            Engine::Postgres(connection) => {
                let query = query(sql, values)?;
                let done = wait(query.execute(&mut **connection.borrow_mut()))?;
                Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
            }
        }
    }

    /// Runs statements without values or results, whatever they do to the database.
    #[cfg(test)]
    pub(super) fn run_batch(&self, sql: &str) -> Result<(), StoreError> {
        match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Engine::Postgres(connection) => {
                let batch = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
                wait(batch.execute(&mut **connection.borrow_mut()))?;
                Ok(())
            }
        }
    }

    /// The first row, as `read` reads it; `None` if there is none.
    pub(super) fn find<T>(
        &self,
        sql: &str,
        values: impl Values,
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match &self.0 {
            Engine::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                let read = |row: &rusqlite::Row<'_>| Ok(read(&Row::from(row)));
                let found = values.lend(|values| statement.query_row(bound(values), read));
                found.optional()?.transpose()
            }
            Engine::Postgres(connection) => {
                let query = query(sql, values)?;
                let found = wait(query.fetch_optional(&mut **connection.borrow_mut()))?;
                found.map(|row| read(&Row::from(&row))).transpose()
            }
        }
    }

    /// All rows, as `read` reads them.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: impl Values,
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        match &self.0 {
            Engine::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                values.lend(|values| {
                    let mut rows = statement.query(bound(values))?;
                    let mut all = Vec::new();
                    while let Some(row) = rows.next()? {
                        all.push(read(&Row::from(row))?);
                    }
                    Ok(all)
                })
            }
            Engine::Postgres(connection) => {
                let query = query(sql, values)?;
                let rows = wait(query.fetch_all(&mut **connection.borrow_mut()))?;
                rows.iter().map(|row| read(&Row::from(row))).collect()
            }
        }
    }

    /// The first column of a row that is always there, such as that of a count.
    pub(super) fn value<T: Column>(&self, sql: &str, values: impl Values) -> Result<T, StoreError> {
        let found = self.find(sql, values, |row| row.get(0))?;
        found.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }
}

/// Blocks until a step of PostgreSQL is done, or its time is up: on any thread, also on one of a runtime,
/// whose budget for a task is not to end the wait.
pub(super) fn wait<T, E: From<sqlx::Error>>(
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let step = timeout(STEP_WITHIN, step);
    block_on(unconstrained(step)).unwrap_or_else(|_| Err(timed_out().into()))
}

/// The statement `sql` with `values`, as PostgreSQL writes parameters.
fn query(
    sql: &str,
    values: impl Values,
) -> Result<Query<'static, Postgres, PgArguments>, sqlx::Error> {
    values.lend(|values| sql::query(sql, values.iter().copied()))
}

fn bound<'v>(values: &'v [&'v dyn Value]) -> impl Params + 'v {
    sql::params(values.iter().copied())
}
