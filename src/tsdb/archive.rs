//! Old rows as Parquet files, independent of the engine.
//!
//! [`ArchivedStore`] wraps another store. Months that are old enough are written to
//! `dataset=17/month=2024-03/part-0.parquet` below the address of the archive: `timestamp`, `id`,
//! `created_at` and the columns of the dataset, sorted by time. The path has the id of the dataset,
//! since names can change and need not be unique. Reads merge stored and archived rows. A stored row
//! takes precedence over an archived row with the same timestamp, so that old rows can be corrected.
//! Buckets stay in the store.
//!
//! **Readers of the directory** see one file for each month at any time: a new version replaces the old
//! version as a whole, under the same key. Corrections and deletions of old rows are only in the store
//! at first. Such changes reach the file with the next run of [`ArchivedStore::archive`], or within a
//! day if there are few of them. If a file on S3 is replaced while it is read, a client that compares
//! `ETag`s returns an error, and the read must be repeated.
//!
//! **This service** announces a file in the store before it writes the file. Later, one transaction
//! puts the file into effect, and the archived rows are removed from the store: by SQLite in the same
//! transaction, by PostgreSQL in steps after it. Until this transaction, it does not matter whether a
//! reader finds the old or the new file: merged with the stored rows, either file gives the same
//! rows. Every byte that is read is checked against the record in the store, so that a lost,
//! truncated or foreign file causes an error and never wrong rows.
//!
//! **One writer.** A lease in the store names the process that archives. The transactions that announce
//! a file and put it into effect check the lease. A process that was paused and has lost the lease
//! cannot overwrite a newer file either: an upload only replaces the version that existed when the
//! archiver began to write the file. Two gaps remain on S3, which cannot make the completion of a
//! multipart upload or the deletion of an obsolete file conditional: a process that is paused just
//! before one of these requests, for longer than the lease, still sends it.

mod archiver;
mod file;
pub mod month;
mod months;
pub mod objects;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod write;

use std::sync::Arc;
use std::time::Duration;

use model::block::Block;
use task::cache::{Cache, Capacity};
use uuid::Uuid;

use self::file::FileFooter;
use self::objects::Objects;
use self::write::GROUP_ROWS;
use crate::store::engine::Engine;

pub use self::archiver::ArchiveReport;
pub(crate) use self::file::check_month;

/// Maximum total size of cached footers, enough for the files of some thousand months of one-minute
/// rows. Without a cached footer, a page costs an additional request.
const FOOTERS_BYTES_MAX: usize = 32 << 20;

/// Maximum total size of the cached rows, enough for six months of one-minute rows with six columns.
/// Without them, each page of a download in pages would read and decode a whole row group. A row group
/// that is larger counts only half of this size.
const ROWS_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 32 << 20 };

/// Settings of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Age at which a month is archived, counted from its end.
    pub after: Duration,
    /// Time after which a file that is no longer in effect is deleted. Until then, a reader that has
    /// already opened the file can continue.
    pub grace: Duration,
}

/// A store that reads and writes old rows in files.
#[derive(Debug)]
pub struct ArchivedStore {
    archive: Arc<Archive>,
}

/// State of an archived store.
#[derive(derive_more::Debug)]
struct Archive {
    store: Arc<dyn Engine>,
    objects: Objects,
    options: ArchiveOptions,
    /// Random number that identifies this process in the lease.
    holder: i64,
    /// Footers of files, keyed by the digests of the files.
    #[debug(skip)]
    footers: Cache<[u8; 32], Arc<FileFooter>>,
    /// Rows of row groups, keyed by the digests of the files and the indices of the groups.
    #[debug(skip)]
    groups: Cache<([u8; 32], usize), Arc<Block>>,
    /// Maximum number of rows of a row group.
    group_rows: usize,
}

impl ArchivedStore {
    /// Creates an archived store that keeps recent rows in `store` and old rows in `objects`.
    pub fn new(store: Arc<dyn Engine>, objects: Objects, options: ArchiveOptions) -> Self {
        store.expect_archive();
        let capacity = |bytes_max| Capacity { n_values_max: usize::MAX, bytes_max };
        let footers = Cache::new(capacity(FOOTERS_BYTES_MAX));
        let groups = Cache::new(capacity(ROWS_BYTES_MAX));
        let (holder, group_rows) = (random(), GROUP_ROWS);
        let archive = Archive { store, objects, options, holder, footers, groups, group_rows };
        Self { archive: Arc::new(archive) }
    }

    /// Returns the address of the archive.
    #[must_use]
    pub fn place(&self) -> &str {
        self.archive.objects.place()
    }
}

/// Returns a random number.
fn random() -> i64 {
    let (number, _) = Uuid::new_v4().as_u64_pair();
    number.cast_signed()
}
