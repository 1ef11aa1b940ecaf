//! Looking after a store's file: whether it holds what it should, copying it, putting a copy back.
//!
//! [`verify`] and [`backup`] work while a service writes to the store; [`restore`] refuses to. All of
//! them block their thread.

pub mod copy;

use std::{
    io,
    path::{Path, PathBuf},
};

use model::{
    block::Block,
    dataset::{DatasetId, Dtype},
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};

use task::causes::chain;

use crate::{
    archive::{ALL, check_month, month::Month, objects::Objects},
    store::{
        StoreError,
        archived::{ArchiveRecords, ArchivedMonth},
        sqlite,
    },
};

/// Faults that a report lists at most. It counts the others.
pub const FAULTS_MAX: usize = 100;

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rows looked at, each of them twice.
    pub n_done: u64,
    /// Twice the rows there are.
    pub n_all: u64,
}

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Datasets looked at.
    pub n_datasets: u64,
    /// Rows in them.
    pub n_rows: u64,
    /// Buckets compared with those that the rows give.
    pub n_buckets: u64,
    /// Archived months whose files were read.
    pub n_archived: u64,
    /// What is wrong: the first [`FAULTS_MAX`].
    pub faults: Vec<Fault>,
    /// How many things are wrong.
    pub n_faults: u64,
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, derive_more::Display)]
#[non_exhaustive]
pub enum Fault {
    /// The file itself is damaged.
    #[display("the file is damaged: {what}")]
    File {
        /// What the engine says.
        what: String,
    },
    /// A run of rows or buckets cannot be read, or is not what its entry says.
    #[display("dataset {dataset}: the {resolution} chunk from {first} to {last}: {what}")]
    Chunk {
        /// Of which dataset.
        dataset: DatasetId,
        /// Rows, or buckets of which length.
        resolution: Resolution,
        /// The timestamp of its first row.
        first: Timestamp,
        /// The timestamp of its last row.
        last: Timestamp,
        /// What is wrong.
        what: String,
    },
    /// A bucket is not what the rows or the shorter buckets in it give.
    #[display(
        "dataset {dataset}: the {resolution} bucket at {start} {}",
        compare(want.as_ref(), found.as_ref())
    )]
    Bucket {
        /// Of which dataset.
        dataset: DatasetId,
        /// How long it is.
        resolution: Resolution,
        /// When it starts.
        start: Timestamp,
        /// What it should be; none if it should not be.
        want: Option<Bucket>,
        /// What it is; none if it is missing.
        found: Option<Bucket>,
    },
    /// The file of an archived month cannot be read, or does not hold the rows that were written.
    #[display("dataset {dataset}: the archived month {month}: {what}")]
    Archive {
        /// Dataset of the rows.
        dataset: DatasetId,
        /// Month of the rows.
        month: Month,
        /// What is wrong.
        what: String,
    },
    /// What the store knows of a dataset is not so.
    #[display("dataset {dataset}: {what}")]
    Dataset {
        /// The dataset concerned.
        dataset: DatasetId,
        /// What is wrong.
        what: String,
    },
}

/// Why a store could not be looked after.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// There is no file.
    #[error("find a dataset store in {}", path.display())]
    Missing {
        /// The path at which it was looked for.
        path: PathBuf,
    },
    /// A file is there already, and is not written over.
    #[error("write to {}, where there is a file already", path.display())]
    Exists {
        /// The file in the way.
        path: PathBuf,
    },
    /// A service has the store open. It must be stopped first.
    #[error("replace {}, which a service has open; stop it first", path.display())]
    InUse {
        /// The store's file.
        path: PathBuf,
    },
    /// The copy to be restored is not sound. The store is left as it is.
    #[error("restore a copy with {n_faults} faults; the first: {first}")]
    Unsound {
        /// The number of all faults.
        n_faults: u64,
        /// One of them.
        first: Box<Fault>,
    },
    /// The store could not be read or written.
    #[error("read or write the store in {}", path.display())]
    Store {
        /// The store's file.
        path: PathBuf,
        /// The store's error.
        #[source]
        source: StoreError,
    },
    /// A file could not be made, copied or moved.
    #[error("write {}", path.display())]
    File {
        /// The file that was to be written.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

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
    sqlite::verify::verify(path, archive, progress).map_err(|source| store(path, source))
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

/// What a failure of the store at `path` is.
pub(crate) fn store(path: &Path, source: StoreError) -> AdminError {
    AdminError::Store { path: path.to_owned(), source }
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.n_faults == 0
    }

    /// Reads the archived months of a dataset.
    pub(crate) fn check_archived(
        &mut self,
        dataset: DatasetId,
        months: &[ArchivedMonth],
        archive: &Objects,
        empty: &Block,
    ) {
        for month in months {
            self.n_archived += 1;
            match check_month(archive, month, empty) {
                Ok(n_rows) => self.n_rows += n_rows,
                Err(error) => {
                    let (month, what) = (month.file.month, chain(&error));
                    self.fault(Fault::Archive { dataset, month, what });
                }
            }
        }
    }

    /// Adds something that is wrong.
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.n_faults += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}

/// What a stored bucket is beside the one that its rows give.
fn compare(want: Option<&Bucket>, found: Option<&Bucket>) -> String {
    match (want, found) {
        (Some(_), None) => "is missing".to_owned(),
        (None, _) => "has no rows".to_owned(),
        (Some(want), Some(found)) => format!("is {found:?}, its rows give {want:?}"),
    }
}

#[cfg(test)]
mod tests;
