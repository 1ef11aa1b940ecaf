//! Changes of the catalog that are the same for all engines, as SQL statements.

use std::future::Future;

use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::key::KeyId;
use model::timestamp::Timestamp;

use super::engine::CatalogEntry;
use super::session::Session;
use super::time::Time;
use super::{Result, Sight, StoreError};
use crate::catalog::{ColumnChange, DatasetChange, DatasetRef, NewDataset};
use crate::rollup::check_refold;

/// Operations on the catalog that each engine implements differently.
pub(super) trait CatalogSession: Session {
    /// Statement that marks the column with the id `?1` as deleted.
    const DELETE_COLUMN: &'static str;

    /// See [`Catalog::sight`](super::Catalog::sight).
    fn sight(
        &mut self,
        key: Option<KeyId>,
        which: DatasetRef,
    ) -> impl Future<Output = Result<Option<Sight>>>;

    /// Creates either all or none of the datasets. A single dataset can be given its `id`. Later
    /// datasets get higher ids.
    fn create(
        &mut self,
        all: &[NewDataset],
        id: Option<DatasetId>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<Dataset>>>;

    /// Replaces the name, the description and the metadata of a dataset.
    ///
    /// # Errors
    /// [`Refusal::NameTaken`](crate::catalog::Refusal::NameTaken).
    fn describe(&mut self, old: &Dataset, new: &Dataset) -> impl Future<Output = Result<()>>;

    /// Adds columns to a dataset after its `old` columns. Columns that already exist are skipped.
    fn add_columns(
        &mut self,
        dataset: DatasetId,
        old: &[Column],
        new: &[(String, Dtype)],
        now: Timestamp,
    ) -> impl Future<Output = Result<()>>;
}

/// Changes the description or the columns of a dataset. Returns the changed dataset. `is_empty` is true
/// if the dataset never had rows.
pub(super) async fn change<S: CatalogSession>(
    s: &mut S,
    id: DatasetId,
    change: DatasetChange,
    is_empty: bool,
    now: Timestamp,
) -> Result<Sight> {
    let Sight { dataset: old, columns, .. } = find(s, id).await?;
    let mut updated = Some(Time(now));
    match change {
        DatasetChange::Description(change) => {
            let mut new = old.clone();
            change.apply(&mut new);
            check_refold((&columns, &old.metadata), (&columns, &new.metadata), is_empty)?;
            s.describe(&old, &new).await?;
        }
        DatasetChange::NewColumns(new) => {
            updated = None;
            s.add_columns(id, &columns, &new, now).await?;
        }
        DatasetChange::Column(change) => {
            let new = change.apply(id, &columns, now)?;
            check_refold((&columns, &old.metadata), (&new, &old.metadata), is_empty)?;
            if let ColumnChange::Add(name, dtype) = change {
                updated = None;
                s.add_columns(id, &columns, &[(name, dtype)], now).await?;
            }
            for (old, new) in columns.iter().zip(new).filter(|(old, new)| old.name != new.name) {
                if new.is_deleted() {
                    s.run(S::DELETE_COLUMN, &[&old.id]).await?;
                } else {
                    let sql = "UPDATE datasets.columns SET name = ?2 WHERE id = ?1";
                    s.run(sql, &[&old.id, &new.name]).await?;
                }
            }
        }
    }
    // Updates the record even if nothing changes: its new version tells writers of PostgreSQL that the
    // columns might have changed.
    let sql = "UPDATE datasets.datasets SET updated_at = coalesce(?2, updated_at) WHERE id = ?1";
    s.run(sql, &[&id.get(), &updated]).await?;
    find(s, id).await
}

async fn find<S: CatalogSession>(s: &mut S, dataset: DatasetId) -> Result<Sight> {
    s.sight(None, DatasetRef::Id(dataset)).await?.ok_or(StoreError::NoDataset { dataset })
}

/// Returns the dataset with the lowest id above `after`, or the first dataset if `after` is `None`.
pub(super) async fn next_dataset<S: Session>(
    s: &mut S,
    after: Option<DatasetId>,
) -> Result<Option<DatasetId>> {
    let sql = "SELECT id FROM datasets.datasets WHERE id > ?1 ORDER BY id LIMIT 1";
    let after = after.map_or(0, DatasetId::get);
    let found = s.all(sql, &[&after], |row| row.get(0)).await?;
    Ok(found.into_iter().next().and_then(DatasetId::new))
}

/// Creates a dataset with the id, times, owner and visible columns of `entry`.
pub(super) async fn create_copy<S: CatalogSession>(s: &mut S, entry: CatalogEntry) -> Result<()> {
    let Dataset { id, created_at, updated_at, .. } = entry.dataset;
    s.create(&[NewDataset::from(&entry)], Some(id), created_at).await?;
    let sql = "UPDATE datasets.datasets SET updated_at = ?2 WHERE id = ?1";
    s.run(sql, &[&id.get(), &Time(updated_at)]).await?;
    for Column { name, created_at, .. } in &entry.columns {
        let sql = "UPDATE datasets.columns SET created_at = ?3 WHERE dataset = ?1 AND name = ?2";
        s.run(sql, &[&id.get(), name, &Time(*created_at)]).await?;
    }
    Ok(())
}
