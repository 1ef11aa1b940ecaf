//! Changing and deleting what is there: a dataset's name and description, its columns, its rows.

use model::{
    dataset::{Column, Dataset, DatasetId, Dtype, TIMESTAMP},
    key::KeyId,
};
use tsdb::{
    catalog::{COLUMNS_MAX, Change, ColumnChange, DatasetRef},
    span::Span,
    store::{ColumnOutcome, Updated},
};

use super::{CatalogError, check_columns, check_metadata, check_name, check_text};
use crate::Datasets;

impl Datasets {
    /// Changes a dataset that `key` owns, and returns what it is now.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`], [`CatalogError::NotOwner`], [`CatalogError::Unfit`],
    /// [`CatalogError::NameTaken`]; [`CatalogError::Refolds`] if the metadata would have the buckets
    /// of rows that are there made of another column.
    pub(crate) async fn update(
        &self,
        key: KeyId,
        which: DatasetRef,
        change: Change,
    ) -> Result<Dataset, CatalogError> {
        let dataset = self.find_owned(key, which).await?;
        let found = self.read_store(move |store| store.dataset(&DatasetRef::Id(dataset))).await?;
        let found = found.ok_or(CatalogError::NotFound)?;
        check_change(&change, &found).map_err(|what| CatalogError::Unfit { what })?;
        let name = change.name.clone().unwrap_or_default();
        match self.store.update(dataset, change, self.clock.now()).await? {
            Updated::Done(dataset) => Ok(dataset),
            Updated::NameTaken => Err(CatalogError::NameTaken { name }),
            Updated::Refolds => Err(CatalogError::Refolds),
        }
    }

    /// Adds a column to a dataset that `key` owns. Rows that are there have no value in it.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`], [`CatalogError::NotOwner`], [`CatalogError::Unfit`],
    /// [`CatalogError::ColumnTaken`]; [`CatalogError::Refolds`] if the buckets of rows that are there
    /// would be made of it.
    pub(crate) async fn add_column(
        &self,
        key: KeyId,
        which: DatasetRef,
        column: (String, Dtype),
    ) -> Result<Column, CatalogError> {
        let dataset = self.find_owned(key, which).await?;
        let unfit = |what| CatalogError::Unfit { what };
        check_columns(std::slice::from_ref(&column)).map_err(unfit)?;
        let (name, dtype) = column;
        self.change_column(dataset, ColumnChange::Add(name, dtype)).await
    }

    /// Renames a column of a dataset that `key` owns, and returns what it is now.
    ///
    /// # Errors
    /// As [`Self::add_column`], and [`CatalogError::ColumnUnknown`].
    pub(crate) async fn rename_column(
        &self,
        key: KeyId,
        which: DatasetRef,
        name: String,
        new_name: String,
    ) -> Result<Column, CatalogError> {
        let dataset = self.find_owned(key, which).await?;
        // Its type stays: any one will do here.
        check_columns(&[(new_name.clone(), Dtype::Float)])
            .map_err(|what| CatalogError::Unfit { what })?;
        self.change_column(dataset, ColumnChange::Rename { name, new_name }).await
    }

    /// Deletes a column of a dataset that `key` owns, with its values.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`], [`CatalogError::NotOwner`], [`CatalogError::ColumnUnknown`];
    /// [`CatalogError::Unfit`] for the timestamp; [`CatalogError::ColumnUsed`] if the buckets of
    /// stored rows depend on it.
    pub(crate) async fn delete_column(
        &self,
        key: KeyId,
        which: DatasetRef,
        name: String,
    ) -> Result<(), CatalogError> {
        let dataset = self.find_owned(key, which).await?;
        if name == TIMESTAMP {
            return Err(CatalogError::Unfit { what: format!("the {TIMESTAMP} cannot be deleted") });
        }
        match self.change_column(dataset, ColumnChange::Delete(name.clone())).await {
            Err(CatalogError::Refolds) => Err(CatalogError::ColumnUsed { name }),
            changed => changed.map(drop),
        }
    }

    async fn change_column(
        &self,
        dataset: DatasetId,
        change: ColumnChange,
    ) -> Result<Column, CatalogError> {
        match self.store.change_column(dataset, change, self.clock.now()).await? {
            ColumnOutcome::Done(column) => Ok(column),
            ColumnOutcome::Unknown => Err(CatalogError::ColumnUnknown),
            ColumnOutcome::Exists => Err(CatalogError::ColumnTaken),
            ColumnOutcome::TooMany => {
                let what = "with the deleted ones, which keep their places";
                let what = format!("a dataset has at most {COLUMNS_MAX} columns, {what}");
                Err(CatalogError::Unfit { what })
            }
            ColumnOutcome::Refolds => Err(CatalogError::Refolds),
        }
    }

    /// Deletes a dataset that `key` owns, with its rows. Nobody sees it any more when this returns.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`], [`CatalogError::NotOwner`].
    pub(crate) async fn delete(&self, key: KeyId, which: DatasetRef) -> Result<(), CatalogError> {
        let dataset = self.find_owned(key, which).await?;
        let was_there = self.store.delete(dataset).await?;
        self.hub.recheck_access(dataset);
        if was_there { Ok(()) } else { Err(CatalogError::NotFound) }
    }

    /// Deletes the rows of a dataset that `key` owns, and their part of buckets. Returns the number of
    /// rows.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`], [`CatalogError::NotOwner`].
    pub(crate) async fn delete_rows(
        &self,
        key: KeyId,
        which: DatasetRef,
        span: Span,
    ) -> Result<u64, CatalogError> {
        let dataset = self.find_owned(key, which).await?;
        Ok(self.store.delete_rows(dataset, span, self.clock.now()).await?)
    }
}

/// Checks what `change` makes of `dataset`; what is wrong with it.
fn check_change(change: &Change, dataset: &Dataset) -> Result<(), String> {
    let mut changed = dataset.clone();
    change.apply(&mut changed);
    check_name("name", &changed.name)?;
    check_text("description", &changed.description)?;
    check_metadata(&changed.metadata)
}
