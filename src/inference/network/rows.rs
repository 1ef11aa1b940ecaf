//! What the network asks of a dataset service.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::{dataset::DatasetId, timestamp::Timestamp};
use serde_json::{Map, Value};

use crate::network::{runs::Cause, topic::Source};

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
}
