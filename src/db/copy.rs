//! Copies the tables of a store between a file and a database, in either direction.
//!
//! Source and destination have the same tables, each with a primary key. All rows are copied in one
//! transaction, in the order of their keys and from one snapshot of the source, so a copy that is
//! stopped has no effect. Finally, every row of the copy is compared with the source.

mod engine;
mod table;

use std::ops::ControlFlow;
use std::path::PathBuf;

use rusqlite::types::Value;
use task::lock::{self, Lock};
use task::private;

use self::engine::{Access, End, EndError};
use self::table::{Row, Table};
use crate::connection::Schema;
use crate::files::with_ending;
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
    /// Statements that are run in a database after its rows were copied.
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
#[non_exhaustive]
pub enum CopyProgress<'a> {
    /// Some rows of a table were inserted.
    Rows {
        /// Name of the table.
        table: &'a str,
        /// Number of rows of the table that were inserted so far.
        n_rows: u64,
    },
    /// All rows of a table are copied and equal to their source.
    Copied {
        /// Name of the table.
        table: &'a str,
        /// Number of rows of the table.
        n_rows: u64,
    },
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
    /// A service has the source or the destination open.
    #[error("{} is in use by a service; stop the service first", path.display())]
    InUse {
        /// Path of the file.
        path: PathBuf,
    },
    /// The destination already has rows, which differ from the rows of the source. The destination
    /// remains unchanged.
    #[error(
        "destination is not empty, and its table {table} differs from the source; copy to an empty store"
    )]
    NotEmpty {
        /// Name of the table.
        table: String,
    },
    /// The destination differs from the source after the copy, so another program must have written to
    /// it meanwhile.
    #[error(
        "table {table} of the destination differs from the source, so another program wrote to it; stop the services of the destination, empty its store and copy again"
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

/// Copies all rows of `tables` to an empty store. If the destination already has rows, only compares
/// them with the source. Returns the number of rows.
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
    let _locks =
        [lock_file(tables, from, CopyError::Read)?, lock_file(tables, to, CopyError::Write)?];
    let mut source = End::open(tables, from, Access::Read).await.map_err(CopyError::Read)?;
    let mut target = End::open(tables, to, Access::Write).await.map_err(CopyError::Write)?;
    let is_empty = is_empty(&mut target, &all).await.map_err(CopyError::Write)?;
    if is_empty {
        for table in &all {
            copy_table(&mut source, &mut target, table, on_progress).await?;
        }
        target.run(tables.finish).await.map_err(CopyError::Write)?;
    }
    target.finish().await.map_err(CopyError::Write)?;
    let mut copied = End::open(tables, to, Access::Read).await.map_err(CopyError::Write)?;
    let mut n_rows = 0;
    for table in &all {
        let Some(n) = compare(&mut source, &mut copied, table).await? else {
            let table = table.name.clone();
            return Err(if is_empty {
                CopyError::Differs { table }
            } else {
                CopyError::NotEmpty { table }
            });
        };
        n_rows += n;
        report(on_progress, CopyProgress::Copied { table: &table.name, n_rows: n })?;
    }
    copied.finish().await.map_err(CopyError::Write)?;
    source.finish().await.map_err(CopyError::Read)?;
    Ok(n_rows)
}

/// Locks a file if services lock it, so that no service can open the file during the copy.
fn lock_file(
    tables: &CopiedTables,
    place: &CopyPlace,
    failed: impl Fn(EndError) -> CopyError,
) -> Result<Option<Lock>, CopyError> {
    let CopyPlace::File(path) = place else { return Ok(None) };
    if !tables.is_locked {
        return Ok(None);
    }
    if let Some(folder) = path.parent() {
        private::create_folder(folder).map_err(|error| failed(error.into()))?;
    }
    let lock_path = with_ending(path, ".lock");
    let locked = lock::wait_for(&lock_path)
        .map_err(|error| failed(format!("cannot lock {}: {error}", lock_path.display()).into()))?;
    locked.map(Some).ok_or_else(|| CopyError::InUse { path: path.clone() })
}

async fn is_empty(end: &mut End, tables: &[Table]) -> Result<bool, EndError> {
    for table in tables {
        if !end.page(table, None, 1).await?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compares the rows of a table in both stores. Returns the number of rows, or `None` if they differ.
async fn compare(
    source: &mut End,
    copied: &mut End,
    table: &Table,
) -> Result<Option<u64>, CopyError> {
    let (mut n_rows, mut last) = (0, None::<Row>);
    loop {
        let want = source.page(table, last.as_deref(), PAGE_ROWS).await.map_err(CopyError::Read)?;
        let mut found =
            copied.page(table, last.as_deref(), PAGE_ROWS).await.map_err(CopyError::Write)?;
        if found.len() != want.len() || !found.iter().zip(&want).all(|(a, b)| is_same(a, b)) {
            return Ok(None);
        }
        n_rows += found.len() as u64;
        if found.len() < PAGE_ROWS {
            return Ok(Some(n_rows));
        }
        last = found.pop();
    }
}

async fn copy_table(
    source: &mut End,
    target: &mut End,
    table: &Table,
    on_progress: OnProgress<'_>,
) -> Result<(), CopyError> {
    let (mut n_rows, mut last) = (0, None::<Row>);
    loop {
        let mut rows =
            source.page(table, last.as_deref(), PAGE_ROWS).await.map_err(CopyError::Read)?;
        target.insert(table, &rows).await.map_err(CopyError::Write)?;
        n_rows += rows.len() as u64;
        report(on_progress, CopyProgress::Rows { table: &table.name, n_rows })?;
        if rows.len() < PAGE_ROWS {
            break;
        }
        last = rows.pop();
    }
    if let Some(n) = source.counter(table).await.map_err(CopyError::Read)? {
        target.set_counter(table, n).await.map_err(CopyError::Write)?;
    }
    Ok(())
}

fn report(on_progress: OnProgress<'_>, progress: CopyProgress<'_>) -> Result<(), CopyError> {
    if on_progress(progress).is_break() { Err(CopyError::Stopped) } else { Ok(()) }
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
