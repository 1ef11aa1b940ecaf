//! What a store of datasets promises, whatever engine keeps it.
//!
//! Writes are durable when they return, and rows are committed together with the buckets they
//! change. Each read sees one snapshot of the store and never wait for a writer. Reads block their
//! thread, so that callers take them to one that may block.
//!
//! Each engine is in a folder of its own; the promises are tested once, against the trait.

pub mod archived;
pub mod batch;
pub mod copying;
pub mod postgres;
pub mod row_batch;
mod series;
pub mod sqlite;

#[cfg(test)]
pub(crate) mod tests;

use std::{collections::HashMap, error::Error, fmt, io};

use db::{connection::OpenError, format::advice, postgres::connections::Figures};
use futures::future::{BoxFuture, pending};
use model::{
    block::{Block, Rows},
    dataset::{Column, Dataset, DatasetId},
    idempotency::IdempotencyKey,
    key::KeyId,
    resolution::Resolution,
    timestamp::Timestamp,
};

use self::{
    batch::{Batch, StoredBatch},
    row_batch::VisitBatch,
};
use crate::{
    archive::month::Month,
    catalog::{
        DatasetChange, DatasetRef, Filter, Listed, NewDataset, Refusal, Tag, TagChange, TagFilter,
    },
    codec::DecodeError,
    span::{Order, Span},
};

/// A page of rows or buckets to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRead {
    /// Raw rows, or the length of buckets.
    pub resolution: Resolution,
    /// Empty if it ends before it begins.
    pub span: Span,
    /// Of the rows in the page.
    pub order: Order,
    /// The number of rows to leave out first.
    pub skip: u64,
    /// The maximum number of rows.
    pub limit: usize,
    /// Whether all that match are counted.
    pub count: Count,
}

/// Whether a page comes with the number of all matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// All matches are counted.
    All,
    /// Nothing is counted, which is faster.
    Nothing,
}

/// A page of rows or buckets.
#[derive(Debug, Clone, PartialEq)]
pub struct PageOfRows {
    /// How many match in all, if that was asked for.
    pub count: Option<u64>,
    /// The rows, in the order asked for. There are fewer than asked for, though more match, where
    /// their text is longer than [`PAGE_TEXT_BYTES_MAX`].
    pub rows: Rows,
    /// The last commit they include.
    pub revision: u64,
}

/// What a key, or the service itself, sees of a dataset, from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// What is in its listing, with its metadata.
    pub dataset: Dataset,
    /// Whether the key owns it, and so may write it; without a key whether the service does.
    pub is_owner: bool,
    /// The tags that the key and the dataset share, in alphabetical order.
    pub matching_tags: Vec<String>,
    /// Its columns, in their order, with the deleted ones.
    pub columns: Vec<Column>,
    /// The number of its last commit.
    pub revision: u64,
    /// The timestamp of its newest row.
    pub newest: Option<Timestamp>,
}

/// Bytes of text in the rows of a page at most, give or take those of a chunk. Ten thousand rows of
/// as much text as a row may have would take ten times as much memory.
pub const PAGE_TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Rows committed after a certain one.
#[derive(Debug, Clone, PartialEq)]
pub struct Since {
    /// The rows in the order of their numbers, which is that of their commits. A row that was
    /// replaced since is not among them, the one that replaced it is.
    pub rows: Block,
    /// Whether these are all there are.
    pub is_all: bool,
    /// The last commit that all of them include.
    pub revision: u64,
}

/// What a row does to one that is stored at the same timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendMode {
    /// It takes its place.
    Replace,
    /// It gives it new values, in the columns in which it has some itself.
    Merge,
}

/// Rows to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// What they do to stored rows of their timestamps.
    pub mode: AppendMode,
    /// Sorted by unique timestamp. The store fills in their numbers and creation times.
    pub rows: Block,
    /// When they are created.
    pub now: Timestamp,
    /// The batches that they are, where their writers named them; of different names.
    pub batches: Vec<Batch>,
}

/// What an append left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Rows stored, those that replaced another included.
    pub n_rows: u64,
    /// The number of the commit, which counts up in each dataset from 1.
    pub revision: u64,
}

