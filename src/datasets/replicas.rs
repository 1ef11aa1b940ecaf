//! Publishes commits of other services on the same store to the readers of this service.
//!
//! The store is the source of truth. At intervals, and whenever the store signals new commits, one
//! statement reads the latest revisions of all datasets with readers. Missing commits are then read.
//! They are read immediately if this service itself makes a later commit to the dataset. The task is
//! idle while no dataset has readers. The task does not run if only this service writes to the store.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use formats::write::Writer;
use futures::{StreamExt as _, stream};
use model::dataset::DatasetId;
use tokio::select;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};
use tsdb::catalog::DatasetRef;
use tsdb::store::postgres::PostgresStore;
use tsdb::store::{Commit, Store, StoreError};

use crate::Datasets;
use crate::follow::render_frames;
use crate::hub::frame::{CommitRows, Frame};

/// Default interval of polls. Readers hardly notice a quarter of a second, and the load on the database
/// is low.
pub const POLL_EVERY: Duration = Duration::from_millis(250);

/// Pause after each round of reads, in which commits of other services accumulate for the next round.
const PAUSE: Duration = Duration::from_millis(20);

/// Number of datasets that are read concurrently. Each read uses a connection to the database.
const READS_MAX: usize = 4;

/// Number of commits of a dataset that are read at a time.
const COMMITS_MAX: usize = 8192;

/// Maximum number of rows that are read at a time, a few megabytes. A single commit can have more.
const ROWS_MAX: u64 = 8192;

/// Publishes the commits of other services until the future is dropped.
pub(crate) async fn run(datasets: Datasets, poll_every: Duration) {
    let mut follower = Follower { datasets, n_withdrawn: None };
    let hub = follower.datasets.hub.clone();
    let mut next_poll = Instant::now();
    let mut is_failing = false;
    loop {
        let is_poll = select! {
            () = sleep_until(next_poll) => true,
            () = wait_for_hint(&*follower.datasets.store) => true,
            () = hub.wait_for_work() => false,
        };
        if is_poll {
            next_poll = Instant::now() + poll_every;
        }
        match follower.run_round(is_poll).await {
            Ok(()) if is_failing => {
                info!("the commits of other services can be read again");
                is_failing = false;
            }
            // The next round repeats the failed reads.
            Err(error) if !is_failing => {
                let error = &error as &dyn Error;
                warn!(error, "failed to read the commits of other services; retrying");
                is_failing = true;
            }
            Ok(()) | Err(_) => {}
        }
        if is_failing {
            sleep(poll_every).await;
        }
        if hub.followed().is_empty() {
            hub.wait_for_work().await;
        }
        sleep(PAUSE).await;
    }
}

/// Waits for a hint of a commit by another service. Never returns if the store gives no hints.
async fn wait_for_hint(store: &dyn Store) {
    match store.shared() {
        Some(shared) => shared.hinted().await,
        None => pending().await,
    }
}

/// Reader of the commits of other services.
struct Follower {
    datasets: Datasets,
    /// Number of times that a tag was removed from a dataset or a key, as of the latest poll.
    n_withdrawn: Option<i64>,
}

/// Result of reading the commits after a published commit.
enum Missing {
    /// All commits of the dataset are published.
    Nothing,
    /// The next commits, up to the revision `through`. `is_more` is true if more can follow.
    Frames { frames: Vec<Frame>, through: u64, is_more: bool },
    /// Some of the commits to publish are no longer recorded.
    Lost,
}

impl Follower {
    /// Reads and publishes missing commits. If `is_poll`, looks for them in the store first.
    async fn run_round(&mut self, is_poll: bool) -> Result<(), StoreError> {
        if is_poll {
            self.poll().await?;
        }
        let behind = self.datasets.hub.take_behind();
        let datasets = &self.datasets;
        let read = |(dataset, after)| async move {
            let result = datasets.publish_missing(dataset, after).await;
            if result.is_err() {
                datasets.hub.mark_behind(dataset);
            }
            result
        };
        let results: Vec<_> =
            stream::iter(behind).map(read).buffer_unordered(READS_MAX).collect().await;
        results.into_iter().collect()
    }

