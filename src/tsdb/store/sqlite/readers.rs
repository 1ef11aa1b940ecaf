//! Pool of connections for reads, which are opened as needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use db::files::DatabaseFiles;
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::{Result, StoreError, tables};

/// Maximum number of connections. Further reads wait. The number of long reads is limited elsewhere, so
/// that a connection is left for short reads.
pub(super) const CONNECTIONS_MAX: usize = 16;

/// Pool of connections for reads of a store.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    files: Arc<DatabaseFiles>,
    pool: Mutex<Pool>,
    returned: Condvar,
    /// Connection that only reads the version of the store. Versions of different connections are not
    /// comparable.
    watch: Mutex<Connection>,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Connection>,
    n_open: usize,
}

impl Readers {
    /// Creates a pool of connections to an existing store at `path`. Blocks.
    pub(super) fn open(path: PathBuf, files: Arc<DatabaseFiles>) -> Result<Self> {
        let watch = Mutex::new(connect(&path)?);
        Ok(Self { path, files, pool: Mutex::default(), returned: Condvar::new(), watch })
    }

    /// Returns a number that changes with every commit. Returns `None` while another thread reads it, or
    /// if the file was replaced.
    pub(super) fn version(&self) -> Option<i64> {
        if !self.files.is_intact() {
            return None;
        }
        let watch = self.watch.try_lock()?;
        let mut statement = watch.prepare_cached("PRAGMA data_version").ok()?;
        statement.query_row([], |row| row.get(0)).ok()
    }

    /// Runs `read` in a transaction, so that it sees one snapshot of the store.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        if !self.files.is_intact() {
            return Err(StoreError::Replaced);
        }
        let mut borrowed = self.borrow();
        if borrowed.connection.is_none() {
            let opened = connect(&self.path);
            // The file at the path might have been replaced, and the connection opened to the new file.
            if !self.files.check() {
                return Err(StoreError::Replaced);
            }
            borrowed.connection = Some(opened?);
        }
        let Some(connection) = &borrowed.connection else { return Err(StoreError::Closed) };
        // Uses cached statements, unlike the transactions of the library. Parsing would take a tenth of
        // the time of a short read.
        connection.prepare_cached("BEGIN")?.execute([])?;
        let result = read(connection);
        // Also commits after a failed read, which has made no changes.
        connection.prepare_cached("COMMIT")?.execute([])?;
        result
    }

    /// Waits for an idle connection, or for the permission to open one.
    fn borrow(&self) -> Borrowed<'_> {
        let mut pool = self.pool.lock();
        let is_busy = |pool: &mut Pool| pool.idle.is_empty() && pool.n_open == CONNECTIONS_MAX;
        self.returned.wait_while(&mut pool, is_busy);
        let connection = pool.idle.pop();
        pool.n_open += usize::from(connection.is_none());
        Borrowed { connection, readers: self }
    }
}

/// Opens a read-only connection to the store at `path`.
pub(super) fn connect(path: &Path) -> Result<Connection> {
    Ok(tables::SCHEMA.open_read_only(path)?)
}

/// A borrowed connection, or `None` until it is opened. Drop returns it to the pool, unless its reader
/// panicked within a transaction.
struct Borrowed<'a> {
    connection: Option<Connection>,
    readers: &'a Readers,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut pool = self.readers.pool.lock();
        match self.connection.take() {
            Some(connection) if connection.is_autocommit() => pool.idle.push(connection),
            _ => pool.n_open -= 1,
        }
        drop(pool);
        self.readers.returned.notify_one();
    }
}
