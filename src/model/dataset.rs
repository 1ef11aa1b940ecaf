//! Datasets and their columns.

use std::collections::BTreeMap;

use crate::parse::{ParseError, positive_number};
use crate::timestamp::Timestamp;

/// Tag that any key can acquire, as in the upstream dataset service.
pub const PUBLIC_TAG: &str = "public";

/// Columns from which the buckets of a dataset of bars are computed, as in the upstream dataset service.
pub const BAR_COLUMNS: [&str; 5] = ["open", "high", "low", "close", "volume"];

/// Metadata field with the name of the column from which buckets are computed, for datasets without the
/// columns `open`, `high`, `low` and `close`.
pub const VALUE_COLUMN: &str = "value_column";

/// Names of columns with the value of a row, in lower case, the most likely first.
const VALUE_NAMES: [&str; 5] = ["close", "price", "value", "_value", "last"];

/// Names of columns of numbers that are not the value of a row, in lower case.
const OTHER_NAMES: [&str; 5] = ["volume", "latitude", "longitude", "lat", "lon"];

/// Name of the timestamp when a row is a flat JSON object. No column can have this name.
pub const TIMESTAMP: &str = "timestamp";

/// Id of a dataset, a positive number that is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct DatasetId(i64);

/// Type of a column's values.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumString,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = ParseError, parse_err_fn = no_dtype)]
pub enum Dtype {
    /// A 64-bit floating point number.
    Float,
    /// A 64-bit integer.
    Integer,
    /// Text in UTF-8.
    String,
    /// True or false.
    Boolean,
}

/// Parses the name of a column and its type, such as `trades:integer`. Without a type, it is `float`.
///
/// # Errors
/// If the name is empty or the type is unknown.
pub fn parse_column(text: &str) -> Result<(String, Dtype), String> {
    let (name, dtype) = text.rsplit_once(':').unwrap_or((text, "float"));
    let dtype = dtype.parse().map_err(|error: ParseError| error.to_string())?;
    if name.is_empty() {
        return Err("the name of the column is empty".to_owned());
    }
    Ok((name.to_owned(), dtype))
}

/// Description of a dataset, as a service lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Id of the dataset.
    pub id: DatasetId,
    /// Name, unique among the datasets of its owner.
    pub name: String,
    /// Description for people, which can be empty.
    pub description: String,
    /// User-defined fields, such as `ticker` or `source`.
    pub metadata: BTreeMap<String, String>,
    /// Time at which the dataset was created.
    pub created_at: Timestamp,
    /// Time of the last change to the dataset, a column or a row. Adding columns and pruning rows do not
    /// count.
    pub updated_at: Timestamp,
}

/// A column of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Id of the column, unique in a service.
    pub id: i64,
    /// Id of its dataset.
    pub dataset_id: DatasetId,
    /// Name, unique in its dataset. Empty for a deleted column, which still occupies its position.
    pub name: String,
    /// Type of its values.
    pub dtype: Dtype,
    /// Time at which the column was created.
    pub created_at: Timestamp,
}

fn no_dtype(text: &str) -> ParseError {
    ParseError::new(text, "a column type (float, integer, string or boolean)")
}

impl DatasetId {
    /// Id of the first dataset of a service.
    pub const FIRST: Self = Self(1);
}

positive_number!(DatasetId(i64), "a dataset id");

/// Returns the column from which the buckets of a new dataset should be computed. Returns `None` for the
/// columns of bars, and if there is no float column.
#[must_use]
pub fn likely_value_column(columns: &[(String, Dtype)]) -> Option<&str> {
    let named = |wanted: &str| {
        let is_it = |(name, dtype): &&(String, Dtype)| {
            name.eq_ignore_ascii_case(wanted) && matches!(dtype, Dtype::Float | Dtype::Integer)
        };
        columns.iter().find(is_it).map(|(name, _)| name.as_str())
    };
    let [prices @ .., _volume] = BAR_COLUMNS;
    if prices.into_iter().all(|name| named(name) == Some(name)) {
        return None;
    }
    let mut floats = columns.iter().filter(|(_, dtype)| *dtype == Dtype::Float);
    let is_value = |(name, _): &&(String, Dtype)| {
        !OTHER_NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    let first = floats.clone().next();
    let float = floats.find(is_value).or(first).map(|(name, _)| name.as_str());
    VALUE_NAMES.into_iter().find_map(named).or(float)
}

impl Column {
    /// Returns true if the column was deleted. A deleted column is neither read nor written.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dataset_id_that_is_not_positive_is_rejected() {
        assert_eq!("3".parse(), Ok(DatasetId(3)));
        for text in ["0", "-1", "", "x", "9223372036854775808"] {
            assert!(text.parse::<DatasetId>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_column_types_round_trip() {
        for dtype in [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean] {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        assert!("double".parse::<Dtype>().is_err());
    }
}
