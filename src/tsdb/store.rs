//! Store interface that every engine implements.
//!
//! A write is durable when it returns. Rows are committed together with the buckets that they change.
//! Each read blocks its thread, sees one snapshot of the store and never waits for a writer.
//!
//! Each engine has its own directory. Tests of the interface run on all engines.

pub mod archived;
pub mod batch;
mod computed;
mod datasets;
pub mod engine;
pub mod postgres;
mod records;
pub mod row_batch;
pub mod row_changes;
pub(crate) mod series;
mod session;
pub mod sqlite;
mod state;
mod tags;
mod time;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use db::format::FormatError;
use db::postgres::connections::Figures;
use futures::future::BoxFuture;
use model::block::{Block, Rows};
use model::dataset::{Column, Dataset, DatasetId};
use model::idempotency::IdempotencyKey;
use model::key::KeyId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use self::archived::{ArchivedDeletion, Beneath};
use self::batch::{Batch, StoredBatch};
use self::postgres::PostgresStore;
use self::row_batch::VisitBatch;
use self::row_changes::RowChange;
use crate::archive::month::Month;
use crate::catalog::{
    DatasetChange, DatasetRef, Filter, Listed, NewDataset, Refusal, Tag, TagChange, TagFilter,
};
use crate::codec::DecodeError;
use crate::span::{Order, Span};

/// Request for a page of rows or buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRead {
    /// Raw rows, or buckets of this length.
    pub resolution: Resolution,
    /// Range of timestamps. Can be empty.
    pub span: Span,
    /// Order of the rows in the page.
    pub order: Order,
    /// Number of matching rows to skip before the page.
    pub skip: u64,
    /// Maximum number of rows in the page.
    pub limit: usize,
    /// Selects whether all matching rows are counted.
    pub count: Count,
}

impl PageRead {
    /// Creates a request for the first raw rows of a span, without the number of all matches.
    pub const fn raw(span: Span, order: Order, limit: usize) -> Self {
        Self { resolution: Resolution::Raw, span, order, skip: 0, limit, count: Count::Nothing }
    }
}

/// Selects whether a page includes the number of all matching rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// All matching rows are counted.
    All,
    /// Matching rows are not counted, which is faster.
    Nothing,
}

/// A page of rows or buckets.
#[derive(Debug, Clone, PartialEq)]
pub struct PageOfRows {
    /// Number of all matching rows, if it was requested.
    pub count: Option<u64>,
    /// Rows in the requested order. There are fewer than requested if their text exceeds
    /// [`PAGE_TEXT_BYTES_MAX`].
    pub rows: Rows,
    /// Revision of the dataset at which the rows were read.
    pub revision: u64,
}

/// A dataset as it is visible to a key or to the service itself, from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// The dataset with its metadata.
    pub dataset: Dataset,
    /// Key that owns the dataset and can write to it; `None` for the service itself.
    pub owner: Option<KeyId>,
    /// True if the requesting key owns the dataset and can write to it. Without a key, true if the
    /// service owns it.
    pub is_owner: bool,
    /// Tags that the key and the dataset share, in alphabetical order.
    pub matching_tags: Vec<String>,
    /// Columns in the order of their positions, including deleted columns.
    pub columns: Vec<Column>,
    /// Revision of the dataset: the number of its latest commit.
    pub revision: u64,
    /// Timestamp of the dataset's latest row; `None` if it has no rows.
    pub newest: Option<Timestamp>,
    /// Timestamp before which rows were pruned. The buckets of these rows remain.
    pub kept_from: Option<Timestamp>,
}

/// Approximate maximum number of bytes of text in a page of rows or datasets. A page of rows can exceed
/// it by one chunk. Without this limit, ten thousand rows of the longest texts would need ten times as
/// much memory.
pub const PAGE_TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Rows committed after a certain row.
#[derive(Debug, Clone, PartialEq)]
pub struct Since {
    /// Rows in the order of their numbers, which is the order of their commits. Rows that were replaced
    /// later are not included.
    pub rows: Block,
    /// True if no rows follow these.
    pub is_all: bool,
    /// Latest revision of which the result contains all rows.
    pub revision: u64,
}

