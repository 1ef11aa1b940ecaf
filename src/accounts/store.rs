//! The accounts file: a SQLite database that several processes open at once.

pub(crate) mod keys;
pub(crate) mod sessions;
mod tables;

use std::{io, path::Path};

use db::{
    connection::{OpenError, keep_log_on_close},
    fault::DatabaseFault,
    space,
};
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// Why the accounts file failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It could not be opened or set up.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is not at its path right after it was opened.
    #[error("find the accounts file")]
    Find(#[source] io::Error),
    /// A statement failed.
    #[error("read or write accounts and keys")]
    Statement(#[source] DatabaseFault),
}

impl StoreError {
    /// Whether there was no space on the disk for what was written.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Open(OpenError::Database { source: fault, .. }) | Self::Statement(fault) => {
                fault.is_full()
            }
            _ => false,
        }
    }

    /// Whether another process held the file, so that a retry may help.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Open(error) => error.is_busy(),
            Self::Statement(fault) => fault.is_busy(),
            Self::Find(_) => false,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Statement(error.into())
    }
}

/// One connection to the file.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: tables::SCHEMA.open(path)? })
    }

    /// Opens the file, which exists, to read it.
    pub(crate) fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: tables::SCHEMA.open_read_only(path)? })
    }

    /// Writes `n_bytes` that mean nothing, and removes them: whether the disk takes them.
    pub(crate) fn try_write(&mut self, n_bytes: u64) -> Result<(), StoreError> {
        self.connection.execute_batch(&space::write_trial_sql(n_bytes))?;
        Ok(self.connection.execute_batch(space::DROP_TRIAL_SQL)?)
    }

    #[cfg(test)]
    pub(crate) fn limit_pages(&self, n_pages: u32) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch(&format!("PRAGMA max_page_count = {n_pages}"))?)
    }

    /// Leaves the files beside the main one alone when this is closed: they belong to another.
    pub(crate) fn keep_log(&self) {
        keep_log_on_close(&self.connection);
    }

    /// A number that changes when another connection changes the file.
    pub(crate) fn data_version(&self) -> Result<i64, StoreError> {
        let mut statement = self.connection.prepare_cached("PRAGMA data_version")?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }

    /// A transaction that takes its turn among the writers at once, not at its first write.
    fn write(&mut self) -> Result<Transaction<'_>, StoreError> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }
}
