//! Source or destination of a copy: a store in either engine.

use std::error::Error;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Column as _, Postgres, Row as _, TypeInfo as _};
use task::lock::{self, Lock};
use task::private;

use super::{CopiedTables, CopyPlace};
use crate::files::with_ending;
use crate::postgres::connections::{Connections, ConnectionsOptions, Transaction};
use crate::postgres::fault::PostgresError;

/// Sorts texts by their bytes in a database, as a file always does.
const BY_BYTES: &str = " COLLATE \"C\"";

/// Allows a database to insert keys that it generates itself.
const OVERRIDING: &str = " OVERRIDING SYSTEM VALUE";

/// Values of a row: first the columns of the key, then the other columns.
pub(super) type Row = Vec<Value>;

/// Description of a table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// Columns of the key in the order of the key, then the other columns.
    columns: Vec<String>,
    /// SQL that sorts by the columns of the key.
    order: String,
    /// Number of columns in the primary key.
    n_key: usize,
    /// True if the keys of the table are generated and never reused.
    has_counter: bool,
}

impl Table {
    /// Returns the tables that `sql` creates, in this order. Foreign keys must refer to earlier tables.
    pub(super) fn all(sql: &str) -> rusqlite::Result<Vec<Self>> {
        let file = Connection::open_in_memory()?;
        file.execute_batch(sql)?;
        let list = "SELECT name, sql LIKE '%AUTOINCREMENT%',
                 (SELECT group_concat(name) FROM
                     (SELECT name FROM pragma_table_info(t.name) ORDER BY pk = 0, pk, cid)),
                 (SELECT group_concat(name || iif(type = 'TEXT', ?1, '')) FROM
                     (SELECT name, type FROM pragma_table_info(t.name) WHERE pk > 0 ORDER BY pk)),
                 (SELECT count(*) FROM pragma_table_info(t.name) WHERE pk > 0)
             FROM sqlite_schema t WHERE type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY rowid";
        let mut tables = file.prepare(list)?;
        let read = |row: &rusqlite::Row<'_>| {
            let columns: String = row.get(2)?;
            Ok(Self {
                name: row.get(0)?,
                columns: columns.split(',').map(str::to_owned).collect(),
                order: row.get(3)?,
                n_key: row.get(4)?,
                has_counter: row.get(1)?,
            })
        };
        tables.query_map([BY_BYTES], read)?.collect()
    }

    /// Returns a statement that selects the next `n_rows` rows in the order of the key: from the start,
    /// or, if `is_after`, after a key that is passed as parameters.
    fn select(&self, is_after: bool, n_rows: usize) -> String {
        let Self { name, order, n_key, .. } = self;
        let key: Vec<_> = (1..=*n_key).map(|n| format!("?{n}")).collect();
        let condition = if is_after {
            format!("WHERE ({order}) > ({})", key.join(", "))
        } else {
            String::new()
        };
        let columns = self.columns.join(", ");
        format!("SELECT {columns} FROM {name} {condition} ORDER BY {order} LIMIT {n_rows}")
    }

    /// Returns a statement that inserts `rows`. Their values are parameters, except for nulls, of which a
    /// parameter would need the type of its column.
    fn insert(&self, rows: &[Row]) -> String {
        let mut n_values = 0;
        let mut value = |value: &Value| {
            if *value == Value::Null {
                return "NULL".to_owned();
            }
            n_values += 1;
            format!("?{n_values}")
        };
        let mut record = |row: &Row| row.iter().map(&mut value).collect::<Vec<_>>().join(", ");
        let records: Vec<String> = rows.iter().map(|row| format!("({})", record(row))).collect();
        let (table, columns, records) = (&self.name, self.columns.join(", "), records.join(", "));
        format!("INSERT INTO {table} ({columns}){OVERRIDING} VALUES {records}")
    }
}

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
    File {
        file: Connection,
        /// Released after the connection is closed.
        _in_use: Option<Lock>,
    },
    Database(Transaction),
}

