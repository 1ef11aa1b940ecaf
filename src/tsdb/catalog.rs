//! The catalog's values: datasets to be created and changed, tags, and what a key may do.

use std::collections::BTreeMap;

use model::{
    dataset::{Dataset, DatasetId, Dtype},
    key::KeyId,
};

/// Columns of a dataset at most: a row is still read in one go.
pub const COLUMNS_MAX: usize = 256;

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
}

/// What a key may do with a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The dataset it is for.
    pub dataset: DatasetId,
    /// Whether the key owns it, and so may write it.
    pub is_owner: bool,
    /// The tags that the key and the dataset share, in alphabetical order.
    pub matching_tags: Vec<String>,
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

/// A change of one column of a dataset.
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

/// A change of a tag. A name means a public tag, else the private one of the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// Lets the holders of a tag read a dataset. The tag is created if its owner, who is the
    /// dataset's, has none.
    Attach(DatasetId, String),
    /// Takes a tag from a dataset.
    Detach(DatasetId, String),
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
    /// Every tag of the store.
    All,
    /// Those that a key knows: public ones, its own, and those it holds.
    KnownTo(KeyId),
    /// Those of a dataset.
    OfDataset(DatasetId),
}
