//! Values of fields and their conversion to column types.

use model::dataset::Dtype;
use model::row::Value;
use model::timestamp::Timestamp;

use super::number_text::{Decimal, MarkEvidence, is_rounded_integer, mark_evidence, whole_number};

/// Texts that represent a missing value in formats without types, the same as in pandas.
pub(crate) const ABSENT: [&str; 15] = [
    "", "null", "NULL", "None", "NaN", "nan", "-NaN", "-nan", "NA", "N/A", "n/a", "<NA>", "#N/A",
    "#NA", "#N/A N/A",
];

/// Texts that represent a missing number, but are regular values among texts.
const DASHES: [&str; 4] = ["-", "--", "–", "—"];

/// A float of at least this size, which is 2^53, can be the rounded value of another whole number.
pub(super) const INEXACT_FROM: f64 = 9_007_199_254_740_992.0;

/// End of the range of 64-bit integers, which is 2^63.
const INTEGER_END: f64 = 9_223_372_036_854_775_808.0;

/// End of the error for a value that is not a timestamp.
pub(super) const NO_TIMESTAMP: &str = "is not a timestamp";

/// Reason for rejecting a float in a column of integers if [`is_inexact`] returns true.
pub const INEXACT_REASON: &str =
    "can be rounded: write whole numbers from 2^53 on without a fraction and without an exponent";

/// Value of a field of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// An empty field, or null.
    Absent,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A floating point number.
    Float(f64),
    /// A text, in a format with types.
    Text(&'a str),
    /// A text in a format without types, which may represent a value of any type.
    Bare(&'a str),
    /// A timestamp or a date, in a format with types.
    Time(TypedTime),
    /// A whole number that does not fit into a signed 64-bit integer.
    Large(i128),
    /// A value that no column can store, with the reason.
    Unfit(&'a str),
}

/// A timestamp or a date, from a format with types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypedTime {
    /// The timestamp. Interpreted as UTC if the value has no time zone.
    pub at: Timestamp,
    /// True if the value in the file has a higher precision than microseconds.
    pub is_cut: bool,
    /// Time zone that the file declares.
    pub zone: WrittenZone,
}

/// Time zone that a file declares for a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenZone {
    /// Coordinated universal time.
    Utc,
    /// Not declared. The reader's options determine it.
    None,
    /// Not declared. The value is a date without a time.
    Date,
}

