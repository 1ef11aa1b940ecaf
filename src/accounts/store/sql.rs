//! Statements in SQL that both engines understand. See [`db::sql`].

use db::sql::{self, query};
use db::statement::Statements as _;
use rusqlite::Connection;
use sqlx::PgConnection;

use crate::AccountsError;

/// Statement that replaces the version of the keys, by which services that share a database notice that
/// keys have changed. The version is random, since a counter could repeat a number after a failover.
pub(super) const RENEW_KEYS_VERSION: &str =
    "UPDATE keys_version SET version = hashtextextended(gen_random_uuid()::text, 0)";

/// Value of a statement's parameter. `None` is null.
pub(crate) type Value = Box<dyn sql::Value + Send + Sync>;

/// Connection to either engine, in a write transaction or for a single statement.
#[derive(Debug)]
pub(crate) enum Session<'c> {
    File(&'c mut Connection),
    Database(&'c mut PgConnection),
}

/// Row of a result.
pub(crate) type Row<'r> = sql::Row<'r, AccountsError>;

/// Function that converts a row.
pub(crate) type ReadRow<T> = fn(&Row<'_>) -> Result<T, AccountsError>;

/// Creates the list of parameters of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$(Box::new($value) as $crate::store::sql::Value),*] };
}
pub(crate) use values;

impl Session<'_> {
    /// Runs a statement that returns no rows. Returns the number of rows that it changed.
    pub(crate) async fn run(&mut self, sql: &str, values: &[Value]) -> Result<u64, AccountsError> {
        match self {
            Self::File(connection) => {
                let n_changed = connection.run(sql, sql::params(each(values)))?;
                Ok(u64::try_from(n_changed).unwrap_or(u64::MAX))
            }
            Self::Database(connection) => {
                let done = query(sql, each(values))?.execute(&mut **connection).await?;
                Ok(done.rows_affected())
            }
        }
    }

    /// Returns the rows of a statement.
    pub(crate) async fn all<T>(
        &mut self,
        sql: &str,
        values: &[Value],
        read: ReadRow<T>,
    ) -> Result<Vec<T>, AccountsError> {
        match self {
            Self::File(connection) => {
                let read = |row: &rusqlite::Row<'_>| Ok(read(&Row::from(row)));
                connection.all(sql, sql::params(each(values)), read)?.into_iter().collect()
            }
            Self::Database(connection) => {
                let rows = query(sql, each(values))?.fetch_all(&mut **connection).await?;
                rows.iter().map(|row| read(&Row::from(row))).collect()
            }
        }
    }

    /// Returns the first row of a statement, or `None` if the result has no rows.
    pub(crate) async fn find<T>(
        &mut self,
        sql: &str,
        values: &[Value],
        read: ReadRow<T>,
    ) -> Result<Option<T>, AccountsError> {
        Ok(self.all(sql, values, read).await?.into_iter().next())
    }

    /// Replaces the version of the keys, so that other services with the same database notice that this
    /// transaction changes keys. Does nothing in a file, since SQLite counts commits itself.
    pub(super) async fn renew_keys_version(&mut self) -> Result<(), AccountsError> {
        match self {
            Self::File(_) => Ok(()),
            Self::Database(_) => self.run(RENEW_KEYS_VERSION, &[]).await.map(drop),
        }
    }
}

fn each(values: &[Value]) -> impl Iterator<Item = &dyn sql::Value> {
    values.iter().map(|value| &**value as &dyn sql::Value)
}
