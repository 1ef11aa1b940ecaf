//! Source or destination of a copy: a store in either engine.

use std::error::Error;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Column as _, PgConnection, Postgres, Row as _, TypeInfo as _};

use super::table::{Row, Table};
use super::{CopiedTables, CopyPlace};
use crate::postgres::connections::{Connections, ConnectionsOptions, Transaction};
use crate::postgres::fault::PostgresError;

/// Failure of the source or the destination.
pub(super) type EndError = Box<dyn Error + Send + Sync>;

/// Access to a store: read for the source, write for the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A store with an open transaction, which is rolled back unless [`End::finish`] commits it.
pub(super) enum End {
    File(Connection),
    Database(Transaction),
}

impl End {
    /// Opens a store. Creates a missing database. Creates a missing file only for [`Access::Write`].
    pub(super) async fn open(
        tables: &CopiedTables,
        place: &CopyPlace,
        access: Access,
    ) -> Result<Self, EndError> {
        match (place, access) {
            (CopyPlace::File(path), Access::Read) => {
                let file = tables.file.open_read_only(path)?;
                tables.file.check_version(&file)?;
                file.execute_batch("BEGIN")?;
                Ok(Self::File(file))
            }
            (CopyPlace::File(path), Access::Write) => {
                let file = tables.file.open(path)?;
                file.execute_batch("BEGIN IMMEDIATE")?;
                Ok(Self::File(file))
            }
            (CopyPlace::Database(url), _) => {
                let schema = tables.database;
                // Allows a second connection, since a connection that is replaced because of a pooler
                // can still be open.
                let options = ConnectionsOptions { schema: schema.name, n_max: 2, n_writers: 1 };
                let connections = Connections::new(url, options);
                connections.open_tables(schema).await.map_err(PostgresError::from)?;
                let mut transaction = match access {
                    Access::Read => connections.begin_read().await?,
                    Access::Write => connections.begin_write().await?,
                };
                // Removes the time limit for an idle transaction, which can wait long for the other
                // store.
                let sql = "SET LOCAL idle_in_transaction_session_timeout = 0";
                sqlx::raw_sql(sql).execute(&mut *transaction).await?;
                Ok(Self::Database(transaction))
            }
        }
    }

    /// Returns the next `n_rows` rows of a table in the order of the key, beginning after the row
    /// `after`, or with the first row if `after` is `None`.
    pub(super) async fn page(
        &mut self,
        table: &Table,
        after: Option<&[Value]>,
        n_rows: usize,
    ) -> Result<Vec<Row>, EndError> {
        let key = after.unwrap_or_default().iter().take(table.n_key);
        match self {
            Self::File(file) => {
                let sql = table.select(after.is_some(), n_rows, false);
                let mut statement = file.prepare_cached(&sql)?;
                let read = |row: &rusqlite::Row<'_>| {
                    (0..table.columns.len()).map(|idx| row.get(idx)).collect()
                };
                let rows = statement.query_map(params_from_iter(key), read)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            }
            Self::Database(c) => {
                let sql = table.select(after.is_some(), n_rows, true);
                let query = sqlx::query(AssertSqlSafe(sql));
                let rows = key.fold(query, bind).fetch_all(&mut **c).await?;
                let read = |row: &PgRow| (0..row.len()).map(|idx| value(row, idx)).collect();
                Ok(rows.iter().map(read).collect::<Result<_, sqlx::Error>>()?)
            }
        }
    }

    pub(super) async fn insert(&mut self, table: &Table, rows: &[Row]) -> Result<(), EndError> {
        if rows.is_empty() {
            return Ok(());
        }
        // A null has no parameter, since a parameter would need the type of its column.
        let values = rows.iter().flatten().filter(|value| **value != Value::Null);
        match self {
            Self::File(file) => {
                let sql = table.insert(rows, false);
                file.execute(&sql, params_from_iter(values))?;
            }
            Self::Database(c) => {
                let query = sqlx::query(AssertSqlSafe(table.insert(rows, true))).persistent(false);
                values.fold(query, bind).execute(&mut **c).await?;
            }
        }
        Ok(())
    }

    /// Returns the highest key that the table has ever generated, or `None` if its keys are not
    /// generated.
    pub(super) async fn counter(&mut self, table: &Table) -> Result<Option<i64>, EndError> {
        match self {
            Self::File(file) => {
                if !table.has_counter {
                    return Ok(None);
                }
                let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
                Ok(file.query_row(sql, [&table.name], |row| row.get(0)).optional()?)
            }
            Self::Database(c) => {
                let Some(sequence) = sequence(c, table).await? else { return Ok(None) };
                let sql = format!("SELECT last_value FROM {sequence} WHERE is_called");
                Ok(sqlx::query_scalar(AssertSqlSafe(sql)).fetch_optional(&mut **c).await?)
            }
        }
    }

    /// Sets the highest generated key of the table to `n`, so that the next generated key is higher.
    pub(super) async fn set_counter(&mut self, table: &Table, n: i64) -> Result<(), EndError> {
        match self {
            Self::File(file) => {
                let sql = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1";
                if file.execute(sql, (&table.name, n))? == 0 {
                    let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
                    file.execute(sql, (&table.name, n))?;
                }
            }
            Self::Database(c) => {
                let Some(sequence) = sequence(c, table).await? else { return Ok(()) };
                let sql = format!(
                    "SELECT setval('{sequence}', greatest($1, last_value)) FROM {sequence}"
                );
                sqlx::query(AssertSqlSafe(sql)).bind(n).execute(&mut **c).await?;
            }
        }
        Ok(())
    }

    /// Runs `statements` if this store is a database. Does nothing for a file.
    pub(super) async fn run(&mut self, statements: &'static str) -> Result<(), EndError> {
        if let Self::Database(c) = self {
            sqlx::raw_sql(statements).execute(&mut **c).await?;
        }
        Ok(())
    }

    /// Commits the transaction.
    pub(super) async fn finish(self) -> Result<(), EndError> {
        match self {
            Self::File(file) => Ok(file.execute_batch("COMMIT")?),
            Self::Database(c) => Ok(c.finish(Ok::<(), sqlx::Error>(())).await?),
        }
    }
}

/// Returns the name of the sequence that generates the keys of a table, or `None` if its keys are not
/// generated.
async fn sequence(c: &mut PgConnection, table: &Table) -> Result<Option<String>, sqlx::Error> {
    let Some((key, _)) = table.columns.first().filter(|_| table.has_counter) else {
        return Ok(None);
    };
    let sql = "SELECT pg_get_serial_sequence($1, $2)";
    sqlx::query_scalar(sql).bind(&table.name).bind(key).fetch_one(c).await
}

fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    value: &'q Value,
) -> Query<'q, Postgres, PgArguments> {
    match value {
        Value::Null => query.bind(None::<i64>),
        Value::Integer(number) => query.bind(number),
        Value::Real(number) => query.bind(number),
        Value::Text(text) => query.bind(text),
        Value::Blob(bytes) => query.bind(bytes),
    }
}

/// Returns the value in column `idx`, which has one of the types of the tables.
fn value(row: &PgRow, idx: usize) -> Result<Value, sqlx::Error> {
    Ok(match row.column(idx).type_info().name() {
        "INT8" => row.try_get::<Option<i64>, _>(idx)?.into(),
        "FLOAT8" => row.try_get::<Option<f64>, _>(idx)?.into(),
        "TEXT" => row.try_get::<Option<String>, _>(idx)?.into(),
        _ => row.try_get::<Option<Vec<u8>>, _>(idx)?.into(),
    })
}
