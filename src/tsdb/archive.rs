//! Old rows as Parquet files, the same way for every engine.
//!
//! [`ArchivedStore`] is a store over another one. Months that are old enough are written to
//! `dataset=17/month=2024-03/part-0.parquet` below the address of the archive: `timestamp`, `id`,
//! `created_at` and the columns of the dataset, sorted by time. A dataset has its number in the path,
//! since its name can change and need not be unique. Reads merge both, and a stored row wins over an
//! archived one, which is how corrections of old rows work. Buckets stay in the store.
//!
//! **What readers of the directory see.** A month has one file at any time: a new version takes the place
//! of the old one as a whole, under the same key. Corrections and deletions of old rows are in the store
//! at first, and in the file after the next look of [`ArchivedStore::archive`], or within a day if they
//! are few. A program that reads a file on S3 while it is replaced gets an error from a client that
//! compares `ETag`s, and reads again.
//!
//! **What this service sees.** A file is announced in the store before it is written, and takes effect in
//! the transaction that removes its rows from the store. Until then the old and the new file give the
//! same rows together with the stored ones. Every byte that is read is checked against the record, so
//! that a lost, truncated or foreign file is an error and never wrong rows.
//!
//! **One writer.** A lease in the store names the process that archives. It is checked in the transactions
//! that announce a file and put it into effect. A process that was paused and has lost the lease does not
//! overwrite a newer file, either: a file only replaces the version that was there when it was begun. Two
//! gaps remain for a process that is paused for longer than the lease at the wrong request: the end of an
//! upload in parts, and the deletion of a file without effect, take no condition on S3.

mod archiver;
mod file;
pub mod month;
mod months;
pub mod objects;
mod scan;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod write;

use std::{sync::Arc, time::Duration};

use model::timestamp::Timestamp;
use task::cache::{Cache, Capacity};
use uuid::Uuid;

use self::{file::FileFooter, objects::Objects};
use crate::{span::Span, store::archived::ArchiveRecords};

pub use self::archiver::ArchiveReport;
pub(crate) use self::file::check_month;

/// Bytes of cached ends of files: those of some thousand months of minutes. Without them each page costs
/// one more request.
const FOOTERS_BYTES_MAX: usize = 32 << 20;

/// All of time.
pub(crate) const ALL: Span = Span { first: Timestamp::MIN, last: Timestamp::MAX };

/// Settings of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Age of a month, from its end, at which it is archived.
    pub after: Duration,
    /// Time after which a file that has no effect any more is deleted, since a reader may still use it.
    pub grace: Duration,
}

/// A store whose old rows are in files.
#[derive(Debug)]
pub struct ArchivedStore {
    archive: Arc<Archive>,
}

/// Files of a store.
#[derive(derive_more::Debug)]
struct Archive {
    store: Arc<dyn ArchiveRecords>,
    objects: Objects,
    options: ArchiveOptions,
    /// Number of this process in the lease.
    holder: i64,
    /// Ends of files, by the digests of the files.
    #[debug(skip)]
    footers: Cache<[u8; 32], Arc<FileFooter>>,
}

impl ArchivedStore {
    /// Returns `store` with old rows in `objects`.
    pub fn new(store: Arc<dyn ArchiveRecords>, objects: Objects, options: ArchiveOptions) -> Self {
        let capacity = Capacity { n_values_max: usize::MAX, bytes_max: FOOTERS_BYTES_MAX };
        let archive =
            Archive { store, objects, options, holder: random(), footers: Cache::new(capacity) };
        Self { archive: Arc::new(archive) }
    }

    /// Address of the archive.
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
