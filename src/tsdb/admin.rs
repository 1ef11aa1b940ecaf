//! Looking after a store's file: verification, backup and restore.
//!
//! [`verify`] and [`backup`] work while a service writes to the store. [`restore`] refuses to. All of them
//! block their thread.

pub mod copy;

use std::path::Path;

use model::{block::Block, dataset::Dtype};

use crate::{
    archive::{ALL, objects::Objects},
    report::{AdminError, Progress, Report},
    store::{StoreError, archived::ArchiveRecords, sqlite},
};

/// Reads the whole store at `path`, recomputes every bucket, and reports what is not as it should be.
/// Buckets of rows that were let go are compared with one another. Reads archived rows, too, if `archive`
/// is given.
///
/// `progress` is called now and then.
///
/// # Errors
/// [`AdminError::Missing`], or [`AdminError::Store`] if it could not be opened or was written by
/// another version of the program. What is damaged inside it is in the report.
pub fn verify(
    path: &Path,
    archive: Option<&Objects>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, AdminError> {
    present(path)?;
    sqlite::verify::verify(path, archive, progress)
        .map_err(|source| AdminError::store(path, source))
}

/// Reads all archived rows of a store, and reports those that are not as they should be.
///
/// # Errors
/// [`StoreError`] of the store. What is wrong with the archive is in the report.
pub fn verify_archive(store: &dyn ArchiveRecords, archive: &Objects) -> Result<Report, StoreError> {
    let (mut after, mut report) = (None, Report::default());
    while let Some(entry) = store.next_entry(after)? {
        let dataset = entry.dataset.id;
        after = Some(dataset);
        report.n_datasets += 1;
        let dtypes: Vec<Dtype> = entry.columns.iter().map(|column| column.dtype).collect();
        let months = store.archived(dataset, ALL)?;
        report.check_archived(dataset, &months, archive, &Block::new(&dtypes));
    }
    Ok(report)
}

/// Copies the store at `path`, in one snapshot, into a new file `to`; its length in bytes. The
/// copy is on the disk on return, and has no free space in it.
///
/// # Errors
/// [`AdminError::Exists`] if there is a file at `to`, [`AdminError::Missing`],
/// [`AdminError::Store`] or [`AdminError::File`]; then `to` is not there.
pub fn backup(path: &Path, to: &Path) -> Result<u64, AdminError> {
    present(path)?;
    if to.exists() {
        return Err(AdminError::Exists { path: to.to_owned() });
    }
    sqlite::backup::backup(path, to)
}

/// Puts the copy `from` in the place of the store at `to`, after verifying it. What was at `to` is
/// lost, unless this fails.
///
/// # Errors
/// [`AdminError::InUse`] if a service has the store open, [`AdminError::Unsound`] if the copy has
/// faults, [`AdminError::Missing`], [`AdminError::Store`] or [`AdminError::File`]; then `to` is as
/// it was.
pub fn restore(from: &Path, to: &Path) -> Result<Report, AdminError> {
    present(from)?;
    sqlite::backup::restore(from, to)
}

fn present(path: &Path) -> Result<(), AdminError> {
    if path.is_file() { Ok(()) } else { Err(AdminError::Missing { path: path.to_owned() }) }
}

#[cfg(test)]
mod tests;
