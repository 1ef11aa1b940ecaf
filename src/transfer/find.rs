//! Finds datasets by id, name, text or metadata field, and reads their past rows.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context as _, bail};
use client::datasets::{DatasetSearch, Datasets, NamedRow, RowsQuery};
use model::dataset::{Dataset, DatasetId, Dtype};
use model::page::{Limit, ROWS_MAX};
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use crate::retry::retry_transient;

/// Minimum number of rows per request, since `is_counted` can reject many of them.
const PAGE_ROWS_MIN: usize = 1_000;

/// Maximum number of consecutive requests that find no counted row.
const EMPTY_PAGES_MAX: u32 = 100;

/// Finds the dataset with this name or id.
///
/// # Errors
/// An error if the dataset is not visible to the key, or the service refuses.
pub async fn find_dataset(service: &Datasets, name: &str) -> anyhow::Result<Dataset> {
    match look_up_dataset(service, name).await? {
        Some(dataset) => Ok(dataset),
        None => bail!(
            "no dataset {name} at {} is visible to this key\nhint: try `triptych datasets tags --acquire \
             public`",
            service.address()
        ),
    }
}

/// Finds the dataset with this name or id. Returns `None` if the dataset is not visible to the key.
///
/// # Errors
/// An error if the service cannot be reached or refuses.
pub(crate) async fn look_up_dataset(
    service: &Datasets,
    name: &str,
) -> anyhow::Result<Option<Dataset>> {
    let found = service.find_by_id_or_name(name).await;
    found.with_context(|| format!("cannot find dataset {name} at {}", service.address()))
}

/// Returns the first `limit` matching datasets, and the number of further matches.
///
/// # Errors
/// An error if the service cannot be reached or refuses.
pub async fn list_datasets(
    service: &Datasets,
    wanted: &DatasetSearch,
    limit: usize,
) -> anyhow::Result<(Vec<Dataset>, u64)> {
    let page = service.list_all(wanted, limit).await;
    let page =
        page.with_context(|| format!("cannot list the datasets of {}", service.address()))?;
    let mut datasets = page.datasets;
    let n_all = page.n_datasets.unwrap_or(0).max(datasets.len() as u64);
    datasets.truncate(limit);
    let n_more = n_all - datasets.len() as u64;
    Ok((datasets, n_more))
}

/// Reads all rows of a dataset in `span`, in ascending order. Error messages call the dataset `name`.
///
/// # Errors
/// An error if the service cannot be reached or refuses.
pub async fn read_rows(
    service: &Datasets,
    dataset: DatasetId,
    name: &str,
    span: RangeInclusive<Timestamp>,
) -> anyhow::Result<Vec<NamedRow>> {
    let (start, end) = span.into_inner();
    let mut query = RowsQuery {
        end: Some(end),
        // A cursor just before the first row: without a cursor, services limit the time range.
        after: Some(start - Duration::from_micros(1)),
        ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(ROWS_MAX))
    };
    let mut all = Vec::new();
    loop {
        let page = service.rows(&query).await;
        let page = page.with_context(|| format!("cannot read rows of {name}"))?;
        all.extend(page.rows.into_rows());
        let Some(next) = page.next else { return Ok(all) };
        query.after = Some(next);
    }
}

/// Reads the latest rows of a dataset before `before` that `is_counted` accepts, in ascending order.
/// Reads until there are `n_rows` of them, and returns fewer if the dataset has fewer, or if many earlier
/// rows are rejected. Error messages call the dataset `name`.
///
/// # Errors
/// An error if the service cannot be reached or refuses.
pub async fn read_rows_before(
    service: &Datasets,
    dataset: DatasetId,
    name: &str,
    before: Timestamp,
    n_rows: usize,
    is_counted: impl Fn(&NamedRow) -> bool,
) -> anyhow::Result<Vec<NamedRow>> {
    let limit = Limit::clamp(n_rows.clamp(PAGE_ROWS_MIN, ROWS_MAX));
    let mut query =
        RowsQuery { after: Some(before), ..RowsQuery::newest(dataset, Resolution::Raw, limit) };
    let (mut counted, mut n_empty) = (Vec::new(), 0);
    while counted.len() < n_rows && n_empty < EMPTY_PAGES_MAX {
        let page = service.rows(&query).await;
        let page = page.with_context(|| format!("cannot read rows of {name}"))?;
        let n_before = counted.len();
        counted.extend(page.rows.into_rows().into_iter().filter(&is_counted));
        n_empty = if counted.len() == n_before { n_empty + 1 } else { 0 };
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    counted.reverse();
    Ok(counted)
}

/// Returns the timestamp of the first row after `time`, up to and including `last`.
pub(crate) async fn next_timestamp(
    service: &Datasets,
    dataset: DatasetId,
    time: Timestamp,
    last: Timestamp,
) -> anyhow::Result<Option<Timestamp>> {
    let query = RowsQuery {
        after: Some(time),
        end: Some(last),
        ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(1))
    };
    let page =
        retry_transient(|| service.rows(&query)).await.context("cannot read the next row")?;
    Ok(page.rows.into_rows().first().map(|row| row.timestamp))
}

/// Finds the dataset called `name` that the key owns.
pub(crate) async fn find_owned(target: &Datasets, name: &str) -> anyhow::Result<Option<Dataset>> {
    let failed = || format!("cannot find dataset {name} at {}", target.address());
    let Some(found) = retry_transient(|| target.find_by_name(name)).await.with_context(failed)?
    else {
        return Ok(None);
    };
    let access = retry_transient(|| target.access(found.id, true)).await.with_context(failed)?;
    if access.is_owner {
        return Ok(Some(found));
    }
    bail!("dataset {name} of the target is not the key's own\nhint: pass a --prefix")
}

/// Returns the names and types of the columns of a dataset.
pub(crate) async fn read_columns(
    service: &Datasets,
    id: DatasetId,
) -> anyhow::Result<Vec<(String, Dtype)>> {
    let columns = retry_transient(|| service.columns(id)).await;
    let columns = columns.context("cannot read the columns")?;
    Ok(columns.into_iter().map(|column| (column.name, column.dtype)).collect())
}

/// Returns the timestamp of the latest row of a dataset, even if it is in the future.
pub(crate) async fn newest_timestamp(
    service: &Datasets,
    dataset: DatasetId,
) -> anyhow::Result<Option<Timestamp>> {
    let rows = retry_transient(|| service.newest(dataset, Limit::clamp(1))).await;
    Ok(rows.context("cannot read the latest row")?.first().map(|row| row.timestamp))
}

/// Returns the timestamps of the oldest and the latest row of `dataset`, or `None` if it has no rows.
///
/// # Errors
/// An error if the service refuses.
pub async fn read_range(
    service: &Datasets,
    dataset: DatasetId,
) -> anyhow::Result<Option<(Timestamp, Timestamp)>> {
    let query = RowsQuery {
        // A cursor before all rows: without a cursor, services limit the time range.
        after: Some(Timestamp::MIN),
        ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(1))
    };
    let first = service.rows(&query).await?.rows.into_rows();
    let first = first.first().map(|row| row.timestamp);
    let latest = service.newest(dataset, Limit::clamp(1)).await?;
    let last = latest.first().map(|row| row.timestamp);
    Ok(last.map(|last| (first.unwrap_or(last), last)))
}