/// The newest commits of some datasets, out of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heads {
    /// How often a tag was taken from a dataset or a key: where it has changed, some keys may see less
    /// than before.
    pub n_withdrawn: i64,
    /// The number of the newest commit of each dataset that is there.
    pub revisions: HashMap<DatasetId, u64>,
}

/// A commit on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Its number in the dataset.
    pub revision: u64,
    /// The number of its first row, from which on its rows were numbered without gaps.
    pub first_row: i64,
    /// The number of its rows; 0 of a removal.
    pub n_rows: u64,
    /// Which rows it removed.
    pub removal: Option<Removal>,
    /// Whether the columns have the names that they had then.
    pub has_same_columns: bool,
}

/// Which rows a commit removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Those of a span.
    Span(Span),
    /// Old ones, whose buckets stay.
    Old,
}

/// Called once, in the order of commits, when rows are durable and before their append returns.
pub type OnCommit = Box<dyn FnOnce(&Appended, &Block) + Send>;

/// What a removal of rows left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Rows that are gone, replaced ones included.
    pub n_rows: u64,
    /// The number of the commit; that of the last one where nothing was removed.
    pub revision: u64,
}

/// Called once, in the order of commits, when rows are gone for good and before their removal returns; also
/// where a prune finds none, which makes no commit.
pub type OnRemoval = Box<dyn FnOnce(&Removed) + Send>;

/// What an engine says when it fails.
pub type Cause = Box<dyn Error + Send + Sync>;