/// Effect of a row on the stored row at the same timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendMode {
    /// The row replaces the stored row.
    Replace,
    /// Where the row has values, they replace the values of the stored row. The other columns of the
    /// stored row remain.
    Merge,
    /// The row is copied from another store, with its creation time, and comes after all stored rows. If
    /// its bucket was already copied, as a bucket of pruned rows, the bucket does not change.
    Copy,
}

/// Rows to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// Effect of a row on the stored row at the same timestamp.
    pub mode: AppendMode,
    /// Rows sorted by unique timestamp. The store assigns their row numbers and, except in
    /// [`AppendMode::Copy`], their creation times.
    pub rows: Block,
    /// Creation time of the rows. In [`AppendMode::Copy`], time of the last change of the source
    /// dataset.
    pub now: Timestamp,
    /// Named batches that make up the rows, with distinct names.
    pub batches: Vec<Batch>,
    /// Archived rows in the buckets that the append changes. Set only by the archive, for rows in
    /// archived months.
    pub beneath: Option<Beneath>,
}

/// Rows to be deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDeletion {
    /// Span of the timestamps of the rows.
    pub span: Span,
    /// Time of the deletion.
    pub now: Timestamp,
    /// Archived rows in the span. Set only by the archive.
    pub archived: Option<ArchivedDeletion>,
}

impl RowDeletion {
    /// Creates the deletion of the rows of `span` at the time `now`.
    pub const fn new(span: Span, now: Timestamp) -> Self {
        Self { span, now, archived: None }
    }
}

/// Result of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Number of stored rows, including replacements.
    pub n_rows: u64,
    /// Revision of the dataset after the commit. The first revision is 1.
    pub revision: u64,
}

/// Latest revisions of some datasets, from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heads {
    /// Number of times that a tag was removed from a dataset or a key. If this number has changed, some
    /// keys might have lost access to datasets.
    pub n_withdrawn: i64,
    /// Revision of each of the datasets that exists.
    pub revisions: HashMap<DatasetId, u64>,
}

/// A recorded commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Revision of the dataset after the commit.
    pub revision: u64,
    /// Number of the first row of the commit. The rows of a commit have consecutive numbers.
    pub first_row: i64,
    /// Number of appended rows, or 0 if the commit removed rows.
    pub n_rows: u64,
}

/// Callback of an append. Called once the rows are durable, before the append returns, in the order of
/// commits.
pub type OnCommit = Arc<dyn Fn(&Appended, &Block) + Send + Sync>;

/// Result of a removal of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Number of removed rows. A prune also counts archived rows that a stored row had replaced.
    pub n_rows: u64,
    /// Revision of the dataset. Unchanged if no rows were removed.
    pub revision: u64,
}

/// Callback of a removal. Called once the removal is durable, before it returns, in the order of
/// commits. Also called if a prune finds no rows and makes no commit.
pub type OnRemoval = Arc<dyn Fn(&Removed) + Send + Sync>;

