//! The two ends of a copy, each in either engine.

use std::path::PathBuf;

use futures::FutureExt as _;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter, types::Value};
use sqlx::{
    AssertSqlSafe, PgConnection, Postgres, Row as _,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use tokio::runtime::Handle;

use super::{
    CopiedTables, CopyPlace,
    table::{Kind, Row, Table},
};
use crate::{
    connection::OpenError,
    fault::DatabaseFault,
    postgres::{
        DatabaseUrl,
        connections::{Connections, ConnectionsOptions, Transaction},
        fault::WorkError,
        schema::SchemaError,
    },
};

/// Connections of one end: one reads while another one writes.
const CONNECTIONS_MAX: u32 = 2;

/// Those that may write: all, since an end of a copy serves no reads.
const WRITERS_MAX: usize = 2;

/// Why an end of a copy failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum EngineError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    File(#[from] DatabaseFault),
    #[error(transparent)]
    OpenDatabase(#[from] SchemaError),
    #[error("use the database")]
    Database(#[from] sqlx::Error),
}

/// Tables in one snapshot.
pub(super) enum Source {
    File(Connection),
    Database(Transaction),
}

/// Tables that are written.
pub(super) enum Destination {
    File { writes: Box<Connection>, path: PathBuf, tables: CopiedTables },
    Database(Connections),
}

impl From<rusqlite::Error> for EngineError {
    fn from(error: rusqlite::Error) -> Self {
        Self::File(error.into())
    }
}

impl WorkError for EngineError {
    fn unreachable_cause(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Database(error) => error.unreachable_cause(),
            Self::OpenDatabase(error) => error.unreachable_cause(),
            Self::Open(_) | Self::File(_) => None,
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Database(error) => error.is_full(),
            Self::OpenDatabase(error) => error.is_full(),
            Self::Open(_) | Self::File(_) => false,
        }
    }
}

impl Source {
    pub(super) async fn open(
        tables: &CopiedTables,
        place: &CopyPlace,
    ) -> Result<Self, EngineError> {
        match place {
            CopyPlace::File(path) => {
                let file = tables.file.open_read_only(path)?;
                tables.file.check_version(&file)?;
                file.execute_batch("BEGIN")?;
                Ok(Self::File(file))
            }
            CopyPlace::Database(url) => {
                let connections = connect(tables, url).await?;
                Ok(Self::Database(snapshot(&connections).await?))
            }
        }
    }

    /// The next `n_rows` of a table, by key, after the row `after`.
    pub(super) async fn page(
        &mut self,
        table: &Table,
        after: Option<&[Value]>,
        n_rows: usize,
    ) -> Result<Vec<Row>, EngineError> {
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
                let read = |row: &PgRow| {
                    let kinds = table.columns.iter().map(|(_, kind)| *kind).enumerate();
                    kinds.map(|(idx, kind)| value(row, idx, kind)).collect()
                };
                Ok(rows.iter().map(read).collect::<Result<_, sqlx::Error>>()?)
            }
        }
    }

    /// The highest key that the table ever gave by itself; none where it gives none.
    pub(super) async fn counter(&mut self, table: &Table) -> Result<Option<i64>, EngineError> {
        match self {
            Self::File(file) => {
                if !has_counters(file)? {
                    return Ok(None);
                }
                let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
                Ok(file.query_row(sql, [&table.name], |row| row.get(0)).optional()?)
            }
            Self::Database(c) => {
                let Some(sequence) = sequence(c, table.counted_key()).await? else {
                    return Ok(None);
                };
                let sql = format!("SELECT last_value FROM {sequence} WHERE is_called");
                Ok(sqlx::query_scalar(AssertSqlSafe(sql)).fetch_optional(&mut **c).await?)
            }
        }
    }

    pub(super) async fn end(self) -> Result<(), EngineError> {
        match self {
            Self::File(_) => Ok(()),
            Self::Database(c) => c.finish(Ok(())).await,
        }
    }
}

impl Destination {
    pub(super) async fn open(
        tables: &CopiedTables,
        place: &CopyPlace,
    ) -> Result<Self, EngineError> {
        match place {
            CopyPlace::File(path) => {
                let writes = Box::new(tables.file.open(path)?);
                Ok(Self::File { writes, path: path.clone(), tables: *tables })
            }
            CopyPlace::Database(url) => {
                let connections = connect(tables, url).await?;
                Ok(Self::Database(connections))
            }
        }
    }

    /// What is there now.
    pub(super) async fn snapshot(&mut self) -> Result<Source, EngineError> {
        match self {
            Self::File { path, tables, .. } => {
                Source::open(tables, &CopyPlace::File(path.clone())).await
            }
            Self::Database(connections) => Ok(Source::Database(snapshot(connections).await?)),
        }
    }