impl Cell<'_> {
    /// Returns the length of the text, or 0 if the value is not a text.
    pub const fn text_bytes(self) -> usize {
        match self {
            Self::Text(text) | Self::Bare(text) => text.len(),
            _ => 0,
        }
    }

    /// Returns true if there is no value.
    #[must_use]
    pub fn is_absent(self) -> bool {
        match self {
            Self::Absent => true,
            Self::Float(number) => number.is_nan(),
            Self::Bare(text) => ABSENT.contains(&text.trim()),
            _ => false,
        }
    }

    /// Returns true if the text represents a missing number: a dash.
    pub(super) fn is_dash(self) -> bool {
        matches!(self, Self::Bare(text) if DASHES.contains(&text.trim()))
    }

    /// Converts the value to the type `dtype` of a column. Returns `None` if there is no value. A text
    /// is parsed as the other types, with `decimal` as the decimal mark.
    ///
    /// # Errors
    /// Description of the mismatch.
    pub(super) fn fit(self, dtype: Dtype, decimal: Decimal) -> Result<Option<Value>, String> {
        let cell = match self {
            Self::Text(text) if dtype != Dtype::String => Self::Bare(text),
            cell => cell,
        };
        if cell.is_absent() || dtype != Dtype::String && cell.is_dash() {
            return Ok(None);
        }
        let value = match (dtype, cell) {
            (_, Self::Unfit(reason)) => return Err(reason.to_owned()),
            (Dtype::Integer, Self::Large(number)) => {
                return Err(format!("{number} exceeds the range of 64-bit integers"));
            }
            (Dtype::Float, Self::Bare(text)) => float_of(text, decimal).map(Value::Float),
            (Dtype::Float, _) => cell.float().map(Value::Float),
            (Dtype::Integer, Self::Bare(text)) => integer_of(text, decimal).map(Value::Integer),
            (Dtype::Integer, _) => cell.integer().map(Value::Integer),
            (Dtype::Boolean, _) => cell.boolean().map(Value::Boolean),
            (Dtype::String, _) => cell.text().map(Value::String),
        };
        value.map(Some).ok_or_else(|| {
            let shown = self.describe();
            match (dtype, cell) {
                (Dtype::Integer, Self::Float(number)) if is_inexact(number) => {
                    format!("{shown} {INEXACT_REASON}")
                }
                (Dtype::Integer, Self::Bare(text))
                    if float_of(text, decimal).is_some_and(|it| it.abs() >= INTEGER_END) =>
                {
                    format!("{shown} exceeds the range of 64-bit integers")
                }
                (Dtype::Float, Self::Float(_)) => format!("{shown} is not finite"),
                _ => format!("{shown} is not of type {dtype}"),
            }
        })
    }

    /// Returns true if the value is a whole number that differs from `number`, the float that was parsed
    /// from it.
    pub(super) fn is_rounded_to(self, number: f64, decimal: Decimal) -> bool {
        number.abs() >= INEXACT_FROM
            && match self {
                Self::Integer(whole) => {
                    is_rounded_integer(&whole.to_string(), number, Decimal::Point)
                }
                Self::Large(whole) => {
                    is_rounded_integer(&whole.to_string(), number, Decimal::Point)
                }
                Self::Text(text) | Self::Bare(text) => is_rounded_integer(text, number, decimal),
                _ => false,
            }
    }

    /// Returns true if the value is written as a number, finite or infinite, with either decimal mark.
    pub(super) fn is_number(self) -> bool {
        match self {
            Self::Float(_) | Self::Integer(_) | Self::Large(_) => true,
            Self::Bare(text) => {
                let is_float = text.trim().parse::<f64>().is_ok();
                is_float
                    || mark_evidence(text) != MarkEvidence::Nothing
                    || float_of(text, Decimal::Point).is_some()
            }
            _ => false,
        }
    }

    /// Returns the value as a number.
    pub fn float(self) -> Option<f64> {
        let number = match self {
            Self::Float(number) => number,
            #[expect(clippy::cast_precision_loss, reason = "a column of floats holds no more")]
            Self::Integer(number) => number as f64,
            #[expect(clippy::cast_precision_loss, reason = "a column of floats holds no more")]
            Self::Large(number) => number as f64,
            Self::Bare(text) => return float_of(text, Decimal::Point),
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    /// Returns the value as a whole number. Returns `None` if it is written with a fraction or an exponent
    /// and can be a rounded float.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(number),
            Self::Float(number) => exact_integer(number),
            Self::Bare(text) => {
                let whole = text.trim().parse().ok();
                whole.or_else(|| exact_integer(float_of(text, Decimal::Point)?))
            }
            _ => None,
        }
    }

    /// Returns the value as a boolean.
    pub(super) fn boolean(self) -> Option<bool> {
        match self {
            Self::Boolean(truth) => Some(truth),
            Self::Bare(text) => parse_boolean(text.trim()),
            _ => None,
        }
    }

    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Bare(text) => Some(text.to_owned()),
            Self::Time(time) if time.zone == WrittenZone::Date => {
                Some(time.at.to_string().split('T').next().unwrap_or_default().to_owned())
            }
            Self::Time(time) => Some(time.at.to_string()),
            _ => None,
        }
    }

    /// Returns a date or a time of day as it is written, or `None` if there is no value.
    pub(super) fn plain_text(self) -> Option<String> {
        match self {
            _ if self.is_absent() => None,
            Self::Integer(number) => Some(number.to_string()),
            _ => self.text().map(|text| text.trim().to_owned()),
        }
    }

    /// Returns the value as error messages show it, shortened.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Absent => "nothing".to_owned(),
            Self::Boolean(truth) => truth.to_string(),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Time(_) => self.text().unwrap_or_default(),
            Self::Large(number) => number.to_string(),
            Self::Unfit(reason) => reason.to_owned(),
            Self::Text(text) | Self::Bare(text) => format!("`{}`", shorten(text)),
        }
    }
}

/// Returns the beginning of a text, escaped. It is long enough to find the text in the file.
pub(super) fn shorten(text: &str) -> String {
    /// Longer than any timestamp.
    const SHOWN_CHARS: usize = 40;
    let end = if text.chars().count() > SHOWN_CHARS { "…" } else { "" };
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    format!("{}{end}", start.escape_debug())
}

/// Parses a finite number. There is a fast path for numbers without group separators.
fn float_of(text: &str, decimal: Decimal) -> Option<f64> {
    let text = text.trim();
    let plain = match decimal {
        Decimal::Point => text.parse().ok(),
        Decimal::Comma => None,
    };
    let number: f64 = match plain {
        Some(number) => number,
        None => decimal.plain(text)?.parse().ok()?,
    };
    number.is_finite().then_some(number)
}