/// Cause of a failure, as reported by the engine.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Result of an operation of a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Failure of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database engine reported an error that no other variant describes.
    #[error("dataset store failed")]
    Failed(#[source] Cause),
    /// The store has the format of another version of the program.
    #[error(transparent)]
    Format(FormatError),
    /// Another process has the store open, or is restoring a backup of it.
    #[error(
        "dataset store is locked by another process; stop that process, or use another directory"
    )]
    InUse,
    /// The file of the store was removed or replaced while the store was open. All further reads and
    /// writes fail.
    #[error(
        "file of the dataset store was removed or replaced while it was open; restart the service"
    )]
    Replaced,
    /// The disk is full. Acknowledged writes are safe and reads continue.
    #[error("disk of the dataset store is full; writes continue once there is space")]
    Full,
    /// Another process held the lock of the file for longer than a write waits. The write was rejected.
    #[error("dataset store is locked by another process")]
    Locked,
    /// The file is not writable, or the store was opened read-only. Reads continue.
    #[error("dataset store is read-only")]
    ReadOnly,
    /// The file is damaged.
    #[error("file of the dataset store is damaged; verify it, and restore a backup")]
    Corrupt(#[source] Cause),
    /// A chunk is damaged.
    #[error("chunk of dataset {dataset} is damaged")]
    Damaged {
        /// Dataset of the chunk.
        dataset: DatasetId,
        /// Reason why the chunk cannot be decoded.
        #[source]
        source: DecodeError,
    },
    /// Several visible datasets have the name, and neither the key nor the service owns one of them.
    #[error("{} visible datasets are called {name}; specify one by its id: {}", datasets.len(),
        datasets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    SharedName {
        /// Name that the datasets share.
        name: String,
        /// Ids of the datasets with this name.
        datasets: Vec<DatasetId>,
    },
    /// A change of the catalog was rejected.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The dataset does not exist.
    #[error("dataset {dataset} does not exist")]
    NoDataset {
        /// Id of the dataset.
        dataset: DatasetId,
    },
    /// A row is older than the oldest timestamp that pruning leaves in the dataset.
    #[error("rows before {kept_from} were pruned, and are not accepted")]
    Pruned {
        /// Earliest timestamp at which rows are accepted.
        kept_from: Timestamp,
    },
    /// A batch of the append is already stored. The whole append was rejected.
    #[error("batch is already stored")]
    BatchStored,
    /// The database cannot be reached or does not accept writes now. A write in progress was stored
    /// either completely or not at all.
    #[error("database of the dataset store is unavailable")]
    Unreachable(#[source] Cause),
    /// Archived rows cannot be read or written. Stored rows are not affected.
    #[error("archive of dataset {dataset} is unavailable for {month}")]
    Archive {
        /// Dataset of the rows.
        dataset: DatasetId,
        /// Month of the rows.
        month: Month,
        /// Cause of the failure.
        #[source]
        source: Cause,
    },
    /// The store has archived rows but was opened without its archive.
    #[error("dataset store has archived rows; name its archive with --archive")]
    NoArchive,
    /// Archived rows changed while a write was prepared from them. The write was rejected.
    #[error("archived rows of dataset {dataset} changed during the operation")]
    ArchiveChanged {
        /// Dataset of the rows.
        dataset: DatasetId,
    },
    /// A read would have to compute its buckets from too many rows.
    #[error(
        "buckets of resolution={resolution} would be computed from more than {n_max} rows or shorter \
         buckets; use narrower bounds, or a multiple of 5m, 1h or 1d"
    )]
    TooManySourceRows {
        /// Resolution of the buckets.
        resolution: Resolution,
        /// Maximum number of rows or shorter buckets from which a read can compute buckets.
        n_max: u64,
    },
    /// The store is closed, or the program is stopping.
    #[error("dataset store is closed")]
    Closed,
}

impl StoreError {
    pub(crate) fn failed(cause: impl Into<Cause>) -> Self {
        Self::Failed(cause.into())
    }
}

