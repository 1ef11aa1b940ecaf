//! Rows and buckets of a dataset.

use crate::dataset::Dtype;
use crate::parse::ParseError;
use crate::resolution::Zone;
use crate::timestamp::Timestamp;

/// Earliest timestamp that a row can have: the first timestamp with a four-digit year.
pub const EARLIEST: Timestamp = Timestamp::from_seconds(-62_167_219_200);

/// First timestamp that is too late for a row. [`Timestamp::MAX`] is a day later, so a query up to the
/// end of the year 9999 is in range.
pub const TOO_LATE: Timestamp = Timestamp::from_seconds(253_402_128_000);

/// Description of what is wrong with a row at [`TOO_LATE`] or later.
pub const TOO_LATE_REASON: &str = "must not be after 9999-12-29";

/// Maximum length of a text value, in bytes.
pub const VALUE_BYTES_MAX: usize = 10_000;

/// Maximum total length of a row's texts, in bytes.
pub const ROW_TEXT_BYTES_MAX: usize = 16 * 1024;

/// Description of what is wrong with a row whose texts exceed [`ROW_TEXT_BYTES_MAX`].
pub const ROW_TEXT_REASON: &str = "all texts of a row must be at most 16384 bytes";

/// A value of a row.
#[derive(Debug, Clone, PartialEq, derive_more::Display)]
pub enum Value {
    /// Value of a float column.
    #[display("{}", float_text(*_0))]
    Float(f64),
    /// Value of an integer column.
    Integer(i64),
    /// Value of a string column.
    String(String),
    /// Value of a boolean column.
    Boolean(bool),
}

/// A row: a timestamp, and a value for each column of the dataset in the order of the columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Timestamp, unique within a dataset.
    pub timestamp: Timestamp,
    /// One entry per column. `None` if the row has no value.
    pub values: Vec<Option<Value>>,
}

/// Summary of the rows in an interval: from the values of a single column, or from bars with their own
/// `open`, `high`, `low` and `close`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Start of the interval.
    pub timestamp: Timestamp,
    /// First value, or `open` of the first bar. All prices are NaN in a bucket of [`Fill::Null`].
    pub open: f64,
    /// Highest value, or highest `high` of the bars.
    pub high: f64,
    /// Lowest value, or lowest `low` of the bars.
    pub low: f64,
    /// Last value, or `close` of the last bar.
    pub close: f64,
    /// Sum of the volumes of the rows with a price.
    pub volume: f64,
    /// Number of rows with a price.
    pub count: u64,
}

/// Content of the buckets that a read inserts into gaps between stored buckets. Inserted buckets have
/// no volume and a count of 0.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    strum::Display,
    strum::EnumString,
    strum::VariantNames,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = ParseError, parse_err_fn = no_fill)]
pub enum Fill {
    /// Leaves out buckets without rows.
    #[default]
    None,
    /// Buckets without prices.
    Null,
    /// All prices are the previous close.
    Previous,
    /// All prices are on the line between the closes before and after the gap.
    Linear,
}

fn no_fill(text: &str) -> ParseError {
    ParseError::new(text, "a way to fill gaps (none, null, previous or linear)")
}

/// Optional additions to stored buckets that a read can request. The default requests none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BucketExtras {
    /// Buckets in gaps.
    pub fill: Fill,
    /// True to add the field [`COMPLETE`] to each bucket.
    pub complete: bool,
    /// Time zone in which buckets of whole days begin at midnight; `None` for UTC.
    pub time_zone: Option<Zone>,
}

/// Name of the field that is true if a bucket has ended.
pub const COMPLETE: &str = "complete";

/// Formats a finite float as Go does in JSON: with an exponent below 1e-6 and from 1e21 on.
#[must_use]
pub fn float_text(number: f64) -> String {
    match number.abs() {
        1e21.. => format!("{number:e}").replace('e', "e+"),
        size if size > 0.0 && size < 1e-6 => format!("{number:e}"),
        _ => number.to_string(),
    }
}

