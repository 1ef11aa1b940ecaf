//! The catalog's values: datasets to be created and changed, tags, and what a key may do.

use std::collections::BTreeMap;

use model::{
    dataset::{Column, Dataset, DatasetId, Dtype},
    key::KeyId,
    timestamp::Timestamp,
};

/// Columns of a dataset at most, with the deleted ones: tables of a year of days or of some hundred
/// meters have fewer, and a row is still read in one go.
pub const COLUMNS_MAX: usize = 1_024;

/// The metadata field that names the column to be folded where there is no `open` to `close`.
pub const VALUE_COLUMN: &str = "value_column";

/// How a request names a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DatasetRef {
    /// By its number.
    Id(DatasetId),
    /// By its name.
    Name(String),
}

/// A dataset to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDataset {
    /// Its name, unique among its owner's.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Free-form fields, such as `ticker` or `source`.
    pub metadata: BTreeMap<String, String>,
    /// Its columns' names and types.
    pub columns: Vec<(String, Dtype)>,
    /// Tags whose holders may read it.
    pub tags: Vec<String>,
    /// The key that may write it; none for the service itself.
    pub owner: Option<KeyId>,
}

/// A tag, which grants its holders access to datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Unique among its owner's.
    pub name: String,
    /// Whether any key may acquire it.
    pub is_public: bool,
    /// The key that first put it on a dataset, which may give it to others; none for the service's.
    pub owner: Option<KeyId>,
    /// Whether the key that [`TagFilter::KnownTo`] names holds it.
    pub is_held: bool,
}

/// Which datasets of a listing are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All datasets that the key sees.
    All,
    /// Those whose name or description holds this text, in any case; the best match first.
    Text(String),
    /// Those with all of these metadata fields at these values.
    Metadata(Vec<(String, String)>),
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// How many match in all; none if they are too many to be counted in time.
    pub count: Option<u64>,
    /// Whether none comes after this page.
    pub is_last: bool,
    /// The datasets of this page, in the order of the listing.
    pub datasets: Vec<Dataset>,
}

/// A change of a dataset; `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Its new name.
    pub name: Option<String>,
    /// Its new description.
    pub description: Option<String>,
    /// How its metadata change.
    pub metadata: MetadataChange,
}

/// A change of a dataset's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataChange {
    /// These fields get these values, or go where there is none; the others stay.
    Merge(BTreeMap<String, Option<String>>),
    /// These are all there are.
    Replace(BTreeMap<String, String>),
}

impl Default for MetadataChange {
    fn default() -> Self {
        Self::Merge(BTreeMap::new())
    }
}

impl Change {
    /// Applies the change to `dataset`.
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
    /// Changes what it is called and described by.
    Description(Change),
    /// Changes a column.
    Column(ColumnChange),
    /// Adds columns, by their names and types, where it has none of these names yet.
    NewColumns(Vec<(String, Dtype)>),
}

/// A change of one column of a dataset. Rows keep their values in a deleted column until their chunks
/// are packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnChange {
    /// Adds a column after the others, by its name and type.
    Add(String, Dtype),
    /// Gives a column another name.
    Rename {
        /// The name it has.
        name: String,
        /// The name it gets.
        new_name: String,
    },
    /// Deletes the column of this name.
    Delete(String),
}

impl ColumnChange {
    /// The columns as they are after the change at `now`.
    ///
    /// # Errors
    /// [`Refusal`] unless the names allow it.
    pub(crate) fn apply(
        &self,
        dataset_id: DatasetId,
        columns: &[Column],
        created_at: Timestamp,
    ) -> Result<Vec<Column>, Refusal> {
        let place =
            |name: &str| columns.iter().position(|one| !one.is_deleted() && one.name == name);
        let free = |name: &str| match place(name) {
            Some(_) => Err(Refusal::ColumnTaken),
            None => Ok(name.to_owned()),
        };
        let mut changed = columns.to_vec();
        let (old, new) = match self {
            Self::Add(name, dtype) => {
                let name = free(name)?;
                if columns.len() >= COLUMNS_MAX {
                    return Err(Refusal::ColumnsFull);
                }
                changed.push(Column { id: 0, dataset_id, name, dtype: *dtype, created_at });
                return Ok(changed);
            }
            Self::Rename { name, new_name } => (name, new_name.as_str()),
            Self::Delete(name) => (name, ""),
        };
        let column = place(old).and_then(|idx| changed.get_mut(idx));
        column.ok_or(Refusal::ColumnUnknown)?.name = free(new)?;
        Ok(changed)
    }
}

/// Why a change of the catalog is refused; then nothing is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The owner has another dataset of this name, or is to get two.
    #[error("dataset name is already taken: {name}")]
    NameTaken {
        /// The name in use.
        name: String,
    },
    /// The store has a dataset of this number, or still removes the rows of a deleted one.
    #[error("dataset number is already taken: {dataset}")]
    NumberTaken {
        /// The number in use.
        dataset: DatasetId,
    },
    /// The dataset has rows, whose buckets would be made of other columns.
    #[error("the dataset has rows, and its buckets would be made of other columns")]
    Refolds,
    /// The dataset has no column of this name.
    #[error("column not found")]
    ColumnUnknown,
    /// The dataset has a column of the new name.
    #[error("column name is already taken")]
    ColumnTaken,
    /// The dataset has the maximum number of columns.
    #[error(
        "a dataset has at most {COLUMNS_MAX} columns, with the deleted ones, which keep their places"
    )]
    ColumnsFull,
    /// A row has a text or a timestamp that the database of the store cannot hold.
    #[error("the store keeps no text with a zero character, and no time before 4713 BC")]
    Unstorable,
}

/// A change of a tag. A name means a public tag, else the private one of the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// Lets the holders of a tag read a dataset. The tag is created if its owner, who is the
    /// dataset's, has none.
    Attach(DatasetId, String),
    /// Takes a tag from a dataset.
    Detach(DatasetId, String),
    /// Gives a public tag to a key.
    Acquire {
        /// The tag's name.
        tag: String,
        /// The key that is to hold it.
        key: KeyId,
    },
    /// Gives an owner's tag to a key.
    Give {
        /// The key that uses the tag for its datasets.
        owner: KeyId,
        /// The owner's name for it.
        tag: String,
        /// The key that is to hold it.
        key: KeyId,
    },
    /// Takes an owner's tag from a key.
    Take {
        /// The key that uses the tag for its datasets.
        owner: KeyId,
        /// The owner's name for it.
        tag: String,
        /// The key that holds it.
        key: KeyId,
    },
}

/// Which tags are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagFilter {
    /// Those that a key knows: public ones, its own, and those it holds.
    KnownTo(KeyId),
    /// Those of a dataset.
    OfDataset(DatasetId),
}