impl End {
    /// Opens a store. Creates missing tables or a missing file only for [`Access::Write`]. Locks a file if
    /// services lock it, so that no service can open the file during the copy.
    pub(super) async fn open(
        tables: &CopiedTables,
        place: &CopyPlace,
        access: Access,
    ) -> Result<Self, EndError> {
        match place {
            CopyPlace::File(path) => {
                let mut in_use = None;
                if tables.is_locked {
                    path.parent().map_or(Ok(()), private::create_folder)?;
                    in_use = lock::wait_for(&with_ending(path, ".lock"))?;
                    if in_use.is_none() {
                        let path = path.display();
                        return Err(format!(
                            "{path} is in use by a service; stop the service first"
                        )
                        .into());
                    }
                }
                let file = match access {
                    Access::Read => tables.file.open_read_only(path)?,
                    Access::Write => tables.file.open(path)?,
                };
                tables.file.check_version(&file)?;
                file.execute_batch(match access {
                    Access::Read => "BEGIN",
                    Access::Write => "BEGIN IMMEDIATE",
                })?;
                Ok(Self::File { file, _in_use: in_use })
            }
            CopyPlace::Database(url) => {
                let (schema, is_read_only) = (tables.database, access == Access::Read);
                let options = ConnectionsOptions { schema, is_read_only, n_max: 1, n_writers: 1 };
                let connections = Connections::new(url, options);
                connections.open_tables().await.map_err(PostgresError::from)?;
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
        after: Option<&Row>,
        n_rows: usize,
    ) -> Result<Vec<Row>, EndError> {
        let key = after.into_iter().flatten().take(table.n_key);
        let sql = table.select(after.is_some(), n_rows);
        match self {
            Self::File { file, .. } => {
                let mut statement = file.prepare_cached(&sql.replace(BY_BYTES, ""))?;
                let read = |row: &rusqlite::Row<'_>| {
                    (0..table.columns.len()).map(|idx| row.get(idx)).collect()
                };
                let rows = statement.query_map(params_from_iter(key), read)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            }
            Self::Database(c) => {
                let query = sqlx::query(AssertSqlSafe(sql.replace('?', "$")));
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
        let (sql, values) = (table.insert(rows), rows.iter().flatten());
        let values = values.filter(|value| **value != Value::Null);
        match self {
            Self::File { file, .. } => {
                file.execute(&sql.replace(OVERRIDING, ""), params_from_iter(values))?;
            }
            Self::Database(c) => {
                let query = sqlx::query(AssertSqlSafe(sql.replace('?', "$"))).persistent(false);
                values.fold(query, bind).execute(&mut **c).await?;
            }
        }
        Ok(())
    }

    /// Returns the highest key that the table has ever generated, or `None` if it has generated none.
    pub(super) async fn counter(&mut self, table: &Table) -> Result<Option<i64>, EndError> {
        if !table.has_counter {
            return Ok(None);
        }
        match self {
            Self::File { file, .. } => {
                let sql = "SELECT max(seq) FROM sqlite_sequence WHERE name = ?1";
                Ok(file.query_row(sql, [&table.name], |row| row.get(0))?)
            }
            Self::Database(c) => {
                let sql = "SELECT pg_sequence_last_value(pg_get_serial_sequence($1, $2)::regclass)";
                let query = sqlx::query_scalar(sql).bind(&table.name).bind(table.columns.first());
                Ok(query.fetch_one(&mut **c).await?)
            }
        }
    }

    /// Sets the highest generated key of the table to `n`, so that the next generated key is higher.
    pub(super) async fn set_counter(&mut self, table: &Table, n: i64) -> Result<(), EndError> {
        let n = self.counter(table).await?.map_or(n, |found| found.max(n));
        match self {
            Self::File { file, .. } => {
                file.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [&table.name])?;
                let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
                file.execute(sql, (&table.name, n))?;
            }
            Self::Database(c) => {
                let sql = "SELECT setval(pg_get_serial_sequence($1, $2)::regclass, $3)";
                let query = sqlx::query(sql).bind(&table.name).bind(table.columns.first());
                query.bind(n).execute(&mut **c).await?;
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
            Self::File { file, .. } => Ok(file.execute_batch("COMMIT")?),
            Self::Database(c) => Ok(c.finish(Ok::<(), sqlx::Error>(())).await?),
        }
    }
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
