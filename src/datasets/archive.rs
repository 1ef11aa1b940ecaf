//! Archives old rows in the background.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use task::clock::Clock;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use tsdb::archive::objects::{ArchiveUrl, Objects};
use tsdb::archive::{ArchiveOptions, ArchiveReport, ArchivedStore};
use tsdb::store::engine::Engine;
use tsdb::store::{Store, StoreError};

use web::metrics::Metrics;

use crate::{metrics, run_blocking};

/// Interval at which months are checked for rows to archive and for corrections.
const LOOK_EVERY: Duration = Duration::from_mins(5);

/// Time after which a file that is no longer in effect is deleted. It is longer than the time limit of a
/// download, which can still be reading the file.
const GRACE: Duration = Duration::from_hours(7);

/// Settings of the archive: its address, and the age at which rows are archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveStorage {
    /// Address of the archive.
    pub url: ArchiveUrl,
    /// Time after the end of a month at which its rows are archived.
    pub after: Duration,
}

/// A store, and its archive if it has an archive.
pub(crate) type Opened = (Arc<dyn Store>, Option<Arc<ArchivedStore>>);

/// Wraps `store` with the archive `storage`, if there is one. Blocks.
///
/// # Errors
/// [`StoreError::NoArchive`] if the store has archived rows and `storage` is `None`.
pub(crate) fn open(
    store: Arc<dyn Engine>,
    storage: Option<&ArchiveStorage>,
) -> Result<Opened, StoreError> {
    let Some(storage) = storage else {
        return if store.has_archive()? { Err(StoreError::NoArchive) } else { Ok((store, None)) };
    };
    let objects = Objects::open(&storage.url).map_err(|error| StoreError::Failed(error.into()))?;
    // An archive that does not respond yet is not missing an object.
    if let Some(key) = store.key_in_effect()?
        && objects.has(&key).is_ok_and(|has| !has)
    {
        warn!(
            "archive {} does not have {key}, so raw rows of this month cannot be read: name the archive that \
             has it, or restore the object",
            objects.place()
        );
    }
    let options = ArchiveOptions { after: storage.after, grace: GRACE };
    let store = Arc::new(ArchivedStore::new(store, objects, options));
    Ok((Arc::clone(&store) as _, Some(store)))
}

/// Archives months that are old enough, at intervals until the future is dropped.
pub(crate) async fn run(store: Arc<ArchivedStore>, clock: Clock, counts: Metrics) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if store.catalog().is_read_only() {
            continue;
        }
        let (archive, now) = (Arc::clone(&store), clock.now());
        let place = store.place();
        match run_blocking(move || archive.archive(now)).await.and_then(|archived| archived) {
            // Another service with the same database is archiving.
            Ok(None) => {}
            Ok(Some(report)) => {
                let ArchiveReport { n_files, n_rows, n_deleted, .. } = report;
                counts.set(metrics::ARCHIVED_MONTHS, &[], to_gauge(report.n_months));
                counts.set(metrics::ARCHIVED_ROWS, &[], to_gauge(report.n_archived_rows));
                let seconds = now.micros().unsigned_abs() / 1_000_000;
                counts.set(metrics::ARCHIVED_AT, &[], to_gauge(seconds));
                if n_files > 0 || n_deleted > 0 {
                    info!(n_files, n_rows, n_deleted, "archived rows to {place}");
                }
            }
            // The attempt is repeated after the interval.
            Err(error) => {
                counts.add(metrics::ARCHIVE_FAILURES, &[]);
                warn!(error = &error as &dyn Error, "failed to archive rows to {place}");
            }
        }
    }
}

fn to_gauge(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