/// The result of an operation of a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Its folder or lock could not be made, or its threads not be started.
    #[error("prepare the dataset store")]
    Prepare(#[source] io::Error),
    /// The store could not be opened.
    #[error(transparent)]
    Open(OpenError),
    /// Another version of the program wrote it.
    #[error("dataset store has format {found}, expected {known}; {}", advice(*found, *known))]
    Format {
        /// The store's format.
        found: i64,
        /// This program's format.
        known: i64,
    },
    /// Another process serves the store, or restores a copy of it.
    #[error(
        "open the dataset store, which another process has in use; stop that one, or name another folder"
    )]
    InUse,
    /// The store's file was removed or replaced while it was open. Nothing more is written or read.
    #[error(
        "use the dataset store, whose file was removed or replaced while it was in use; restart the service"
    )]
    Replaced,
    /// The disk is full. No acknowledged write is lost, and reads go on.
    #[error("write to the dataset store, whose disk is full; writes go on once there is space")]
    Full,
    /// Another process holds the lock of the file for longer than a write waits. Nothing was stored.
    #[error("dataset store is locked by another process")]
    Locked,
    /// The file may not be written, or the store was opened read-only. Reads continue.
    #[error("dataset store is read-only")]
    ReadOnly,
    /// The file itself is damaged, so that its engine cannot find its way in it.
    #[error(
        "find a way in the dataset store, whose file is damaged; verify it, and restore a backup"
    )]
    Corrupt(#[source] Cause),
    /// A statement failed.
    #[error("read or write the dataset store")]
    Statement(#[source] Cause),
    /// The commit failed, and was rolled back.
    #[error("commit to the dataset store: {reason}")]
    Commit {
        /// Why, as text: several writers may share one commit.
        reason: String,
    },
    /// Stored bytes are not those that were written.
    #[error("read a damaged chunk of dataset {dataset}")]
    Damaged {
        /// The dataset with the damaged chunk.
        dataset: DatasetId,
        /// What is wrong.
        #[source]
        source: DecodeError,
    },
    /// Several datasets that the key sees have one name, and it owns none of them.
    #[error("{} visible datasets are called {name}; name one by its id", datasets.len())]
    SharedName {
        /// The shared name.
        name: String,
        /// Which datasets, in the order of their numbers.
        datasets: Vec<DatasetId>,
    },
    /// The change of the catalog is not allowed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The dataset is gone.
    #[error("find dataset {dataset}")]
    NoDataset {
        /// The missing dataset.
        dataset: DatasetId,
    },
    /// A row is older than the dataset's pruned rows.
    #[error("take rows from before {kept_from}, which the dataset has let go")]
    Pruned {
        /// The earliest timestamp it keeps.
        kept_from: Timestamp,
    },
    /// A batch of the append is stored already, or was named like one that is. Nothing of the append is
    /// stored.
    #[error("store a batch that was stored before")]
    BatchStored,
    /// A copy cannot go on in this dataset: it has rows that the copy does not.
    #[error("go on with the copy of dataset {dataset}, which has other rows than were copied")]
    NoCopy {
        /// The dataset with rows of its own.
        dataset: DatasetId,
    },
    /// The database cannot be reached, or takes no writes for now. What was being written is stored as a
    /// whole or not at all.
    #[error("reach the dataset store's database, which is down, overloaded or changing its leader")]
    Unreachable(#[source] Cause),
    /// Archived rows cannot be read or written. Stored ones are not affected.
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
    /// The store has archived rows, and is used without its archive.
    #[error("the dataset store has archived rows; name its archive with --archive")]
    NoArchive,
    /// Archived rows that a write needs were changed while it was prepared. Nothing was stored.
    #[error("archived rows of dataset {dataset} changed during the operation")]
    ArchiveChanged {
        /// Dataset of the rows.
        dataset: DatasetId,
    },
    /// The store is closed, or the program is stopping.
    #[error("reach the dataset store, which is closed")]
    Closed,
}

/// A store of datasets, their rows and buckets, and who may see them.
///
/// Every operation fails with [`StoreError`] if the engine does; an operation's own docs name the
/// errors that it adds.
#[expect(clippy::missing_errors_doc, reason = "the docs of the trait say it once")]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Creates datasets at `now`, all or none. Tags that do not exist yet are created, private and
    /// the owner's.
    fn create(
        &self,
        datasets: Vec<NewDataset>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<Dataset>>>;

    /// Changes a dataset at `now`; what the service sees of it then.
    fn change(
        &self,
        dataset: DatasetId,
        change: DatasetChange,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Sight>>;

    /// Changes which datasets have a tag, or which keys hold it. Returns whether that was not so before.
    fn change_tag(&self, change: TagChange) -> BoxFuture<'_, Result<bool>>;

    /// Stores rows, the buckets they change, and which batches they are, in one commit.
    ///
    /// # Errors
    /// [`StoreError::BatchStored`] if a batch of them is stored. Batches are forgotten with their
    /// dataset, a day after they were stored, and where their writer stored very many since.
    fn append(
        &self,
        dataset: DatasetId,
        append: Append,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended>>;

    /// The batch that `writer` calls `key`, if the store still knows it: as the last commit has it, never
    /// from a copy that is behind.
    fn find_batch(&self, writer: KeyId, key: &IdempotencyKey) -> Result<Option<StoredBatch>>;

    /// Prunes rows before `before`, at most about `limit_rows` of them. Returns their number, which
    /// includes replaced rows.
    ///
    /// Buckets stay. Later appends before that timestamp, rounded down to five minutes, are refused.
    fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<u64>>;

    /// Deletes the rows of `span` at `now`, and what they are in buckets, in one commit; how many
    /// rows that were.
    ///
    /// Buckets without rows are gone, too. Those of rows that were let go before stay unless the
    /// span covers them whole.
    fn delete_rows(
        &self,
        dataset: DatasetId,
        span: Span,
        now: Timestamp,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<u64>>;

    /// Deletes a dataset with all it has; whether there was one.
    ///
    /// Nobody sees it any more when this returns. The space of its rows is freed bit by bit after
    /// that, also after the store was opened again.
    fn delete(&self, dataset: DatasetId) -> BoxFuture<'_, Result<bool>>;

    /// Does the maintenance at once that the store otherwise does in small steps between writes: frees
    /// the space of deleted datasets, and packs old rows and buckets.
    fn settle(&self) -> BoxFuture<'_, Result<()>>;

    /// What `key` sees of the dataset, or without one the service, which sees all; none if it may
    /// not even see it. By a name that several datasets have it means its own.
    ///
    /// # Errors
    /// [`StoreError::SharedName`] if the key owns none of that name and sees several.
    fn sight(&self, key: Option<KeyId>, which: &DatasetRef) -> Result<Option<Sight>>;

    /// A number that any commit to the store changes, by this process or another; `None` where reading
    /// it would block. What was read after the number holds until it changes.
    fn version(&self) -> Option<i64>;

    /// The datasets that `key` may see.
    fn list(&self, key: KeyId, filter: &Filter, skip: u64, limit: usize) -> Result<Listed>;

    /// The tags that `filter` selects, in alphabetical order.
    fn tags(&self, filter: TagFilter) -> Result<Vec<Tag>>;

    /// The keys that hold the tag that `owner` calls `tag`, in the order of their numbers.
    fn holders(&self, owner: KeyId, tag: &str) -> Result<Vec<KeyId>>;

    /// The datasets whose metadata say how much they keep.
    fn retained(&self) -> Result<Vec<Dataset>>;

    /// The timestamp from which on the newest rows of a dataset have about `n_bytes` in chunks, of which
    /// the newest one always counts as within; `None` if all have no more.
    fn newest_within(&self, dataset: DatasetId, n_bytes: u64) -> Result<Option<Timestamp>>;

    /// A page of rows or buckets, and their number.
    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows>;

    /// Returns true if the store takes no writes, as in a database that follows another one. Then they fail
    /// with [`StoreError::ReadOnly`].
    fn is_read_only(&self) -> bool;

    /// Whether the store takes writes: its file is in place, and there is space. Where a write found
    /// none, this tries another one of its size from time to time.
    ///
    /// # Errors
    /// Why it does not.
    fn check(&self) -> BoxFuture<'_, Result<()>>;

    /// Numbers of the connections to its database; `None` of a store in a file.
    fn database(&self) -> Option<Figures> {
        None
    }

    /// Lets the file grow to so many pages, as a full disk would.
    #[cfg(any(test, feature = "faults"))]
    fn limit_pages(&self, n_pages: u32) -> BoxFuture<'_, Result<()>>;

    /// What it tells about the commits of other services; `None` if only this one writes it.
    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }

    /// The number of this life of the store: row numbers of another one mean nothing here.
    fn era(&self) -> i64;

    /// The rows with numbers above `after`, at most `limit`; none if there was no such row, or if it
    /// is too far back.
    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>>;

    /// Shows `visit` all rows or buckets of a span, oldest first, batch by batch.
    ///
    /// A row that was stored when the scan began and is not removed meanwhile is shown once, as it was
    /// then or as a later commit replaced it. A row that comes meanwhile may be shown. A store in a file
    /// shows one snapshot, and reads a batch when it is asked for its rows, so that one who knows its
    /// [`chunk_id`](row_batch::RowBatch::chunk_id) can do without. A shared one reads each batch in a
    /// transaction of its own, so that a slow visitor keeps none open.
    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()>;
}

/// What a store that several services write tells each about the commits of the others.
#[expect(clippy::missing_errors_doc, reason = "as for `Store`")]
pub trait SharedStore {
    /// The newest commits of those of `datasets` that are there.
    fn heads(&self, datasets: &[DatasetId]) -> Result<Heads>;

    /// The commits of a dataset after commit `after`, at most `limit`, in their order. Those of some
    /// hours are on record; if the next one is not, the first returned has a higher number than that.
    fn commits(&self, dataset: DatasetId, after: u64, limit: usize) -> Result<Vec<Commit>>;

    /// Waits for a hint that another service has committed something, which may have come since the last
    /// call. There may never be one: a hint only makes a look worth it. One caller at a time. Cancel-safe.
    fn hinted(&self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }
}

impl dyn Store {
    /// The newest rows, oldest first and at most `limit`, and the commit up to which they are
    /// complete.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn newest(&self, dataset: DatasetId, limit: usize) -> Result<(Block, u64)> {
        let read = PageRead {
            resolution: Resolution::Raw,
            span: Span { first: Timestamp::MIN, last: Timestamp::MAX },
            order: Order::Descending,
            skip: 0,
            limit,
            count: Count::Nothing,
        };
        let page = self.page(dataset, &read)?;
        let Rows::Raw(mut rows) = page.rows else { return Err(StoreError::Closed) };
        rows.reverse();
        Ok((rows, page.revision))
    }
}
