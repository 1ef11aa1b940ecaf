//! Interfaces through which the network uses a dataset service and a function cluster.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::RangeInclusive;

use async_trait::async_trait;
use model::dataset::DatasetId;
use model::node::{PeerId, Subgroup};
use model::timestamp::Timestamp;
use model::topic::SINGLE_LABEL;
use serde_json::{Map, Value};

use crate::network::topic::Topic;
use crate::store::Input;

/// Maximum number of rows of a request. The volatility is refused if its horizon has this number of rows
/// or more. With one row per minute, this is nearly a week.
pub const PATH_ROWS_MAX: u32 = 10_000;

/// A row of a dataset, reduced to its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct FlatRow {
    /// Timestamp of the row.
    pub timestamp: Timestamp,
    /// Numbers by column.
    pub values: BTreeMap<String, f64>,
}

/// A column of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetColumn {
    /// Name of the column.
    pub name: String,
    /// True if the column's values are numbers.
    pub is_numeric: bool,
}

/// Result of looking up a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Described {
    /// The dataset exists.
    Found {
        /// Id of the dataset.
        id: DatasetId,
        /// Columns that the service's API key can read.
        columns: Vec<DatasetColumn>,
    },
    /// No dataset has this name.
    Missing {
        /// Names of some existing datasets.
        others: Vec<String>,
    },
    /// Several datasets have this name.
    Ambiguous {
        /// Ids of these datasets.
        ids: Vec<String>,
    },
}

/// Access to the rows of datasets.
#[async_trait]
pub trait Rows: Send + Sync {
    /// Returns the id of the dataset called `name`.
    ///
    /// # Errors
    /// [`Cause`] if no dataset or several datasets have this name, or as [`Self::newest`].
    async fn find(&self, name: &str) -> Result<DatasetId, Cause> {
        match self.describe(name, None).await? {
            Described::Found { id, .. } => Ok(id),
            Described::Missing { .. } => {
                Err(format!("dataset `{name}` does not exist, or the key cannot see it").into())
            }
            Described::Ambiguous { ids } => {
                let ids = ids.join(", ");
                Err(format!("several datasets are called `{name}`: set dataset_id to one of {ids}")
                    .into())
            }
        }
    }

    /// Looks up the dataset `id`, or the dataset called `name` if `id` is `None`.
    ///
    /// # Errors
    /// As [`Self::newest`].
    async fn describe(&self, name: &str, id: Option<DatasetId>) -> Result<Described, Cause>;

    /// Returns the latest rows of `dataset`, at most `limit`, in any order. Returns fewer rows if they are
    /// very long.
    ///
    /// # Errors
    /// [`Cause`] if the dataset service refuses the request or does not respond.
    async fn newest(&self, dataset: DatasetId, limit: u32) -> Result<Vec<FlatRow>, Cause>;

    /// Returns the earliest rows of `dataset` with timestamps in `span`, at most `limit`, in any order.
    /// The rows have only the values of `column`. Fewer rows than `limit` are all rows in `span`.
    ///
    /// # Errors
    /// As [`Self::newest`].
    async fn rows_between(
        &self,
        dataset: DatasetId,
        column: &str,
        span: RangeInclusive<Timestamp>,
        limit: u32,
    ) -> Result<Vec<FlatRow>, Cause>;
}

/// Reason why an epoch has no result.
#[derive(Debug, thiserror::Error)]
pub enum OutcomeError {
    /// A value is not above 0, or rows are missing.
    #[error(
        "{target} of column {column} is undefined: a value is not above 0, or rows are missing"
    )]
    Undefined {
        /// Setting `target` of the topic.
        target: &'static str,
        /// Column that the topic predicts.
        column: String,
    },
    /// The horizon has too many rows for a volatility.
    #[error("horizon has {PATH_ROWS_MAX} rows or more, too many for a volatility")]
    TooManyRows,
}