fn integer_of(text: &str, decimal: Decimal) -> Option<i64> {
    let text = text.trim();
    text.parse().ok().or_else(|| whole_number(&decimal.plain(text)?))
}

/// Parses a boolean, as written by most programs.
pub fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Converts a float to an integer if it is whole and cannot be the rounded value of another number.
pub(super) fn exact_integer(number: f64) -> Option<i64> {
    let is_whole = number.fract() == 0.0 && number.abs() < INEXACT_FROM;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and not too large")]
    let whole = is_whole.then_some(number as i64);
    whole
}

/// Returns true if `number` is a 64-bit integer but can be the rounded value of another one.
pub fn is_inexact(number: f64) -> bool {
    (INEXACT_FROM..INTEGER_END).contains(&number.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: Cell<'_>, dtype: Dtype, want: Result<Option<Value>, &str>) {
        assert_eq!(cell.fit(dtype, Decimal::Point), want.map_err(str::to_owned));
    }

    #[test]
    fn texts_are_converted_to_the_type_of_the_column() {
        check(Cell::Bare(" 1.5 "), Dtype::Float, Ok(Some(Value::Float(1.5))));
        check(Cell::Bare("1e3"), Dtype::Integer, Ok(Some(Value::Integer(1000))));
        check(Cell::Bare("1,234.5"), Dtype::Float, Ok(Some(Value::Float(1234.5))));
        check(Cell::Text("1.5"), Dtype::Float, Ok(Some(Value::Float(1.5))));
        check(Cell::Text("-"), Dtype::Integer, Ok(None));
        check(Cell::Bare("-"), Dtype::String, Ok(Some(Value::String("-".to_owned()))));
        let comma = Cell::Bare("1.234,5").fit(Dtype::Float, Decimal::Comma);
        assert_eq!(comma, Ok(Some(Value::Float(1234.5))));
        check(Cell::Integer(7), Dtype::Float, Ok(Some(Value::Float(7.0))));
        check(Cell::Bare("TRUE"), Dtype::Boolean, Ok(Some(Value::Boolean(true))));
        check(Cell::Bare("1.5"), Dtype::String, Ok(Some(Value::String("1.5".to_owned()))));
    }

    #[test]
    fn whole_number_with_a_fraction_or_group_marks_is_stored_exactly() {
        let value = |number| Some(Value::Integer(number));
        let want = |number| Ok(value(number));
        for text in ["9007199254740993.0", "9,007,199,254,740,993", "9.007199254740993e15"] {
            check(Cell::Bare(text), Dtype::Integer, want(9_007_199_254_740_993));
            let text = format!("-{text}");
            check(Cell::Bare(&text), Dtype::Integer, want(-9_007_199_254_740_993));
        }
        check(Cell::Text("9,223,372,036,854,775,807.00"), Dtype::Integer, want(i64::MAX));
        check(Cell::Bare("-9223372036854775808."), Dtype::Integer, want(i64::MIN));
        let fraction = "`9007199254740993.5` is not of type integer";
        check(Cell::Bare("9007199254740993.5"), Dtype::Integer, Err(fraction));
        let comma = Cell::Bare("9.007.199.254.740.993,0").fit(Dtype::Integer, Decimal::Comma);
        assert_eq!(comma, Ok(value(9_007_199_254_740_993)));
    }

    #[test]
    fn missing_values_are_valid_in_every_column() {
        for absent in [Cell::Absent, Cell::Bare(""), Cell::Bare("NaN"), Cell::Float(f64::NAN)] {
            check(absent, Dtype::Integer, Ok(None));
        }
    }

    #[test]
    fn type_mismatch_is_reported_with_the_value_as_written() {
        check(Cell::Bare("abc"), Dtype::Float, Err("`abc` is not of type float"));
        check(Cell::Float(1.5), Dtype::Integer, Err("1.5 is not of type integer"));
        check(Cell::Text("x"), Dtype::Float, Err("`x` is not of type float"));
        check(Cell::Bare("inf"), Dtype::Float, Err("`inf` is not of type float"));
        check(Cell::Float(f64::INFINITY), Dtype::Float, Err("inf is not finite"));
        check(Cell::Integer(1), Dtype::String, Err("1 is not of type string"));
        let large = "`1e19` exceeds the range of 64-bit integers";
        check(Cell::Bare("1e19"), Dtype::Integer, Err(large));
        let inexact = format!("9007199254740992 {INEXACT_REASON}");
        check(Cell::Float(9_007_199_254_740_992.0), Dtype::Integer, Err(&inexact));
    }
}
