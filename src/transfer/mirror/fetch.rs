//! Reads datasets, columns, and rows of a range by bulk downloads that shrink when they fail.
//!
//! Rows are received in order, so that a broken download is resumed after its last row.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use client::datasets::Datasets;
use client::datasets::download::{Download, DownloadQuery};
use client::datasets::elements::Elements;
use client::error::ClientError;
use formats::read::column_mapping::ColumnMapping;
use model::dataset::{Dataset, DatasetId, Dtype};
use model::resolution::Resolution;
use model::row::Row;
use model::timestamp::Timestamp;
use task::backoff::Backoff;
use tokio::time::sleep;

use crate::retry::{is_transient, retry_transient};

/// Maximum number of rows that are read from a download: tens of megabytes. A longer download is
/// cut off.
pub(super) const ROWS_MAX: usize = 50_000;

/// Minimum span that is halved. The public service's own clients go down to a day.
const SPAN_MIN: Duration = Duration::from_mins(1);

/// Failures of a span before it is halved, the same as in the public service's own clients.
const TRIES_MAX: u32 = 3;

/// Total number of failures after which the copy of a dataset fails.
const FAILURES_MAX: u32 = 24;

/// Shortest and longest wait before a retry.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Smallest step between two timestamps.
pub(super) const STEP: Duration = Duration::from_micros(1);

/// Rows from the start of a range on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fetched {
    /// Rows in ascending order.
    pub(super) rows: Vec<Row>,
    /// Timestamp up to which the rows are complete.
    pub(super) until: Timestamp,
}

/// Reason why a download stopped early.
enum Broken {
    /// It failed, possibly after some rows.
    Failed(anyhow::Error),
    /// The service asks to retry after this time.
    Later(Duration),
    /// The span is too wide for the service.
    TooWide,
    /// The service refuses. A retry cannot succeed.
    Refused(ClientError),
}

/// Fetches all or the first rows from `start` to `end`.
///
/// # Errors
/// An error if it fails repeatedly, or the service refuses permanently.
pub(super) async fn fetch(
    source: &Datasets,
    dataset: DatasetId,
    plan: &ColumnMapping,
    start: Timestamp,
    mut end: Timestamp,
) -> anyhow::Result<Fetched> {
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    let mut n_failed = 0;
    loop {
        let mut rows = Vec::new();
        let done = download(source, dataset, plan, start, end, &mut rows).await;
        let newest = rows.last().map(|row: &Row| row.timestamp);
        match (done, newest) {
            // Rows before the failure are valid.
            (Ok(until), _) | (Err(Broken::Failed(_)), Some(until)) => {
                return Ok(Fetched { rows, until });
            }
            (Err(Broken::Later(wait)), _) => sleep(wait).await,
            (Err(Broken::Refused(error)), _) => return Err(error).context("cannot fetch rows"),
            (Err(Broken::TooWide), _) => end = halve(start, end)?,
            (Err(Broken::Failed(error)), None) => {
                n_failed += 1;
                if n_failed >= FAILURES_MAX {
                    return Err(error);
                }
                sleep(backoff.next_wait()).await;
                if n_failed % TRIES_MAX == 0 && end.since(start) > SPAN_MIN {
                    end = halve(start, end)?;
                }
            }
        }
    }
}

/// Returns the middle of `start` and `end`.
fn halve(start: Timestamp, end: Timestamp) -> anyhow::Result<Timestamp> {
    let span = end.since(start);
    if span < SPAN_MIN {
        bail!("service does not serve even a minute of rows");
    }
    Ok(start + span / 2)
}

/// Appends the rows of a range to `rows`. Returns the timestamp up to which they are complete.
async fn download(
    source: &Datasets,
    dataset: DatasetId,
    plan: &ColumnMapping,
    start: Timestamp,
    end: Timestamp,
    rows: &mut Vec<Row>,
) -> Result<Timestamp, Broken> {
    let query = DownloadQuery {
        dataset,
        resolution: Resolution::Raw,
        start: Some(start),
        end: Some(end),
        output: "json",
    };
    let mut download: Download = source.download(&query).await?;
    let mut elements = Elements::default();
    while let Some(bytes) = download.next().await? {
        let fed = elements.feed(&bytes, |object| {
            let row = plan.row_of_json(object);
            let row = row.map_err(|reason| anyhow!("invalid row: {reason}"))?;
            if rows.last().is_some_and(|last: &Row| last.timestamp >= row.timestamp) {
                bail!("row at {} is out of order", row.timestamp);
            }
            // Further rows are parsed and dropped.
            if rows.len() < ROWS_MAX && (start..=end).contains(&row.timestamp) {
                rows.push(row);
            }
            Ok(())
        });
        fed.map_err(Broken::Failed)?;
        if let Some(last) = rows.last().filter(|_| rows.len() >= ROWS_MAX) {
            return Ok(last.timestamp);
        }
    }
    elements.end().map_err(|error| Broken::Failed(error.into()))?;
    Ok(end)
}

impl From<ClientError> for Broken {
    fn from(error: ClientError) -> Self {
        /// Text of the documents for a range that is too wide.
        const TOO_WIDE: &str = "time range exceeds maximum";
        match error {
            ClientError::Limited { retry_after, .. } => {
                Self::Later(retry_after.unwrap_or(RETRY.1).max(RETRY.0))
            }
            ClientError::Refused { status: 400, message } if message.contains(TOO_WIDE) => {
                Self::TooWide
            }
            error if error.status().is_some() && !is_transient(&error) => Self::Refused(error),
            error => Self::Failed(anyhow::Error::new(error).context("cannot fetch rows")),
        }
    }
}

/// Finds the dataset called `name` that the key owns.
pub(super) async fn find_owned(target: &Datasets, name: &str) -> anyhow::Result<Option<Dataset>> {
    let failed = || format!("cannot find dataset {name} at {}", target.address());
    let Some(found) = retry_transient(|| target.find_by_name(name)).await.with_context(failed)?
    else {
        return Ok(None);
    };
    let access = retry_transient(|| target.access(found.id, true)).await.with_context(failed)?;
    if access.is_owner {
        return Ok(Some(found));
    }
    bail!("dataset {name} of the target belongs to another key\nhint: pass a --prefix")
}

pub(super) async fn read_columns(
    service: &Datasets,
    id: DatasetId,
) -> anyhow::Result<Vec<(String, Dtype)>> {
    let columns = retry_transient(|| service.columns(id)).await;
    let columns = columns.context("cannot read the columns")?;
    Ok(columns.into_iter().map(|column| (column.name, column.dtype)).collect())
}
