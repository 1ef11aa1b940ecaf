//! The accounts file: a SQLite database that several processes open at once.

pub(crate) mod keys;
pub(crate) mod sessions;
mod tables;

use std::{io, path::Path, time::Duration};

use rusqlite::{Connection, Transaction, TransactionBehavior, config::DbConfig};
use task::{database::DatabaseFault, private, space};
use tracing::error;

/// How long a writer waits for another process to finish its own write, which takes milliseconds.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// How long one try to open the file waits for another process.
const OPEN_BUSY_WAIT: Duration = Duration::from_millis(10);

/// Statements kept ready: all there are, with some room.
const STATEMENTS_MAX: usize = 64;

/// Why the accounts file failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Its folder could not be made.
    #[error("make the folder of the accounts file")]
    Folder(#[source] io::Error),
    /// It could not be opened or set up.
    #[error("open the accounts file")]
    Open(#[source] DatabaseFault),
    /// A newer version of the program wrote it.
    #[error("read version {found} of the accounts file, newer than {known}")]
    Newer {
        /// The file's version.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
    /// A statement failed.
    #[error("read or write accounts and keys")]
    Statement(#[source] DatabaseFault),
}

impl StoreError {
    /// Whether there was no space on the disk for what was written.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Open(fault) | Self::Statement(fault) if fault.is_full())
    }

    /// Whether another process was at the file, so that trying again may help.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Open(fault) | Self::Statement(fault) if fault.is_busy())
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Statement(fault(&error))
    }
}

/// What `error` says.
fn fault(error: &rusqlite::Error) -> DatabaseFault {
    DatabaseFault::new(error.sqlite_error().map(|it| it.extended_code), error.to_string())
}

/// What a failure means while the file is being opened.
fn opening(error: rusqlite::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::Statement(fault) => StoreError::Open(fault),
        known => known,
    }
}

/// One connection to the file.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(StoreError::Folder)?;
        }
        private::create_file(path).map_err(StoreError::Folder)?;
        let mut connection = Connection::open(path).map_err(opening)?;
        // The caller retries, a bounded number of times.
        connection.busy_timeout(OPEN_BUSY_WAIT).map_err(opening)?;
        prepare(&connection).map_err(opening)?;
        tables::set_up(&mut connection)?;
        connection.busy_timeout(BUSY_WAIT).map_err(opening)?;
        Ok(Self { connection })
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
        let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.connection.set_db_config(keep, true) {
            error!(%error, "failed to close the accounts file without a checkpoint");
        }
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

/// Sets what holds for this connection, and that the file keeps a write-ahead log.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Without it SQLite prepares a cached statement again when the values bound to it change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")
}