/// Returns the result of an epoch of `topic` with this `input`, which follows from `values`: the values
/// of the topic's column, oldest first. Returns `None` if no value is at least a horizon later, or if
/// the first such value is more than two horizons later. A volatility follows from the values within the
/// horizon, every other result from the first value after it.
pub(crate) fn outcome(
    topic: &Topic,
    input: Input,
    values: &[(Timestamp, f64)],
) -> Option<Result<f64, OutcomeError>> {
    let (due, horizon) = (input.at + topic.source.horizon, topic.source.horizon);
    let last = values.get(values.partition_point(|(at, _)| *at < due));
    let (_, last) = last.filter(|(at, _)| *at <= due + horizon)?;
    let outcome = if topic.truth.has_path() {
        let first = values.partition_point(|(at, _)| *at <= input.at);
        let end = values.partition_point(|(at, _)| *at <= due);
        let path = values.get(first..end)?.iter().map(|(_, value)| *value);
        topic.truth.outcome(input.value, &path.collect::<Vec<_>>())
    } else {
        topic.truth.outcome(input.value, &[*last])
    };
    Some(outcome.ok_or_else(|| OutcomeError::Undefined {
        target: topic.truth.target().unwrap_or("value"),
        column: topic.source.column.clone(),
    }))
}

/// Reads the rows from which the result of an epoch of `topic` follows, and returns it as `outcome`.
///
/// # Errors
/// [`OutcomeError`] if the result is not defined. Otherwise as [`Rows::rows_between`].
pub async fn outcome_after(
    rows: &dyn Rows,
    dataset: DatasetId,
    topic: &Topic,
    input: Input,
) -> Result<Option<f64>, Cause> {
    let (column, horizon) = (&topic.source.column, topic.source.horizon);
    let due = input.at + horizon;
    let first = first_with_column(rows, dataset, column, due..=due + horizon).await?;
    let mut read: Vec<FlatRow> = first.into_iter().collect();
    if topic.truth.has_path() {
        let path = rows.rows_between(dataset, column, input.at..=due, PATH_ROWS_MAX).await?;
        if !is_short(&path, PATH_ROWS_MAX) {
            return Err(OutcomeError::TooManyRows.into());
        }
        read.extend(path);
    }
    read.sort_by_key(|row| row.timestamp);
    // Both requests return the row that is due.
    read.dedup_by_key(|row| row.timestamp);
    let values = read.iter().filter_map(|row| Some((row.timestamp, *row.values.get(column)?)));
    Ok(outcome(topic, input, &values.collect::<Vec<_>>()).transpose()?)
}

/// Returns the earliest row in `span` that has `column`, or `None` if [`PATH_ROWS_MAX`] rows lack it.
///
/// # Errors
/// As [`Rows::rows_between`].
pub(crate) async fn first_with_column(
    rows: &dyn Rows,
    dataset: DatasetId,
    column: &str,
    span: RangeInclusive<Timestamp>,
) -> Result<Option<FlatRow>, Cause> {
    // One of the first rows usually has the column.
    let mut limit = 10;
    loop {
        let mut read = rows.rows_between(dataset, column, span.clone(), limit).await?;
        let is_last = is_short(&read, limit) || limit >= PATH_ROWS_MAX;
        read.retain(|row| row.values.contains_key(column));
        let first = read.into_iter().min_by_key(|row| row.timestamp);
        if is_last || first.is_some() {
            return Ok(first);
        }
        limit = PATH_ROWS_MAX.min(limit * 10);
    }
}

