//! Opens SQLite files, and creates or upgrades their tables.

use std::path::Path;
use std::time::Duration;
use std::{slice, thread};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use task::private;
use tracing::info;

use crate::fault::{DatabaseFault, FaultKind};
use crate::format::{self, FormatError};

/// Maximum time to wait while another process writes to the file or sets it up, which usually takes
/// milliseconds. A backup locks the file for longer.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Maximum number of attempts to switch a file to write-ahead logging. Together they take seconds, far
/// longer than the setup of a file.
const SWITCH_TRIES: u32 = 500;

/// Pause between two attempts to switch a file to write-ahead logging.
const SWITCH_PAUSE: Duration = Duration::from_millis(10);

/// Capacity of a connection's cache of prepared statements, larger than the number of statements of any
/// store.
const STATEMENTS_MAX: usize = 128;

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
}

/// Failure to open or write a file.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file could not be created, opened or set up.
    #[error("{name} cannot be opened")]
    Open {
        /// Name of the file, such as `accounts file`.
        name: &'static str,
        /// Cause of the failure.
        #[source]
        source: DatabaseFault,
    },
    /// The file was written by another version of the program.
    #[error(transparent)]
    Version(#[from] FormatError),
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
        if fault.kind == FaultKind::Full { Self::Full } else { Self::Commit(fault) }
    }
}

impl FileError {
    /// Returns true if another process had locked the file, so a retry can succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Open { source, .. } | Self::Commit(source) if source.kind == FaultKind::Busy)
    }
}

impl Schema {
    /// Opens the file at `path` for writing. Creates the file, its directory and its tables if they are
    /// missing. Only the owner can access a created file or directory. Commits of the connection are
    /// durable. Blocks, for some seconds if another process has locked the file.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be opened, or has another format.
    pub fn open(&self, path: &Path) -> Result<Connection, FileError> {
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(|error| self.failed(error))?;
        }
        private::create_file(path).map_err(|error| self.failed(error))?;
        let open = || {
            let connection = Connection::open(path)?;
            connection.execute_batch(self.pragmas)?;
            enable_log(&connection)?;
            connection.pragma_update(None, "synchronous", "full")?;
            prepare(&connection)?;
            Ok(connection)
        };
        let mut connection = open().map_err(|error: rusqlite::Error| self.failed(error))?;
        self.create_tables(&mut connection)?;
        Ok(connection)
    }

    /// Opens an existing file at `path` for reading.
    ///
    /// # Errors
    /// [`FileError::Open`] if the file cannot be opened.
    pub fn open_read_only(&self, path: &Path) -> Result<Connection, FileError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(path, flags)?;
            prepare(&connection)?;
            Ok(connection)
        };
        open().map_err(|error: rusqlite::Error| self.failed(error))
    }

    /// Creates the tables in an empty file, or upgrades tables of an older format, in one transaction.
    /// Logs an upgrade. Writes nothing if the tables are current.
    ///
    /// # Errors
    /// [`FileError`] if the database fails, or if the format of the file cannot be upgraded. The file
    /// remains unchanged.
    pub fn create_tables(&self, connection: &mut Connection) -> Result<(), FileError> {
        let failed = |error: rusqlite::Error| self.failed(error);
        let Self { name, version: known, steps, tables, .. } = *self;
        if read_version(connection).map_err(failed)? == known {
            return Ok(());
        }
        let immediate = TransactionBehavior::Immediate;
        let write = connection.transaction_with_behavior(immediate).map_err(failed)?;
        // Reads the version again within the transaction, since another process might have created or
        // upgraded the tables meanwhile.
        let found = read_version(&write).map_err(failed)?;
        let steps = match found {
            0 => slice::from_ref(&tables),
            found => format::steps_from(name, steps, found, known)?,
        };
        for step in steps {
            write.execute_batch(step).map_err(failed)?;
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
        let found =
            read_version(connection).map_err(|error: rusqlite::Error| self.failed(error))?;
        Ok(format::steps_from(self.name, &[], found, self.version).map(drop)?)
    }

    fn failed(&self, error: impl Into<DatabaseFault>) -> FileError {
        let source: DatabaseFault = error.into();
        match source.kind {
            FaultKind::Full => FileError::Full,
            _ => FileError::Open { name: self.name, source },
        }
    }
}

/// Switches to write-ahead logging. SQLite itself does not wait while another process does the same.
fn enable_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::ZERO)?;
    let enable = || connection.pragma_update(None, "journal_mode", "wal");
    for _ in 1..SWITCH_TRIES {
        match enable() {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                thread::park_timeout(SWITCH_PAUSE);
            }
            enabled => return enabled,
        }
    }
    enable()
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SCHEMA: Schema = Schema {
        name: "test file",
        version: 3,
        steps: &[],
        tables: "CREATE TABLE rows (id INTEGER PRIMARY KEY) STRICT",
        pragmas: "PRAGMA foreign_keys = on",
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

    #[test]
    fn concurrent_opens_of_a_new_file_succeed() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("rows.sqlite");
            let open = || {
                thread::spawn({
                    let path = path.clone();
                    move || SCHEMA.open(&path).map(drop)
                })
            };
            let opened: Vec<_> = (0..4).map(|_| open()).collect();
            for opened in opened {
                opened.join().unwrap().unwrap();
            }
        }
    }

    #[test]
    fn opening_waits_while_another_process_has_locked_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let opened = thread::spawn(move || SCHEMA.open(&path).map(drop));
        thread::park_timeout(Duration::from_millis(30));
        other.execute_batch("COMMIT").unwrap();
        opened.join().unwrap().unwrap();
    }

    #[test]
    fn file_of_another_version_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        for version in [2, 4] {
            let connection = Connection::open(&path).unwrap();
            connection.pragma_update(None, "user_version", version).unwrap();
            let error = SCHEMA.open(&path).unwrap_err();
            assert!(matches!(&error, FileError::Version(it) if it.found == version));
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
        assert!(
            matches!(error, FileError::Version(FormatError { found: 5, known: 3, .. })),
            "{error}"
        );
        assert!(SCHEMA.open(&path).is_err(), "a newer format is rejected");
    }

    #[test]
    fn failed_upgrade_changes_nothing() {
        const BROKEN: Schema =
            Schema { steps: &["DROP TABLE rows", "DROP TABLE missing"], ..CHANGED };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        drop(SCHEMA.open(&path).unwrap());
        assert!(matches!(BROKEN.open(&path), Err(FileError::Open { .. })));
        let connection = SCHEMA.open(&path).unwrap();
        connection.execute("INSERT INTO rows DEFAULT VALUES", []).unwrap();
    }
}
