//! Statements that a connection prepares once and caches.

use rusqlite::types::FromSql;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Result, Row};

/// Runs statements on a connection and caches them.
#[expect(clippy::missing_errors_doc, reason = "each fails with SQLite's error alone")]
pub trait Statements {
    /// Returns the prepared statement from the cache, or prepares it.
    fn prepared(&self, sql: &str) -> Result<CachedStatement<'_>>;

    /// Runs a statement that returns no rows. Returns the number of rows that it changed.
    fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepared(sql)?.execute(params)
    }

    /// Returns the first row, converted by `read`, or `None` if there is no row.
    fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.prepared(sql)?.query_row(params, read).optional()
    }

    /// Returns all rows of the result, each converted by `read`.
    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.prepared(sql)?.query_map(params, read)?.collect()
    }

    /// Returns the first column of the first row. The statement must return at least one row, as `count`
    /// does.
    fn value<T: FromSql>(&self, sql: &str, params: impl Params) -> Result<T> {
        self.prepared(sql)?.query_row(params, |row| row.get(0))
    }
}

impl Statements for Connection {
    fn prepared(&self, sql: &str) -> Result<CachedStatement<'_>> {
        self.prepare_cached(sql)
    }
}
