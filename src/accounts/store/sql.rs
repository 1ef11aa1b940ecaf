//! Statements in the SQL that both engines understand, with their values and rows.
//!
//! See [`db::sql`].

use db::{
    sql::{self, query},
    statement::Statements as _,
};
use rusqlite::Connection;
use sqlx::PgConnection;

use crate::AccountsError;

/// Replaces the number that tells services on a database whether keys changed. None is the same as one
/// before, as those of a lost leader may be of a count.
pub(super) const RENEW_KEYS_VERSION: &str =
    "UPDATE keys_version SET version = hashtextextended(gen_random_uuid()::text, 0)";

/// The value of a parameter; `None` is null.
pub(crate) type Value = Box<dyn sql::Value + Send + Sync>;

/// A connection to either engine: in the transaction of a write, or for one statement.
#[derive(Debug)]
pub(crate) enum Session<'c> {
    File(&'c mut Connection),
    Database(&'c mut PgConnection),
}

/// A row of a result.
pub(crate) type Row<'r> = sql::Row<'r, AccountsError>;

/// Reads a row.
pub(crate) type ReadRow<T> = fn(&Row<'_>) -> Result<T, AccountsError>;

/// Parameters in their order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$(Box::new($value) as $crate::store::sql::Value),*] };
}
pub(crate) use values;

impl Session<'_> {
    /// Runs a statement without results; how many rows it changed.
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

    /// The rows of a statement.
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

    /// The first row of a statement; `None` if there is none.
    pub(crate) async fn find<T>(
        &mut self,
        sql: &str,
        values: &[Value],
        read: ReadRow<T>,
    ) -> Result<Option<T>, AccountsError> {
        Ok(self.all(sql, values, read).await?.into_iter().next())
    }

    /// Tells other services on a database that keys change with this transaction. A file tells by
    /// itself.
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
