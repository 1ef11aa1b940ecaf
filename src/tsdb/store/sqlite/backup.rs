//! Copies of a store: made while it is in use, and put in its place while it is not.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use db::files::beside;
use rusqlite::Connection;
use task::{
    file::{AtomicFile, FileMode, remove_stale},
    lock::{self, Lock},
    private,
};

use super::{Result, StoreError, tables, verify};
use crate::report::{AdminError, Report};

/// The file beside the store's by which a program says that it uses the store.
fn lock_path(path: &Path) -> PathBuf {
    beside(path, ".lock")
}

/// The endings of the files that SQLite keeps beside a database.
const LOG_ENDINGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Says that the store at `path` is in use by this process, until the lock is dropped.
pub(super) fn use_store(path: &Path) -> Result<Lock> {
    let locked = lock::wait_for(&lock_path(path));
    locked.map_err(StoreError::Prepare)?.ok_or(StoreError::InUse)
}

/// Copies the store at `path` into the new file `to`.
pub(crate) fn backup(path: &Path, to: &Path) -> Result<u64, AdminError> {
    let mut draft = create(to)?;
    copy(path, draft.draft_path())?;
    let metadata = draft.file().metadata().map_err(|source| AdminError::file(to, source))?;
    draft.commit_new().map_err(|source| AdminError::file(to, source))?;
    Ok(metadata.len())
}

/// Begins a file that is to be called `path`.
fn create(path: &Path) -> Result<AtomicFile, AdminError> {
    remove_stale(path);
    AtomicFile::create(path, FileMode::Private).map_err(|source| AdminError::file(path, source))
}

/// Copies the store at `path` into `draft`, which is empty: to the engine, one that is not there yet.
fn copy(path: &Path, draft: &Path) -> Result<(), AdminError> {
    let reading = || -> Result<()> {
        let connection = tables::SCHEMA.open_read_only(path)?;
        connection.execute("VACUUM INTO ?1", [draft.to_string_lossy()])?;
        Ok(())
    };
    reading().map_err(|source| AdminError::store(path, source))
}

/// Puts the copy `from` in the place of the store at `to`.
pub(crate) fn restore(from: &Path, to: &Path) -> Result<Report, AdminError> {
    if let Some(folder) = to.parent() {
        private::create_folder(folder).map_err(|source| AdminError::file(folder, source))?;
    }
    let locked = lock::wait_for(&lock_path(to))
        .map_err(|source| AdminError::file(&lock_path(to), source))?;
    let Some(_locked) = locked else { return Err(AdminError::InUse { path: to.to_owned() }) };
    let draft = create(to)?;
    let prepared = prepared(from, draft.draft_path());
    if prepared.is_err() {
        for ending in LOG_ENDINGS {
            fs::remove_file(beside(draft.draft_path(), ending)).ok();
        }
    }
    let report = prepared?;
    for ending in LOG_ENDINGS {
        let rest = beside(to, ending);
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

/// Makes of the copy what is to be the store, and verifies it.
fn prepared(from: &Path, draft: &Path) -> Result<Report, AdminError> {
    // Through the engine, so that what is only in the log of a store is copied, too.
    copy(from, draft)?;
    let renewing = || -> Result<()> {
        let mut connection = Connection::open(draft)?;
        tables::SCHEMA.upgrade(&mut connection)?;
        connection.execute("UPDATE counters SET value = random() WHERE name = 'era'", [])?;
        Ok(())
    };
    renewing().map_err(|source| AdminError::store(from, source))?;
    let report = verify::verify(draft, None, &mut |_| {})
        .map_err(|source| AdminError::store(from, source))?;
    match report.faults.first() {
        None => Ok(report),
        Some(first) => {
            Err(AdminError::Unsound { n_faults: report.n_faults, first: Box::new(first.clone()) })
        }
    }
}
