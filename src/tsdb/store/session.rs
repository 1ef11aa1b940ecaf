//! Connection on which both engines execute the same SQL.
//!
//! Statements qualify table names with the schema of PostgreSQL, which is removed for SQLite. Parameters
//! are written as `?1`.

use std::future::Future;

use db::sql::{self, Value};
use db::statement::Statements as _;
use futures::FutureExt as _;
use model::dataset::DatasetId;
use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use super::sqlite::postings::{self, Term};
use super::{Result, StoreError};

/// A row of a result from either engine.
pub(super) type Row<'r> = sql::Row<'r, StoreError>;

/// Parameters of a statement, in order.
pub(super) type Values<'v> = &'v [&'v (dyn Value + Sync)];

/// A connection within a transaction, or for a single statement.
pub(super) trait Session {
    /// SQL for the current time by the clock of the engine.
    const NOW: &'static str;

    /// SQL for a duration of one microsecond, in the unit of [`Self::NOW`].
    const MICROSECOND: &'static str;

    /// Suffix of a `SELECT` that prevents other transactions from changing the selected rows.
    const FOR_SHARE: &'static str;

    /// Suffix of a `SELECT` that prevents other transactions from deleting the selected rows.
    const FOR_KEY_SHARE: &'static str;

    /// Suffix of a `SELECT` that lets one transaction at a time select the rows. Other transactions can
    /// still refer to them.
    const FOR_NO_KEY_UPDATE: &'static str;

    /// Column of the table `batches` with the number of rows.
    const BATCH_ROWS: &'static str;

    /// Statement that records the batches of dataset `?1` at revision `?2`, except for batches that are
    /// already stored. `?3` is a JSON array of arrays: writer, name, number of rows, and digest in
    /// hexadecimal digits.
    const PUT_BATCHES: &'static str;

    /// Runs a statement that returns no rows. Returns the number of changed rows.
    fn run(&mut self, sql: &str, values: Values<'_>) -> impl Future<Output = Result<u64>>;

    /// Returns all rows of the result, each converted by `read`.
    fn all<T>(
        &mut self,
        sql: &str,
        values: Values<'_>,
        read: fn(&Row<'_>) -> Result<T>,
    ) -> impl Future<Output = Result<Vec<T>>>;

    /// Updates the search indexes after a tag was attached to a dataset or detached from it.
    fn index_tag(&mut self, tag: i64, dataset: DatasetId, is_attached: bool) -> Result<()>;

    /// Counts that a tag was removed from a dataset or a key.
    fn count_withdrawal(&mut self) -> impl Future<Output = Result<()>>;
}

/// Returns the output of a future that executes statements in SQLite. Such a future never waits.
pub(super) fn ready<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    work.now_or_never().unwrap_or(Err(StoreError::Closed))
}

/// Reads a JSON text, or `None` for null.
pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, idx: usize) -> Result<Option<T>> {
    let text: Option<String> = row.get(idx)?;
    text.map(|text| serde_json::from_str(&text).map_err(StoreError::failed)).transpose()
}

/// Returns the JSON text of a value, as a parameter for a list.
pub(super) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(StoreError::failed)
}

#[expect(
    clippy::future_not_send,
    reason = "they complete immediately, on the thread of the connection"
)]
impl Session for &Connection {
    const NOW: &'static str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";
    const MICROSECOND: &'static str = "1";
    const FOR_SHARE: &'static str = "";
    const FOR_KEY_SHARE: &'static str = "";
    const FOR_NO_KEY_UPDATE: &'static str = "";
    const BATCH_ROWS: &'static str = "rows";
    const PUT_BATCHES: &'static str = "INSERT INTO batches
             (writer, n, batch, dataset, revision, rows, digest, at)
         SELECT value ->> 0,
             coalesce((SELECT max(n) FROM batches WHERE writer = value ->> 0), 0)
                 + row_number() OVER (PARTITION BY value ->> 0 ORDER BY key),
             value ->> 1, ?1, ?2, value ->> 2, unhex(value ->> 3),
             CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         FROM json_each(?3) WHERE true
         ON CONFLICT (writer, batch) DO UPDATE SET n = excluded.n, dataset = excluded.dataset,
             revision = excluded.revision, rows = excluded.rows, digest = excluded.digest,
             at = excluded.at
         WHERE NOT EXISTS (SELECT 1 FROM datasets WHERE id = batches.dataset)";

    async fn run(&mut self, sql: &str, values: Values<'_>) -> Result<u64> {
        let sql = sql.replace("datasets.", "");
        Ok(Connection::run(self, &sql, params(values))? as u64)
    }

    async fn all<T>(
        &mut self,
        sql: &str,
        values: Values<'_>,
        read: fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let sql = sql.replace("datasets.", "");
        let read = |row: &rusqlite::Row<'_>| Ok(read(&Row::from(row)));
        Connection::all(self, &sql, params(values), read)?.into_iter().collect()
    }

    fn index_tag(&mut self, tag: i64, dataset: DatasetId, is_attached: bool) -> Result<()> {
        if is_attached {
            postings::add(self, &Term::Tag(tag), &[dataset])
        } else {
            postings::remove(self, &Term::Tag(tag), dataset)
        }
    }

    /// Does nothing, since only services that share a store read this count.
    async fn count_withdrawal(&mut self) -> Result<()> {
        Ok(())
    }
}

fn params(values: Values<'_>) -> impl rusqlite::Params {
    sql::params(values.iter().map(|value| *value as &dyn Value))
}

impl Session for PgConnection {
    const NOW: &'static str = "now()";
    const MICROSECOND: &'static str = "interval '1 microsecond'";
    const FOR_SHARE: &'static str = " FOR SHARE";
    const FOR_KEY_SHARE: &'static str = " FOR KEY SHARE";
    const FOR_NO_KEY_UPDATE: &'static str = " FOR NO KEY UPDATE";
    const BATCH_ROWS: &'static str = "n_rows";

    /// All transactions insert batches in the same order, which prevents deadlocks.
    const PUT_BATCHES: &'static str = "INSERT INTO datasets.batches AS b
             (writer, batch, dataset, revision, n_rows, digest)
         SELECT CAST(value ->> 0 AS bigint), value ->> 1, ?1, ?2, CAST(value ->> 2 AS bigint),
             decode(value ->> 3, 'hex')
         FROM json_array_elements(CAST(?3 AS json)) ORDER BY 1, 2
         ON CONFLICT (writer, batch) DO UPDATE SET dataset = excluded.dataset,
             revision = excluded.revision, n_rows = excluded.n_rows, digest = excluded.digest,
             at = excluded.at
         WHERE NOT EXISTS (SELECT FROM datasets.datasets WHERE id = b.dataset)";

    async fn run(&mut self, sql: &str, values: Values<'_>) -> Result<u64> {
        let query = sql::query(sql, values.iter().map(|value| *value as &dyn Value))?;
        Ok(query.execute(self).await?.rows_affected())
    }

    async fn all<T>(
        &mut self,
        sql: &str,
        values: Values<'_>,
        read: fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let query = sql::query(sql, values.iter().map(|value| *value as &dyn Value))?;
        let rows = query.fetch_all(self).await?;
        rows.iter().map(|row| read(&Row::from(row))).collect()
    }

    fn index_tag(&mut self, _: i64, _: DatasetId, _: bool) -> Result<()> {
        Ok(())
    }

    async fn count_withdrawal(&mut self) -> Result<()> {
        sqlx::query("UPDATE datasets.withdrawals SET n = n + 1").execute(self).await?;
        Ok(())
    }
}
