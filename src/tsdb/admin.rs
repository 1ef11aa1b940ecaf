//! Administration of stores: verification, backup, restore and copies. All functions block.
//!
//! [`verify`] and [`backup`] work while a service writes to the store. [`restore`] rejects a store
//! in use.

pub mod copy;

use std::path::Path;
use std::{fs, io};

use model::block::Block;
use model::dataset::Dtype;

use crate::archive::objects::Objects;
use crate::catalog::DatasetRef;
use crate::report::{AdminError, Progress, Report};
use crate::span::Span;
use crate::store::engine::Engine;
use crate::store::{Sight, StoreError, sqlite};

/// Reads the whole store at `path`, computes every bucket again from its rows, and reports the faults. A
/// bucket with pruned rows is compared with the longer buckets that contain it. Also reads archived rows
/// if `archive` is given.
///
/// Calls `progress` from time to time.
///
/// # Errors
/// [`AdminError::Missing`], or [`AdminError::Store`] if the store cannot be opened or has another
/// format. Damage inside the store is in the report.
pub fn verify(
    path: &Path,
    archive: Option<&Objects>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, AdminError> {
    present(path)?;
    sqlite::verify::verify(path, archive, progress)
        .map_err(|source| AdminError::store(path, source))
}

/// Reads all archived rows of a store and reports the faults.
///
/// # Errors
/// [`StoreError`] of the store. Faults of the archive are in the report.
pub fn verify_archive(store: &dyn Engine, archive: &Objects) -> Result<Report, StoreError> {
    let (mut after, mut report) = (None, Report::default());
    while let Some(dataset) = store.next_dataset(after)? {
        after = Some(dataset);
        let sight = store.sight(None, &DatasetRef::Id(dataset))?;
        let Some(Sight { columns, .. }) = sight else { continue };
        report.n_datasets += 1;
        let dtypes: Vec<Dtype> = columns.iter().map(|column| column.dtype).collect();
        let months = store.archived(dataset, Span::ALL)?;
        report.check_archived(dataset, &months, archive, &Block::new(&dtypes));
    }
    Ok(report)
}

/// Copies a snapshot of the store at `path` to a new file `to`, without free pages, and syncs the file.
/// Returns its length in bytes.
///
/// # Errors
/// [`AdminError::Exists`] if `to` exists, [`AdminError::Missing`], [`AdminError::Store`] or
/// [`AdminError::File`]. `to` is not created if an error is returned.
pub fn backup(path: &Path, to: &Path) -> Result<u64, AdminError> {
    present(path)?;
    if to.exists() {
        return Err(AdminError::Exists { path: to.to_owned() });
    }
    sqlite::backup::backup(path, to)
}

/// Moves the data in SQLite's write-ahead log of the store at `path` to its file, so that the file
/// contains the whole store. Waits briefly for a store that is being closed.
///
/// # Errors
/// [`AdminError::Store`] if the store is in use or cannot be written.
pub fn remove_log(path: &Path) -> Result<(), AdminError> {
    sqlite::backup::remove_log(path).map_err(|source| AdminError::store(path, source))
}

/// Verifies the backup `from` and replaces the store at `to` with it.
///
/// # Errors
/// [`AdminError::InUse`] if a service has the store open, [`AdminError::Unsound`] if the backup has
/// faults, [`AdminError::Missing`], [`AdminError::Store`] or [`AdminError::File`]. `to` is unchanged if
/// an error is returned.
pub fn restore(from: &Path, to: &Path) -> Result<Report, AdminError> {
    present(from)?;
    sqlite::backup::restore(from, to)
}

fn present(path: &Path) -> Result<(), AdminError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(AdminError::file(path, error)),
        _ => Err(AdminError::Missing { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests;
