//! Copying the tables of a room between a file and a database, in either direction.
//!
//! A room has the same tables in both, in which rows have a primary key. Rows are read in the order of
//! these keys, in one snapshot of the source, and those that the destination has already must be the
//! first of them: so a copy that was stopped goes on, and nothing else is added to. At the end each row
//! of the copy is compared with its source.

mod engine;
mod table;

use std::{
    error::Error,
    ffi::OsString,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rusqlite::types::Value;
use task::{
    lock::{self, Lock},
    private,
};

use self::{
    engine::{Destination, EngineError, Source},
    table::{Row, Table},
};
use crate::{
    connection::Schema,
    fault::DatabaseFault,
    postgres::{DatabaseUrl, schema::Schema as SharedSchema},
};

/// Rows of a page: some may be of a megabyte.
const PAGE_ROWS: usize = 64;

/// Rows of one commit at most.
const COMMIT_ROWS: usize = 4096;

/// Bytes of rows of one commit, give or take a page.
const COMMIT_BYTES: usize = 4 << 20;

/// What to copy.
#[derive(Debug, Clone, Copy)]
pub struct CopiedTables {
    /// The tables, as they are in a file.
    pub file: Schema,
    /// The schema in which a database has the same tables, and others that are not copied.
    pub database: SharedSchema,
    /// What a database has to know of copied rows: statements that do no harm where they are run again.
    pub finish: &'static str,
    /// Whether a service that has a file open locks another one beside it, which ends in `.lock`.
    pub is_locked: bool,
}

/// Where a room's tables are.
#[derive(Debug, Clone)]
pub enum CopyPlace {
    /// In a file, at this path.
    File(PathBuf),
    /// In a database.
    Database(DatabaseUrl),
}

/// What is reported while tables are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyProgress<'a> {
    /// So many rows of a table are at the destination.
    Rows {
        /// The table's name.
        table: &'a str,
        /// Rows, with those of an earlier copy.
        n_rows: u64,
    },
    /// All rows of a table are, and each is equal to its source.
    Copied {
        /// The table's name.
        table: &'a str,
        /// Rows in both stores.
        n_rows: u64,
    },
}

/// Why tables were not copied. What is copied stays, and the next copy goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source failed.
    #[error("read the store to copy from")]
    Read(#[source] Box<dyn Error + Send + Sync>),
    /// The destination failed.
    #[error("write the store to copy to")]
    Write(#[source] Box<dyn Error + Send + Sync>),
    /// A service has the file of the source or of the destination open.
    #[error("copy {}, which a service has open; stop it first", path.display())]
    InUse {
        /// The store's file, beside which the lock is.
        path: PathBuf,
    },
    /// The file cannot be kept from services.
    #[error("lock {}", path.display())]
    Lock {
        /// The store's file, beside which the lock is.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Rows are there that are not of this copy, or not any more.
    #[error(
        "copy to a store whose table {table} has other rows; name one that is empty, or that holds an unfinished copy of a source which has not changed since"
    )]
    NotEmpty {
        /// The table's name.
        table: String,
    },
    /// The destination was written meanwhile.
    #[error(
        "verify the copy: rows of table {table} differ from those of the source; stop the services of the store that is copied to, and empty it"
    )]
    Differs {
        /// The table's name.
        table: String,
    },
    /// The caller wanted to stop.
    #[error("copy the rest: stopped; the same command goes on")]
    Stopped,
}

