//! Datasets, columns and tags: creating them, finding them, and who may see them.

use std::collections::BTreeMap;

use accounts::KeyId;
use model::{
    dataset::{Column, Dataset, DatasetId, Dtype},
    page::Limit,
};

use crate::{
    Datasets,
    query::DatasetRef,
    render::TIMESTAMP,
    store::{Acquired, Created, Store, StoreError},
};

/// The longest name of a dataset, column, tag or metadata field, in bytes. Names are in every row.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// The longest description or metadata value, in bytes. They are in every listing.
pub(crate) const TEXT_BYTES_MAX: usize = 10_000;

/// Columns of a dataset at most: a row is still read in one go.
pub(crate) const COLUMNS_MAX: usize = 256;

/// Metadata fields, and tags, of a dataset at most.
pub(crate) const FIELDS_MAX: usize = 64;

/// A dataset to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewDataset {
    /// Its name, unique in the store.
    pub(crate) name: String,
    /// What it is.
    pub(crate) description: String,
    /// Free-form facts.
    pub(crate) metadata: BTreeMap<String, String>,
    /// Its columns' names and types.
    pub(crate) columns: Vec<(String, Dtype)>,
    /// Tags whose holders may read it.
    pub(crate) tags: Vec<String>,
    /// The key that may write it; none for the service itself.
    pub(crate) owner: Option<KeyId>,
}

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Its name.
    pub(crate) name: String,
    /// Whether any key may acquire it.
    pub(crate) is_public: bool,
}

/// What a key may do with a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Which dataset.
    pub(crate) dataset: DatasetId,
    /// Whether the key owns it, and so may write it.
    pub(crate) is_owner: bool,
    /// The tags that the key and the dataset share, in alphabetical order.
    pub(crate) matching_tags: Vec<String>,
}

/// Which datasets of a listing are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Every one.
    All,
    /// Those whose name or description holds this text, in any case; the best match first.
    Text(String),
    /// Those with this metadata field at this value.
    Metadata(String, String),
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// How many match in all.
    pub(crate) count: u64,
    /// This page.
    pub(crate) datasets: Vec<Dataset>,
}

/// Why an operation on the catalogue was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CatalogError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// The key may read the dataset and no more.
    #[error("only the owner of the dataset may do that")]
    NotOwner,
    /// Something is too long, empty, doubled or too many.
    #[error("{what}")]
    Unfit {
        /// What, and how it should be.
        what: String,
    },
    /// Another dataset has the name.
    #[error("dataset name is already taken")]
    NameTaken,
    /// The key holds the tag.
    #[error("tag already acquired")]
    TagHeld,
    /// The tag is given, not taken.
    #[error("tag cannot be acquired; only public tags can")]
    TagPrivate,
    /// There is no such tag.
    #[error("tag not found")]
    TagUnknown,
    /// The store failed.
    #[error("use the catalogue")]
    Store(#[from] StoreError),
}

impl Datasets {
    /// Creates a dataset that `new.owner` owns.
    ///
    /// # Errors
    /// [`CatalogError::Unfit`] by the limits above, [`CatalogError::NameTaken`].
    pub(crate) async fn create(&self, new: NewDataset) -> Result<Dataset, CatalogError> {
        check(&new).map_err(|what| CatalogError::Unfit { what })?;
        match self.store.create(new, self.clock.now()).await? {
            Created::New(dataset) => Ok(dataset),
            Created::NameTaken => Err(CatalogError::NameTaken),
        }
    }

    /// Gives `key` the public tag `tag`.
    ///
    /// # Errors
    /// [`CatalogError::TagHeld`], [`CatalogError::TagPrivate`] or [`CatalogError::TagUnknown`].
    pub(crate) async fn acquire(&self, key: KeyId, tag: &str) -> Result<(), CatalogError> {
        // Clients acquire at every start: only the first time is there anything to write.
        let name = tag.to_owned();
        let mut acquired = self.blocking(move |store| store.acquirable(key, &name)).await?;
        if acquired == Acquired::New {
            acquired = self.store.acquire(key, tag.to_owned()).await?;
        }
        match acquired {
            Acquired::New => Ok(()),
            Acquired::Held => Err(CatalogError::TagHeld),
            Acquired::Private => Err(CatalogError::TagPrivate),
            Acquired::Unknown => Err(CatalogError::TagUnknown),
        }
    }

