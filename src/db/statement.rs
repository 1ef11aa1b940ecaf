//! Statements that a connection prepares once and caches.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, Params, Result, Row};

/// Runs statements on a connection and caches them.
#[expect(clippy::missing_errors_doc, reason = "each fails with SQLite's error alone")]
pub trait Statements {
    /// Runs a statement that returns no rows. Returns the number of rows that it changed.
    fn run(&self, sql: &str, params: impl Params) -> Result<usize>;

    /// Returns the first row, converted by `read`, or `None` if there is no row.
    fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>>;

    /// Returns all rows of the result, each converted by `read`.
    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>>;

    /// Returns the first column of the first row. The statement must return at least one row, as `count`
    /// does.
    fn value<T: FromSql>(&self, sql: &str, params: impl Params) -> Result<T>;
}

impl Statements for Connection {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.prepare_cached(sql)?.query_row(params, read).optional()
    }

    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.prepare_cached(sql)?.query_map(params, read)?.collect()
    }

    fn value<T: FromSql>(&self, sql: &str, params: impl Params) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, |row| row.get(0))
    }
}
