//! Datasets, columns and tags: creating them, finding them, and who may see them.
//!
//! A name is unique among its owner's datasets, not in the service: a refusal would tell a key that
//! there is a dataset which it may not see. So a name can mean several datasets. To a key it means
//! its own, else the one with the lowest number among those that it sees; a number always means one.

pub(crate) mod change;
mod tags;

use std::collections::BTreeMap;

use model::{
    dataset::{Column, Dataset, DatasetId, Dtype, TIMESTAMP},
    key::KeyId,
    page::Limit,
    text::is_unprintable,
};
use tsdb::{
    catalog::{COLUMNS_MAX, DatasetRef, Filter, Grant, Listed, NewDataset},
    store::{Created, StoreError},
};

use crate::{Datasets, retention::Retention};

/// The longest name of a dataset, column, tag or metadata field, in bytes. Names are in every row.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// The longest description or metadata value, in bytes. They are in every listing.
pub(crate) const TEXT_BYTES_MAX: usize = 10_000;

/// Metadata fields, and tags, of a dataset at most.
pub(crate) const FIELDS_MAX: usize = 64;

/// Datasets created at once at most: they are one transaction.
pub(crate) const CREATED_MAX: usize = 1000;

/// Why an operation on the catalog was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CatalogError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// The key may read the dataset only.
    #[error("only the owner of the dataset may do that")]
    NotOwner,
    /// A text, name or list is invalid.
    #[error("{what}")]
    Unfit {
        /// What, and what it must be.
        what: String,
    },
    /// The owner has another dataset of the name.
    #[error("dataset name is already taken: {name}")]
    NameTaken { name: String },
    /// The dataset has a column of the name.
    #[error("column name is already taken")]
    ColumnTaken,
    /// The dataset has rows, whose buckets would be made of other columns.
    #[error("the dataset has rows, and its buckets would be made of other columns")]
    Refolds,
    /// The dataset has rows, whose buckets depend on the column.
    #[error("the dataset has rows, and its buckets are made of column {name}")]
    ColumnUsed { name: String },
    /// The dataset has no column of this name.
    #[error("column not found")]
    ColumnUnknown,
    /// The key holds the tag.
    #[error("tag already acquired")]
    TagHeld,
    /// The tag is private: its owner gives it.
    #[error("tag cannot be acquired; only public tags can")]
    TagPrivate,
    /// There is no such tag.
    #[error("tag not found")]
    TagUnknown,
    /// The tag is public: nobody gives it.
    #[error("tag is public: any key can acquire it")]
    TagPublic,
    /// There is no such key.
    #[error("key not found")]
    KeyUnknown,
    /// The store failed.
    #[error("use the catalogue")]
    Store(#[source] StoreError),
}

impl From<StoreError> for CatalogError {
    /// A dataset that was deleted meanwhile is not found.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoDataset { .. } => Self::NotFound,
            error => Self::Store(error),
        }
    }
}

impl Datasets {
    /// Creates a dataset that `new.owner` owns.
    ///
    /// # Errors
    /// As [`Self::create_all`].
    pub(crate) async fn create(&self, new: NewDataset) -> Result<Dataset, CatalogError> {
        let created = self.create_all(vec![new]).await?;
        created.into_iter().next().ok_or(CatalogError::NotFound)
    }

    /// Creates all datasets or none. Returns them in the same order.
    ///
    /// # Errors
    /// [`CatalogError::Unfit`] by the limits above, [`CatalogError::NameTaken`].
    pub(crate) async fn create_all(
        &self,
        new: Vec<NewDataset>,
    ) -> Result<Vec<Dataset>, CatalogError> {
        if new.len() > CREATED_MAX {
            let what = format!("at most {CREATED_MAX} datasets can be created at once");
            return Err(CatalogError::Unfit { what });
        }
        for new in &new {
            check(new).map_err(|what| CatalogError::Unfit { what })?;
        }
        match self.store.create(new, self.clock.now()).await? {
            Created::New(datasets) => Ok(datasets),
            Created::NameTaken { name } => Err(CatalogError::NameTaken { name }),
        }
    }

