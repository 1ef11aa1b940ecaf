//! The charted value of a row: its prices if it is a bar, otherwise its main value.
//!
//! The same rule as the service's own buckets, so that a bucket folded here from live rows is the
//! one that the service answers with later.

use std::collections::BTreeMap;

use model::{
    dataset::{Column, Dtype},
    row::{Bucket, Value},
};

use crate::event::NamedRow;

/// The metadata field that names the column to be charted where there is no `open` to `close`.
const VALUE_COLUMN: &str = "value_column";

/// The columns of a bar.
const PRICES: [&str; 4] = ["open", "high", "low", "close"];

/// The column of the amounts below a chart.
const VOLUME: &str = "volume";

/// Which of a dataset's columns are charted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `open`, `high`, `low` and `close`: rows are bars.
    Bars,
    /// This one column.
    Value(String),
    /// None is a number.
    Nothing,
}

impl Shape {
    /// The shape of a dataset with these facts and columns: of several numbers the first float, else
    /// the first integer.
    pub(crate) fn from_columns(metadata: &BTreeMap<String, String>, columns: &[Column]) -> Self {
        let first = first_of(columns, Dtype::Float).or_else(|| first_of(columns, Dtype::Integer));
        Self::choose(metadata, has_number(columns), first.map(|column| &column.name))
    }

    /// True if a service keeps buckets of a dataset with these facts and columns. It does so by the same
    /// rule, except that it never chooses a column of integers by itself.
    pub(crate) fn has_buckets(metadata: &BTreeMap<String, String>, columns: &[Column]) -> bool {
        let first = first_of(columns, Dtype::Float).map(|column| &column.name);
        Self::choose(metadata, has_number(columns), first) != Self::Nothing
    }

    /// The shape that a row of a dataset with these facts suggests, as long as its columns are not
    /// known: without them the first is not, so it is the first by name.
    pub(crate) fn guess(metadata: &BTreeMap<String, String>, row: &NamedRow) -> Self {
        let has = |name: &str| number(row, name).is_some();
        // A float that is a whole number reads as an integer.
        let first = row.values.iter().find(|(_, value)| value.as_f64().is_some());
        Self::choose(metadata, has, first.map(|(name, _)| name))
    }

    /// Bars where a dataset `has` all prices, else the column that its metadata names, else `first`.
    fn choose(
        metadata: &BTreeMap<String, String>,
        has: impl Fn(&str) -> bool,
        first: Option<&String>,
    ) -> Self {
        if PRICES.into_iter().all(&has) {
            return Self::Bars;
        }
        let named = metadata.get(VALUE_COLUMN).filter(|name| has(name));
        named.or(first).cloned().map_or(Self::Nothing, Self::Value)
    }

    /// The row as a candle of its own; none if it has no number to chart.
    pub(crate) fn sample(&self, row: &NamedRow) -> Option<Bucket> {
        let (open, high, low, close) = match self {
            Self::Nothing => return None,
            Self::Value(column) => {
                let value = number(row, column)?;
                (value, value, value, value)
            }
            Self::Bars => {
                let [open, high, low, close] = PRICES.map(|name| number(row, name));
                let open_or = open.or(close).or(high).or(low)?;
                let close_or = close.unwrap_or(open_or);
                let highest = high.unwrap_or_else(|| open_or.max(close_or));
                let lowest = low.unwrap_or_else(|| open_or.min(close_or));
                (open_or, highest, lowest, close_or)
            }
        };
        let volume = match self {
            Self::Value(column) if column == VOLUME => None,
            _ => number(row, VOLUME),
        };
        let volume = volume.unwrap_or(0.0);
        Some(Bucket { timestamp: row.timestamp, open, high, low, close, volume, count: 1 })
    }

    /// The column that a single number of a row is taken from.
    pub(crate) fn value_column(&self) -> Option<&str> {
        match self {
            Self::Bars => Some("close"),
            Self::Value(column) => Some(column),
            Self::Nothing => None,
        }
    }
}

/// The first column of this type that was not deleted.
fn first_of(columns: &[Column], dtype: Dtype) -> Option<&Column> {
    columns.iter().find(|column| column.dtype == dtype && !column.name.is_empty())
}

/// Returns a test for names of columns of numbers.
fn has_number(columns: &[Column]) -> impl Fn(&str) -> bool {
    let is_number = |column: &&Column| matches!(column.dtype, Dtype::Float | Dtype::Integer);
    move |name| columns.iter().filter(is_number).any(|column| column.name == name)
}

/// The number in column `name`, if there is one.
fn number(row: &NamedRow, name: &str) -> Option<f64> {
    row.values.get(name).and_then(Value::as_f64)
}
