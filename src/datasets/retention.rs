//! Retention: deletes old rows of datasets with a limit in their metadata.
//!
//! `keep_days` limits the age of rows relative to the current date. `keep_bytes` limits the size of all
//! rows that are not archived, from the latest row backward. Rows are deleted in whole chunks of about a
//! thousand, archived rows in whole months by `keep_days` alone, and their buckets remain. Afterwards,
//! rows as old as the deleted rows are rejected.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use model::dataset::{Dataset, DatasetId};
use model::timestamp::Timestamp;
use task::clock::Clock;
use task::steady_date::SteadyDate;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use tsdb::store::{OnRemoval, Removed, StoreError};

use crate::Datasets;

/// Metadata field with the number of days for which rows are retained.
pub(crate) const KEEP_DAYS: &str = "keep_days";

/// Metadata field with the maximum size of the retained rows in bytes.
pub(crate) const KEEP_BYTES: &str = "keep_bytes";

/// Interval at which old rows are deleted. A limit in days need not be exact to the minute.
const LOOK_EVERY: Duration = Duration::from_mins(5);

/// Number of rows that one transaction deletes, during which other writers wait.
const PRUNE_ROWS: usize = 8192;

/// Maximum retention in days: a hundred years.
const DAYS_MAX: u32 = 36_525;

/// Maximum age and maximum size of the rows that a dataset retains. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Retention {
    pub(crate) age: Option<Duration>,
    pub(crate) n_bytes: Option<u64>,
}

impl Retention {
    /// Parses the retention of a dataset from its metadata.
    ///
    /// # Errors
    /// A text with the allowed values of the invalid field.
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
    let mut date = SteadyDate::after_start(clock);
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match delete_old(&datasets, date.read()).await {
            Ok(0) => {}
            Ok(n_rows) => info!(n_rows, "deleted {n_rows} rows that are no longer kept"),
            // The deletion is repeated after the interval.
            Err(error) => warn!(error = &error as &dyn Error, "failed to delete old rows"),
        }
    }
}

/// Returns true if an error affects all datasets.
const fn is_of_store(error: &StoreError) -> bool {
    use StoreError::{Closed, Format, Full, Locked, ReadOnly, Replaced, Unreachable};
    matches!(error, Closed | Format(_) | Full | Locked | ReadOnly | Replaced | Unreachable(_))
}

/// Deletes the rows that exceed the retention of their datasets at the time `date`. Returns the number
/// of deleted rows. Continues with the next dataset if one fails.
pub(crate) async fn delete_old(datasets: &Datasets, date: Timestamp) -> Result<u64, StoreError> {
    let mut n_rows = 0;
    for Dataset { id, metadata, .. } in datasets.read_store(|store| store.retained()).await? {
        match datasets.prune_retained(id, &metadata, date).await {
            Ok(n_gone) => n_rows += n_gone,
            Err(error) if is_of_store(&error) => return Err(error),
            Err(error) => warn!(dataset.id = %id, error = &error as &dyn Error,
                "failed to delete old rows of dataset {id}"),
        }
    }
    Ok(n_rows)
}

impl Datasets {
    async fn prune_retained(
        &self,
        dataset: DatasetId,
        metadata: &BTreeMap<String, String>,
        date: Timestamp,
    ) -> Result<u64, StoreError> {
        // Never invalid, since metadata is checked when it is set.
        let Retention { age, n_bytes } = Retention::from_metadata(metadata).unwrap_or_default();
        let by_size = match n_bytes {
            Some(n_bytes) => {
                self.read_store(move |store| store.newest_within(dataset, n_bytes)).await?
            }
            None => None,
        };
        match age.map(|age| date - age).max(by_size) {
            Some(before) => self.prune(dataset, before).await,
            None => Ok(0),
        }
    }

    /// Removes rows before `before`, in several transactions. Returns the number of removed rows.
    pub(crate) async fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
    ) -> Result<u64, StoreError> {
        let hub = self.hub.clone();
        let on_commit: OnRemoval = Arc::new(move |removed| {
            // Without removed rows, no commit was made, and `revision` can be the revision of another
            // service's commit.
            if removed.n_rows > 0 {
                hub.publish(dataset, removed.revision, Vec::new);
            }
        });
        let mut n_rows = 0;
        loop {
            let on_commit = Arc::clone(&on_commit);
            match self.store.prune(dataset, before, PRUNE_ROWS, on_commit).await {
                Ok(Removed { n_rows: n_gone @ 1.., .. }) => n_rows += n_gone,
                // The second case is a dataset that was deleted meanwhile.
                Ok(_) | Err(StoreError::NoDataset { .. }) => return Ok(n_rows),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_too_old_in_the_first_hour_after_a_start() {
        let clock = Clock::manual(Timestamp::from_seconds(1_800_000_000));
        let mut date = SteadyDate::after_start(clock.clone());
        for _ in 0..60 {
            assert!(date.read() < Timestamp::from_seconds(3_601));
            clock.advance(Duration::from_mins(1));
        }
        assert_eq!(date.read(), clock.now());
    }
}
