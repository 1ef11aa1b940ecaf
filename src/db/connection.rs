//! Opens SQLite files, and creates or upgrades their tables.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use task::private;
use tokio::time::sleep;
use tracing::{error, info};

use crate::fault::DatabaseFault;
use crate::format;

/// Maximum time to wait while another process finishes its write, which usually takes milliseconds.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Value of [`Schema::open_wait`] for files that are opened with [`retry_while_busy`].
pub const RETRIED_OPEN_WAIT: Duration = Duration::from_millis(10);

/// Maximum number of attempts to open a file while another process sets it up. Together they take some
/// seconds, far longer than the setup.
const OPEN_TRIES: u32 = 50;

/// Pause between two attempts to open a file.
const OPEN_PAUSE: Duration = Duration::from_millis(40);

/// Capacity of a connection's cache of prepared statements, larger than the number of statements of any
/// store.
const STATEMENTS_MAX: usize = 128;

/// Statements that test for disk space: they write a megabyte and free it again, each in its own
/// transaction. A smaller write is no proof, since it often succeeds where another write has found no
/// space.
pub const TRY_SPACE: [&str; 2] = [
    "DROP TABLE IF EXISTS space_trial;
     CREATE TABLE space_trial AS SELECT randomblob(1048576) AS body",
    "DROP TABLE IF EXISTS space_trial",
];

/// Tables of a file, and the pragmas of connections to it.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Name of the file in errors, such as `accounts file`.
    pub name: &'static str,
    /// Number of the format of the tables, stored in SQLite's `user_version`.
    pub version: i64,
    /// Upgrades from older formats, in order. The last upgrade results in [`Self::version`].
    pub steps: &'static [&'static str],
    /// Statements that create the tables in an empty file.
    pub tables: &'static str,
    /// Pragmas of writing connections, in addition to the settings of every connection.
    pub pragmas: &'static str,
    /// Maximum time to wait while another process sets up or recovers the file.
    pub open_wait: Duration,
}

/// Failure to open or write a file.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file or its directory could not be created.
    #[error("{name} cannot be created")]
    Create {
        /// Name of the file, such as `accounts file`.
        name: &'static str,
        /// Cause of the failure.
        #[source]
        source: Arc<io::Error>,
    },
    /// SQLite could not open or set up the file.
    #[error("{name} cannot be opened")]
    Database {
        /// Name of the file, such as `accounts file`.
        name: &'static str,
        /// Error of SQLite.
        #[source]
        source: DatabaseFault,
    },
    /// The file was written by another version of the program.
    #[error("{name} has format {found}, expected {known}; {}", format::advice(*found, *known))]
    Version {
        /// Name of the file, such as `accounts file`.
        name: &'static str,
        /// Format of the file.
        found: i64,
        /// Format that this version of the program uses.
        known: i64,
    },
    /// A statement failed, or a transaction could not be begun, committed or rolled back.
    #[error("transaction failed")]
    Commit(#[source] DatabaseFault),
    /// The disk is full.
    #[error("disk is full")]
    Full,
    /// The file was removed or replaced while it was open.
    #[error("database file was removed or replaced while it was open")]
    Replaced,
    /// The thread that writes to the file has stopped.
    #[error("database file is closed")]
    Closed,
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> Self {
        let fault = DatabaseFault::from(error);
        if fault.is_full() { Self::Full } else { Self::Commit(fault) }
    }
}

impl FileError {
    /// Returns true if another process had locked the file, so a retry can succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Database { source, .. } if source.is_busy())
    }
}

impl Schema {
    /// Opens the file at `path` for writing. Creates the file, its directory and its tables if they are
    /// missing. Only the owner can access a created file or directory. Commits of the connection are
    /// durable. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be opened, or has another format. If the error [is
    /// busy](FileError::is_busy), another process can be setting up the file: see [`retry_while_busy`].
    pub fn open(&self, path: &Path) -> Result<Connection, FileError> {
        let create = |error| FileError::Create { name: self.name, source: Arc::new(error) };
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(create)?;
        }
        private::create_file(path).map_err(create)?;
        let failed = |error| self.failed(&error);
        let mut connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(self.open_wait).map_err(failed)?;
        connection.execute_batch(self.pragmas).map_err(failed)?;
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        self.create_tables(&mut connection)?;
        prepare(&connection).map_err(failed)?;
        Ok(connection)
    }

    /// Opens an existing file at `path` for reading.
    ///
    /// # Errors
    /// [`FileError::Database`] if the file cannot be opened.
    pub fn open_read_only(&self, path: &Path) -> Result<Connection, FileError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(path, flags)?;
            prepare(&connection)?;
            Ok(connection)
        };
        open().map_err(|error| self.failed(&error))
    }

    /// Creates the tables in an empty file, or upgrades tables of an older format, in one transaction.
    /// Logs an upgrade. Writes nothing if the tables are current.
    ///
    /// # Errors
    /// [`FileError`] if the database fails, or if the format of the file cannot be upgraded. The file
    /// remains unchanged.
    pub fn create_tables(&self, connection: &mut Connection) -> Result<(), FileError> {
        let failed = |error| self.failed(&error);
        let Self { name, version: known, steps, tables, .. } = *self;
        if read_version(connection).map_err(failed)? == known {
            return Ok(());
        }
        let immediate = TransactionBehavior::Immediate;
        let write = connection.transaction_with_behavior(immediate).map_err(failed)?;
        // Reads the version again within the transaction, since another process might have created or
        // upgraded the tables meanwhile.
        let found = read_version(&write).map_err(failed)?;
        if found == 0 {
            write.execute_batch(tables).map_err(failed)?;
        } else {
            let steps = format::steps_from(steps, found, known);
            for step in steps.ok_or(FileError::Version { name, found, known })? {
                write.execute_batch(step).map_err(failed)?;
            }
        }
        write.pragma_update(None, "user_version", known).map_err(failed)?;
        write.commit().map_err(failed)?;
        if found != 0 && found != known {
            info!(found, known, "upgraded the {name} from format {found} to {known}");
        }
        Ok(())
    }

    /// Checks that the file has the format of this schema. Within a writing transaction, this detects an
    /// upgrade by another process.
    ///
    /// # Errors
    /// [`FileError::Version`] if the file has another format.
    pub fn check_version(&self, connection: &Connection) -> Result<(), FileError> {
        let found = read_version(connection).map_err(|error| self.failed(&error))?;
        let Self { name, version: known, .. } = *self;
        if found == known { Ok(()) } else { Err(FileError::Version { name, found, known }) }
    }

    fn failed(&self, error: &rusqlite::Error) -> FileError {
        FileError::Database { name: self.name, source: error.into() }
    }
}

