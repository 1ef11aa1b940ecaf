//! Detects that the files of an open database were deleted or replaced.
//!
//! A process can still write to a deleted file that it has open, but these writes are lost. SQLite does
//! not notice this, so the files must be checked before a write is acknowledged, and before a connection
//! is closed.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tracing::error;

use crate::connection::FileError;

/// Suffix of a log that was moved away from a new main file.
const LOG_ASIDE: &str = "-wal.replaced";

/// Files of an open database.
#[derive(Debug)]
pub struct DatabaseFiles {
    /// The main file and the write-ahead log, each with its identity when the database was opened.
    files: [(PathBuf, Identity); 2],
    is_replaced: AtomicBool,
}

/// Identity of a file: device and inode.
type Identity = (u64, u64);

impl DatabaseFiles {
    /// Returns the files of the database at `path`. The caller must have just opened and read the
    /// database, so that its log exists.
    ///
    /// # Errors
    /// [`FileError::Replaced`] if a file cannot be found.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let identify = |path: PathBuf| match identity(&path) {
            Ok(found) => Ok((path, found)),
            Err(_) => Err(FileError::Replaced),
        };
        let files = [identify(path.to_owned())?, identify(with_ending(path, "-wal"))?];
        Ok(Self { files, is_replaced: AtomicBool::new(false) })
    }

    /// Returns false if an earlier [`Self::check`] found that the files were replaced. Costs only one
    /// atomic load.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        !self.is_replaced.load(Ordering::Acquire)
    }

    /// Returns true if the files are still in place. Blocks for two system calls.
    ///
    /// Once a file is not in place, the result remains false, and the service must be restarted. The first
    /// call that finds this logs an error. If the main file was removed or replaced, but not its log,
    /// renames the log, since SQLite would apply it to a new main file, and thereby ruin that file.
    pub fn check(&self) -> bool {
        if !self.is_intact() {
            return false;
        }
        let is_in_place = |(path, opened): &(PathBuf, Identity)| match identity(path) {
            Ok(found) => found == *opened,
            // Other errors, such as errors of a network file system, do not prove that the file was
            // replaced.
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        let [is_main_in_place, is_log_in_place] = self.files.each_ref().map(is_in_place);
        if is_main_in_place && is_log_in_place {
            return true;
        }
        let [(main, _), (log, _)] = &self.files;
        if !self.is_replaced.swap(true, Ordering::AcqRel) {
            error!(
                "{} was removed or replaced while it was in use: nothing more is written to it \
                 or read from it; restart the service",
                main.display()
            );
            if is_log_in_place
                && let Err(error) = fs::rename(log, with_ending(main, LOG_ASIDE))
                    .and_then(|()| fs::remove_file(with_ending(main, "-shm")))
            {
                error!(%error, "failed to rename {}, which does not belong to the file next to it", log.display());
            }
        }
        false
    }

    /// Prevents that closing `connection` writes the log into a file that has replaced its main file,
    /// or removes a new log. SQLite does not notice a backup that was copied into the same inode.
    pub fn before_close(&self, connection: &Connection) {
        if !self.check()
            && let Err(error) =
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        {
            error!(%error, "failed to close a replaced database without a checkpoint");
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns the same identity for all files, since an open file cannot be replaced on these systems.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|_| (0, 0))
}

/// Returns `path` with `ending` appended to the file name.
#[must_use]
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a database with a row, which is in the write-ahead log.
    fn database() -> (tempfile::TempDir, PathBuf, Connection, DatabaseFiles) {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("db");
        let connection = Connection::open(&path).unwrap();
        let fill = "PRAGMA journal_mode = wal; CREATE TABLE rows (n); INSERT INTO rows VALUES (1)";
        connection.execute_batch(fill).unwrap();
        let files = DatabaseFiles::open(&path).unwrap();
        assert!(files.check());
        (base, path, connection, files)
    }

    #[test]
    fn deleted_directory_is_still_reported_after_it_is_created_again() {
        let (base, path, _connection, files) = database();
        fs::remove_dir_all(base.path()).unwrap();
        assert!(files.is_intact() && !files.check() && !files.is_intact());
        fs::create_dir(base.path()).unwrap();
        fs::write(&path, "").unwrap();
        assert!(!files.check());
    }

    #[test]
    fn write_ahead_log_of_a_replaced_file_is_moved_aside() {
        let (base, path, _connection, files) = database();
        let backup = base.path().join("backup");
        fs::write(&backup, "older").unwrap();
        fs::rename(&backup, &path).unwrap();
        assert!(!files.check());
        let exists = |ending| with_ending(&path, ending).exists();
        assert!(!exists("-wal") && !exists("-shm") && exists(LOG_ASIDE));
        assert_eq!(fs::read(&path).unwrap(), b"older");
    }

    #[test]
    fn closing_a_database_into_which_a_backup_was_copied_leaves_the_backup_unchanged() {
        let (base, path, connection, files) = database();
        let backup = base.path().join("backup");
        connection.execute("VACUUM INTO ?1", [backup.to_str()]).unwrap();
        connection.execute_batch("INSERT INTO rows VALUES (2)").unwrap();
        for ending in ["-wal", "-shm"] {
            fs::remove_file(with_ending(&path, ending)).unwrap();
        }
        fs::copy(&backup, &path).unwrap();
        files.before_close(&connection);
        drop(connection);
        assert_eq!(fs::read(&path).unwrap(), fs::read(&backup).unwrap());
    }

    #[test]
    fn closing_a_replaced_database_leaves_the_new_files_unchanged() {
        let (_base, path, connection, files) = database();
        for ending in ["", "-wal"] {
            let new = with_ending(&path, ".new");
            fs::write(&new, format!("new{ending}")).unwrap();
            fs::rename(&new, with_ending(&path, ending)).unwrap();
        }
        assert!(!files.check());
        drop(connection);
        for ending in ["", "-wal"] {
            let found = fs::read_to_string(with_ending(&path, ending)).unwrap();
            assert_eq!(found, format!("new{ending}"));
        }
    }
}
