//! Statements to the database that holds a network, in the SQL that its engines share.
//!
//! Parameters are `?1`, `?2` and so on. Integers have 64 bits, and a Boolean is one; texts compare by
//! their bytes. A statement that changes rows names the columns by which it conflicts.

use rusqlite::{Connection, OptionalExtension as _, ToSql, params_from_iter, types::FromSql};

use super::StoreError;

/// What statements run on: a transaction, or single reads.
#[derive(Debug)]
pub(super) struct Session<'c> {
    connection: &'c Connection,
}

/// A row that a statement gives.
pub(super) struct Row<'r>(&'r rusqlite::Row<'r>);

/// A value that a statement takes.
pub(super) trait Value: ToSql {}

/// A value of a row.
pub(super) trait Column: FromSql {}

/// The values that a statement takes, in order.
pub(super) trait Values: Sized {
    /// Does `work` with all of them.
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T;
}

impl<T: ToSql> Value for T {}

impl<T: FromSql> Column for T {}

impl<V: Value, const N: usize> Values for [V; N] {
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T {
        work(&self.each_ref().map(|value| value as &dyn Value))
    }
}

impl Values for &[&dyn Value] {
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T {
        work(self)
    }
}

/// Values of several types.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::store::session::Value),*] as &[&dyn $crate::store::session::Value]
    };
}
pub(super) use values;

impl<'c> From<&'c Connection> for Session<'c> {
    fn from(connection: &'c Connection) -> Self {
        Self { connection }
    }
}

impl Session<'_> {
    /// Runs a statement without results; how many rows it changed.
    pub(super) fn run(&self, sql: &str, values: impl Values) -> Result<usize, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(values.lend(|values| statement.execute(bound(values)))?)
    }

    /// Runs statements without values or results, whatever they do to the database.
    #[cfg(test)]
    pub(super) fn run_batch(&self, sql: &str) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch(sql)?)
    }

    /// The first row, as `read` reads it; `None` if there is none.
    pub(super) fn find<T>(
        &self,
        sql: &str,
        values: impl Values,
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let read = |row: &rusqlite::Row<'_>| Ok(read(&Row(row)));
        values.lend(|values| statement.query_row(bound(values), read)).optional()?.transpose()
    }

    /// All rows, as `read` reads them.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: impl Values,
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        values.lend(|values| {
            let mut rows = statement.query(bound(values))?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(read(&Row(row))?);
            }
            Ok(all)
        })
    }

    /// The first column of a row that is always there, such as that of a count.
    pub(super) fn value<T: Column>(&self, sql: &str, values: impl Values) -> Result<T, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(values.lend(|values| statement.query_row(bound(values), |row| row.get(0)))?)
    }
}

impl Row<'_> {
    /// The value of column `idx`, counted from 0.
    pub(super) fn get<T: Column>(&self, idx: usize) -> Result<T, StoreError> {
        Ok(self.0.get(idx)?)
    }
}

fn bound<'v>(values: &'v [&'v dyn Value]) -> impl rusqlite::Params + 'v {
    params_from_iter(values.iter().map(|value| *value as &dyn ToSql))
}