/// Receives progress, and returns whether to go on.
pub type OnProgress<'a> = &'a mut (dyn FnMut(CopyProgress<'_>) -> ControlFlow<()> + Send);

/// How far the copy of a table is.
struct Compared {
    n_rows: u64,
    /// The last row at the destination.
    last: Option<Row>,
    /// Whether the source has no more.
    is_whole: bool,
}

/// Copies all rows of `tables`; how many they are. Blocks for as long as files are read and written; run
/// in the context of a runtime.
///
/// # Errors
/// [`CopyError`].
pub async fn copy(
    tables: &CopiedTables,
    from: &CopyPlace,
    to: &CopyPlace,
    on_progress: OnProgress<'_>,
) -> Result<u64, CopyError> {
    let all = Table::all(tables.file.tables).map_err(|error| write(DatabaseFault::from(error)))?;
    let _locks = [lock_file(tables, from)?, lock_file(tables, to)?];
    let mut source = Source::open(tables, from).await.map_err(read)?;
    let mut destination = Destination::open(tables, to).await.map_err(write)?;
    let mut there = Vec::with_capacity(all.len());
    {
        let mut copied = destination.snapshot().await.map_err(write)?;
        for table in &all {
            let compared = compare(&mut source, &mut copied, table).await?;
            let compared =
                compared.ok_or_else(|| CopyError::NotEmpty { table: table.name.clone() });
            there.push(compared?);
        }
        copied.end().await.map_err(write)?;
    }
    for (table, there) in all.iter().zip(there) {
        if !there.is_whole {
            copy_rest(&mut source, &mut destination, table, there, on_progress).await?;
        }
        if let Some(n) = source.counter(table).await.map_err(read)? {
            destination.count_from(table, n).await.map_err(write)?;
        }
    }
    destination.finish(tables.finish).await.map_err(write)?;
    let mut n_rows = 0;
    let mut copied = destination.snapshot().await.map_err(write)?;
    for table in &all {
        let compared = compare(&mut source, &mut copied, table).await?;
        let compared = compared.filter(|compared| compared.is_whole);
        let differs = || CopyError::Differs { table: table.name.clone() };
        let Compared { n_rows: n, .. } = compared.ok_or_else(differs)?;
        n_rows += n;
        report(on_progress, CopyProgress::Copied { table: &table.name, n_rows: n })?;
    }
    copied.end().await.map_err(write)?;
    source.end().await.map_err(read)?;
    Ok(n_rows)
}

/// Keeps services from opening a file meanwhile.
fn lock_file(tables: &CopiedTables, place: &CopyPlace) -> Result<Option<Lock>, CopyError> {
    let CopyPlace::File(path) = place else { return Ok(None) };
    if !tables.is_locked {
        return Ok(None);
    }
    let failed = |error| CopyError::Lock { path: path.clone(), source: error };
    if let Some(folder) = path.parent() {
        private::create_folder(folder).map_err(failed)?;
    }
    let mut beside = OsString::from(path);
    beside.push(".lock");
    let locked = lock::wait_for(Path::new(&beside)).map_err(failed)?;
    locked.map(Some).ok_or_else(|| CopyError::InUse { path: path.clone() })
}

/// Compares the rows of a table at the destination with as many at the source; none if they differ.
async fn compare(
    source: &mut Source,
    copied: &mut Source,
    table: &Table,
) -> Result<Option<Compared>, CopyError> {
    let mut compared = Compared { n_rows: 0, last: None, is_whole: true };
    loop {
        let after = compared.last.as_deref();
        let theirs = source.page(table, after, PAGE_ROWS).await.map_err(read)?;
        let mut ours = copied.page(table, after, PAGE_ROWS).await.map_err(write)?;
        let are_equal = ours.iter().zip(&theirs).all(|(ours, theirs)| is_same(ours, theirs));
        if !are_equal || ours.len() > theirs.len() {
            return Ok(None);
        }
        compared.n_rows += u64::try_from(ours.len()).unwrap_or(u64::MAX);
        compared.is_whole = ours.len() == theirs.len();
        let is_end = !compared.is_whole || theirs.len() < PAGE_ROWS;
        compared.last = ours.pop().or(compared.last);
        if is_end {
            return Ok(Some(compared));
        }
    }
}

/// Copies the rows of a table after those that are there.
async fn copy_rest(
    source: &mut Source,
    destination: &mut Destination,
    table: &Table,
    there: Compared,
    on_progress: OnProgress<'_>,
) -> Result<(), CopyError> {
    let Compared { mut n_rows, mut last, .. } = there;
    let (mut rows, mut n_bytes) = (Vec::new(), 0);
    loop {
        let page = source.page(table, last.as_deref(), PAGE_ROWS).await.map_err(read)?;
        let is_end = page.len() < PAGE_ROWS;
        last = page.last().cloned().or(last);
        n_bytes += page.iter().flatten().map(bytes_of).sum::<usize>();
        rows.extend(page);
        if is_end || n_bytes >= COMMIT_BYTES || rows.len() >= COMMIT_ROWS {
            n_rows += u64::try_from(rows.len()).unwrap_or(u64::MAX);
            destination.insert(table, std::mem::take(&mut rows)).await.map_err(write)?;
            n_bytes = 0;
            report(on_progress, CopyProgress::Rows { table: &table.name, n_rows })?;
        }
        if is_end {
            return Ok(());
        }
    }
}

fn report(on_progress: OnProgress<'_>, progress: CopyProgress<'_>) -> Result<(), CopyError> {
    if on_progress(progress).is_break() { Err(CopyError::Stopped) } else { Ok(()) }
}

fn read(error: impl Into<EngineError>) -> CopyError {
    CopyError::Read(Box::new(error.into()))
}

fn write(error: impl Into<EngineError>) -> CopyError {
    CopyError::Write(Box::new(error.into()))
}

/// Whether two rows have the same values, of which not a number is one.
fn is_same(ours: &[Value], theirs: &[Value]) -> bool {
    let is_same = |(ours, theirs): (&Value, &Value)| match (ours, theirs) {
        (Value::Real(ours), Value::Real(theirs)) => ours.to_bits() == theirs.to_bits(),
        _ => ours == theirs,
    };
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(is_same)
}

/// About how much of a commit a value takes.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::Null | Value::Integer(_) | Value::Real(_) => 8,
    }
}

#[cfg(test)]
mod tests;
