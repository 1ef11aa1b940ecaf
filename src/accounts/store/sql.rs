//! Statements in the SQL that both engines understand, with their values and rows.
//!
//! A parameter is `?1`, or `$1` by the time PostgreSQL sees it. All numbers are `bigint`.

use db::{postgres::fault::unsigned, statement::Statements as _};
use rusqlite::{
    Connection, Row as FileRow, params_from_iter,
    types::{FromSql, Null, ToSql, ToSqlOutput},
};
use sqlx::{
    AssertSqlSafe, Decode, PgConnection, Postgres, Row as _, Type,
    postgres::{PgArguments, PgRow},
    query::Query,
};

use crate::AccountsError;

/// Replaces the number that tells services on a database whether keys changed. None is the same as one
/// before, as those of a lost leader may be of a count.
pub(super) const RENEW_KEYS_VERSION: &str =
    "UPDATE keys_version SET version = hashtextextended(gen_random_uuid()::text, 0)";

/// The value of a parameter; `None` is null.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Number(Option<i64>),
    Text(Option<String>),
    Bytes(Vec<u8>),
}

/// A connection to either engine: in the transaction of a write, or for one statement.
#[derive(Debug)]
pub(crate) enum Session<'c> {
    File(&'c mut Connection),
    Database(&'c mut PgConnection),
}

/// A row of a result.
pub(crate) enum Row<'r> {
    File(&'r FileRow<'r>),
    Database(&'r PgRow),
}

/// Reads a row.
pub(crate) type ReadRow<T> = fn(&Row<'_>) -> Result<T, AccountsError>;

/// Parameters in their order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::store::sql::Value::from($value)),*] };
}
pub(crate) use values;

impl Session<'_> {
    /// Runs a statement without results; how many rows it changed.
    pub(crate) async fn run(&mut self, sql: &str, values: &[Value]) -> Result<u64, AccountsError> {
        match self {
            Self::File(connection) => {
                let n_changed = connection.run(sql, params_from_iter(values))?;
                Ok(u64::try_from(n_changed).unwrap_or(u64::MAX))
            }
            Self::Database(connection) => {
                let done = bind(sql, values).execute(&mut **connection).await?;
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
                let read = |row: &FileRow<'_>| Ok(read(&Row::File(row)));
                connection.all(sql, params_from_iter(values), read)?.into_iter().collect()
            }
            Self::Database(connection) => {
                let rows = bind(sql, values).fetch_all(&mut **connection).await?;
                rows.iter().map(|row| read(&Row::Database(row))).collect()
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

impl Row<'_> {
    /// The value of a column, counted from 0.
    pub(crate) fn get<T>(&self, idx: usize) -> Result<T, AccountsError>
    where
        T: FromSql + Type<Postgres> + for<'r> Decode<'r, Postgres>,
    {
        match self {
            Self::File(row) => Ok(row.get(idx)?),
            Self::Database(row) => Ok(row.try_get(idx)?),
        }
    }

    /// A number that is not negative, or null.
    pub(crate) fn get_unsigned<T: TryFrom<i64>>(
        &self,
        idx: usize,
    ) -> Result<Option<T>, AccountsError> {
        Ok(self.get::<Option<i64>>(idx)?.map(unsigned).transpose()?)
    }
}

/// The statement as PostgreSQL takes it. Its text is this room's own.
fn bind<'v>(sql: &str, values: &'v [Value]) -> Query<'v, Postgres, PgArguments> {
    let query = sqlx::query(AssertSqlSafe(sql.replace('?', "$")));
    values.iter().fold(query, |query, value| match value {
        Value::Number(number) => query.bind(number),
        Value::Text(text) => query.bind(text),
        Value::Bytes(bytes) => query.bind(bytes),
    })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Number(Some(number)) => number.to_sql(),
            Self::Text(Some(text)) => text.to_sql(),
            Self::Bytes(bytes) => bytes.to_sql(),
            Self::Number(None) | Self::Text(None) => Ok(Null.into()),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        Self::Number(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

impl From<[u8; 32]> for Value {
    fn from(hash: [u8; 32]) -> Self {
        Self::Bytes(hash.into())
    }
}
