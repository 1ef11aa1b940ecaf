//! Copies the tables of a store between a file and a database, in either direction.
//!
//! Source and destination have the same tables, each with a primary key. All rows are copied in one
//! transaction, in the order of their keys and from one snapshot of the source. Before its commit, every
//! row of the copy is compared with the source, so a copy that is stopped or fails has no effect.

mod engine;

use std::ops::ControlFlow;
use std::path::PathBuf;

use rusqlite::types::Value;

use self::engine::{Access, End, EndError, Row, Table};
use crate::connection::Schema;
use crate::postgres::DatabaseUrl;
use crate::postgres::schema::Schema as SharedSchema;

/// Number of rows that are read and inserted at a time. A row can have up to a megabyte.
const PAGE_ROWS: usize = 64;

/// Tables of a store, as a schema for each engine.
#[derive(Debug, Clone, Copy)]
pub struct CopiedTables {
    /// Schema of a file with these tables.
    pub file: Schema,
    /// Schema of a database with the same tables. Additional tables of the database are not copied.
    pub database: SharedSchema,
    /// Statements that are run in a database after its rows were copied or compared.
    pub finish: &'static str,
    /// True if a service locks a file next to its tables, named `FILE.lock`, while it is running. A copy
    /// then rejects files in use.
    pub is_locked: bool,
}

/// File or database that contains the tables.
#[derive(Debug, Clone)]
pub enum CopyPlace {
    /// A file at this path.
    File(PathBuf),
    /// A database in PostgreSQL.
    Database(DatabaseUrl),
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress<'a> {
    /// Name of a table.
    pub table: &'a str,
    /// Number of rows of the table that were copied and compared so far.
    pub n_rows: u64,
    /// True if all rows of the table are copied and equal to their source.
    pub is_done: bool,
}

/// Failure of a copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source could not be opened or read.
    #[error("source of the copy failed")]
    Read(#[source] EndError),
    /// The destination could not be opened, written or read.
    #[error("destination of the copy failed")]
    Write(#[source] EndError),
    /// The destination has rows that differ from the source. The destination remains unchanged.
    #[error(
        "table {table} of the destination differs from the source; copy to an empty store to which no \
         other program writes"
    )]
    Differs {
        /// Name of the table.
        table: String,
    },
    /// The caller stopped the copy before it was complete.
    #[error("stopped before the copy was complete; run the same command again")]
    Stopped,
}

/// Receives progress and returns whether to continue.
pub type OnProgress<'a> = &'a mut (dyn FnMut(CopyProgress<'_>) -> ControlFlow<()> + Send);

/// Copies all rows of `tables` to an empty store. If a table of the destination already has rows, only
/// compares them with the source. Returns the number of rows.
///
/// Blocks while a file is read or written. Must be called in a tokio runtime.
///
/// # Errors
/// [`CopyError`].
pub async fn copy(
    tables: &CopiedTables,
    from: &CopyPlace,
    to: &CopyPlace,
    on_progress: OnProgress<'_>,
) -> Result<u64, CopyError> {
    let all = Table::all(tables.file.tables).map_err(|error| CopyError::Write(error.into()))?;
    let mut source = End::open(tables, from, Access::Read).await.map_err(CopyError::Read)?;
    let mut target = End::open(tables, to, Access::Write).await.map_err(CopyError::Write)?;
    let mut n_rows = 0;
    for table in &all {
        n_rows += copy_table(&mut source, &mut target, table, on_progress).await?;
    }
    target.run(tables.finish).await.map_err(CopyError::Write)?;
    target.finish().await.map_err(CopyError::Write)?;
    Ok(n_rows)
}

/// Copies the rows of a table, unless the target already has some, and compares each row with the source.
/// Returns the number of rows.
async fn copy_table(
    source: &mut End,
    target: &mut End,
    table: &Table,
    on_progress: OnProgress<'_>,
) -> Result<u64, CopyError> {
    let is_empty = target.page(table, None, 1).await.map_err(CopyError::Write)?.is_empty();
    let (mut n_rows, mut last, mut is_done) = (0, None::<Row>, false);
    while !is_done {
        let page = source.page(table, last.as_ref(), PAGE_ROWS).await.map_err(CopyError::Read)?;
        if is_empty {
            target.insert(table, &page).await.map_err(CopyError::Write)?;
        }
        let copied =
            target.page(table, last.as_ref(), PAGE_ROWS).await.map_err(CopyError::Write)?;
        if page.len() != copied.len() || !page.iter().zip(&copied).all(|(a, b)| is_same(a, b)) {
            return Err(CopyError::Differs { table: table.name.clone() });
        }
        n_rows += page.len() as u64;
        is_done = page.len() < PAGE_ROWS;
        if on_progress(CopyProgress { table: &table.name, n_rows, is_done }).is_break() {
            return Err(CopyError::Stopped);
        }
        last = page.into_iter().next_back();
    }
    if is_empty && let Some(n) = source.counter(table).await.map_err(CopyError::Read)? {
        target.set_counter(table, n).await.map_err(CopyError::Write)?;
    }
    Ok(n_rows)
}

/// Returns true if two rows have the same values. Unlike `==`, considers NaN equal to itself.
fn is_same(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|values| match values {
            (Value::Real(a), Value::Real(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        })
}

#[cfg(test)]
mod tests;
