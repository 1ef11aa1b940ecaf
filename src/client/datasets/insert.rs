//! Rows as the body of an insert, serialized without intermediate values.
//!
//! The form is the JSON of document 2's producer side, which every service of this API takes.

use std::io::Write as _;

use model::{
    dataset::DatasetId,
    row::{Row, Value},
};
use wire::{datasets::BulkInserted, paths};

use super::Datasets;
use crate::{
    error::ClientError,
    transport::{Call, INSERT_WITHIN},
};

/// The media type of JSON.
const JSON: &str = "application/json";

/// The most rows of an insert with [`InsertMode::Merge`], which services set.
pub const MERGE_ROWS_MAX: usize = 10_000;

/// What an inserted row does to the stored row of its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InsertMode {
    /// Replaces the whole row.
    #[default]
    Replace,
    /// Changes the columns that it has a value in, and no others; at most [`MERGE_ROWS_MAX`] rows.
    Merge,
}

/// Rows of one dataset, ready to be sent as often as it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertBody(Vec<u8>);

impl InsertBody {
    /// `rows` of `dataset`, whose values are in the order of `names`.
    #[must_use]
    pub fn new(dataset: DatasetId, names: &[String], rows: &[Row]) -> Self {
        let keys: Vec<Vec<u8>> = names.iter().map(|name| key(name)).collect();
        let mut body = format!("{{\"dataset\":{dataset},\"rows\":[").into_bytes();
        for (row_idx, row) in rows.iter().enumerate() {
            if row_idx > 0 {
                body.push(b',');
            }
            body.extend_from_slice(b"{\"timestamp\":\"");
            push_shown(&mut body, row.timestamp);
            body.extend_from_slice(b"\",\"values\":{");
            push_members(&mut body, keys.iter().zip(&row.values), true);
            body.extend_from_slice(b"}}");
        }
        body.extend_from_slice(b"]}");
        Self(body)
    }
}

/// Writes rows as flat objects, one a line, their members in alphabetical order as services do.
#[derive(Debug, Clone)]
pub struct FlatLines {
    /// `"name":` of the columns sorted before `timestamp`, with their indexes in a row.
    before: Vec<(Vec<u8>, usize)>,
    after: Vec<(Vec<u8>, usize)>,
}

impl FlatLines {
    /// Lines of rows whose values are in the order of `names`.
    #[must_use]
    pub fn new(names: &[String]) -> Self {
        let mut sorted: Vec<(&str, usize)> =
            names.iter().enumerate().map(|(idx, name)| (name.as_str(), idx)).collect();
        sorted.sort_unstable();
        let (before, after): (Vec<_>, Vec<_>) =
            sorted.into_iter().partition(|(name, _)| *name < "timestamp");
        let keyed = |names: Vec<(&str, usize)>| {
            names.into_iter().map(|(name, idx)| (key(name), idx)).collect()
        };
        Self { before: keyed(before), after: keyed(after) }
    }

    /// Adds the line of `row` to `to`.
    pub fn push(&self, to: &mut Vec<u8>, row: &Row) {
        let value = |idx: usize| row.values.get(idx).unwrap_or(&None);
        to.push(b'{');
        let begin = to.len();
        push_members(to, self.before.iter().map(|(key, idx)| (key, value(*idx))), true);
        if to.len() > begin {
            to.push(b',');
        }
        to.extend_from_slice(b"\"timestamp\":\"");
        push_shown(to, row.timestamp);
        to.push(b'"');
        push_members(to, self.after.iter().map(|(key, idx)| (key, value(*idx))), false);
        to.extend_from_slice(b"}\n");
    }
}

