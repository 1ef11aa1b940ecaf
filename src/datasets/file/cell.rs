//! What a field of a record holds, and how it fits a column.

use model::{dataset::Dtype, row::Value, timestamp::Timestamp};

/// Texts that stand for no value in files without types, as pandas reads them, too.
const ABSENT: [&str; 9] = ["", "null", "NULL", "None", "NaN", "nan", "NA", "N/A", "<NA>"];

/// Whole numbers up to this are exact as floating point numbers.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// What a field of a record holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// Nothing.
    Absent,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any number.
    Float(f64),
    /// A text that is one.
    Text(&'a str),
    /// A text of a file without types: whatever it looks like.
    Bare(&'a str),
    /// A moment of a file with types.
    Moment(Timestamp),
}

impl Cell<'_> {
    /// Whether it is no value.
    #[must_use]
    pub fn is_absent(self) -> bool {
        match self {
            Self::Absent => true,
            Self::Float(number) => number.is_nan(),
            Self::Bare(text) => ABSENT.contains(&text.trim()),
            _ => false,
        }
    }

    /// The value of a column of `dtype`; none where there is no value.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn fit(self, dtype: Dtype) -> Result<Option<Value>, String> {
        if self.is_absent() {
            return Ok(None);
        }
        let value = match dtype {
            Dtype::Float => self.float().map(Value::Float),
            Dtype::Integer => self.integer().map(Value::Integer),
            Dtype::Boolean => self.boolean().map(Value::Boolean),
            Dtype::String => self.text().map(Value::String),
        };
        value.map(Some).ok_or_else(|| format!("{} is no {dtype}", self.shown()))
    }

    /// As a number.
    pub(super) fn float(self) -> Option<f64> {
        let number = match self {
            Self::Float(number) => number,
            #[expect(clippy::cast_precision_loss, reason = "a column of floats holds no more")]
            Self::Integer(number) => number as f64,
            Self::Bare(text) => text.trim().parse().ok()?,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    /// As a whole number.
    pub(super) fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(number),
            Self::Float(number) => whole(number),
            Self::Bare(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| whole(text.parse().ok()?))
            }
            _ => None,
        }
    }

    /// As true or false.
    pub(super) fn boolean(self) -> Option<bool> {
        match self {
            Self::Boolean(truth) => Some(truth),
            Self::Bare(text) => match text.trim() {
                "true" | "True" | "TRUE" => Some(true),
                "false" | "False" | "FALSE" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Bare(text) => Some(text.to_owned()),
            Self::Moment(moment) => Some(moment.to_string()),
            _ => None,
        }
    }

    /// A date or a time of day as it is written; none where there is no value.
    pub(super) fn plain_text(self) -> Option<String> {
        match self {
            _ if self.is_absent() => None,
            Self::Integer(number) => Some(number.to_string()),
            _ => self.text().map(|text| text.trim().to_owned()),
        }
    }

    /// It for people, shortened.
    pub(super) fn shown(self) -> String {
        match self {
            Self::Absent => "nothing".to_owned(),
            Self::Boolean(truth) => truth.to_string(),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Moment(moment) => moment.to_string(),
            Self::Text(text) | Self::Bare(text) => format!("`{}`", shorten(text)),
        }
    }
}

/// The beginning of a text, enough to find it in the file, escaped.
pub(super) fn shorten(text: &str) -> String {
    /// A timestamp with all that it may have is shorter.
    const SHOWN_CHARS: usize = 40;
    let end = if text.chars().count() > SHOWN_CHARS { "…" } else { "" };
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    format!("{}{end}", start.escape_debug())
}

fn whole(number: f64) -> Option<i64> {
    let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_MAX;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and not too large")]
    let whole = is_whole.then_some(number as i64);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: Cell<'_>, dtype: Dtype, want: Result<Option<Value>, &str>) {
        assert_eq!(cell.fit(dtype), want.map_err(str::to_owned));
    }

    #[test]
    fn what_looks_like_a_value_of_the_column_is_one() {
        check(Cell::Bare(" 1.5 "), Dtype::Float, Ok(Some(Value::Float(1.5))));
        check(Cell::Bare("1e3"), Dtype::Integer, Ok(Some(Value::Integer(1000))));
        check(Cell::Integer(7), Dtype::Float, Ok(Some(Value::Float(7.0))));
        check(Cell::Bare("TRUE"), Dtype::Boolean, Ok(Some(Value::Boolean(true))));
        check(Cell::Bare("1.5"), Dtype::String, Ok(Some(Value::String("1.5".to_owned()))));
    }

    #[test]
    fn no_value_is_no_error() {
        for absent in [Cell::Absent, Cell::Bare(""), Cell::Bare("NaN"), Cell::Float(f64::NAN)] {
            check(absent, Dtype::Integer, Ok(None));
        }
    }

    #[test]
    fn what_does_not_fit_is_told_as_it_stands_in_the_file() {
        check(Cell::Bare("abc"), Dtype::Float, Err("`abc` is no float"));
        check(Cell::Float(1.5), Dtype::Integer, Err("1.5 is no integer"));
        check(Cell::Text("1"), Dtype::Float, Err("`1` is no float"));
        check(Cell::Bare("inf"), Dtype::Float, Err("`inf` is no float"));
        check(Cell::Integer(1), Dtype::String, Err("1 is no string"));
    }
}
