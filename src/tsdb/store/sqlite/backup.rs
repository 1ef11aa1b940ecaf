//! Backup of a store in use, and restoration of a store that is not in use.

use std::path::{Path, PathBuf};
use std::{fs, io};

use db::files::with_ending;
use rusqlite::Connection;
use task::file::{AtomicFile, FileMode, remove_stale};
use task::lock::{self, Lock};
use task::private;

use super::{Result, StoreError, tables, verify};
use crate::report::{AdminError, Report};

/// Returns the path of the file that processes lock while they use the store.
fn lock_path(path: &Path) -> PathBuf {
    with_ending(path, ".lock")
}

/// Suffixes of the files that SQLite creates next to a database.
const LOG_ENDINGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Locks the store at `path` for this process. Dropping the returned lock releases it.
pub(super) fn use_store(path: &Path) -> Result<Lock> {
    let locked = lock::wait_for(&lock_path(path));
    locked.map_err(StoreError::failed)?.ok_or(StoreError::InUse)
}

/// Copies the store at `path` to a new file `to`. Returns the length of the file in bytes.
pub(crate) fn backup(path: &Path, to: &Path) -> Result<u64, AdminError> {
    let mut draft = create(to)?;
    copy(path, draft.draft_path())?;
    let metadata = draft.file().metadata().map_err(|source| AdminError::file(to, source))?;
    draft.commit_new().map_err(|source| AdminError::file(to, source))?;
    Ok(metadata.len())
}

/// Creates a temporary file that is renamed to `path` when it is complete.
fn create(path: &Path) -> Result<AtomicFile, AdminError> {
    remove_stale(path);
    AtomicFile::create(path, FileMode::Private).map_err(|source| AdminError::file(path, source))
}

/// Copies the store at `path` to the empty file `draft`.
fn copy(path: &Path, draft: &Path) -> Result<(), AdminError> {
    // A path is a text in SQL.
    let invalid = || AdminError::file(draft, io::ErrorKind::InvalidFilename.into());
    let draft = draft.to_str().ok_or_else(invalid)?;
    let reading = || -> Result<()> {
        let connection = tables::SCHEMA.open_read_only(path)?;
        connection.execute("VACUUM INTO ?1", [draft])?;
        Ok(())
    };
    reading().map_err(|source| AdminError::store(path, source))
}

/// Moves the data in the write-ahead log of the store at `path` to its file, so that the file
/// contains the whole store. Waits for a store that was just dropped.
pub(crate) fn remove_log(path: &Path) -> Result<()> {
    let _in_use = use_store(path)?;
    let connection = tables::SCHEMA.open(path)?;
    connection.pragma_update(None, "journal_mode", "delete")?;
    Ok(())
}

/// Replaces the store at the path `to` with the backup at the path `from`.
pub(crate) fn restore(from: &Path, to: &Path) -> Result<Report, AdminError> {
    if let Some(folder) = to.parent() {
        private::create_folder(folder).map_err(|source| AdminError::file(folder, source))?;
    }
    let locked = lock::wait_for(&lock_path(to))
        .map_err(|source| AdminError::file(&lock_path(to), source))?;
    let Some(_locked) = locked else { return Err(AdminError::InUse { path: to.to_owned() }) };
    let draft = create(to)?;
    let report = prepare(from, draft.draft_path()).inspect_err(|_| {
        for ending in LOG_ENDINGS {
            fs::remove_file(with_ending(draft.draft_path(), ending)).ok();
        }
    })?;
    // Moves the data of the log to the old file, which is then whole if replacing it fails. The log of a
    // damaged file, or of a file that is not a database, is not needed.
    let merge_log = || -> Result<()> {
        Ok(Connection::open(to)?.pragma_update(None, "journal_mode", "delete")?)
    };
    if to.exists() {
        match merge_log() {
            Ok(()) | Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(AdminError::store(to, error)),
        }
    }
    for ending in LOG_ENDINGS {
        let rest = with_ending(to, ending);
        match fs::remove_file(&rest) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(AdminError::file(&rest, error));
            }
            _ => {}
        }
    }
    draft.commit().map_err(|source| AdminError::file(to, source))?;
    Ok(report)
}

/// Copies the backup to `draft`, prepares it for use as a store, and verifies it.
fn prepare(from: &Path, draft: &Path) -> Result<Report, AdminError> {
    // SQLite copies the file, so that data in the write-ahead log is included.
    copy(from, draft)?;
    let renewing = || -> Result<()> {
        let mut connection = Connection::open(draft)?;
        let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if found == 0 {
            tables::SCHEMA.check_version(&connection)?;
        }
        tables::SCHEMA.create_tables(&mut connection)?;
        connection.execute("UPDATE counters SET value = random() WHERE name = 'era'", [])?;
        Ok(())
    };
    renewing().map_err(|source| AdminError::store(from, source))?;
    let report = verify::verify(draft, None, &mut |_| {})
        .map_err(|source| AdminError::store(from, source))?;
    match report.faults.first() {
        None => Ok(report),
        Some(first) => Err(AdminError::Unsound { n_faults: report.n_faults, first: first.clone() }),
    }
}
