//! What a store of datasets promises, whatever engine keeps it.
//!
//! Writes are durable when they return, and rows are committed together with the buckets they
//! change. Reads see one moment of the store each and never wait for a writer. Reads block their
//! thread, so that callers take them to one that may block.
//!
//! The engine is in a folder of its own; the promises are tested once, against the trait.

pub(crate) mod sqlite;

#[cfg(test)]
pub(crate) mod contract;

use std::{error::Error, fmt, io, ops::ControlFlow};

use accounts::KeyId;
use futures::future::BoxFuture;
use model::{
    dataset::{Column, Dataset, DatasetId, Dtype},
    resolution::Resolution,
    timestamp::Timestamp,
};

use crate::{
    block::{Block, Rows, codec::DecodeError},
    catalog::{Filter, Grant, Listed, NewDataset, Tag},
    query::{DatasetRef, Order, Span},
};

/// What became of creating a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Created {
    /// It is there.
    New(Dataset),
    /// Its name is taken.
    NameTaken,
}

/// What became of acquiring a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The key now holds it.
    New,
    /// The key held it before.
    Held,
    /// The tag is given by its owner, not taken.
    Private,
    /// There is no such tag.
    Unknown,
}

/// A page of rows or buckets to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRead {
    /// How coarse.
    pub(crate) resolution: Resolution,
    /// From when to when.
    pub(crate) span: Span,
    /// Which come first.
    pub(crate) order: Order,
    /// How many to leave out first.
    pub(crate) skip: u64,
    /// How many at most.
    pub(crate) limit: usize,
    /// Whether all that match are counted.
    pub(crate) count: Count,
}

/// Whether all that match are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// They are.
    All,
    /// They are not.
    Nothing,
}

/// A page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PageOfRows {
    /// How many match in all, if that was asked for.
    pub(crate) count: Option<u64>,
    /// The rows, in the order asked for.
    pub(crate) rows: Rows,
}

/// The newest rows of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Newest {
    /// The rows, oldest first.
    pub(crate) rows: Block,
    /// The last commit they include.
    pub(crate) revision: u64,
}

/// What an append left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Appended {
    /// Rows stored, those that replaced another included.
    pub(crate) n_rows: u64,
    /// The number of the commit, which counts up in each dataset from 1.
    pub(crate) revision: u64,
}

/// Called once, in the order of commits, when rows are durable and before their append returns.
pub(crate) type OnCommit = Box<dyn FnOnce(&Appended, &Block) + Send>;

/// Takes pieces of rows as they are read, and says whether to go on.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(Rows) -> ControlFlow<()>;

/// What an engine says when it fails.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store's folder could not be made.
    #[error("make the folder of the dataset store")]
    Folder(#[source] io::Error),
    /// The store could not be opened.
    #[error("open the dataset store")]
    Open(#[source] Cause),
    /// Its writing thread could not be started.
    #[error("start the writer of the dataset store")]
    Thread(#[source] io::Error),
    /// A newer version of the program wrote it.
    #[error("read version {found} of the dataset store, newer than {known}")]
    Newer {
        /// The store's version.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
    /// A statement failed.
    #[error("read or write the dataset store")]
    Statement(#[source] Cause),
    /// What was written could not be made durable. Nothing of it is kept.
    #[error("commit to the dataset store: {reason}")]
    Commit {
        /// Why, as text: several writers may share one commit.
        reason: String,
    },
    /// What is stored is not what was written.
    #[error("read a damaged piece of dataset {dataset}")]
    Damaged {
        /// Which dataset.
        dataset: DatasetId,
        /// What is wrong.
        #[source]
        source: DecodeError,
    },
    /// The dataset is gone.
    #[error("find dataset {dataset}")]
    NoDataset {
        /// Which.
        dataset: DatasetId,
    },
    /// A row is older than what the dataset still keeps.
    #[error("take rows from before {kept_from}, which the dataset has let go")]
    LetGo {
        /// The earliest moment it keeps.
        kept_from: Timestamp,
    },
    /// The store is closed, or the program is stopping.
    #[error("reach the dataset store, which is closed")]
    Closed,
}

/// A store of datasets, their rows and buckets, and who may see them.
pub(crate) trait Store: fmt::Debug + Send + Sync + 'static {
    /// Creates a dataset at `now`. Tags that do not exist yet are created, private.
    fn create(
        &self,
        dataset: NewDataset,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Created, StoreError>>;

    /// Adds columns that the dataset does not have yet.
    fn add_columns(
        &self,
        dataset: DatasetId,
        columns: Vec<(String, Dtype)>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Lets the holders of `tag` read the dataset; whether they could not before.
    fn add_tag(&self, dataset: DatasetId, tag: String) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Gives `key` a public tag that it does not hold yet.
    fn acquire(&self, key: KeyId, tag: String) -> BoxFuture<'_, Result<Acquired, StoreError>>;

    /// Stores rows at `now`, in the order of their moments and one at a moment, and the buckets
    /// they change, in one commit.
    ///
    /// A row at an existing moment replaces it. The numbers and creation moments in `rows` are
    /// filled in here.
    fn append(
        &self,
        dataset: DatasetId,
        rows: Block,
        now: Timestamp,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended, StoreError>>;

    /// Lets go of rows before `before`, at most about `limit_rows` of them; how many that were, those
    /// counted that others replaced.
    ///
    /// Buckets stay. Later appends before that moment, rounded down to five minutes, are refused.
    fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
    ) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// The dataset, whoever may see it.
    fn dataset(&self, which: &DatasetRef) -> Result<Option<Dataset>, StoreError>;

    /// What `key` may do with the dataset; none if it may not even see it.
    fn grant(&self, key: KeyId, which: &DatasetRef) -> Result<Option<Grant>, StoreError>;

    /// What [`Self::acquire`] would come to. Costs no write.
    fn acquirable(&self, key: KeyId, tag: &str) -> Result<Acquired, StoreError>;

    /// The datasets that `key` may see.
    fn list(
        &self,
        key: KeyId,
        filter: &Filter,
        skip: u64,
        limit: usize,
    ) -> Result<Listed, StoreError>;

    /// The columns of a dataset, in their order.
    fn columns(&self, dataset: DatasetId) -> Result<Vec<Column>, StoreError>;

    /// All tags, in alphabetical order.
    fn tags(&self) -> Result<Vec<Tag>, StoreError>;

    /// The tags of a dataset, in alphabetical order.
    fn dataset_tags(&self, dataset: DatasetId) -> Result<Vec<Tag>, StoreError>;

    /// The moment of a dataset's newest row.
    fn newest_moment(&self, dataset: DatasetId) -> Result<Option<Timestamp>, StoreError>;

    /// A page of rows or buckets, and their number.
    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows, StoreError>;

    /// The newest rows, at most `limit`, and the commit up to which they are complete.
    fn newest(&self, dataset: DatasetId, limit: usize) -> Result<Newest, StoreError>;

    /// Shows `visit` all rows or buckets of a span, oldest first, piece by piece, as they are at
    /// one moment.
    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;
}
