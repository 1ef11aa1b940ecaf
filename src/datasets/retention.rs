//! Retention: deletes old rows of datasets whose metadata limit their rows.
//!
//! `keep_days` is relative to the current date, `keep_bytes` is counted back from the latest row. Rows
//! are deleted in whole chunks of about a thousand. Their buckets remain. New rows that are older than
//! the deleted rows are rejected.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use model::dataset::{Dataset, DatasetId};
use model::timestamp::Timestamp;
use task::clock::Clock;
use task::steady_date::SteadyDate;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};
use tsdb::store::{OnRemoval, StoreError};

use crate::Datasets;

/// Metadata field with the number of days for which rows are retained.
pub(crate) const KEEP_DAYS: &str = "keep_days";

/// Metadata field with the maximum number of bytes that the retained rows need.
pub(crate) const KEEP_BYTES: &str = "keep_bytes";

/// Interval of checks for old rows. A limit in days need not be exact to the minute.
const LOOK_EVERY: Duration = Duration::from_mins(5);

/// Time for which a leap of the clock must persist before rows are deleted according to the new date, so
/// that an operator can notice the leap.
const LEAP_HOLD: Duration = Duration::from_hours(1);

/// Number of rows deleted in one transaction, during which other writers wait.
const PRUNE_ROWS: usize = 8192;

/// Maximum retention in days: a hundred years.
const DAYS_MAX: u32 = 36_525;

/// Retention of a dataset. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Retention {
    pub(crate) age: Option<Duration>,
    pub(crate) n_bytes: Option<u64>,
}

impl Retention {
    /// Parses the retention from metadata.
    ///
    /// # Errors
    /// Description of the values that are allowed in the invalid field.
    pub(crate) fn from_metadata(metadata: &BTreeMap<String, String>) -> Result<Self, String> {
        let age = match metadata.get(KEEP_DAYS).map(|text| text.parse()) {
            None => None,
            Some(Ok(days @ 1..=DAYS_MAX)) => Some(Duration::from_hours(u64::from(days) * 24)),
            Some(_) => return Err(format!("{KEEP_DAYS} must be 1 to {DAYS_MAX}")),
        };
        let n_bytes = match metadata.get(KEEP_BYTES).map(|text| text.parse::<u64>()) {
            None => None,
            Some(Ok(n_bytes @ 1..)) => Some(n_bytes),
            Some(_) => return Err(format!("{KEEP_BYTES} must be a whole number from 1")),
        };
        Ok(Self { age, n_bytes })
    }
}

/// Deletes old rows at intervals until the future is dropped.
pub(crate) async fn run(datasets: Datasets, clock: Clock) {
    // The clock might be ahead at the start. To delete no rows too early, the date starts at the latest
    // change of a dataset.
    let retained = datasets.read_store(|store| store.retained()).await.unwrap_or_default();
    let changed = retained.iter().map(|dataset| dataset.updated_at).max();
    let start = changed.unwrap_or_else(|| clock.now());
    let mut date = SteadyDate::new(clock, start, LEAP_HOLD);
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match delete_old(&datasets, date.read()).await {
            Ok(0) => {}
            Ok(n_rows) => debug!(n_rows, "deleted {n_rows} rows that are no longer kept"),
            // The next check repeats the attempt.
            Err(error) => warn!(error = &error as &dyn Error, "failed to delete old rows"),
        }
    }
}

/// Deletes the rows that exceed the retention of their datasets on `date`. Returns the number of deleted
/// rows.
pub(crate) async fn delete_old(datasets: &Datasets, date: Timestamp) -> Result<u64, StoreError> {
    let mut n_rows = 0;
    for Dataset { id: dataset, metadata, .. } in
        datasets.read_store(|store| store.retained()).await?
    {
        // The metadata was checked when it was set.
        let Retention { age, n_bytes } = Retention::from_metadata(&metadata).unwrap_or_default();
        let by_size = match n_bytes {
            Some(n_bytes) => {
                datasets.read_store(move |store| store.newest_within(dataset, n_bytes)).await?
            }
            None => None,
        };
        if let Some(before) = age.map(|age| date - age).max(by_size) {
            n_rows += prune(datasets, dataset, before).await?;
        }
    }
    Ok(n_rows)
}

impl Datasets {
    /// Prunes rows before `before`, at most about `limit_rows`. Returns the number of pruned rows.
    pub(crate) async fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
    ) -> Result<u64, StoreError> {
        let hub = self.hub.clone();
        let on_commit: OnRemoval = Box::new(move |removed| {
            // If no rows were removed, the latest commit may be that of another service.
            if removed.n_rows > 0 {
                hub.publish(dataset, removed.revision, Vec::new);
            }
        });
        self.store.prune(dataset, before, limit_rows, on_commit).await
    }
}

async fn prune(
    datasets: &Datasets,
    dataset: DatasetId,
    before: Timestamp,
) -> Result<u64, StoreError> {
    let mut n_rows = 0;
    loop {
        match datasets.prune(dataset, before, PRUNE_ROWS).await {
            // The dataset was deleted in the meantime.
            Ok(0) | Err(StoreError::NoDataset { .. }) => return Ok(n_rows),
            Ok(n_gone) => n_rows += n_gone,
            Err(error) => return Err(error),
        }
    }
}
