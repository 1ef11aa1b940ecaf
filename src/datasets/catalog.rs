//! Datasets, columns and tags: creation, lookup and access.
//!
//! Names are unique per owner, but not in the service. If they were, the rejection of a name would
//! reveal a dataset that the key cannot see. For a key, a name refers to its own dataset, or else to the
//! only visible dataset of this name. An id is always unambiguous.

pub(crate) mod change;
mod tags;

use std::collections::{BTreeMap, BTreeSet};

use model::dataset::{Dataset, Dtype, TIMESTAMP};
use model::key::KeyId;
use model::page::Limit;
use model::text::is_unprintable;
use tsdb::catalog::{COLUMNS_MAX, DatasetRef, Filter, Listed, NewDataset};
use tsdb::store::Sight;

use crate::Datasets;
use crate::error::{Invalid, OperationError, Result};
use crate::retention::Retention;

/// Maximum length in bytes of the name of a dataset, column, tag or metadata field. Column names are
/// repeated in every row.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// Maximum length in bytes of a description or metadata value, since every list of datasets contains
/// them.
pub(crate) const TEXT_BYTES_MAX: usize = 10_000;

/// Maximum length in bytes of the description and all metadata fields of a dataset together. A page of
/// datasets reads some hundred of them at once.
const TEXTS_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of metadata fields of a dataset, and maximum number of its tags.
pub(crate) const FIELDS_MAX: usize = 64;

/// Maximum number of datasets that a request can create. They are created in one transaction.
pub(crate) const CREATED_MAX: usize = 1000;

impl Datasets {
    /// Creates a dataset that `new.owner` owns.
    ///
    /// # Errors
    /// The same as for [`Self::create_all`].
    pub(crate) async fn create(&self, new: NewDataset) -> Result<Dataset> {
        let mut created = self.create_all(vec![new]).await?;
        #[expect(clippy::expect_used, reason = "each dataset of the request is returned")]
        Ok(created.pop().expect("a dataset was created"))
    }

    /// Creates either all of the datasets or none. Returns them in the same order.
    ///
    /// # Errors
    /// [`OperationError::Invalid`] if a limit of this module is exceeded, or
    /// [`OperationError::Refused`].
    pub(crate) async fn create_all(&self, new: Vec<NewDataset>) -> Result<Vec<Dataset>> {
        if new.len() > CREATED_MAX {
            let text = format!("at most {CREATED_MAX} datasets can be created in one request");
            return Err(Invalid::from(text).into());
        }
        new.iter().try_for_each(check)?;
        Ok(self.store.create(new, self.clock.now()).await?)
    }

    /// Lists the datasets that are visible to `key` and match `filter`: at most `limit` after the first
    /// `skip`.
    pub(crate) async fn list(
        &self,
        key: KeyId,
        filter: Filter,
        skip: u64,
        limit: Limit,
    ) -> Result<Listed> {
        Ok(self.read_store(move |store| store.list(key, &filter, skip, limit.get())).await?)
    }

    /// Returns the dataset as it is visible to `key`.
    ///
    /// # Errors
    /// [`OperationError::NotFound`] if the dataset is not visible.
    pub(crate) async fn sight(&self, key: KeyId, which: DatasetRef) -> Result<Sight> {
        self.find_sight(key, which).await?.ok_or(OperationError::NotFound)
    }

    /// Returns the dataset as it is visible to `key`, or `None` if it is not visible.
    pub(crate) async fn find_sight(&self, key: KeyId, which: DatasetRef) -> Result<Option<Sight>> {
        Ok(self.read_store(move |store| store.sight(Some(key), &which)).await?)
    }

    /// Returns the dataset, if `key` owns it.
    ///
    /// # Errors
    /// [`OperationError::NotFound`] if the dataset is not visible to `key`, or
    /// [`OperationError::NOT_OWNER`].
    pub(crate) async fn find_owned(&self, key: KeyId, which: DatasetRef) -> Result<Dataset> {
        let sight = self.sight(key, which).await?;
        if sight.is_owner { Ok(sight.dataset) } else { Err(OperationError::NOT_OWNER) }
    }
}

/// Checks the values of a dataset that is to be created.
fn check(new: &NewDataset) -> Result<(), Invalid> {
    check_name("name", &new.name)?;
    check_texts(&new.description, &new.metadata)?;
    if new.tags.len() > FIELDS_MAX {
        return Err(format!("a dataset has at most {FIELDS_MAX} tags").into());
    }
    for tag in &new.tags {
        check_name("a tag", tag)?;
    }
    check_columns(&new.columns)
}

/// Checks the description, the number, names and values of metadata fields, and the retention that they
/// specify.
fn check_texts(description: &str, metadata: &BTreeMap<String, String>) -> Result<(), Invalid> {
    check_text("description", description)?;
    let n_bytes = metadata.iter().map(|(field, value)| field.len() + value.len()).sum::<usize>();
    if description.len() + n_bytes > TEXTS_BYTES_MAX {
        let text = "description and metadata together must be at most";
        return Err(format!("{text} {TEXTS_BYTES_MAX} bytes").into());
    }
    if metadata.len() > FIELDS_MAX {
        return Err(format!("a dataset has at most {FIELDS_MAX} metadata fields").into());
    }
    for (field, value) in metadata {
        check_name("a metadata field", field)?;
        check_text("a metadata value", value)?;
    }
    Retention::from_metadata(metadata)?;
    Ok(())
}

/// Checks the number and names of the columns that a request creates.
pub(crate) fn check_columns(columns: &[(String, Dtype)]) -> Result<(), Invalid> {
    if columns.len() > COLUMNS_MAX {
        return Err(format!("a dataset has at most {COLUMNS_MAX} columns").into());
    }
    let mut names = BTreeSet::new();
    for (name, _) in columns {
        check_name("a column's name", name)?;
        if name == TIMESTAMP {
            return Err(format!("a column cannot be called {TIMESTAMP}").into());
        }
        if !names.insert(name) {
            return Err(format!("there are two columns called {name}").into());
        }
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<(), Invalid> {
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(is_unprintable) {
        return Err(format!(
            "{what} must be 1 to {NAME_BYTES_MAX} bytes without control or invisible characters"
        )
        .into());
    }
    Ok(())
}

fn check_text(what: &str, text: &str) -> Result<(), Invalid> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("{what} must be at most {TEXT_BYTES_MAX} bytes").into());
    }
    if text.chars().any(is_unprintable) {
        return Err(format!("{what} must have no control or invisible characters").into());
    }
    Ok(())
}
