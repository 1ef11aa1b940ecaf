//! Records of archived months in a store. Also the archived rows that a write to an archived month
//! depends on.
//!
//! [`crate::archive`] writes and reads the Parquet files, independent of the engine. An engine records
//! each file, and removes its rows from the tables once the file is in effect.
//! While a file is being replaced, its month has two records: the file in effect and the announced file.
//! Merged with the stored rows, both files have the same rows, so readers can use either.

use model::block::Block;
use model::dataset::DatasetId;
use model::timestamp::Timestamp;

use crate::archive::month::Month;
use crate::span::Span;

/// State of a file, as engines store it: 0 while it is being written, 1 if it is in effect, and 2 if it
/// is to be deleted.
pub(super) type FileState = i32;

/// Record of a Parquet file with the rows of one month of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedFile {
    /// Month of the rows.
    pub month: Month,
    /// Random number that identifies this version of the record. A deletion of rows of the file changes
    /// it.
    pub stamp: i64,
    /// Key of the object, below the address of the archive.
    pub key: String,
    /// Number of rows in the file.
    pub n_rows: u64,
    /// Length of the file in bytes.
    pub n_bytes: u64,
    /// SHA-256 of the file.
    pub sha256: [u8; 32],
    /// Length of the end of the file that contains the checksums of the rest.
    pub tail_bytes: u64,
    /// CRC-32 of the last `tail_bytes` bytes of the file.
    pub tail_crc: u32,
    /// Timestamps of the first and the last row.
    pub rows: Span,
    /// Highest row number in the file.
    pub last_row: i64,
    /// Digest of the names and types of the columns in the file.
    pub columns: i64,
    /// Time at which the file was written.
    pub written: Timestamp,
}

/// An archived month of a dataset, with all its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedMonth {
    /// File that is in effect for the month.
    pub file: ArchivedFile,
    /// Files that were announced to replace the file in effect. One of them can already be in its place.
    pub next: Vec<ArchivedFile>,
    /// Spans of rows that were deleted since the file was written.
    pub cuts: Vec<Span>,
}

impl ArchivedMonth {
    /// Groups records of files and deleted spans by month. `files` must be sorted by month, and within a
    /// month begin with the file in effect.
    pub(super) fn group(
        files: impl IntoIterator<Item = (ArchivedFile, FileState)>,
        cuts: impl IntoIterator<Item = (Month, Span)>,
    ) -> Vec<Self> {
        let mut months: Vec<Self> = Vec::new();
        for (file, state) in files {
            match months.last_mut().filter(|month| month.file.month == file.month) {
                Some(month) => month.next.push(file),
                None if state == 1 => {
                    months.push(Self { file, next: Vec::new(), cuts: Vec::new() });
                }
                // The month is being archived for the first time, and all of its rows are still in the
                // store.
                None => {}
            }
        }
        for (month, cut) in cuts {
            if let Some(found) = months.iter_mut().find(|found| found.file.month == month) {
                found.cuts.push(cut);
            }
        }
        months
    }
}

/// Archived rows that a write depends on, with the stamps of their files.
#[derive(Debug, Clone, PartialEq)]
pub struct Beneath {
    /// Span of the archived rows that the write depends on: at least all buckets of five minutes in
    /// which rows change.
    pub span: Span,
    /// Stamps of the files in effect of all months that overlap the span, sorted by month. The write
    /// fails with [`StoreError::ArchiveChanged`](super::StoreError::ArchiveChanged) if these stamps have
    /// changed before the commit.
    pub stamps: Vec<i64>,
    /// Archived rows of the buckets that the write computes again. Stored rows take precedence.
    pub rows: Block,
}

/// Deletion of archived rows in a span.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchivedDeletion {
    /// Timestamp of the latest archived row that the deletion leaves; `None` if none is left.
    pub newest_archived: Option<Timestamp>,
    /// Archived rows that remain in the buckets at both ends of the deleted span. The `span` in this
    /// value is [`Span::ALL`](crate::span::Span::ALL), since `newest_archived` depends on all archived
    /// rows.
    pub beneath: Beneath,
    /// Number of archived rows in the span that no stored row replaces.
    pub n_rows: u64,
    /// Revision of the dataset before the rows were counted.
    pub revision: u64,
    /// Parts of the span that contain archived rows, each with its number of stored rows. The deletion
    /// fails with [`StoreError::ArchiveChanged`](super::StoreError::ArchiveChanged) if one of these
    /// numbers has changed, or if rows were deleted since `revision`. Other commits do not affect the
    /// deletion.
    pub stored: Vec<(Span, u64)>,
    /// New stamp of the files of all months that overlap the span. The span is recorded as a cut of
    /// these files.
    pub stamp: i64,
}

/// Request to put a file into effect and to remove its rows from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveCommit {
    /// Dataset of the rows.
    pub dataset: DatasetId,
    /// Month of the announced file.
    pub month: Month,
    /// Stamp of the announced file. `None` removes the file of the month, which has no rows left.
    pub stamp: Option<i64>,
    /// Revision of the dataset before the rows of the file were read. The file is rejected if rows were
    /// deleted since then.
    pub revision: u64,
    /// Highest row number in the store before the file was written. Rows with higher numbers remain in
    /// the store.
    pub last_row: i64,
}