    /// Inserts rows in one transaction, which is durable on return.
    pub(super) async fn insert(
        &mut self,
        table: &Table,
        rows: Vec<Row>,
    ) -> Result<(), EngineError> {
        match self {
            Self::File { writes, .. } => {
                let write = writes.transaction()?;
                {
                    let mut insert = write.prepare_cached(&table.insert_one())?;
                    for row in rows {
                        insert.execute(params_from_iter(row))?;
                    }
                }
                Ok(write.commit()?)
            }
            Self::Database(connections) => {
                let query = sqlx::query(AssertSqlSafe(table.insert_lists()));
                let kinds = table.columns.iter().map(|(_, kind)| *kind).enumerate();
                let query =
                    kinds.fold(query, |query, (idx, kind)| bind_list(query, &rows, idx, kind));
                connections
                    .write(|c| async move { Ok(query.execute(c).await.map(drop)?) }.boxed())
                    .await
            }
        }
    }

    /// Has the table give keys above `n` by itself.
    pub(super) async fn count_from(&mut self, table: &Table, n: i64) -> Result<(), EngineError> {
        match self {
            Self::File { writes, .. } => {
                let write = writes.transaction()?;
                let sql = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1";
                if write.execute(sql, (&table.name, n))? == 0 {
                    let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
                    write.execute(sql, (&table.name, n))?;
                }
                Ok(write.commit()?)
            }
            Self::Database(connections) => {
                let key = table.counted_key();
                let set = connections.write(|c| {
                    async move {
                        let Some(sequence) = sequence(c, key).await? else { return Ok(()) };
                        let sql = format!(
                            "SELECT setval('{sequence}', greatest($1, last_value)) FROM {sequence}"
                        );
                        Ok(sqlx::query(AssertSqlSafe(sql)).bind(n).execute(c).await.map(drop)?)
                    }
                    .boxed()
                });
                set.await
            }
        }
    }

    /// Runs `statements` in a database.
    pub(super) async fn finish(&mut self, statements: &'static str) -> Result<(), EngineError> {
        let Self::Database(connections) = self else { return Ok(()) };
        let run = connections.write(|c| {
            async move {
                    Ok::<_, EngineError>(sqlx::raw_sql(statements).execute(c).await.map(drop)?)
                }
                .boxed()
        });
        run.await
    }
}

/// Connects to a database, and creates the tables if they are missing.
async fn connect(tables: &CopiedTables, url: &DatabaseUrl) -> Result<Connections, EngineError> {
    let schema = tables.database;
    let options =
        ConnectionsOptions { schema: schema.name, n_max: CONNECTIONS_MAX, n_writers: WRITERS_MAX };
    let connections = Connections::new(url, options, Handle::current());
    connections.open_tables(schema).await?;
    Ok(connections)
}

/// Whether tables of a file count what they gave.
fn has_counters(file: &Connection) -> Result<bool, EngineError> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_sequence'";
    Ok(file.query_row(sql, [], |row| row.get::<_, i64>(0))? > 0)
}

/// Starts a transaction that sees one snapshot, and waits for its reader as long as that takes.
async fn snapshot(connections: &Connections) -> Result<Transaction, sqlx::Error> {
    let mut transaction = connections.begin_read().await?;
    let sql = "SET LOCAL idle_in_transaction_session_timeout = 0";
    sqlx::raw_sql(sql).execute(&mut *transaction).await?;
    Ok(transaction)
}

/// The name of the sequence that gives the values of a column of a table, if there is one.
async fn sequence(
    c: &mut PgConnection,
    key: Option<(String, String)>,
) -> Result<Option<String>, EngineError> {
    let Some((table, column)) = key else { return Ok(None) };
    let sql = "SELECT pg_get_serial_sequence($1, $2)";
    Ok(sqlx::query_scalar(sql).bind(table).bind(column).fetch_one(c).await?)
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

/// Binds column `idx` of rows.
fn bind_list<'q>(
    query: Query<'q, Postgres, PgArguments>,
    rows: &[Row],
    idx: usize,
    kind: Kind,
) -> Query<'q, Postgres, PgArguments> {
    fn list<T>(rows: &[Row], idx: usize, read: impl Fn(&Value) -> Option<T>) -> Vec<Option<T>> {
        rows.iter().map(|row| row.get(idx).and_then(&read)).collect()
    }
    match kind {
        Kind::Integer => query.bind(list(rows, idx, |value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })),
        Kind::Real => query.bind(list(rows, idx, |value| match value {
            Value::Real(number) => Some(*number),
            _ => None,
        })),
        Kind::Text => query.bind(list(rows, idx, |value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        })),
        Kind::Blob => query.bind(list(rows, idx, |value| match value {
            Value::Blob(bytes) => Some(bytes.clone()),
            _ => None,
        })),
    }
}

fn value(row: &PgRow, idx: usize, kind: Kind) -> Result<Value, sqlx::Error> {
    Ok(match kind {
        Kind::Integer => row.try_get::<Option<i64>, _>(idx)?.map(Value::Integer),
        Kind::Real => row.try_get::<Option<f64>, _>(idx)?.map(Value::Real),
        Kind::Text => row.try_get::<Option<String>, _>(idx)?.map(Value::Text),
        Kind::Blob => row.try_get::<Option<Vec<u8>>, _>(idx)?.map(Value::Blob),
    }
    .unwrap_or(Value::Null))
}
