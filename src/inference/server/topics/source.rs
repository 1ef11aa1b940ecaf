//! Checks of a topic's dataset and column before the topic is created or changed.

use std::sync::Arc;
use std::time::Duration;

use model::timestamp::Timestamp;

use super::in_time;
use crate::network::topic::{Topic, TopicSource};
use crate::network::upstream::{
    DatasetColumn, Described, FlatRow, PATH_ROWS_MAX, Rows, newest_with_column,
};
use crate::server::error::{ApiError, Result};

/// Number of nanoseconds per second.
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Number of rows with the column from which the interval between rows is estimated.
const SPACED_ROWS: u32 = 20;

/// Checks that the dataset and the column of `topic` exist, and that the interval between rows with the
/// column does not exceed the horizon.
///
/// # Errors
///
/// [`ApiError`] if a check fails, or if the dataset service is unavailable. If the dataset or the
/// column is missing, the message lists the existing names.
pub(super) async fn check_source(rows: &Arc<dyn Rows>, topic: &Topic) -> Result<()> {
    let source = &topic.source;
    let (name, column) = (&source.dataset, &source.column);
    let failure = format!("dataset {name} cannot be checked");
    let (id, columns) = match in_time(&failure, rows.describe(name, source.dataset_id)).await? {
        Described::Missing { others } => {
            let what = match source.dataset_id {
                Some(id) => format!("dataset_id {id}"),
                None => format!("dataset {name}"),
            };
            return Err(ApiError::invalid(format!(
                "{what} does not exist, or is not readable by this service; {}",
                listing("readable datasets:", &others)
            )));
        }
        Described::Ambiguous { ids } => {
            return Err(ApiError::invalid(format!(
                "several datasets have the name {name}, set dataset_id to one of {}",
                ids.join(", ")
            )));
        }
        Described::Found { id, columns } => (id, columns),
    };
    let of_numbers = || columns.iter().filter(|column| column.is_numeric);
    let numbers: Vec<String> = of_numbers().map(|column| column.name.clone()).collect();
    let is_column = |known: &&DatasetColumn| known.name == *column;
    let what = match columns.iter().find(is_column) {
        Some(known) if known.is_numeric => None,
        Some(_) => Some(format!("column {column} of dataset {name} is not numeric")),
        None => Some(format!("dataset {name} has no column {column}")),
    };
    if let Some(what) = what {
        let numbers = listing("numeric columns:", &numbers);
        return Err(ApiError::invalid(format!("{what}; {numbers}")));
    }
    let newest = newest_with_column(rows.as_ref(), id, column, SPACED_ROWS);
    let newest = in_time(&failure, newest).await?;
    let with_column = newest.iter().filter(|row| row.values.contains_key(column));
    match spacing(newest.iter()).zip(spacing(with_column)) {
        Some((apart, apart_with_column)) => check_horizon(topic, apart, apart_with_column),
        None => Ok(()),
    }
}

/// Checks that the horizon of `topic` spans enough rows with its column, which are `apart_with_column`,
/// and not too many rows, which are `apart`.
fn check_horizon(topic: &Topic, apart: Duration, apart_with_column: Duration) -> Result<()> {
    let horizon = topic.source.horizon;
    // A volatility needs two returns.
    let n_min = if topic.truth.has_path() { 2 } else { 1 };
    let least = apart_with_column.saturating_mul(n_min);
    let most = apart.saturating_mul(PATH_ROWS_MAX - 2);
    let TopicSource { dataset, column, .. } = &topic.source;
    let (which, apart, bound) = if horizon < least {
        let bound = format!("at least {}", least.as_nanos().div_ceil(NANOS_PER_SECOND));
        (format!("rows with column {column} of dataset {dataset}"), apart_with_column, bound)
    } else if topic.truth.has_path() && horizon > most {
        let bound = format!("at most {} for a volatility", most.as_secs());
        (format!("rows of dataset {dataset}"), apart, bound)
    } else {
        return Ok(());
    };
    Err(ApiError::invalid(format!(
        "horizon_seconds is {}, but {which} are {} seconds apart; use {bound}",
        horizon.as_secs(),
        apart.as_secs_f64(),
    )))
}

/// Returns the median interval between `rows`, or `None` if there are fewer than three rows.
fn spacing<'a>(rows: impl Iterator<Item = &'a FlatRow>) -> Option<Duration> {
    let mut timestamps: Vec<Timestamp> = rows.map(|row| row.timestamp).collect();
    timestamps.sort();
    let mut apart: Vec<Duration> =
        timestamps.iter().zip(timestamps.iter().skip(1)).map(|(a, b)| b.since(*a)).collect();
    apart.sort();
    if apart.len() < 2 { None } else { apart.get(apart.len() / 2).copied() }
}

fn listing(what: &str, names: &[String]) -> String {
    if names.is_empty() { format!("{what} none") } else { format!("{what} {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::topic::truth::Truth;

    #[test]
    fn least_horizon_in_an_error_spans_the_rows() {
        let mut topic = crate::tests::test_topics().remove(0);
        topic.truth = Truth::Volatility;
        topic.source.horizon = Duration::from_secs(1);
        let apart = Duration::from_millis(501);
        let refused = format!("{:?}", check_horizon(&topic, apart, apart));
        assert!(refused.contains("are 0.501 seconds apart; use at least 2"), "{refused}");
        topic.source.horizon = Duration::from_secs(2);
        assert!(check_horizon(&topic, apart, apart).is_ok());
    }
}