/// Operations on the datasets and access rights of a store, and all other operations that do not depend
/// on archived rows.
///
/// Every operation fails with [`StoreError`] if the engine does. The docs of an operation name further
/// errors.
#[expect(clippy::missing_errors_doc, reason = "the docs of the trait say it once")]
pub trait Catalog: fmt::Debug + Send + Sync + 'static {
    /// Creates either all or none of the datasets at `now`. Missing tags are created as private tags of
    /// the owner.
    fn create(
        &self,
        datasets: Vec<NewDataset>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<Dataset>>>;

    /// Changes a dataset at `now`. Returns it as it is visible to the service afterwards.
    fn change(
        &self,
        dataset: DatasetId,
        change: DatasetChange,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Sight>>;

    /// Attaches a tag to a dataset or detaches it, gives it to a key, or revokes it. Returns false if
    /// nothing changed.
    fn change_tag(&self, change: TagChange) -> BoxFuture<'_, Result<bool>>;

    /// Returns the batch that `writer` named `key`, or `None` if no such batch is recorded. Reads the
    /// latest commit, never a replica.
    fn find_batch(&self, writer: KeyId, key: &IdempotencyKey) -> Result<Option<StoredBatch>>;

    /// Removes rows before `before`, at most about `limit_rows` of them.
    ///
    /// The buckets of the removed rows remain. Later appends of rows before `before`, rounded down to
    /// five minutes, are rejected.
    fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<Removed>>;

    /// Deletes a dataset. Returns false if it does not exist.
    ///
    /// The dataset is invisible when this returns. The dataset's space is then freed in small steps,
    /// which continue after a restart.
    fn delete(&self, dataset: DatasetId) -> BoxFuture<'_, Result<bool>>;

    /// Completes the maintenance that otherwise runs in small steps between writes: frees the space of
    /// deleted datasets and packs old rows and buckets.
    fn settle(&self) -> BoxFuture<'_, Result<()>>;

    /// Returns the dataset as it is visible to `key`, or to the service if there is no key. Returns
    /// `None` if it is not visible. If several datasets have the name, the dataset that `key` owns is
    /// chosen, or else the dataset of the service.
    ///
    /// # Errors
    /// [`StoreError::SharedName`] if the key sees several datasets of that name, and neither the key nor
    /// the service owns one of them.
    fn sight(&self, key: Option<KeyId>, which: &DatasetRef) -> Result<Option<Sight>>;

    /// Returns the dataset as it is visible to the service.
    ///
    /// # Errors
    /// [`StoreError::NoDataset`].
    fn find(&self, dataset: DatasetId) -> Result<Sight> {
        self.sight(None, &DatasetRef::Id(dataset))?.ok_or(StoreError::NoDataset { dataset })
    }

    /// Returns a number that changes with every commit to the store, of this process or another process.
    /// Data that was read after this number remains valid until the number changes. Returns `None` if
    /// reading the number would block.
    fn version(&self) -> Option<i64>;

    /// Returns the datasets that are visible to `key` and match `filter`.
    fn list(&self, key: KeyId, filter: &Filter, skip: u64, limit: usize) -> Result<Listed>;

    /// Returns the tags that `filter` selects, in alphabetical order.
    fn tags(&self, filter: TagFilter) -> Result<Vec<Tag>>;

    /// Returns the keys that hold the tag `tag` of `owner`, in ascending order.
    fn holders(&self, owner: KeyId, tag: &str) -> Result<Vec<KeyId>>;

    /// Returns the lowest dataset id above `after`, or the lowest id of all if `after` is `None`.
    fn next_dataset(&self, after: Option<DatasetId>) -> Result<Option<DatasetId>>;

    /// Returns all tags that keys hold, as the changes that would give them these tags in a copy of the
    /// store.
    fn grants(&self) -> Result<Vec<TagChange>>;

    /// Returns the highest row number of a dataset, or a higher unused number. All rows up to this
    /// number are committed.
    fn last_row(&self, dataset: DatasetId) -> Result<i64>;

    /// Returns the commits of a dataset that removed or replaced rows, in order and at most `limit`.
    /// `after` is a revision and a row number. A commit is returned if its revision or its highest row
    /// number is higher. Returns `None` if commits after the revision are no longer recorded.
    fn row_changes(
        &self,
        dataset: DatasetId,
        after: (u64, i64),
        limit: usize,
    ) -> Result<Option<Vec<RowChange>>>;

    /// Returns the datasets with a retention limit in their metadata.
    fn retained(&self) -> Result<Vec<Dataset>>;

    /// Returns the timestamp at which to prune so that the remaining rows fit into about `n_bytes`. The
    /// latest chunk always remains. Returns `None` if all rows fit.
    fn newest_within(&self, dataset: DatasetId, n_bytes: u64) -> Result<Option<Timestamp>>;

    /// Returns true if the store rejects writes, for example because it is a standby. Writes fail with
    /// [`StoreError::ReadOnly`].
    fn is_read_only(&self) -> bool;

    /// Checks that the store accepts writes: its file is in place and the disk has space. If a write has
    /// failed for lack of space, also writes a megabyte and frees it again, until this succeeds once.
    ///
    /// # Errors
    /// The reason why the store does not accept writes.
    fn check(&self) -> BoxFuture<'_, Result<()>>;

    /// Returns the metrics of the connections to the database, or `None` if the store is a file.
    fn database(&self) -> Option<Figures> {
        None
    }

    /// Limits the file to `n_pages` pages to simulate a full disk.
    #[cfg(any(test, feature = "faults"))]
    fn limit_pages(&self, n_pages: u32) -> BoxFuture<'_, Result<()>>;

    /// Returns access to the commits of other services, or `None` if this is the only service that
    /// writes to the store.
    fn shared(&self) -> Option<&PostgresStore> {
        None
    }

    /// Returns the era of the store. Row numbers from different eras are not comparable.
    fn era(&self) -> i64;
}

/// A store of datasets with their rows and buckets. It dereferences to its [`Catalog`].
///
/// Every operation fails with [`StoreError`] if the engine does. The docs of an operation name
/// further errors.
#[expect(clippy::missing_errors_doc, reason = "the docs of the trait say it once")]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Returns the part of the store that has the datasets and access rights.
    fn catalog(&self) -> &(dyn Catalog + 'static);

    /// Stores rows with their batches, and updates buckets, in one commit.
    ///
    /// # Errors
    /// [`StoreError::BatchStored`] if a batch is already stored. The record of a batch is removed with
    /// its dataset, a day after the batch was stored, or earlier if its writer stores very many batches.
    fn append(
        &self,
        dataset: DatasetId,
        append: Append,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended>>;

    /// Deletes the rows of a span, including archived rows, and updates the buckets. PostgreSQL and an
    /// archived store delete many rows in several commits, from the oldest row on, even if the caller is
    /// cancelled.
    ///
    /// Buckets that lose all their rows are deleted. Buckets of pruned rows remain unless the span
    /// covers them completely.
    fn delete_rows(
        &self,
        dataset: DatasetId,
        deletion: RowDeletion,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<Removed>>;

    /// Reads a page of rows or buckets, and counts all matches if `read` requests it.
    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows>;

    /// Returns the number of raw rows of a span.
    fn count(&self, dataset: DatasetId, span: Span) -> Result<u64> {
        let read = PageRead { count: Count::All, ..PageRead::raw(span, Order::Ascending, 0) };
        Ok(self.page(dataset, &read)?.count.unwrap_or_default())
    }

    /// Returns the rows with row numbers above `after`, at most `limit`. Returns `None` if the number
    /// `after` is unknown or too far back.
    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>>;

    /// Passes all rows or buckets of a span to `visit`, in ascending order in batches.
    ///
    /// A row that was stored when the scan began and is not removed during the scan is visited once, in
    /// its original version or a later version. A row that is added during the scan is either visited or
    /// not. SQLite reads all batches in one snapshot, and reads a batch only when its rows are
    /// requested, so that a visitor that recognizes its [`chunk_id`](row_batch::RowBatch::chunk_id) can
    /// skip the batch. PostgreSQL reads each batch in its own transaction, so that a slow visitor does
    /// not hold a transaction open.
    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()>;
}

impl<'a> Deref for dyn Store + 'a {
    type Target = dyn Catalog + 'a;

    fn deref(&self) -> &Self::Target {
        self.catalog()
    }
}

impl dyn Store {
    /// Returns the latest rows in ascending order, at most `limit`, with the revision of the dataset. If
    /// archived rows cannot be read, returns only the rows after the latest unreadable month.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn newest(&self, dataset: DatasetId, limit: usize) -> Result<(Block, u64)> {
        let mut read = PageRead::raw(Span::ALL, Order::Descending, limit);
        let page = loop {
            match self.page(dataset, &read) {
                // The condition ensures that each round begins later, so that the loop ends.
                Err(StoreError::Archive { month, .. })
                    if month.next().start() > read.span.first =>
                {
                    read.span.first = month.next().start();
                }
                page => break page?,
            }
        };
        let Rows::Raw(mut rows) = page.rows else { return Err(StoreError::Closed) };
        rows.reverse();
        Ok((rows, page.revision))
    }
}
