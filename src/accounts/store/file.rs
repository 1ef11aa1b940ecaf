//! The accounts file: a SQLite database that several processes can have open.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use db::files::DatabaseFiles;
use db::writer::TRY_SPACE;
use futures::executor::block_on;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rusqlite::Connection;

use super::sql::Session;
use super::tables;
use crate::AccountsError;

/// Connections to the file.
#[derive(Debug)]
pub(crate) struct FileStore {
    /// Connection for writes. A write waits for writes of other processes.
    writes: Mutex<Connection>,
    /// Separate connection for reads, so that keys can be checked while a write waits.
    reads: Mutex<Connection>,
    files: DatabaseFiles,
    /// True if a write found no space and no later check has found space.
    is_full: AtomicBool,
}

impl Drop for FileStore {
    fn drop(&mut self) {
        self.files.before_close(&self.writes.lock());
        self.files.before_close(&self.reads.lock());
    }
}

impl FileStore {
    pub(crate) fn open(path: &Path) -> Result<Self, AccountsError> {
        let writes = Mutex::new(tables::FILE.open(path)?);
        let reads = Mutex::new(tables::FILE.open_read_only(path)?);
        let files = DatabaseFiles::open(path)?;
        Ok(Self { writes, reads, files, is_full: AtomicBool::default() })
    }

    /// Runs read-only `work`. Blocks.
    pub(super) fn read<T>(
        &self,
        work: impl for<'c> FnOnce(Session<'c>) -> BoxFuture<'c, Result<T, AccountsError>>,
    ) -> Result<T, AccountsError> {
        if !self.files.is_intact() {
            return Err(AccountsError::Replaced);
        }
        block_on(work(Session::File(&mut self.reads.lock())))
    }

    /// Runs `work` in a transaction that keeps out other writers from its start. Blocks.
    pub(super) fn write<T>(
        &self,
        work: impl for<'c> FnOnce(Session<'c>) -> BoxFuture<'c, Result<T, AccountsError>>,
    ) -> Result<T, AccountsError> {
        if !self.files.is_intact() {
            return Err(AccountsError::Replaced);
        }
        let done = transact(&mut self.writes.lock(), work);
        if matches!(done, Err(AccountsError::Full)) {
            self.is_full.store(true, Ordering::Relaxed);
        }
        // Returns an error if the file was removed or replaced, since the write is lost in this case.
        if self.files.check() { done } else { Err(AccountsError::Replaced) }
    }

    /// Checks that the file can be written. Blocks.
    pub(super) fn check(&self) -> Result<(), AccountsError> {
        if self.is_full.load(Ordering::Relaxed) {
            TRY_SPACE.into_iter().try_for_each(|sql| self.execute(sql.to_owned()))?;
            self.is_full.store(false, Ordering::Relaxed);
        }
        if self.files.check() { Ok(()) } else { Err(AccountsError::Replaced) }
    }

    fn execute(&self, sql: String) -> Result<(), AccountsError> {
        self.write(|session| {
            Box::pin(async move {
                if let Session::File(connection) = session {
                    connection.execute_batch(&sql)?;
                }
                Ok(())
            })
        })
    }

    /// Limits the file to `n_pages` pages, to simulate a full disk.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, n_pages: u32) {
        self.execute(format!("PRAGMA max_page_count = {n_pages}")).unwrap();
    }
}

fn transact<T>(
    connection: &mut Connection,
    work: impl for<'c> FnOnce(Session<'c>) -> BoxFuture<'c, Result<T, AccountsError>>,
) -> Result<T, AccountsError> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let done = tables::FILE
        .check_version(connection)
        .map_err(AccountsError::from)
        .and_then(|()| block_on(work(Session::File(connection))))
        .and_then(|done| {
            connection.execute_batch("COMMIT")?;
            Ok(done)
        });
    // Rolls back, unless SQLite has already done so, as after some errors such as a full disk.
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    done
}
