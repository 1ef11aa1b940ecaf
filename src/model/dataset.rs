//! Datasets and their columns.

use std::collections::BTreeMap;

use crate::{
    parse::{ParseError, positive_number},
    timestamp::Timestamp,
};

/// The tag that any key may acquire by itself, by document 2.
pub const PUBLIC_TAG: &str = "public";

/// The columns of a dataset whose rows are bars, as document 2 calls them: buckets are made of them.
pub const BAR_COLUMNS: [&str; 5] = ["open", "high", "low", "close", "volume"];

/// The name of the member of a flat row that says when. No column may have it.
pub const TIMESTAMP: &str = "timestamp";

/// A dataset's number. Positive, and never used again after the dataset is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct DatasetId(i64);

/// What a column's values are.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumString,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = ParseError, parse_err_fn = no_dtype)]
pub enum Dtype {
    /// A 64-bit floating point number.
    Float,
    /// A 64-bit whole number.
    Integer,
    /// Text in UTF-8.
    String,
    /// True or false.
    Boolean,
}

/// A dataset, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// The dataset's number.
    pub id: DatasetId,
    /// Its name, unique in a service.
    pub name: String,
    /// What it is, for people.
    pub description: String,
    /// Free-form facts, such as `ticker` or `source`.
    pub metadata: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it, or its newest row, last changed.
    pub updated_at: Timestamp,
}

/// A column of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its number, unique in a service.
    pub id: i64,
    /// The dataset it belongs to.
    pub dataset_id: DatasetId,
    /// Its name, unique in its dataset. Empty for a deleted column, which keeps its place.
    pub name: String,
    /// What its values are.
    pub dtype: Dtype,
    /// When it was created.
    pub created_at: Timestamp,
}

fn no_dtype(text: &str) -> ParseError {
    ParseError::new(text, "a column type, which is float, integer, string or boolean")
}

impl DatasetId {
    /// The first dataset of a service.
    pub const FIRST: Self = Self(1);
}

positive_number!(DatasetId(i64), "a dataset number");

impl Column {
    /// Whether it was deleted: no reader sees it, and no writer fills it.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.name.is_empty()
    }
}

#[cfg(test)]
mod tests;