impl Bucket {
    /// Returns true if the close is below the open.
    #[must_use]
    pub fn is_falling(&self) -> bool {
        self.close < self.open
    }
}

impl Value {
    /// Returns the value as a number, if it is numeric.
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

/// Validates a row of a dataset with these columns.
///
/// # Errors
/// A description of what is wrong.
pub fn check_row<'a>(
    columns: impl ExactSizeIterator<Item = (&'a str, Dtype)>,
    row: &Row,
) -> Result<(), String> {
    if row.timestamp < EARLIEST {
        return Err("timestamp is before the year 0".to_owned());
    }
    if row.timestamp >= TOO_LATE {
        return Err(format!("timestamp {TOO_LATE_REASON}"));
    }
    if row.values.len() != columns.len() {
        return Err(format!("{} values for {} columns", row.values.len(), columns.len()));
    }
    for ((name, dtype), value) in columns.zip(&row.values) {
        let fits = match (dtype, value) {
            (_, None)
            | (Dtype::Float | Dtype::Integer, Some(Value::Integer(_)))
            | (Dtype::Boolean, Some(Value::Boolean(_))) => true,
            (Dtype::Float, Some(Value::Float(number))) => number.is_finite(),
            (Dtype::String, Some(Value::String(text))) => text.len() <= VALUE_BYTES_MAX,
            _ => false,
        };
        if !fits {
            return Err(format!("{name} must be {}", kind(dtype)));
        }
    }
    let length = |value: &Value| if let Value::String(text) = value { text.len() } else { 0 };
    if row.values.iter().flatten().map(length).sum::<usize>() > ROW_TEXT_BYTES_MAX {
        return Err(ROW_TEXT_REASON.to_owned());
    }
    Ok(())
}

/// Returns a description of the values that a column of this type accepts.
pub const fn kind(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Float => "a number",
        Dtype::Integer => "a whole number of 64 bits",
        Dtype::String => "a text of at most 10000 bytes",
        Dtype::Boolean => "true or false",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_large_and_very_small_floats_have_an_exponent() {
        for (number, want) in [
            (1e308, "1e+308"),
            (-1.5e21, "-1.5e+21"),
            (1e20, "100000000000000000000"),
            (1e-6, "0.000001"),
            (-5e-324, "-5e-324"),
            (0.0, "0"),
            (64_001.5, "64001.5"),
        ] {
            assert_eq!(Value::Float(number).to_string(), want);
        }
    }

    #[track_caller]
    fn check(dtype: Dtype, value: Value, want: Result<(), &str>) {
        let row = Row { timestamp: Timestamp::from_seconds(1), values: vec![Some(value)] };
        let got = check_row(std::iter::once(("x", dtype)), &row);
        assert_eq!(got, want.map_err(str::to_owned));
    }

    #[test]
    fn value_of_another_type_than_its_column_is_rejected() {
        check(Dtype::Float, Value::Float(1.5), Ok(()));
        check(Dtype::Float, Value::Integer(2), Ok(()));
        check(Dtype::Float, Value::Float(f64::NAN), Err("x must be a number"));
        check(Dtype::Float, Value::String("1".to_owned()), Err("x must be a number"));
        check(Dtype::Integer, Value::Integer(2), Ok(()));
        check(Dtype::Integer, Value::Float(2.5), Err("x must be a whole number of 64 bits"));
        check(Dtype::Boolean, Value::Boolean(true), Ok(()));
        check(Dtype::String, Value::String("a".to_owned()), Ok(()));
        let long = Value::String("a".repeat(VALUE_BYTES_MAX + 1));
        check(Dtype::String, long, Err("x must be a text of at most 10000 bytes"));
    }

    #[test]
    fn timestamp_outside_the_supported_range_is_rejected() {
        let early = Row { timestamp: Timestamp::MIN, values: Vec::new() };
        let want = Err("timestamp is before the year 0".to_owned());
        assert_eq!(check_row(std::iter::empty(), &early), want);
    }
}