    /// Reads the latest revisions of all datasets with readers, to find missing commits.
    async fn poll(&mut self) -> Result<(), StoreError> {
        let hub = self.datasets.hub.clone();
        let followed = hub.followed();
        if followed.is_empty() {
            return Ok(());
        }
        let ids: Vec<DatasetId> = followed.iter().map(|followed| followed.dataset).collect();
        let heads = self.datasets.read_store(move |store| shared(store)?.heads(&ids)).await?;
        for followed in followed {
            let head = heads.revisions.get(&followed.dataset).copied();
            hub.note_head(followed, head);
        }
        if self.n_withdrawn.replace(heads.n_withdrawn) != Some(heads.n_withdrawn) {
            hub.recheck_all_access();
        }
        Ok(())
    }
}

/// Returns access to the commits of other services.
fn shared(store: &dyn Store) -> Result<&PostgresStore, StoreError> {
    store.shared().ok_or(StoreError::Closed)
}

impl Datasets {
    /// Reads and publishes the commits of a dataset after the published revision `after`.
    async fn publish_missing(&self, dataset: DatasetId, after: u64) -> Result<(), StoreError> {
        let era = self.era;
        let read = self.read_store(move |store| read_missing(store, dataset, after, era)).await;
        match read {
            // The readers then connect to a service that has the archive.
            Err(StoreError::NoArchive) => {
                warn!(dataset.id = %dataset, "cannot read the archived rows of dataset {dataset}; closing its streams");
                self.hub.lose(dataset);
                return Ok(());
            }
            read => self.publish_read(dataset, after, read?),
        }
        Ok(())
    }

    fn publish_read(&self, dataset: DatasetId, after: u64, read: Missing) {
        match read {
            Missing::Nothing => {}
            Missing::Frames { frames, through, is_more } => {
                self.hub.publish_read(dataset, after, through, frames);
                if is_more {
                    self.hub.mark_behind(dataset);
                }
            }
            Missing::Lost => {
                warn!(dataset.id = %dataset, "commits of dataset {dataset} are no longer recorded; closing its streams");
                self.hub.lose(dataset);
            }
        }
    }
}

/// Reads and renders some of the commits with revisions above `after`. Blocks.
fn read_missing(
    store: &dyn Store,
    dataset: DatasetId,
    after: u64,
    era: u32,
) -> Result<Missing, StoreError> {
    let mut commits = shared(store)?.commits(dataset, after, COMMITS_MAX)?;
    let (Some(first), Some(sight)) =
        (commits.first().copied(), store.sight(None, &DatasetRef::Id(dataset))?)
    else {
        return Ok(Missing::Nothing);
    };
    let n_found = commits.len();
    let mut n_rows = 0;
    let n_read = commits.iter().take_while(|commit| {
        n_rows += commit.n_rows;
        n_rows <= ROWS_MAX
    });
    commits.truncate(n_read.count().max(1));
    let Some(last) = commits.last().copied() else { return Ok(Missing::Nothing) };
    let n_rows: u64 = commits.iter().map(|commit| commit.n_rows).sum();
    let limit = usize::try_from(n_rows).unwrap_or(usize::MAX);
    let since = store.since(dataset, first.first_row - 1, limit)?;
    let Some(since) = since.filter(|_| first.revision == after + 1) else {
        return Ok(Missing::Lost);
    };
    // Rows that a later commit replaced are missing in `since`. Rows of later commits can be included,
    // but belong to none of these commits.
    let commits: Vec<CommitRows> =
        commits.iter().map(|commit| rows_of(commit, &since.rows.ids)).collect();
    let mut writer = Writer::new(dataset, &sight.columns);
    let frames = render_frames(&mut writer, &since.rows, &commits, era);
    let is_more = commits.len() < n_found || n_found == COMMITS_MAX;
    Ok(Missing::Frames { frames, through: last.revision, is_more })
}

/// Returns the range of a commit's rows within rows with the ascending row numbers `numbers`.
fn rows_of(commit: &Commit, numbers: &[i64]) -> CommitRows {
    let end = commit.first_row.saturating_add_unsigned(commit.n_rows);
    let before = |number: i64| numbers.partition_point(|there| *there < number);
    CommitRows { revision: commit.revision, rows: before(commit.first_row)..before(end) }
}
