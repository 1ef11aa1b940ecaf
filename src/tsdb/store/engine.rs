//! Interface that engines implement for the archive and for copies of datasets.

use std::time::Duration;

use futures::future::BoxFuture;
use model::dataset::{Column, Dataset, DatasetId};
use model::key::KeyId;
use model::row::Bucket;
use model::timestamp::Timestamp;

use super::archived::{ArchiveCommit, ArchivedFile, ArchivedMonth};
use super::{Catalog, Result, Sight, Store};
use crate::archive::month::Month;
use crate::catalog::{DatasetRef, NewDataset, Tag, TagFilter};
use crate::span::Span;

/// A catalog entry: everything about a dataset except its rows and buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Id, name, description, metadata, and times of creation and last change.
    pub dataset: Dataset,
    /// Key that owns the dataset and can write to it; `None` for the service itself.
    pub owner: Option<KeyId>,
    /// Columns in the order of their positions, including deleted columns.
    pub columns: Vec<Column>,
    /// Tags of the dataset, in alphabetical order.
    pub tags: Vec<Tag>,
    /// Timestamp of the latest row.
    pub newest: Option<Timestamp>,
    /// Timestamp before which rows were pruned. The buckets of these rows remain.
    pub kept_from: Option<Timestamp>,
}

impl CatalogEntry {
    /// Reads the entry of a dataset, or returns `None` if it does not exist.
    pub(crate) fn read(store: &dyn Catalog, dataset: DatasetId) -> Result<Option<Self>> {
        let Some(sight) = store.sight(None, &DatasetRef::Id(dataset))? else { return Ok(None) };
        let Sight { dataset, owner, columns, newest, kept_from, .. } = sight;
        let tags = store.tags(TagFilter::OfDataset(dataset.id))?;
        Ok(Some(Self { dataset, owner, columns, tags, newest, kept_from }))
    }

    /// Returns the columns that are not deleted, with their positions.
    pub(crate) fn visible(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.is_deleted())
    }
}

/// A store that records archived months, and from and to which datasets can be copied.
///
/// [`append`](Store::append) fails with
/// [`StoreError::ArchiveChanged`](super::StoreError::ArchiveChanged) if a row is not later than all
/// archived rows and [`Append::beneath`](super::Append::beneath) is missing.
/// [`delete_rows`](Store::delete_rows) fails with the same error if the dataset has archived rows and
/// [`RowDeletion::archived`](super::RowDeletion::archived) is missing. [`prune`](Catalog::prune) removes
/// archived months only as a whole. Pruning does not remove the stored rows of an archived month that
/// remains.
///
/// Every operation fails with [`StoreError`](super::StoreError) if the engine does.
#[expect(clippy::missing_errors_doc, reason = "the docs of the trait say it once")]
pub trait Engine: Catalog + Store {
    /// Creates a dataset with the id, times, owner and visible columns of `entry`, without tags,
    /// rows and buckets.
    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>>;

    /// Stores copied buckets of five minutes, of rows that were pruned in the source, and the longer
    /// buckets computed from them. The dataset must have no rows. All buckets come after the stored
    /// buckets and before `kept_from`.
    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>>;

    /// Returns the archived months that overlap `span`, in order, from one snapshot.
    fn archived(&self, dataset: DatasetId, span: Span) -> Result<Vec<ArchivedMonth>>;

    /// Announces that the caller merges the rows of this store with archived rows. Until then, a store
    /// that several services use fails with [`StoreError::NoArchive`](super::StoreError::NoArchive)
    /// instead of reading only a part of the rows.
    fn expect_archive(&self) {}

    /// Returns true if any dataset has archived months, or if a file is still to be deleted.
    fn has_archive(&self) -> Result<bool>;

    /// Returns the key of the archived file that was put into effect last, if any file is in effect.
    fn key_in_effect(&self) -> Result<Option<String>>;

    /// Acquires or extends the lease for the process `holder`, for the time `length` from now by the
    /// clock of the engine. Returns false if another process has the lease. Only the holder of the lease
    /// may write to the archive.
    fn lease_archive(&self, holder: i64, length: Duration) -> BoxFuture<'_, Result<bool>>;

    /// Records that `file` is about to be written. Earlier announcements for the month remain until a
    /// file of the month is committed. Returns false if `holder` no longer has the lease.
    fn announce_file(
        &self,
        dataset: DatasetId,
        file: ArchivedFile,
        holder: i64,
    ) -> BoxFuture<'_, Result<bool>>;

    /// Puts the announced file into effect. The same transaction removes the stored rows that are in the
    /// file, and the records of deletions that the file already reflects. Neither buckets nor the
    /// revision of the dataset change. Returns false without a change if `holder` has lost the lease,
    /// rows were deleted meanwhile, or another file was announced.
    fn commit_file(&self, commit: ArchiveCommit, holder: i64) -> BoxFuture<'_, Result<bool>>;

    /// Returns the dataset, month and key of a file that has been out of effect for `grace`, by the clock of
    /// the engine.
    fn doomed_file(&self, grace: Duration) -> Result<Option<(DatasetId, Month, String)>>;

    /// Removes the record of a deleted file that was out of effect.
    fn forget_file(&self, dataset: DatasetId, key: String) -> BoxFuture<'_, Result<()>>;
}

impl From<&CatalogEntry> for NewDataset {
    /// Omits the tags, so that only the owner can read the new dataset.
    fn from(entry: &CatalogEntry) -> Self {
        let Dataset { name, description, metadata, .. } = entry.dataset.clone();
        let columns = entry.visible().map(|(_, column)| (column.name.clone(), column.dtype));
        let (columns, tags) = (columns.collect(), Vec::new());
        Self { name, description, metadata, columns, tags, owner: entry.owner }
    }
}
