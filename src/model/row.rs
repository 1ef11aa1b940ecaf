//! Rows and buckets: what a dataset holds at a moment, and what an interval folds into.

use crate::timestamp::Timestamp;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of a column of floats.
    Float(f64),
    /// Of a column of integers.
    Integer(i64),
    /// Of a column of strings.
    String(String),
    /// Of a column of booleans.
    Boolean(bool),
}

/// One row: a moment, and a value for each column of the dataset in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// When. A dataset has at most one row at a moment.
    pub timestamp: Timestamp,
    /// One place for each column; none where the row has no value.
    pub values: Vec<Option<Value>>,
}

/// What the rows of an interval fold into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// The start of the interval.
    pub timestamp: Timestamp,
    /// The first value, or the first row's `open`.
    pub open: f64,
    /// The highest.
    pub high: f64,
    /// The lowest.
    pub low: f64,
    /// The last.
    pub close: f64,
    /// The sum of the volumes.
    pub volume: f64,
    /// How many rows.
    pub count: u64,
}

impl Value {
    /// The value as a number, where it is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(*number),
            #[expect(clippy::cast_precision_loss, reason = "a chart or a bucket needs no more")]
            Self::Integer(number) => Some(*number as f64),
            Self::String(_) | Self::Boolean(_) => None,
        }
    }
}
