//! Past rows of a dataset, oldest first: what a backtest reads.

use std::{ops::RangeInclusive, time::Duration};

use anyhow::Context as _;
use client::datasets::{Datasets, NamedRow, RowsQuery};
use model::{
    dataset::DatasetId,
    page::{Limit, ROWS_MAX},
    resolution::Resolution,
    timestamp::Timestamp,
};

/// All rows of `dataset`, which is called `name`, in `span`, oldest first.
///
/// # Errors
/// If the service refuses.
pub async fn read_rows(
    service: &Datasets,
    dataset: DatasetId,
    name: &str,
    span: RangeInclusive<Timestamp>,
) -> anyhow::Result<Vec<NamedRow>> {
    let (start, end) = span.into_inner();
    let mut query = RowsQuery {
        end: Some(end),
        // A cursor before the first row: the widest span is for queries without one.
        after: Some(start - Duration::from_micros(1)),
        ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(ROWS_MAX))
    };
    let mut all = Vec::new();
    loop {
        let page = service.rows(&query).await.with_context(|| format!("read rows of {name}"))?;
        all.extend(page.rows.into_raw());
        let Some(next) = page.next else { return Ok(all) };
        query.after = Some(next);
    }
}

/// The timestamps of the oldest and the newest row of `dataset`; `None` where it has no rows.
///
/// # Errors
/// If the service refuses.
pub async fn read_range(
    service: &Datasets,
    dataset: DatasetId,
) -> anyhow::Result<Option<(Timestamp, Timestamp)>> {
    let query = RowsQuery {
        // A cursor before the first row: the widest span is for queries without one.
        after: Some(Timestamp::MIN),
        ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(1))
    };
    let first = service.rows(&query).await?.rows.into_raw();
    let first = first.first().map(|row| row.timestamp);
    let newest = service.newest(dataset, Limit::clamp(1)).await?;
    let last = newest.first().map(|row| row.timestamp);
    Ok(last.map(|last| (first.unwrap_or(last), last)))
}