    /// All tags, in alphabetical order.
    pub(crate) async fn tags(&self) -> Result<Vec<Tag>, CatalogError> {
        Ok(self.blocking(Store::tags).await?)
    }

    /// The datasets that `key` sees and `filter` takes: at most `limit`, after the first `skip`.
    pub(crate) async fn list(
        &self,
        key: KeyId,
        filter: Filter,
        skip: u64,
        limit: Limit,
    ) -> Result<Listed, CatalogError> {
        Ok(self.blocking(move |store| store.list(key, &filter, skip, limit.get())).await?)
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
        let found = self.blocking(move |store| match store.grant(key, &which)? {
            Some(_) => store.dataset(&which),
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
        let found = self.blocking(move |store| match store.grant(key, &which)? {
            Some(grant) => store.columns(grant.dataset).map(Some),
            None => Ok(None),
        });
        found.await?.ok_or(CatalogError::NotFound)
    }

    /// The tags of a dataset, in alphabetical order.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] if `key` does not see it.
    pub(crate) async fn dataset_tags(
        &self,
        key: KeyId,
        dataset: DatasetId,
    ) -> Result<Vec<Tag>, CatalogError> {
        let found =
            self.blocking(move |store| match store.grant(key, &DatasetRef::Id(dataset))? {
                Some(grant) => store.dataset_tags(grant.dataset).map(Some),
                None => Ok(None),
            });
        found.await?.ok_or(CatalogError::NotFound)
    }

    /// Lets the holders of `tag` read the dataset; whether they could not before.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`], [`CatalogError::NotOwner`] or [`CatalogError::Unfit`].
    pub(crate) async fn add_tag(
        &self,
        key: KeyId,
        dataset: DatasetId,
        tag: &str,
    ) -> Result<bool, CatalogError> {
        check_name("tag_name", tag).map_err(|what| CatalogError::Unfit { what })?;
        let grant = self.grant(key, DatasetRef::Id(dataset)).await?;
        if !grant.ok_or(CatalogError::NotFound)?.is_owner {
            return Err(CatalogError::NotOwner);
        }
        let n_tags = self.blocking(move |store| store.dataset_tags(dataset)).await?.len();
        if n_tags >= FIELDS_MAX {
            let what = format!("a dataset has at most {FIELDS_MAX} tags");
            return Err(CatalogError::Unfit { what });
        }
        Ok(self.store.add_tag(dataset, tag.to_owned()).await?)
    }

    /// What `key` may do with the dataset; none if it does not see it.
    pub(crate) async fn grant(
        &self,
        key: KeyId,
        which: DatasetRef,
    ) -> Result<Option<Grant>, CatalogError> {
        Ok(self.blocking(move |store| store.grant(key, &which)).await?)
    }
}

/// Checks a dataset to be created; what is wrong with it.
fn check(new: &NewDataset) -> Result<(), String> {
    check_name("name", &new.name)?;
    check_text("description", &new.description)?;
    if new.metadata.len() > FIELDS_MAX || new.tags.len() > FIELDS_MAX {
        return Err(format!("a dataset has at most {FIELDS_MAX} metadata fields and tags"));
    }
    for (field, value) in &new.metadata {
        check_name("a metadata field", field)?;
        check_text("a metadata value", value)?;
    }
    for tag in &new.tags {
        check_name("a tag", tag)?;
    }
    check_columns(&new.columns)
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
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "{what} must be 1 to {NAME_BYTES_MAX} bytes without control characters"
        ));
    }
    Ok(())
}

fn check_text(what: &str, text: &str) -> Result<(), String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("{what} must be at most {TEXT_BYTES_MAX} bytes"));
    }
    Ok(())
}
