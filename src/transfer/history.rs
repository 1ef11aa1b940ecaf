//! Past rows of a dataset, oldest first: what a backtest reads.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use anyhow::{Context as _, bail};
use client::datasets::{Datasets, NamedRow, Order, Rows, RowsQuery};
use model::{dataset::DatasetId, page::Limit, resolution::Resolution, timestamp::Timestamp};

/// Rows of one answer of the dataset service: its limit.
const PAGE: usize = 10_000;

/// The widest span of raw rows that is asked for at once, well within what the service allows.
const SPAN: Duration = Duration::from_hours(24);

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
    let mut by_timestamp: BTreeMap<Timestamp, NamedRow> = BTreeMap::new();
    let (mut start, to) = span.into_inner();
    while start <= to {
        let end = (start + SPAN).min(to);
        let query = RowsQuery {
            start: Some(start),
            end: Some(end),
            order: Order::Ascending,
            ..RowsQuery::newest(dataset, Resolution::Raw, Limit::clamp(PAGE))
        };
        let page = service.rows(&query).await.with_context(|| format!("read rows of {name}"))?;
        let Rows::Raw(rows) = page.rows else { bail!("read rows of {name}: it sends buckets") };
        let last = rows.iter().map(|row| row.timestamp).max();
        let is_full = rows.len() >= PAGE;
        by_timestamp.extend(rows.into_iter().map(|row| (row.timestamp, row)));
        // A full page ends before the span does: go on from its last row.
        start = match last.filter(|last| is_full && *last > start) {
            Some(last) => last,
            None => end + Duration::from_micros(1),
        };
    }
    Ok(by_timestamp.into_values().collect())
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
        order: Order::Ascending,
        ..RowsQuery::newest(dataset, Resolution::Raw, Limit::clamp(1))
    };
    let first = match service.rows(&query).await?.rows {
        Rows::Raw(rows) => rows.first().map(|row| row.timestamp),
        Rows::Buckets(_) => None,
    };
    let newest = service.newest(dataset, Limit::clamp(1)).await?;
    let last = newest.first().map(|row| row.timestamp);
    Ok(last.map(|last| (first.unwrap_or(last), last)))
}
