//! The accounts file, a SQLite database that several processes open at once, and what is asked of it.

pub(crate) mod keys;
pub(crate) mod sessions;
mod tables;

use std::{path::Path, sync::Arc};

use db::{
    connection::{OpenError, keep_log_on_close},
    fault::DatabaseFault,
    files::DatabaseFiles,
    space::{self, CHANGE_BYTES, SpaceWatch},
};
use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

use crate::{Accounts, AccountsError, Shared, blocking};

impl From<rusqlite::Error> for AccountsError {
    fn from(error: rusqlite::Error) -> Self {
        let fault = DatabaseFault::from(error);
        if fault.is_full() { Self::Full } else { Self::Statement(fault) }
    }
}

impl From<OpenError> for AccountsError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Database { source, .. } if source.is_full() => Self::Full,
            error => Self::Open(error),
        }
    }
}

/// The connections to the file.
#[derive(Debug)]
pub(crate) struct Store {
    /// It may wait for another process's write.
    writes: Mutex<Connection>,
    /// It waits for nobody: keys are checked while a write waits.
    reads: Mutex<Connection>,
    files: DatabaseFiles,
    space: SpaceWatch,
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.files.check() {
            keep_log_on_close(&self.writes.lock());
            keep_log_on_close(&self.reads.lock());
        }
    }
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, AccountsError> {
        let writes = Mutex::new(tables::SCHEMA.open(path)?);
        let reads = Mutex::new(tables::SCHEMA.open_read_only(path)?);
        let files = DatabaseFiles::open(path).map_err(AccountsError::Find)?;
        Ok(Self { writes, reads, files, space: SpaceWatch::new(path) })
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        if !self.files.is_intact() {
            return Err(AccountsError::Replaced);
        }
        Ok(work(&self.reads.lock())?)
    }

    /// Runs `work` in a transaction that takes its turn among the writers at once, not at its first
    /// write.
    fn write<T>(
        &self,
        n_bytes: u64,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        if !self.files.is_intact() {
            return Err(AccountsError::Replaced);
        }
        let transact = || {
            let mut connection = self.writes.lock();
            let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&write)?;
            write.commit().map(|()| done)
        };
        let done = transact().map_err(AccountsError::from);
        match &done {
            Err(AccountsError::Full) => self.space.refuse(n_bytes),
            Ok(_) => self.space.accept(n_bytes),
            Err(_) => false,
        };
        // What was written to a file that is not in its place is lost.
        if self.files.check() { done } else { Err(AccountsError::Replaced) }
    }

    pub(crate) fn check(&self) -> Result<(), AccountsError> {
        if self.space.is_full() {
            let n_bytes = self.space.next_trial().ok_or(AccountsError::Full)?;
            let sql = space::write_trial_sql(n_bytes);
            self.write(n_bytes, |write| write.execute_batch(&sql))?;
            return self.write(0, |write| write.execute_batch(space::DROP_TRIAL_SQL));
        }
        if self.files.check() { Ok(()) } else { Err(AccountsError::Replaced) }
    }

    /// Lets the file grow to so many pages, as a full disk would.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, n_pages: u32) {
        let sql = format!("PRAGMA max_page_count = {n_pages}");
        self.write(CHANGE_BYTES, |write| write.execute_batch(&sql)).unwrap();
    }
}

impl Accounts {
    /// Runs `work`, which only reads, on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, AccountsError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || shared.store.read(|connection| work(&shared, connection))).await
    }

    /// Runs `work` on a blocking thread while it alone writes, all of it or nothing.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, AccountsError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || shared.store.write(CHANGE_BYTES, |write| work(&shared, write))).await
    }

    /// The same for work that may change keys: what is remembered of them is forgotten.
    async fn write_keys<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, AccountsError> {
        let done = self.write(work).await;
        self.shared.cache.lock().clear();
        done
    }
}
