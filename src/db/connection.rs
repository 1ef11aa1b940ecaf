//! Opening a file: its folder, mode, pragmas, and schema, which is upgraded from older formats.

use std::{io, path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig};
use task::private;
use tokio::time::sleep;
use tracing::{error, info};

use crate::{
    fault::DatabaseFault,
    format::{self, Step},
};

/// How long a statement waits for another process to finish its write, which takes milliseconds.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// [`Schema::open_wait`] of a file that is opened by [`retry_while_busy`].
pub const RETRIED_OPEN_WAIT: Duration = Duration::from_millis(10);

/// How often opening is tried while another process sets up the same file: for some seconds in all,
/// far longer than setting up takes.
const OPEN_TRIES: u32 = 50;

/// The pause between two tries to open.
const OPEN_PAUSE: Duration = Duration::from_millis(40);

/// Prepared statements that a connection caches: all that any store has.
const STATEMENTS_MAX: usize = 128;

/// The tables of a file, and how it is opened.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// What the file is called in errors, such as `accounts file`.
    pub name: &'static str,
    /// The number of this schema, its format, kept in SQLite's `user_version`.
    pub version: i64,
    /// Upgrades of older formats, of which the last one leads to [`Self::version`].
    pub steps: &'static [Step],
    /// Creates the tables in an empty file.
    pub tables: &'static str,
    /// Pragmas beside those that every file has, for connections that write.
    pub pragmas: &'static str,
    /// How long opening waits for another process that sets up or recovers the file.
    pub open_wait: Duration,
}

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or its folder could not be created.
    #[error("create the {name}")]
    Create {
        /// The file's name, by [`Schema::name`].
        name: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// SQLite failed to open or set up the file.
    #[error("open the {name}")]
    Database {
        /// The file's name, by [`Schema::name`].
        name: &'static str,
        /// SQLite's error as a sentence.
        #[source]
        source: DatabaseFault,
    },
    /// Another version of the program wrote the file.
    #[error("{name} has format {found}, expected {known}; {}", format::advice(*found, *known))]
    Version {
        /// The file's name, by [`Schema::name`].
        name: &'static str,
        /// The file's version.
        found: i64,
        /// The program's version, by [`Schema::version`].
        known: i64,
    },
}

impl OpenError {
    /// Whether another process held the file, so that a retry may help.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Database { source, .. } if source.is_busy())
    }
}

impl Schema {
    /// Opens the file at `path` to write to it: creates it, its folder and its tables if they are
    /// missing, readable by their owner alone. What is committed is on the disk. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] if the file cannot be opened, or has another version. One that
    /// [is busy](OpenError::is_busy) may be being set up: see [`retry_while_busy`].
    pub fn open(&self, path: &Path) -> Result<Connection, OpenError> {
        let create = |source| OpenError::Create { name: self.name, source };
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

    /// Opens the file at `path`, which exists, to read it.
    ///
    /// # Errors
    /// [`OpenError::Database`] if that fails.
    pub fn open_read_only(&self, path: &Path) -> Result<Connection, OpenError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(path, flags)?;
            prepare(&connection)?;
            Ok(connection)
        };
        open().map_err(|error| self.failed(&error))
    }

    /// Creates the tables in an empty file, and upgrades those of an older format. Writes nothing to a
    /// file that has them.
    ///
    /// # Errors
    /// [`OpenError`] if that fails, or the file has a format that cannot be upgraded.
    pub fn create_tables(&self, connection: &mut Connection) -> Result<(), OpenError> {
        let failed = |error| self.failed(&error);
        if read_version(connection).map_err(failed)? != 0 {
            return self.upgrade(connection);
        }
        let immediate = TransactionBehavior::Immediate;
        let write = connection.transaction_with_behavior(immediate).map_err(failed)?;
        // Another process may have created them meanwhile.
        if read_version(&write).map_err(failed)? != 0 {
            drop(write);
            return self.upgrade(connection);
        }
        write.execute_batch(self.tables).map_err(failed)?;
        write.pragma_update(None, "user_version", self.version).map_err(failed)?;
        write.commit().map_err(failed)
    }

    /// Upgrades tables of an older format in one transaction, and logs it.
    ///
    /// # Errors
    /// As [`Self::create_tables`]. Then nothing was changed.
    pub fn upgrade(&self, connection: &mut Connection) -> Result<(), OpenError> {
        let failed = |error| self.failed(&error);
        let Self { name, version: known, steps, .. } = *self;
        if read_version(connection).map_err(failed)? == known {
            return Ok(());
        }
        let immediate = TransactionBehavior::Immediate;
        let write = connection.transaction_with_behavior(immediate).map_err(failed)?;
        // Read again: another process may have upgraded them meanwhile.
        let found = read_version(&write).map_err(failed)?;
        let steps = format::steps_from(steps, found, known);
        let steps = steps.ok_or(OpenError::Version { name, found, known })?;
        for step in steps {
            step.run(&write).map_err(failed)?;
        }
        write.pragma_update(None, "user_version", known).map_err(failed)?;
        write.commit().map_err(failed)?;
        if found != known {
            info!(found, known, "upgraded the {name} from format {found} to {known}");
        }
        Ok(())
    }

    /// Checks that the file has this version. In a transaction that writes, this tells if another
    /// process has upgraded the file.
    ///
    /// # Errors
    /// [`OpenError::Version`] if it has another.
    pub fn check_version(&self, connection: &Connection) -> Result<(), OpenError> {
        let found = read_version(connection).map_err(|error| self.failed(&error))?;
        let Self { name, version: known, .. } = *self;
        if found == known { Ok(()) } else { Err(OpenError::Version { name, found, known }) }
    }

    fn failed(&self, error: &rusqlite::Error) -> OpenError {
        OpenError::Database { name: self.name, source: error.into() }
    }
}

