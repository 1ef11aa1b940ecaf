//! Reports and errors of the administration of a store.

use std::io;
use std::path::{Path, PathBuf};

use model::block::Block;
use model::dataset::DatasetId;
use task::causes::chain;

use crate::archive::check_month;
use crate::archive::objects::Objects;
use crate::store::StoreError;
use crate::store::archived::ArchivedMonth;

/// Maximum number of faults that a report lists. Further faults are only counted.
pub const FAULTS_MAX: usize = 100;

/// Progress of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of rows read so far. Verification reads each row twice and counts it each time.
    pub n_done: u64,
    /// Value of `n_done` at the end: twice the number of all rows.
    pub n_all: u64,
}

/// Result of a verification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Number of verified datasets.
    pub n_datasets: u64,
    /// Number of verified rows.
    pub n_rows: u64,
    /// Number of buckets that were compared with the rows.
    pub n_buckets: u64,
    /// Number of archived months that were read.
    pub n_archived: u64,
    /// Descriptions of the first faults, at most [`FAULTS_MAX`]. A fault is a difference between the
    /// stored data and the data that was written.
    pub faults: Vec<String>,
    /// Number of all faults.
    pub n_faults: u64,
}

/// Failure of the administration of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The file does not exist.
    #[error("no dataset store in {}", path.display())]
    Missing {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file already exists and is not overwritten.
    #[error("file {} already exists", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A service has the store open.
    #[error("{} is in use by a service; stop the service first", path.display())]
    InUse {
        /// Path of the store.
        path: PathBuf,
    },
    /// The backup has faults. The store was not changed.
    #[error("backup has {n_faults} faults; the first is: {first}")]
    Unsound {
        /// Number of all faults of the backup.
        n_faults: u64,
        /// Description of the first fault.
        first: String,
    },
    /// The store cannot be read or written.
    #[error("dataset store {} failed", path.display())]
    Store {
        /// Path of the store.
        path: PathBuf,
        /// Error of the store.
        #[source]
        source: StoreError,
    },
    /// A file cannot be created, copied or moved.
    #[error("file {} cannot be read or written", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

impl AdminError {
    /// Wraps an error of the store at `path`.
    pub(crate) fn store(path: &Path, source: StoreError) -> Self {
        Self::Store { path: path.to_owned(), source }
    }

    /// Wraps an error of the file at `path`.
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}

impl Report {
    /// Returns true if the verification found no faults.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.n_faults == 0
    }

    /// Verifies the archived months of a dataset.
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
                    let (month, error) = (month.file.month, chain(&error));
                    self.fault(format!("dataset {dataset}: the archived month {month}: {error}"));
                }
            }
        }
    }

    /// Adds a fault to the report, or only counts it after [`FAULTS_MAX`] faults.
    pub(crate) fn fault(&mut self, fault: String) {
        self.n_faults += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}
