//! Changes of existing datasets: of their names, descriptions, columns and rows, and their deletion.

use std::sync::Arc;

use model::dataset::{Column, Dataset, DatasetId, Dtype, TIMESTAMP};
use model::key::KeyId;
use model::resolution::Resolution;
use tsdb::catalog::{Change, ColumnChange, DatasetChange, DatasetRef, Refusal};
use tsdb::span::{Order, Span};
use tsdb::store::{Count, OnRemoval, PageRead, Removed, RowDeletion, StoreError};

use super::{check_columns, check_name, check_texts};
use crate::Datasets;
use crate::error::{Invalid, OperationError, Result};

impl Datasets {
    /// Changes a dataset that `key` owns and returns the result.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`], [`OperationError::Invalid`].
    /// [`OperationError::Refused`] if the name exists, or if the dataset has rows and the new metadata
    /// would select other columns for its buckets.
    pub(crate) async fn update(
        &self,
        key: KeyId,
        which: DatasetRef,
        change: Change,
    ) -> Result<Dataset> {
        let dataset = self.find_owned(key, which).await?;
        check_change(&change, &dataset)?;
        let change = DatasetChange::Description(change);
        Ok(self.store.change(dataset.id, change, self.clock.now()).await?.dataset)
    }

    /// Adds, renames or deletes a column of a dataset that `key` owns. Returns the resulting column, or
    /// `None` after a deletion. Existing rows have no value in a new column.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`], [`OperationError::Invalid`].
    /// [`OperationError::Refused`] if the change conflicts with other columns, or would invalidate the
    /// buckets of existing rows. [`OperationError::ColumnUsed`] if the buckets of existing rows depend
    /// on the column to be deleted.
    pub(crate) async fn change_column(
        &self,
        key: KeyId,
        which: DatasetRef,
        change: ColumnChange,
    ) -> Result<Option<Column>> {
        let dataset = self.find_owned(key, which).await?;
        let name = match &change {
            ColumnChange::Add(name, _) | ColumnChange::Rename { new_name: name, .. } => {
                // Checks only the name, so the type is arbitrary.
                check_columns(&[(name.clone(), Dtype::Float)])?;
                name
            }
            ColumnChange::Delete(name) if name == TIMESTAMP => {
                return Err(Invalid::from(format!("the {TIMESTAMP} cannot be deleted")).into());
            }
            ColumnChange::Delete(name) => name,
        };
        let (name, is_deleted) = (name.clone(), matches!(change, ColumnChange::Delete(_)));
        let change = DatasetChange::Column(change);
        match self.store.change(dataset.id, change, self.clock.now()).await {
            Ok(seen) => Ok(seen.columns.into_iter().find(|column| column.name == name)),
            Err(StoreError::Refused(Refusal::Refolds)) if is_deleted => {
                Err(OperationError::ColumnUsed { name })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a dataset that `key` owns, with its rows. When this returns, the dataset is invisible to
    /// all keys.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`].
    pub(crate) async fn delete(&self, key: KeyId, which: DatasetRef) -> Result<()> {
        let dataset = self.find_owned(key, which).await?.id;
        let was_there = self.store.delete(dataset).await?;
        self.hub.recheck_access(dataset);
        if was_there { Ok(()) } else { Err(OperationError::NotFound) }
    }

    /// Deletes rows of a dataset that `key` owns and updates their buckets. Also returns the number of
    /// deleted five-minute buckets, including buckets of rows that were pruned earlier.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`].
    pub(crate) async fn delete_rows(
        &self,
        key: KeyId,
        which: DatasetRef,
        span: Span,
    ) -> Result<(Removed, u64)> {
        let dataset = self.find_owned(key, which).await?.id;
        let n_before = self.count_buckets(dataset, span).await?;
        let hub = self.hub.clone();
        let on_commit: OnRemoval = Arc::new(move |removed| {
            hub.publish(dataset, removed.revision, Vec::new);
        });
        let deletion = RowDeletion::new(span, self.clock.now());
        let removed = self.store.delete_rows(dataset, deletion, on_commit).await?;
        let n_after = self.count_buckets(dataset, span).await?;
        Ok((removed, n_before.saturating_sub(n_after)))
    }

    /// Counts the five-minute buckets that overlap `span`.
    async fn count_buckets(&self, dataset: DatasetId, span: Span) -> Result<u64> {
        let resolution = Resolution::FiveMinutes;
        let span = Span { first: resolution.bucket_start(span.first), ..span };
        let order = Order::Ascending;
        let read = PageRead { resolution, span, order, skip: 0, limit: 0, count: Count::All };
        let page = self.read_store(move |store| store.page(dataset, &read)).await?;
        Ok(page.count.unwrap_or(0))
    }
}

/// Checks the values that change. Other stored values can be older than the rules for them.
fn check_change(change: &Change, dataset: &Dataset) -> Result<(), Invalid> {
    let mut changed = dataset.clone();
    change.apply(&mut changed);
    if changed.name != dataset.name {
        check_name("name", &changed.name)?;
    }
    if changed.description == dataset.description {
        if changed.metadata == dataset.metadata {
            return Ok(());
        }
        changed.description.clear();
    }
    check_texts(&changed.description, &changed.metadata)
}