    /// The datasets that `key` sees and `filter` takes: at most `limit`, after the first `skip`.
    pub(crate) async fn list(
        &self,
        key: KeyId,
        filter: Filter,
        skip: u64,
        limit: Limit,
    ) -> Result<Listed, CatalogError> {
        Ok(self.read_store(move |store| store.list(key, &filter, skip, limit.get())).await?)
    }

    /// The dataset, if `key` sees it.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] if it does not.
    pub(crate) async fn dataset(
        &self,
        key: KeyId,
        which: DatasetRef,
    ) -> Result<Dataset, CatalogError> {
        let found = self.read_store(move |store| match store.grant(key, &which)? {
            Some(grant) => store.dataset(&DatasetRef::Id(grant.dataset)),
            None => Ok(None),
        });
        found.await?.ok_or(CatalogError::NotFound)
    }

    /// The columns of a dataset, in their order.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] if `key` does not see it.
    pub(crate) async fn columns(
        &self,
        key: KeyId,
        which: DatasetRef,
    ) -> Result<Vec<Column>, CatalogError> {
        let seen = self.read_store(move |store| store.sight(key, &which)).await?;
        let mut columns = seen.ok_or(CatalogError::NotFound)?.columns;
        columns.retain(|column| !column.is_deleted());
        Ok(columns)
    }

    /// What `key` may do with the dataset; none if it does not see it.
    pub(crate) async fn find_grant(
        &self,
        key: KeyId,
        which: DatasetRef,
    ) -> Result<Option<Grant>, CatalogError> {
        Ok(self.read_store(move |store| store.grant(key, &which)).await?)
    }

    /// The dataset's number, if `key` owns it.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] if the key does not see it, [`CatalogError::NotOwner`].
    pub(crate) async fn find_owned(
        &self,
        key: KeyId,
        which: DatasetRef,
    ) -> Result<DatasetId, CatalogError> {
        let grant = self.find_grant(key, which).await?.ok_or(CatalogError::NotFound)?;
        if grant.is_owner { Ok(grant.dataset) } else { Err(CatalogError::NotOwner) }
    }
}

/// Checks a dataset to be created; what is wrong with it.
fn check(new: &NewDataset) -> Result<(), String> {
    check_name("name", &new.name)?;
    check_text("description", &new.description)?;
    check_metadata(&new.metadata)?;
    if new.tags.len() > FIELDS_MAX {
        return Err(format!("a dataset has at most {FIELDS_MAX} tags"));
    }
    for tag in &new.tags {
        check_name("a tag", tag)?;
    }
    check_columns(&new.columns)
}

/// Checks the metadata a dataset is to have; what is wrong with them.
fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), String> {
    if metadata.len() > FIELDS_MAX {
        return Err(format!("a dataset has at most {FIELDS_MAX} metadata fields"));
    }
    for (field, value) in metadata {
        check_name("a metadata field", field)?;
        check_text("a metadata value", value)?;
    }
    Retention::from_metadata(metadata).map(drop)
}

/// Checks columns to be created; what is wrong with them.
pub(crate) fn check_columns(columns: &[(String, Dtype)]) -> Result<(), String> {
    if columns.len() > COLUMNS_MAX {
        return Err(format!("a dataset has at most {COLUMNS_MAX} columns"));
    }
    let mut dtypes: BTreeMap<&str, Dtype> = BTreeMap::new();
    for (name, dtype) in columns {
        check_name("a column's name", name)?;
        if name == TIMESTAMP {
            return Err(format!("a column cannot be called {TIMESTAMP}"));
        }
        if dtypes.insert(name, *dtype).is_some() {
            return Err(format!("there are two columns called {name}"));
        }
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(is_unprintable) {
        return Err(format!(
            "{what} must be 1 to {NAME_BYTES_MAX} bytes without control or invisible characters"
        ));
    }
    Ok(())
}

fn check_text(what: &str, text: &str) -> Result<(), String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("{what} must be at most {TEXT_BYTES_MAX} bytes"));
    }
    if text.chars().any(is_unprintable) {
        return Err(format!("{what} must have no control or invisible characters"));
    }
    Ok(())
}