impl Datasets {
    /// Inserts rows; `mode` says what they do to stored rows of their timestamps. Returns how many
    /// are stored.
    ///
    /// Sending the same rows again changes nothing, so an insert whose answer was lost may be
    /// repeated.
    ///
    /// # Errors
    /// [`ClientError::Rows`] if the service names rows that do not fit the columns,
    /// [`ClientError::Refused`] if the key may not write; then nothing is stored.
    pub async fn insert_body(
        &self,
        body: &InsertBody,
        mode: InsertMode,
    ) -> Result<u64, ClientError> {
        let query: &[_] = match mode {
            InsertMode::Replace => &[],
            InsertMode::Merge => &[("mode", "merge".to_owned())],
        };
        let call =
            Call { query, within: Some(INSERT_WITHIN), ..Call::post(paths::ROWS_BULK_INSERT) };
        let answer: BulkInserted =
            self.transport.send_body(call, JSON, body.0.clone(), "a number of rows").await?;
        Ok(answer.inserted)
    }
}

/// Returns `name` as a JSON member's name with its colon.
fn key(name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    push_json(&mut key, name);
    key.push(b':');
    key
}

fn push_members<'a>(
    to: &mut Vec<u8>,
    members: impl Iterator<Item = (&'a Vec<u8>, &'a Option<Value>)>,
    mut is_first: bool,
) {
    for (key, value) in members {
        let Some(value) = value else { continue };
        if !is_first {
            to.push(b',');
        }
        is_first = false;
        to.extend_from_slice(key);
        push_value(to, value);
    }
}

fn push_value(to: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Float(number) => push_float(to, *number),
        Value::Integer(number) => push_json(to, number),
        Value::String(text) => push_json(to, text.as_str()),
        Value::Boolean(truth) => push_json(to, truth),
    }
}

/// A whole number without `.0`, as services print it.
fn push_float(to: &mut Vec<u8>, number: f64) {
    /// Whole numbers below it are exact, and few enough digits to print whole.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < WHOLE_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
        let whole = number as i64;
        if whole == 0 && number.is_sign_negative() {
            to.extend_from_slice(b"-0");
        } else {
            push_json(to, &whole);
        }
    } else {
        push_json(to, &number);
    }
}

fn push_json<T: serde::Serialize + ?Sized>(to: &mut Vec<u8>, value: &T) {
    // Writing numbers and text to memory cannot fail.
    serde_json::to_writer(to, value).unwrap_or_default();
}

fn push_shown(to: &mut Vec<u8>, shown: impl std::fmt::Display) {
    // Writing to memory cannot fail.
    write!(to, "{shown}").unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: Vec<Option<Value>>) -> Row {
        Row { timestamp: "2026-07-30T21:57:00Z".parse().unwrap(), values }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[track_caller]
    fn check_line(columns: &[&str], values: Vec<Option<Value>>, want: &str) {
        let mut line = Vec::new();
        FlatLines::new(&names(columns)).push(&mut line, &row(values));
        assert_eq!(String::from_utf8(line).unwrap(), format!("{want}\n"));
    }

    #[test]
    fn members_are_sorted_with_the_timestamp_among_them_and_absent_values_left_out() {
        let at = r#""timestamp":"2026-07-30T21:57:00Z""#;
        let float = |number| Some(Value::Float(number));
        check_line(
            &["volume", "close", "open"],
            vec![float(3.0), float(1.5), float(-0.0)],
            &format!(r#"{{"close":1.5,"open":-0,{at},"volume":3}}"#),
        );
        check_line(&["z", "a"], vec![None, None], &format!("{{{at}}}"));
        check_line(&["z"], vec![Some(Value::Boolean(true))], &format!(r#"{{{at},"z":true}}"#));
        let text = Some(Value::String("a \"b\"".to_owned()));
        check_line(&["a"], vec![text], &format!(r#"{{"a":"a \"b\"",{at}}}"#));
    }

    #[test]
    fn a_body_holds_the_rows_in_their_order() {
        let rows = [row(vec![Some(Value::Integer(7)), None]), row(vec![None, None])];
        let body = InsertBody::new(DatasetId::new(3).unwrap(), &names(&["n", "m"]), &rows);
        let want = concat!(
            r#"{"dataset":3,"rows":[{"timestamp":"2026-07-30T21:57:00Z","values":{"n":7}},"#,
            r#"{"timestamp":"2026-07-30T21:57:00Z","values":{}}]}"#,
        );
        assert_eq!(String::from_utf8(body.0).unwrap(), want);
    }
}
