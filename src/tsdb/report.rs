//! Reports of verifications, and errors of looking after a store.

use std::{
    io,
    path::{Path, PathBuf},
};

use model::{
    block::Block, dataset::DatasetId, resolution::Resolution, row::Bucket, timestamp::Timestamp,
};
use task::causes::chain;

use crate::{
    archive::{check_month, month::Month, objects::Objects},
    store::{StoreError, archived::ArchivedMonth},
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
