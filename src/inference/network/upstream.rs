//! What the network asks of a dataset service and of a function cluster.

use std::{collections::BTreeMap, error::Error};

use async_trait::async_trait;
use model::{
    dataset::DatasetId,
    node::{PeerId, Subgroup},
    timestamp::Timestamp,
    topic::SINGLE_LABEL,
};
use serde_json::{Map, Value};

use crate::network::topic::Source;

/// One row: a timestamp, and the number in each column that has one.
#[derive(Debug, Clone, PartialEq)]
pub struct FlatRow {
    /// When, in the dataset's time.
    pub timestamp: Timestamp,
    /// The numbers, by column.
    pub values: BTreeMap<String, f64>,
}

/// A column of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetColumn {
    /// The name of the column.
    pub name: String,
    /// Whether its values are numbers.
    pub is_numeric: bool,
}

/// What there is of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Described {
    /// The dataset exists.
    Found {
        /// The number of the dataset.
        id: DatasetId,
        /// The columns that the key may see.
        columns: Vec<DatasetColumn>,
    },
    /// There is none of that name.
    Missing {
        /// Some that there are.
        others: Vec<String>,
    },
    /// Several have that name.
    Ambiguous {
        /// The numbers of the datasets of that name.
        ids: Vec<String>,
    },
}

/// Reads rows of datasets.
#[async_trait]
pub trait Rows: Send + Sync {
    /// Returns the number of the dataset called `name`.
    ///
    /// # Errors
    /// A [`Cause`] if there is none, or it is not clear which of several is meant.
    async fn find(&self, name: &str) -> Result<DatasetId, Cause>;

    /// Returns what there is of the dataset `id`, or of the one called `name`.
    ///
    /// # Errors
    /// As [`Self::newest`].
    async fn describe(&self, name: &str, id: Option<DatasetId>) -> Result<Described, Cause>;

    /// Returns the newest rows of `dataset`, at most `limit` of them, in any order.
    ///
    /// # Errors
    /// A [`Cause`] if the service refused or did not answer.
    async fn newest(&self, dataset: DatasetId, limit: u32) -> Result<Vec<FlatRow>, Cause>;

    /// Returns the rows of `dataset` from `from` to `to`, both included: the earliest of them, at
    /// most `limit`.
    ///
    /// # Errors
    /// As [`Self::newest`].
    async fn rows_between(
        &self,
        dataset: DatasetId,
        from: Timestamp,
        to: Timestamp,
        limit: u32,
    ) -> Result<Vec<FlatRow>, Cause>;
}

/// How many rows are read to find one with the column: the first ones may lack it.
const TRUTH_ROWS: u32 = 10;

/// Returns what the column of `source` came to a horizon after `at`: in the first row there or after,
/// since a row may be missing. None while there is no such row.
///
/// # Errors
/// As [`Rows::rows_between`].
pub async fn truth_after(
    rows: &dyn Rows,
    dataset: DatasetId,
    source: &Source,
    at: Timestamp,
) -> Result<Option<f64>, Cause> {
    let from = at + source.horizon;
    let rows = rows.rows_between(dataset, from, from + source.horizon, TRUTH_ROWS).await?;
    let values = rows.iter().filter(|row| row.timestamp >= from);
    let known = values.filter_map(|row| Some((row.timestamp, *row.values.get(&source.column)?)));
    Ok(known.min_by_key(|(at, _)| *at).map(|(_, value)| value))
}

/// The text a predictor reads: one flat JSON object a line, oldest row first.
pub fn lines(rows: &[FlatRow]) -> String {
    let mut sorted: Vec<&FlatRow> = rows.iter().collect();
    sorted.sort_by_key(|row| row.timestamp);
    let line = |row: &FlatRow| {
        let timestamp = ("timestamp".to_owned(), Value::from(row.timestamp.to_string()));
        let values = row.values.iter().map(|(name, value)| (name.clone(), Value::from(*value)));
        let object: Map<String, Value> = std::iter::once(timestamp).chain(values).collect();
        format!("{}\n", Value::Object(object))
    };
    sorted.into_iter().map(line).collect()
}

/// Why somebody else could not answer. Its text and its causes go to the log.
pub type Cause = Box<dyn Error + Send + Sync>;

