//! Copying datasets from one store to another, whatever engines keep them: what is read of the one
//! beside rows and buckets, and what is written to the other.

use futures::future::BoxFuture;
use model::{
    block::Block,
    dataset::{Column, Dataset, DatasetId},
    key::KeyId,
    row::Bucket,
    timestamp::Timestamp,
};

use super::{Result, Store};
use crate::catalog::{NewDataset, Tag, TagChange};

/// A dataset in the catalog, with all that its copy needs but rows and buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its number, name, description, metadata and times.
    pub dataset: Dataset,
    /// The key that may write it; `None` for the service itself.
    pub owner: Option<KeyId>,
    /// Its columns, in their order, with the deleted ones.
    pub columns: Vec<Column>,
    /// Its tags, in alphabetical order.
    pub tags: Vec<Tag>,
    /// The timestamp of its newest row.
    pub newest: Option<Timestamp>,
    /// The timestamp before which rows were pruned, and their buckets kept.
    pub kept_from: Option<Timestamp>,
}

/// A store that datasets can be copied from and to. Rows and buckets of a copy come in the order of
/// their timestamps, each commit after the one before, so that a copy that was stopped goes on after
/// its newest row. What was changed at the source since is copied again after that.
///
/// Every operation fails with [`StoreError`](super::StoreError) if the engine does.
#[expect(clippy::missing_errors_doc, reason = "the docs of the trait say it once")]
pub trait CopyStore: Store {
    /// The dataset with the lowest number above that of `after`; without one the first of all.
    fn next_entry(&self, after: Option<DatasetId>) -> Result<Option<CatalogEntry>>;

    /// What gives the keys of the store the tags that they hold.
    fn grants(&self) -> Result<Vec<TagChange>>;

    /// Creates a dataset with the number, times, owner and columns of `entry` that are not deleted;
    /// without tags, rows and buckets.
    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>>;

    /// Stores buckets of five minutes whose rows were pruned, and the longer ones that follow from them,
    /// in a dataset without rows. They come after those that are there, and `kept_from` after them.
    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>>;

    /// Removes the rows before `before`, as they were pruned at the source; their buckets stay, those of
    /// rows before `kept_from` for good.
    fn prune_copy(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>>;

    /// Stores rows and their buckets. Of rows which come after all that are there, those before `kept_from`
    /// have buckets already; others are none of before that. The rows keep their creation times; the
    /// dataset last changed at `updated_at`.
    fn copy_rows(
        &self,
        dataset: DatasetId,
        rows: Block,
        updated_at: Timestamp,
    ) -> BoxFuture<'_, Result<()>>;
}

impl TagChange {
    /// What gives `key` a public tag, or one that `owner` uses.
    pub(crate) const fn granting(key: KeyId, tag: String, owner: Option<KeyId>) -> Self {
        match owner {
            None => Self::Acquire { tag, key },
            Some(owner) => Self::Give { owner, tag, key },
        }
    }
}

impl From<&CatalogEntry> for NewDataset {
    /// Without the tags, which let others read it.
    fn from(entry: &CatalogEntry) -> Self {
        let CatalogEntry { dataset, owner, columns, .. } = entry;
        let shown = columns.iter().filter(|column| !column.is_deleted());
        Self {
            name: dataset.name.clone(),
            description: dataset.description.clone(),
            metadata: dataset.metadata.clone(),
            columns: shown.map(|column| (column.name.clone(), column.dtype)).collect(),
            tags: Vec::new(),
            owner: *owner,
        }
    }
}