/// Calls `open` until its error is not that another process holds the file, at most for some seconds.
/// Cancel-safe if `open` is.
///
/// # Errors
/// The last one of `open`.
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

/// Sets what holds for every connection that is in use.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    // Otherwise a plan may depend on the bound values, and a cached statement is prepared again for
    // others.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

fn read_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

/// Leaves the log as it is when `connection` is closed: the file was replaced, so the log at its path
/// belongs to another one, and the last connection to close would delete it.
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
    fn a_new_file_gets_its_tables_once() {
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
    async fn several_open_a_new_file_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        let open = || {
            let path = path.clone();
            let opened = spawn_blocking(move || SCHEMA.open(&path).map(drop));
            async { opened.await.unwrap() }
        };
        let opened = (0..4).map(|_| retry_while_busy(open, OpenError::is_busy));
        for opened in futures::future::join_all(opened).await {
            opened.unwrap();
        }
    }

    #[test]
    fn a_file_of_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        for version in [2, 4] {
            let connection = Connection::open(&path).unwrap();
            connection.pragma_update(None, "user_version", version).unwrap();
            let error = SCHEMA.open(&path).unwrap_err();
            assert!(
                matches!(error, OpenError::Version { found, known: 3, .. } if found == version)
            );
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("test file has format {version}, expected 3; "))
            );
        }
        fs::write(&path, "no database, but long enough to be told from an empty one".repeat(9))
            .unwrap();
        assert_eq!(SCHEMA.open(&path).unwrap_err().to_string(), "open the test file");
    }

    /// The schema after two changes: a column, and a value for it.
    const CHANGED: Schema = Schema {
        version: 5,
        steps: &[
            Step::Sql("ALTER TABLE rows ADD COLUMN name TEXT"),
            Step::Code(|connection| {
                connection.execute("UPDATE rows SET name = 'old'", []).map(drop)
            }),
        ],
        tables: "CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT) STRICT",
        ..SCHEMA
    };

    #[test]
    fn older_file_is_upgraded_once_and_its_rows_stay() {
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
        assert!(matches!(error, OpenError::Version { found: 5, known: 3, .. }), "{error}");
        assert!(SCHEMA.open(&path).is_err(), "a newer format is rejected");
    }

    #[test]
    fn failed_upgrade_changes_nothing() {
        const BROKEN: Schema = Schema {
            steps: &[Step::Sql("DROP TABLE rows"), Step::Sql("DROP TABLE missing")],
            ..CHANGED
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.sqlite");
        drop(SCHEMA.open(&path).unwrap());
        assert!(matches!(BROKEN.open(&path), Err(OpenError::Database { .. })));
        let connection = SCHEMA.open(&path).unwrap();
        connection.execute("INSERT INTO rows DEFAULT VALUES", []).unwrap();
    }
}
