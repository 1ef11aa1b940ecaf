//! Interface for copying datasets between stores of any engine: reads of catalog entries from the source
//! and writes to the destination.

use futures::future::BoxFuture;
use model::block::Block;
use model::dataset::{Column, Dataset, DatasetId};
use model::key::KeyId;
use model::row::Bucket;
use model::timestamp::Timestamp;

use super::{Result, Store};
use crate::catalog::{NewDataset, Tag, TagChange};

/// A catalog entry: all of a dataset except rows and buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Id, name, description, metadata and times.
    pub dataset: Dataset,
    /// Key that may write to it. `None` is the service itself.
    pub owner: Option<KeyId>,
    /// Columns in their order, including deleted ones.
    pub columns: Vec<Column>,
    /// Tags in alphabetical order.
    pub tags: Vec<Tag>,
    /// Timestamp of the latest row.
    pub newest: Option<Timestamp>,
    /// Timestamp before which rows were pruned, while their buckets remain.
    pub kept_from: Option<Timestamp>,
}

/// A store that datasets can be copied from and to. Rows and buckets of a copy are written in the
/// order of their timestamps, one commit after another, so that a stopped copy continues after its
/// latest row. What changed at the source in the meantime is copied again afterwards.
///
/// Every operation fails with [`StoreError`](super::StoreError) if the engine does.
#[expect(clippy::missing_errors_doc, reason = "the docs of the trait say it once")]
pub trait CopyStore: Store {
    /// Returns the dataset with the lowest id above `after`, or the first dataset if `after` is `None`.
    fn next_entry(&self, after: Option<DatasetId>) -> Result<Option<CatalogEntry>>;

    /// Returns the changes that give the keys of the store the tags that they hold.
    fn grants(&self) -> Result<Vec<TagChange>>;

    /// Creates a dataset with the id, times, owner and visible columns of `entry`, without tags,
    /// rows and buckets.
    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>>;

    /// Stores buckets of five minutes of pruned rows, with the longer buckets that follow from them, in
    /// a dataset without rows. They come after the stored buckets and before `kept_from`.
    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>>;

    /// Removes rows before `before`, as they were pruned at the source. Buckets remain. Buckets before
    /// `kept_from` are final.
    fn prune_copy(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>>;

    /// Stores rows and their buckets. The rows keep their creation times. The dataset last changed at
    /// `updated_at`. If the rows come after all stored rows, the rows before `kept_from` have buckets
    /// already. Otherwise no row is before `kept_from`.
    fn copy_rows(
        &self,
        dataset: DatasetId,
        rows: Block,
        updated_at: Timestamp,
    ) -> BoxFuture<'_, Result<()>>;
}

impl TagChange {
    /// Returns the change that gives `key` a public tag, or one of `owner`.
    pub(crate) const fn granting(key: KeyId, tag: String, owner: Option<KeyId>) -> Self {
        match owner {
            None => Self::Acquire { tag, key },
            Some(owner) => Self::Give { owner, tag, key },
        }
    }
}

impl From<&CatalogEntry> for NewDataset {
    /// Leaves out the tags, which let others read the dataset.
    fn from(entry: &CatalogEntry) -> Self {
        let CatalogEntry { dataset, owner, columns, .. } = entry;
        let visible = columns.iter().filter(|column| !column.is_deleted());
        Self {
            name: dataset.name.clone(),
            description: dataset.description.clone(),
            metadata: dataset.metadata.clone(),
            columns: visible.map(|column| (column.name.clone(), column.dtype)).collect(),
            tags: Vec::new(),
            owner: *owner,
        }
    }
}
