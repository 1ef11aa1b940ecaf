//! Bodies of inserts. Rows are serialized directly to the JSON of the dataset service, without
//! intermediate values.

use model::dataset::{DatasetId, TIMESTAMP};
use model::idempotency::IdempotencyKey;
use model::row::{Row, Value};
use model::timestamp::Timestamp;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use wire::datasets::BulkInserted;
use wire::paths;

use super::Datasets;
use crate::error::ClientError;
use crate::transport::INSERT_WITHIN;

/// Media type of JSON.
const JSON: &str = "application/json";

/// Maximum number of rows of an insert with [`InsertMode::Merge`]. The service enforces it.
pub const MERGE_ROWS_MAX: usize = 10_000;

/// Effect of an inserted row on the stored row with the same timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InsertMode {
    /// Replaces the whole row.
    #[default]
    Replace,
    /// Replaces only the values that the inserted row has. Other values of the stored row remain. Such
    /// an insert can have at most [`MERGE_ROWS_MAX`] rows.
    Merge,
}

/// Serialized rows of a dataset with an idempotency key. Because of the key, the rows are stored only
/// once even if they are sent repeatedly.
#[derive(Debug, Clone)]
pub struct InsertBody {
    dataset: DatasetId,
    json: Vec<u8>,
    key: IdempotencyKey,
}

impl InsertBody {
    /// Serializes `rows` of `dataset`. The values of each row are in the order of the column names
    /// `names`.
    #[must_use]
    pub fn new(dataset: DatasetId, names: &[String], rows: &[Row]) -> Self {
        let mut body = format!("{{\"dataset\":{dataset},\"rows\":[").into_bytes();
        for (row_idx, row) in rows.iter().enumerate() {
            if row_idx > 0 {
                body.push(b',');
            }
            body.extend_from_slice(b"{\"timestamp\":");
            push_json(&mut body, &Member::Timestamp(row.timestamp));
            body.extend_from_slice(b",\"values\":");
            push_json(&mut body, &Values { names, row });
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        Self { dataset, json: body, key: IdempotencyKey::from_random(rand::random()) }
    }
}

/// Serializes rows as flat JSON objects, one per line, with members in alphabetical order. Services
/// return rows in the same form.
#[derive(Debug, Clone)]
pub struct FlatLines {
    /// Sorted member names, each with the index of its column in a row. `timestamp` has no index.
    members: Vec<(String, Option<usize>)>,
}

impl FlatLines {
    /// Returns a serializer for rows with values in the order of the column names `names`.
    #[must_use]
    pub fn new(names: &[String]) -> Self {
        let columns = names.iter().enumerate().map(|(idx, name)| (name.clone(), Some(idx)));
        let mut members: Vec<_> = columns.chain([(TIMESTAMP.to_owned(), None)]).collect();
        members.sort_unstable();
        Self { members }
    }

    /// Appends `row` as a line to `to`.
    pub fn push(&self, to: &mut Vec<u8>, row: &Row) {
        push_json(to, &FlatLine { members: &self.members, row });
        to.push(b'\n');
    }
}

/// Values of a row by column name. Missing values are omitted.
struct Values<'a> {
    names: &'a [String],
    row: &'a Row,
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.names.iter().zip(&self.row.values);
        serializer.collect_map(
            values.filter_map(|(name, value)| Some((name, Member::Value(value.as_ref()?)))),
        )
    }
}

/// A flat row: its timestamp is a sibling of its values.
struct FlatLine<'a> {
    members: &'a [(String, Option<usize>)],
    row: &'a Row,
}

impl Serialize for FlatLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row { timestamp, values } = self.row;
        serializer.collect_map(self.members.iter().filter_map(|(name, idx)| match idx {
            None => Some((name, Member::Timestamp(*timestamp))),
            Some(idx) => Some((name, Member::Value(values.get(*idx)?.as_ref()?))),
        }))
    }
}

/// Value of a JSON member of a row: its timestamp or the value of a column.
enum Member<'a> {
    Timestamp(Timestamp),
    Value(&'a Value),
}

impl Serialize for Member<'_> {
    /// Serializes whole numbers without `.0`, as services do.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Whole numbers below this limit are represented exactly by floats.
        const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
        match self {
            Self::Timestamp(timestamp) => serializer.collect_str(timestamp),
            Self::Value(Value::Float(number)) => {
                if number.fract() != 0.0 || number.abs() >= WHOLE_MAX {
                    return serializer.serialize_f64(*number);
                }
                if *number == 0.0 && number.is_sign_negative() {
                    let zero = RawValue::from_string("-0".to_owned());
                    return zero.map_err(S::Error::custom)?.serialize(serializer);
                }
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
                serializer.serialize_i64(*number as i64)
            }
            Self::Value(Value::Integer(number)) => serializer.serialize_i64(*number),
            Self::Value(Value::String(text)) => serializer.serialize_str(text),
            Self::Value(Value::Boolean(truth)) => serializer.serialize_bool(*truth),
        }
    }
}

impl Datasets {
    /// Inserts rows with the given effect on stored rows. Returns the number of stored rows.
    ///
    /// If the response is lost, the same body can be sent again without storing the rows twice.
    ///
    /// # Errors
    /// [`ClientError::Rows`] if rows do not match the columns, [`ClientError::Refused`] if the key
    /// cannot write. No rows are stored in these cases.
    pub async fn insert_body(
        &self,
        body: &InsertBody,
        mode: InsertMode,
    ) -> Result<u64, ClientError> {
        let mode = (mode == InsertMode::Merge).then_some("merge");
        let call = self.transport.post(paths::ROWS_BULK_INSERT).within(Some(INSERT_WITHIN));
        let call = call.query(&[("mode", mode)]).bytes_body(JSON, body.json.clone());
        let call = call.named(&body.key).seeing(&self.seen, body.dataset);
        let answer: BulkInserted = call.json("a number of rows").await?;
        Ok(answer.inserted)
    }
}

fn push_json(to: &mut Vec<u8>, value: &impl Serialize) {
    // Cannot fail, since numbers and strings are serialized to memory.
    serde_json::to_writer(to, value).unwrap_or_default();
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
    fn members_of_a_row_are_sorted_and_missing_values_omitted() {
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
    fn body_contains_rows_in_order() {
        let rows = [row(vec![Some(Value::Integer(7)), None]), row(vec![None, None])];
        let body = InsertBody::new(DatasetId::new(3).unwrap(), &names(&["n", "m"]), &rows);
        let want = concat!(
            r#"{"dataset":3,"rows":[{"timestamp":"2026-07-30T21:57:00Z","values":{"n":7}},"#,
            r#"{"timestamp":"2026-07-30T21:57:00Z","values":{}}]}"#,
        );
        assert_eq!(String::from_utf8(body.json).unwrap(), want);
    }
}
