//! Values of the catalog: datasets, tags, their changes, and the rules for changes.

use std::collections::BTreeMap;

use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::key::KeyId;
use model::timestamp::Timestamp;

/// Maximum number of columns of a dataset, including deleted columns. It suffices for tables with a
/// column per day of a year or for some hundred meters.
pub const COLUMNS_MAX: usize = 1_024;

/// Reference to a dataset in a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DatasetRef {
    /// Selects the dataset with this id.
    Id(DatasetId),
    /// Selects the dataset with this name.
    Name(String),
}

/// A dataset to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDataset {
    /// Name of the dataset, unique per owner.
    pub name: String,
    /// Description for people, which can be empty.
    pub description: String,
    /// Free-form fields, such as `ticker` or `source`.
    pub metadata: BTreeMap<String, String>,
    /// Names and types of the columns.
    pub columns: Vec<(String, Dtype)>,
    /// Tags that grant read access.
    pub tags: Vec<String>,
    /// Key that owns the dataset and can write to it; `None` for the service itself.
    pub owner: Option<KeyId>,
}

impl NewDataset {
    /// Returns the dataset as it will be after its creation at `now`.
    pub(crate) fn dataset(&self, id: DatasetId, now: Timestamp) -> Dataset {
        Dataset {
            id,
            name: self.name.clone(),
            description: self.description.clone(),
            metadata: self.metadata.clone(),
            created_at: now,
            updated_at: now,
        }
    }
}

/// A tag, which grants access to datasets to the keys that hold the tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Name of the tag, unique per owner.
    pub name: String,
    /// True if the tag is public, so any key can acquire it.
    pub is_public: bool,
    /// Key that created the tag and may give it to other keys; `None` for the service itself.
    pub owner: Option<KeyId>,
    /// True if the key with which the tags were listed ([`TagFilter::KnownTo`]) holds the tag.
    pub is_held: bool,
}

/// Filter of a listing of datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All datasets that are visible to the key for which they are listed.
    All,
    /// Datasets with this text in their name or description, ignoring case, sorted by relevance.
    Text(String),
    /// Datasets with all of these metadata fields and values.
    Metadata(Vec<(String, String)>),
}

/// A page of a list of datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Total number of matches, or `None` if there are too many to count in time.
    pub count: Option<u64>,
    /// True if this is the last page.
    pub is_last: bool,
    /// Datasets of the page, in the order of the list. There are fewer than requested if their texts
    /// exceed [`PAGE_TEXT_BYTES_MAX`](crate::store::PAGE_TEXT_BYTES_MAX).
    pub datasets: Vec<Dataset>,
}

/// Change of name, description and metadata of a dataset. `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// New name of the dataset.
    pub name: Option<String>,
    /// New description of the dataset.
    pub description: Option<String>,
    /// Change of the metadata.
    pub metadata: MetadataChange,
}

/// A change of a dataset's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataChange {
    /// Sets fields, and removes fields that are given without a value. Other fields remain.
    Merge(BTreeMap<String, Option<String>>),
    /// Replaces all metadata fields.
    Replace(BTreeMap<String, String>),
}

impl Default for MetadataChange {
    fn default() -> Self {
        Self::Merge(BTreeMap::new())
    }
}

impl Change {
    /// Changes the name, the description and the metadata of `dataset`.
    pub fn apply(&self, dataset: &mut Dataset) {
        if let Some(name) = &self.name {
            dataset.name.clone_from(name);
        }
        if let Some(description) = &self.description {
            dataset.description.clone_from(description);
        }
        match &self.metadata {
            MetadataChange::Replace(metadata) => dataset.metadata.clone_from(metadata),
            MetadataChange::Merge(fields) => {
                for (field, value) in fields {
                    match value {
                        Some(value) => dataset.metadata.insert(field.clone(), value.clone()),
                        None => dataset.metadata.remove(field),
                    };
                }
            }
        }
    }
}

/// A change of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetChange {
    /// Changes the name, the description or the metadata.
    Description(Change),
    /// Changes a column.
    Column(ColumnChange),
    /// Adds columns, given by name and type, that do not exist yet.
    NewColumns(Vec<(String, Dtype)>),
}

