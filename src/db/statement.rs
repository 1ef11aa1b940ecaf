//! Statements that a connection prepares once and caches.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, Params, Result, Row};

/// Runs statements from the cache of a connection.
#[expect(clippy::missing_errors_doc, reason = "each fails with SQLite's error alone")]
pub trait Statements {
    /// Runs a statement without results and returns the number of changed rows.
    fn run(&self, sql: &str, params: impl Params) -> Result<usize>;

    /// Returns the first row as `read` converts it, or `None` if there is none.
    fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>>;

    /// Returns all rows as `read` converts them.
    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>>;

    /// Returns the first column of a row that always exists, such as that of a count.
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