/// Calls `open` again and again for some seconds, as long as another process has locked the file.
/// Cancel-safe if `open` is.
///
/// # Errors
/// The last error of `open`.
pub async fn retry_while_busy<T, E, F>(
    mut open: impl FnMut() -> F,
    is_busy: impl Fn(&E) -> bool,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    for _ in 1..OPEN_TRIES {
        match open().await {
            Err(error) if is_busy(&error) => sleep(OPEN_PAUSE).await,
            opened => return opened,
        }
    }
    open().await
}

/// Applies the settings that every connection has.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    // Without this setting, query plans can depend on bound values, and cached statements are prepared
    // again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

fn read_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

/// Preserves the write-ahead log when `connection` is closed. Needed if the file was replaced: the log
/// at the same path then belongs to the new file, but the last connection to the old file would delete
/// it.
pub fn keep_log_on_close(connection: &Connection) {
    if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        error!(%error, "failed to close a replaced database without a checkpoint");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::task::spawn_blocking;

    use super::*;

    const SCHEMA: Schema = Schema {
        name: "test file",
        version: 3,
        steps: &[],
        tables: "CREATE TABLE rows (id INTEGER PRIMARY KEY) STRICT",
        pragmas: "PRAGMA foreign_keys = on",
        open_wait: RETRIED_OPEN_WAIT,
    };

    #[test]
    fn database_tables_are_created_only_in_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inner/rows.sqlite");
        for n_rows in [0, 1] {
            let connection = SCHEMA.open(&path).unwrap();
            let count = "SELECT count(*) FROM rows";
            let found: i64 = connection.query_row(count, [], |row| row.get(0)).unwrap();
            assert_eq!(found, n_rows);
            connection.execute("INSERT INTO rows DEFAULT VALUES", []).unwrap();
        }
        assert!(SCHEMA.open_read_only(&path).unwrap().execute("DELETE FROM rows", []).is_err());
    }

    #[tokio::test]
    async fn concurrent_opens_of_a_new_file_succeed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        let open = || {
            let path = path.clone();
            let opened = spawn_blocking(move || SCHEMA.open(&path).map(drop));
            async { opened.await.unwrap() }
        };
        let opened = (0..4).map(|_| retry_while_busy(open, FileError::is_busy));
        for opened in futures::future::join_all(opened).await {
            opened.unwrap();
        }
    }

    #[test]
    fn file_of_another_version_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        for version in [2, 4] {
            let connection = Connection::open(&path).unwrap();
            connection.pragma_update(None, "user_version", version).unwrap();
            let error = SCHEMA.open(&path).unwrap_err();
            assert!(
                matches!(error, FileError::Version { found, known: 3, .. } if found == version)
            );
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("test file has format {version}, expected 3; "))
            );
        }
        fs::write(&path, "no database, but long enough to be told from an empty one".repeat(9))
            .unwrap();
        assert_eq!(SCHEMA.open(&path).unwrap_err().to_string(), "test file cannot be opened");
    }

    /// Schema after two changes: a new column is added, then filled with a value.
    const CHANGED: Schema = Schema {
        version: 5,
        steps: &["ALTER TABLE rows ADD COLUMN name TEXT", "UPDATE rows SET name = 'old'"],
        tables: "CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT) STRICT",
        ..SCHEMA
    };

    #[test]
    fn file_in_an_earlier_format_is_upgraded_once_without_losing_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        let older = SCHEMA.open(&path).unwrap();
        older.execute("INSERT INTO rows DEFAULT VALUES", []).unwrap();
        assert!(SCHEMA.check_version(&older).is_ok());
        for _ in 0..2 {
            let upgraded = CHANGED.open(&path).unwrap();
            let names = "SELECT group_concat(name) FROM rows";
            let found: String = upgraded.query_row(names, [], |row| row.get(0)).unwrap();
            assert_eq!(found, "old");
        }
        let error = SCHEMA.check_version(&older).unwrap_err();
        assert!(matches!(error, FileError::Version { found: 5, known: 3, .. }), "{error}");
        assert!(SCHEMA.open(&path).is_err(), "a newer format is rejected");
    }

    #[test]
    fn failed_upgrade_changes_nothing() {
        const BROKEN: Schema =
            Schema { steps: &["DROP TABLE rows", "DROP TABLE missing"], ..CHANGED };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        drop(SCHEMA.open(&path).unwrap());
        assert!(matches!(BROKEN.open(&path), Err(FileError::Database { .. })));
        let connection = SCHEMA.open(&path).unwrap();
        connection.execute("INSERT INTO rows DEFAULT VALUES", []).unwrap();
    }
}
