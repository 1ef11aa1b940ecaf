//! Document 2: the dataset service. Time series behind tags, read by page, by range or live.
//!
//! [`DatasetsService`] starts it. Inside, the façade `Datasets` has every operation without HTTP, and
//! `server/` a file for each path; `query` has the rules of a request, as plain functions of values;
//! `hub` hands new rows to followers, and `replicas` those of other services on the same store;
//! `page_cache` and `download_cache` keep what was rendered; `source/` generates live data. Rows are stored by room `tsdb`, and parsed and rendered by room `formats`.
//! Absent on purpose: how keys are made and stored, which is `accounts`.

mod append;
mod archive;
mod catalog;
mod download;
mod download_cache;
mod error;
mod etag;
mod follow;
mod hub;
mod insert;
mod key_limit;
mod log;
mod metrics;
mod page_cache;
mod query;
mod read;
mod recent_commits;
mod replicas;
mod retention;
mod server;
mod source;

use std::{path::Path, sync::Arc, time::Duration};

use model::resolution::Resolution;
use task::{clock::Clock, group::Group};
use tokio::{sync::Semaphore, task::spawn_blocking};
use tsdb::store::{Store, StoreError};
use web::{metrics::Metrics, open_files::streams_max};

use crate::{
    append::queue::AppendQueues,
    download::{DOWNLOADS_MAX, DOWNLOADS_OF_KEY_MAX, spool::Spool},
    download_cache::DownloadCache,
    follow::CATCHING_UP_MAX,
    hub::{Hub, Writers},
    key_limit::KeyLimit,
    page_cache::PageCache,
    query::Caps,
    recent_commits::RecentCommits,
};
pub use crate::{
    archive::ArchiveStorage,
    replicas::POLL_EVERY,
    server::{DatasetsOptions, DatasetsService, MetadataFilters, StartError},
    source::{
        load::LoadOptions,
        market::{MarketOptions, synthetic_closes},
    },
};

/// Every operation on datasets. Cheap to clone; all clones share one store.
///
/// The operations are grouped by file: `catalog` (datasets, tags, access), `insert`, `append`, `read`
/// (pages, newest rows), `download` and `follow`. To an operation that takes a key, a dataset that the
/// key may not see does not exist.
#[derive(Debug, Clone)]
pub(crate) struct Datasets {
    store: Arc<dyn Store>,
    hub: Hub,
    clock: Clock,
    downloads: KeyLimit,
    appends: AppendQueues,
    download_cache: Arc<DownloadCache>,
    spool: Spool,
    page_cache: Arc<PageCache>,
    recent_commits: RecentCommits,
    caps: Caps,
    /// The era of the store, which cursors of streams name.
    era: u32,
    /// Limits the readers that catch up at a time.
    catching_up: Arc<Semaphore>,
    group: Group,
    metrics: Metrics,
    /// The store's file, if it is in one.
    file: Option<Arc<Path>>,
}

/// Limits of reading rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// How far apart both bounds of a page of raw rows may be; `None` is unlimited.
    pub raw_span_max: Option<Duration>,
    /// Bytes of the download cache on the disk beside the store; 0 disables it.
    pub piece_bytes_max: u64,
}

impl ReadOptions {
    /// Document 2's cap, and a gigabyte of cached pieces: those of some ten million rows.
    pub const USUAL: Self =
        Self { raw_span_max: Resolution::Raw.span_max(), piece_bytes_max: 1 << 30 };
}

impl Datasets {
    /// The operations on `store`. Running downloads end when `group` stops.
    pub(crate) fn new(store: Arc<dyn Store>, clock: Clock, group: &Group) -> Self {
        let [a, b, c, d, ..] = store.era().to_le_bytes();
        let writers = if store.shared().is_some() { Writers::Several } else { Writers::One };
        Self {
            store,
            hub: Hub::new(streams_max(), writers),
            clock,
            downloads: KeyLimit::new(DOWNLOADS_MAX, DOWNLOADS_OF_KEY_MAX),
            appends: AppendQueues::default(),
            download_cache: Arc::default(),
            spool: Spool::default(),
            page_cache: Arc::default(),
            recent_commits: RecentCommits::default(),
            caps: Caps::USUAL,
            era: u32::from_le_bytes([a, b, c, d]),
            catching_up: Arc::new(Semaphore::new(CATCHING_UP_MAX)),
            group: group.clone(),
            metrics: metrics::new(),
            file: None,
        }
    }

    /// Checks that the store can be written and read.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await?;
        self.read_store(Store::retained).await.map(drop)
    }

    /// Returns true if the store was opened read-only: writes fail.
    pub(crate) fn is_read_only(&self) -> bool {
        self.store.is_read_only()
    }

    /// Runs `read` on a blocking thread.
    async fn read_store<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        run_blocking(move || read(&*store)).await?
    }
}

/// Runs `work` on a blocking thread, and propagates its panic.
///
/// # Errors
/// [`StoreError::Closed`] if the program is stopping.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    match spawn_blocking(work).await {
        Ok(result) => Ok(result),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Closed),
    }
}