/// A change of a column. Chunks contain the values of a deleted column until compaction rewrites them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnChange {
    /// Adds a column, given by name and type, after the existing columns.
    Add(String, Dtype),
    /// Renames a column.
    Rename {
        /// Current name of the column.
        name: String,
        /// New name of the column.
        new_name: String,
    },
    /// Deletes the column of this name.
    Delete(String),
}

impl ColumnChange {
    /// Returns the columns after the change, which is made at `created_at`.
    ///
    /// # Errors
    /// [`Refusal`] if a column is missing, a name is in use, or there are too many columns.
    pub(crate) fn apply(
        &self,
        dataset_id: DatasetId,
        columns: &[Column],
        created_at: Timestamp,
    ) -> Result<Vec<Column>, Refusal> {
        let position = |name: &str| {
            columns.iter().position(|column| !column.is_deleted() && column.name == name)
        };
        let unused = |name: &str| match position(name) {
            Some(_) => Err(Refusal::ColumnTaken),
            None => Ok(name.to_owned()),
        };
        let mut changed = columns.to_vec();
        let (old, new) = match self {
            Self::Add(name, dtype) => {
                let name = unused(name)?;
                if columns.len() >= COLUMNS_MAX {
                    return Err(Refusal::ColumnsFull);
                }
                changed.push(Column { id: 0, dataset_id, name, dtype: *dtype, created_at });
                return Ok(changed);
            }
            Self::Rename { name, new_name } => (name, new_name.as_str()),
            Self::Delete(name) => (name, ""),
        };
        let column = position(old).and_then(|idx| changed.get_mut(idx));
        let column = column.ok_or(Refusal::ColumnUnknown)?;
        column.name = unused(new)?;
        Ok(changed)
    }
}

/// Rejection of a change of the catalog. The catalog remains unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The owner already has another dataset with this name, or two of the new datasets have it.
    #[error("dataset name is already taken: {name}")]
    NameTaken {
        /// Name that is taken.
        name: String,
    },
    /// The dataset would be public, and another public dataset has its name.
    #[error("another public dataset is called {name}; choose another name")]
    PublicNameTaken {
        /// Name of both datasets.
        name: String,
    },
    /// The dataset has rows, and its stored buckets would be wrong after the change.
    #[error(
        "the stored buckets of the dataset would not match its columns after this change; only a dataset without rows can be changed in this way"
    )]
    Refolds,
    /// The column to rename or delete does not exist.
    #[error("column not found")]
    ColumnUnknown,
    /// Another column already has the new name.
    #[error("column name is already taken")]
    ColumnTaken,
    /// The dataset has the maximum number of columns.
    #[error("a dataset has at most {COLUMNS_MAX} columns, including deleted columns")]
    ColumnsFull,
    /// A row has a text or a timestamp that PostgreSQL cannot store.
    #[error("the database cannot store texts with a NUL character or times before 4713 BC")]
    Unstorable,
}

/// A change of a tag. A name refers to the public tag of that name if one exists, otherwise to the
/// owner's private tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// Attaches a tag to a dataset, so that keys that hold the tag can read it. The tag is created if
    /// the owner of the dataset has no tag of this name.
    Attach(DatasetId, String),
    /// Detaches a tag from a dataset.
    Detach(DatasetId, String),
    /// Gives a tag to a key.
    Give {
        /// Key that owns the tag; `None` for a public tag.
        owner: Option<KeyId>,
        /// Name of the tag.
        tag: String,
        /// Key that receives the tag.
        key: KeyId,
    },
    /// Revokes a tag from a key.
    Take {
        /// Key that owns the tag; `None` for all tags of this name.
        owner: Option<KeyId>,
        /// Name of the tag.
        tag: String,
        /// Key from which the tag is revoked.
        key: KeyId,
    },
}

/// Filter of a listing of tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagFilter {
    /// Tags that a key knows: public tags, its own tags, and tags that it holds.
    KnownTo(KeyId),
    /// Tags of a dataset.
    OfDataset(DatasetId),
}