/// How many workers run a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// All that report.
    All,
    /// So many, or none.
    Exactly(u32),
}

impl From<Nodes> for i64 {
    /// The number that document 1 has for it: -1 for all.
    fn from(nodes: Nodes) -> Self {
        match nodes {
            Nodes::All => -1,
            Nodes::Exactly(n) => n.into(),
        }
    }
}

/// One run of a function on several workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The function's name or content id.
    pub function: String,
    /// The file to run inside it.
    pub method: String,
    /// The subgroup whose workers run it; none for any worker.
    pub subgroup: Option<Subgroup>,
    /// How many workers.
    pub n_nodes: Nodes,
    /// Environment variables of the function, by name.
    pub env: BTreeMap<String, String>,
    /// What each reads from standard input.
    pub stdin: String,
}

/// What one worker gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerOutput {
    /// The id of the worker's node.
    pub peer_id: PeerId,
    /// What it wrote to standard output.
    pub stdout: String,
    /// 0 on success.
    pub exit_code: i32,
}

/// Runs functions on a cluster.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Runs `job` and returns what each worker gave, in any order. Dropping the future gives up on
    /// the answer.
    ///
    /// # Errors
    /// A [`Cause`] if the cluster refused or did not answer.
    async fn run(&self, job: Job) -> Result<Vec<PeerOutput>, Cause>;
}

/// Why an output holds no prediction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictionError {
    /// Nothing was printed.
    #[error("the output is empty")]
    Nothing,
    /// The last line is no JSON.
    #[error("the last line of the output is not JSON")]
    Json(#[source] serde_json::Error),
    /// The JSON is something else.
    #[error(
        "the last line of the output is not of the form {{\"value\":42.5}} or {{\"values\":{{…}}}}"
    )]
    Shape,
}

/// Returns the values by label in `stdout`, as their texts. The last line counts; a single value
/// has the label of topics with one output.
///
/// # Errors
/// A [`PredictionError`] if that line holds none.
pub fn parse_prediction(stdout: &str) -> Result<Vec<(String, String)>, PredictionError> {
    let line = stdout.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.ok_or(PredictionError::Nothing)?;
    let object: Value = serde_json::from_str(line).map_err(PredictionError::Json)?;
    if let Some(value) = object.get("value") {
        return Ok(vec![(SINGLE_LABEL.to_owned(), number_text(value)?)]);
    }
    let values = object.get("values").and_then(Value::as_object).ok_or(PredictionError::Shape)?;
    values.iter().map(|(label, value)| Ok((label.clone(), number_text(value)?))).collect()
}

fn number_text(value: &Value) -> Result<String, PredictionError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(PredictionError::Shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_flat_objects_oldest_first() {
        let row = |seconds, close| FlatRow {
            timestamp: Timestamp::from_seconds(seconds),
            values: BTreeMap::from([("close".to_owned(), close)]),
        };
        let want = "{\"close\":1.5,\"timestamp\":\"1970-01-01T00:00:00Z\"}\n\
                    {\"close\":2.0,\"timestamp\":\"1970-01-01T00:01:00Z\"}\n";
        assert_eq!(lines(&[row(60, 2.0), row(0, 1.5)]), want);
    }

    #[track_caller]
    fn check(stdout: &str, want: Option<&[(&str, &str)]>) {
        let owned = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
        let want = want.map(|pairs| pairs.iter().map(owned).collect::<Vec<_>>());
        assert_eq!(parse_prediction(stdout).ok(), want, "{stdout}");
    }

    #[test]
    fn the_last_line_counts() {
        check("{\"value\":\"103.420\"}\n", Some(&[("y", "103.420")]));
        check("loading\n{\"value\":2.5}\n\n", Some(&[("y", "2.5")]));
        check(r#"{"values":{"up":"0.4","down":0.6}}"#, Some(&[("down", "0.6"), ("up", "0.4")]));
    }

    #[test]
    fn anything_else_is_no_prediction() {
        for stdout in ["", "\n", "103.42", "{}", r#"{"value":null}"#, r#"{"values":[1]}"#, "{"] {
            check(stdout, None);
        }
    }
}
