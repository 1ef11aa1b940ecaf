//! Finds the rows of a dataset that an import replaces.

use std::collections::HashSet;
use std::time::Duration;

use client::datasets::{Datasets, RowsQuery};
use model::dataset::DatasetId;
use model::page::{Limit, ROWS_MAX};
use model::resolution::Resolution;
use model::row::Row;
use model::timestamp::Timestamp;

use crate::retry::retry_transient;

/// Maximum number of pages that are read for a batch. A few rows that are far apart, with many stored
/// rows between them, would need a page each. If more pages are needed, the number of replaced rows in
/// the report is a lower bound.
const PAGES_MAX: usize = 20;

/// Lookup of the rows that a dataset had before an import.
#[derive(Debug)]
pub(super) struct StoredRows<'a> {
    service: &'a Datasets,
    dataset: DatasetId,
    /// Latest timestamp of the dataset before the import.
    newest: Timestamp,
}

/// Rows that the dataset had before an import, at the timestamps of a batch.
#[derive(Debug, Default)]
pub(super) struct FoundRows {
    pub(super) times: HashSet<Timestamp>,
    /// True if some timestamps were not looked up, so the dataset can have further rows at these
    /// timestamps.
    pub(super) is_least: bool,
}

impl<'a> StoredRows<'a> {
    /// Reads the latest row of `dataset`. Returns `None` if the dataset has no rows or cannot be read.
    pub(super) async fn open(service: &'a Datasets, dataset: DatasetId) -> Option<Self> {
        let newest = retry_transient(|| service.newest(dataset, Limit::clamp(1))).await;
        // A key that can write but not read imports without counts of replaced rows.
        let newest = newest.ok()?.first()?.timestamp;
        Some(Self { service, dataset, newest })
    }

    /// Returns those timestamps of `rows` at which the dataset already has rows.
    pub(super) async fn find(&self, rows: &[Row]) -> FoundRows {
        let mut found = FoundRows::default();
        let mut times: Vec<Timestamp> = rows.iter().map(|row| row.timestamp).collect();
        times.retain(|at| *at <= self.newest);
        times.sort_unstable();
        times.dedup();
        let mut rest = times.as_slice();
        for _ in 0..PAGES_MAX {
            let (Some(first), Some(last)) = (rest.first(), rest.last()) else { return found };
            let query = RowsQuery {
                end: Some(*last),
                after: Some(*first - Duration::from_micros(1)),
                ..RowsQuery::oldest(
                    self.dataset,
                    Resolution::Raw,
                    Limit::clamp(rest.len().min(ROWS_MAX)),
                )
            };
            let Ok(page) = retry_transient(|| self.service.rows(&query)).await else { break };
            let stored: Vec<Timestamp> =
                page.rows.into_rows().into_iter().map(|row| row.timestamp).collect();
            let Some(read_until) = stored.last().copied() else { return found };
            found.times.extend(stored.into_iter().filter(|at| rest.binary_search(at).is_ok()));
            if page.next.is_none() {
                return found;
            }
            rest = rest.get(rest.partition_point(|at| *at <= read_until)..).unwrap_or_default();
        }
        found.is_least = !rest.is_empty();
        found
    }
}