/// Returns the latest rows of `dataset`, so many that `n_rows` of them have `column`, but at most
/// [`PATH_ROWS_MAX`].
///
/// # Errors
/// As [`Rows::newest`].
pub(crate) async fn newest_with_column(
    rows: &dyn Rows,
    dataset: DatasetId,
    column: &str,
    n_rows: u32,
) -> Result<Vec<FlatRow>, Cause> {
    let mut limit = n_rows.clamp(1, PATH_ROWS_MAX);
    loop {
        let read = rows.newest(dataset, limit).await?;
        let n_found = read.iter().filter(|row| row.values.contains_key(column)).count();
        let is_enough = u32::try_from(n_found).is_ok_and(|n_found| n_found >= n_rows);
        if is_enough || is_short(&read, limit) || limit >= PATH_ROWS_MAX {
            return Ok(read);
        }
        limit = PATH_ROWS_MAX.min(limit.saturating_mul(10));
    }
}

/// Returns true if a request for `limit` rows returned fewer.
fn is_short(rows: &[FlatRow], limit: u32) -> bool {
    u32::try_from(rows.len()).is_ok_and(|n_rows| n_rows < limit)
}

/// Formats `rows` as the standard input of a predictor: one flat JSON object per line, oldest row
/// first.
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

/// Failure of the dataset service or the cluster. It is logged with its causes.
pub type Cause = Box<dyn Error + Send + Sync>;

/// An execution of a function on several workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Name or content id of the function.
    pub function: String,
    /// File to run inside the function.
    pub method: String,
    /// Subgroup of the workers that can run the function, or `None` for any worker.
    pub subgroup: Option<Subgroup>,
    /// Number of workers, or `None` for all that report in the roll call.
    pub n_nodes: Option<u32>,
    /// Environment variables by name.
    pub env: BTreeMap<String, String>,
    /// Standard input of each worker.
    pub stdin: String,
}

/// Output of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerOutput {
    /// Id of the worker's node.
    pub peer_id: PeerId,
    /// Text that the function wrote to standard output.
    pub stdout: String,
    /// Exit code, 0 on success.
    pub exit_code: i32,
}

/// Execution of functions on a cluster.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Executes `job` and returns the output of each worker, in any order. Dropping the future cancels
    /// the execution.
    ///
    /// # Errors
    /// [`Cause`] if the cluster refuses the job or does not respond.
    async fn run(&self, job: Job) -> Result<Vec<PeerOutput>, Cause>;
}

/// Error for an output without a valid prediction.
#[derive(Debug, thiserror::Error)]
#[error(
    "last line of the output does not have the form {{\"value\":42.5}} or {{\"values\":{{…}}}}"
)]
pub struct PredictionError;

/// Parses the last line of `stdout` that is not empty. Returns each label with its value as a text. A
/// value without a label gets [`SINGLE_LABEL`].
///
/// # Errors
/// [`PredictionError`] if the line is not a valid prediction.
pub fn parse_prediction(stdout: &str) -> Result<Vec<(String, String)>, PredictionError> {
    let line = stdout.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.ok_or(PredictionError)?;
    let object: Value = serde_json::from_str(line).map_err(|_| PredictionError)?;
    if let Some(value) = object.get("value") {
        return Ok(vec![(SINGLE_LABEL.to_owned(), number_text(value)?)]);
    }
    let values = object.get("values").and_then(Value::as_object).ok_or(PredictionError)?;
    values.iter().map(|(label, value)| Ok((label.clone(), number_text(value)?))).collect()
}

fn number_text(value: &Value) -> Result<String, PredictionError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(PredictionError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_for_a_model_are_written_as_lines_of_flat_objects_oldest_first() {
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
    fn prediction_is_read_from_the_last_line() {
        check("{\"value\":\"103.420\"}\n", Some(&[("y", "103.420")]));
        check("loading\n{\"value\":2.5}\n\n", Some(&[("y", "2.5")]));
        check(r#"{"values":{"up":"0.4","down":0.6}}"#, Some(&[("down", "0.6"), ("up", "0.4")]));
    }

    #[test]
    fn invalid_predictions_are_rejected() {
        for stdout in ["", "\n", "103.42", "{}", r#"{"value":null}"#, r#"{"values":[1]}"#, "{"] {
            check(stdout, None);
        }
    }
}
