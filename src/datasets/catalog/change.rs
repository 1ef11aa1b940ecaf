//! Changing and deleting what is there: a dataset's name and description, its columns, its rows.

use model::{
    dataset::{Column, Dataset, DatasetId, Dtype, TIMESTAMP},
    key::KeyId,
    resolution::Resolution,
};
use tokio::sync::oneshot;
use tsdb::{
    catalog::{Change, ColumnChange, DatasetChange, DatasetRef, Refusal},
    span::{Order, Span},
    store::{Count, OnRemoval, PageRead, Removal, Removed, StoreError},
};

use super::{check_columns, check_metadata, check_name, check_text};
use crate::{
    Datasets,
    error::{OperationError, Result, Unfit},
};

impl Datasets {
    /// Changes a dataset that `key` owns, and returns what it is now.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`], [`OperationError::Unfit`];
    /// [`OperationError::Refused`] if the name is taken, or the metadata would have the buckets of
    /// rows that are there made of another column.
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

    /// Adds, renames or deletes a column of a dataset that `key` owns, and returns what it is now;
    /// none that was deleted. Rows that are there have no value in a new one.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`], [`OperationError::Unfit`];
    /// [`OperationError::Refused`] by the other columns, or if the buckets of rows that are there
    /// would be made of other ones; [`OperationError::ColumnUsed`] if they depend on a deleted one.
    pub(crate) async fn change_column(
        &self,
        key: KeyId,
        which: DatasetRef,
        change: ColumnChange,
    ) -> Result<Option<Column>> {
        let dataset = self.find_owned(key, which).await?;
        let name = match &change {
            ColumnChange::Add(name, _) | ColumnChange::Rename { new_name: name, .. } => {
                // Of any type: it is the name that may be wrong.
                check_columns(&[(name.clone(), Dtype::Float)])?;
                name
            }
            ColumnChange::Delete(name) if name == TIMESTAMP => {
                return Err(Unfit::from(format!("the {TIMESTAMP} cannot be deleted")).into());
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

    /// Deletes a dataset that `key` owns, with its rows. Nobody sees it any more when this returns.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`].
    pub(crate) async fn delete(&self, key: KeyId, which: DatasetRef) -> Result<()> {
        let dataset = self.find_owned(key, which).await?.id;
        let was_there = self.store.delete(dataset).await?;
        self.hub.recheck_access(dataset);
        if was_there { Ok(()) } else { Err(OperationError::NotFound) }
    }

    /// Deletes the rows of a dataset that `key` owns, and their part of buckets. Returns also the number
    /// of five-minute buckets that are gone, which may be of rows that were pruned before.
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
        let datasets = self.clone();
        let (reply, removed) = oneshot::channel();
        let on_commit: OnRemoval = Box::new(move |removed| {
            datasets.record_removal(dataset, removed.revision, Removal::Span(span));
            // The caller may be gone.
            drop(reply.send(removed.clone()));
        });
        self.store.delete_rows(dataset, span, self.clock.now(), on_commit).await?;
        let removed = removed.await.map_err(|_| StoreError::Closed)?;
        let n_after = self.count_buckets(dataset, span).await?;
        Ok((removed, n_before.saturating_sub(n_after)))
    }

    /// Counts the five-minute buckets that have a part in `span`.
    async fn count_buckets(&self, dataset: DatasetId, span: Span) -> Result<u64> {
        let resolution = Resolution::FiveMinutes;
        let span = Span { first: resolution.bucket_start(span.first), ..span };
        let order = Order::Ascending;
        let read = PageRead { resolution, span, order, skip: 0, limit: 0, count: Count::All };
        let page = self.read_store(move |store| store.page(dataset, &read)).await?;
        Ok(page.count.unwrap_or(0))
    }
}

/// Checks what `change` makes of `dataset`; what is wrong with it.
fn check_change(change: &Change, dataset: &Dataset) -> Result<(), Unfit> {
    let mut changed = dataset.clone();
    change.apply(&mut changed);
    check_name("name", &changed.name)?;
    check_text("description", &changed.description)?;
    check_metadata(&changed.metadata)
}
