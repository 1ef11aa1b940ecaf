//! Whether a topic can work with the dataset that it is to read.

use std::{sync::Arc, time::Duration};

use model::timestamp::Timestamp;
use task::causes::chain;
use tokio::time::timeout;

use super::error::ApiError;
use crate::network::{
    rows::{DatasetColumn, Described, Rows},
    runner::ROWS_WITHIN,
    topic::Topic,
};

/// How many of the newest rows show how far apart they are: with fewer than three there is no telling.
const N_ROWS: u32 = 20;

/// Refuses a `topic` whose dataset or column does not exist, or whose horizon is shorter than rows
/// are apart.
///
/// # Errors
/// An [`ApiError`] that says what exists, or that the dataset service does not answer.
pub(super) async fn check(rows: &Arc<dyn Rows>, topic: &Topic) -> Result<(), ApiError> {
    let source = &topic.source;
    let (name, column) = (&source.dataset, &source.column);
    let unchecked =
        |why: String| ApiError::unavailable(format!("cannot check dataset {name}: {why}"));
    let late = |_| unchecked(format!("no answer within {ROWS_WITHIN:?}"));
    let described = timeout(ROWS_WITHIN, rows.describe(name, source.dataset_id)).await;
    let (id, columns) = match described.map_err(late)? {
        Err(cause) => return Err(unchecked(chain(cause.as_ref()))),
        Ok(Described::Missing { others }) => {
            return Err(ApiError::invalid(format!(
                "there is no dataset {name} that this service's key may read; {}",
                list("it may read", &others)
            )));
        }
        Ok(Described::Ambiguous { ids }) => {
            return Err(ApiError::invalid(format!(
                "several datasets are called {name}: set dataset_id to one of {}",
                ids.join(", ")
            )));
        }
        Ok(Described::Found { id, columns }) => (id, columns),
    };
    let of_numbers = || columns.iter().filter(|column| column.is_numeric);
    let numbers: Vec<String> = of_numbers().map(|column| column.name.clone()).collect();
    let is_column = |known: &&DatasetColumn| known.name == *column;
    let what = match columns.iter().find(is_column) {
        Some(known) if known.is_numeric => None,
        Some(_) => Some(format!("column {column} of dataset {name} does not hold numbers")),
        None => Some(format!("dataset {name} has no column {column}")),
    };
    if let Some(what) = what {
        let numbers = list("columns of numbers are", &numbers);
        return Err(ApiError::invalid(format!("{what}; {numbers}")));
    }
    let newest = timeout(ROWS_WITHIN, rows.newest(id, N_ROWS)).await.map_err(late)?;
    let newest = newest.map_err(|cause| unchecked(chain(cause.as_ref())))?;
    let apart = spacing(newest.iter().map(|row| row.timestamp).collect());
    match apart.filter(|apart| *apart > source.horizon) {
        Some(apart) => Err(ApiError::invalid(format!(
            "horizon_seconds is {} and rows of dataset {name} are {} seconds apart: no row would say \
             what came true; it is at least {}",
            source.horizon.as_secs(),
            apart.as_secs(),
            apart.as_secs()
        ))),
        None => Ok(()),
    }
}

/// How far apart most of `timestamps` are; none where there are too few.
fn spacing(mut timestamps: Vec<Timestamp>) -> Option<Duration> {
    timestamps.sort();
    let mut apart: Vec<Duration> =
        timestamps.iter().zip(timestamps.iter().skip(1)).map(|(a, b)| b.since(*a)).collect();
    apart.sort();
    if apart.len() < 2 { None } else { apart.get(apart.len() / 2).copied() }
}

fn list(what: &str, names: &[String]) -> String {
    if names.is_empty() { format!("{what} none") } else { format!("{what} {}", names.join(", ")) }
}
