//! The dataset service: time series with access by tags, read by page, by range or live.
//!
//! [`DatasetsService`] starts the service. Internally, `Datasets` provides every operation without HTTP.
//! `server/` has a file for each path. `query` contains the rules for requests as pure functions. `hub`
//! delivers new rows to followers. `replicas` delivers rows that other services with the same store
//! committed. `page_cache` and `download_cache` cache rendered responses. `source/` generates live data.
//! The crate `tsdb` stores rows. `formats` parses and renders them. API keys belong to `accounts`.
//!
//! ```no_run
//! # use datasets::{DatasetsOptions, DatasetsService};
//! # async fn example(options: DatasetsOptions) -> Result<(), Box<dyn std::error::Error>> {
//! use task::{clock::Clock, group::Group};
//!
//! let group = Group::default();
//! let service = DatasetsService::start(options, &group, Clock::system()).await?;
//! println!("http://{}/api", service.address());
//! group.stopped().await;
//! # Ok(())
//! # }
//! ```

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
mod metrics;
mod page_cache;
mod query;
mod read;
mod replicas;
mod retention;
mod server;
mod source;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::resolution::Resolution;
use task::clock::Clock;
use task::group::Group;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tsdb::store::{Store, StoreError};
use web::metrics::Metrics;
use web::open_files::streams_max;

use crate::append::AppendQueues;
pub use crate::archive::ArchiveStorage;
use crate::download::spool::Spool;
use crate::download::{DOWNLOADS_MAX, DOWNLOADS_OF_KEY_MAX};
use crate::download_cache::DownloadCache;
use crate::follow::CATCHING_UP_MAX;
use crate::hub::{Hub, Writers};
use crate::key_limit::KeyLimit;
use crate::page_cache::PageCache;
use crate::read::LONG_READS_MAX;
pub use crate::replicas::POLL_EVERY;
pub use crate::server::{DatasetsOptions, DatasetsService, StartError};
pub use crate::source::load::LoadOptions;
pub use crate::source::market::{MarketOptions, synthetic_closes};

/// Operations on datasets. All clones share the same store.
///
/// The operations are grouped by file: `catalog` (datasets, tags, access), `insert`, `append`, `read`
/// (pages, latest rows), `download` and `follow`. An operation with a key treats a dataset that is not
/// visible to the key as missing.
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
    /// Maximum time between the bounds of a page of raw rows; `None` for no limit.
    raw_span_max: Option<Duration>,
    /// Era of the store, which is part of stream cursors.
    era: u32,
    /// Permits for readers that catch up concurrently.
    catching_up: Arc<Semaphore>,
    /// Permits to read the changes of a commit for a reader that was live. They are separate, so that
    /// readers of changes do not delay readers that catch up.
    reading_changes: Arc<Semaphore>,
    /// Permits for reads that scan many rows for a short response.
    long_reads: KeyLimit,
    group: Group,
    metrics: Metrics,
    /// Path of the store's file; `None` if the store is a database.
    file: Option<Arc<Path>>,
}

/// Limits and caches of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Maximum time between the bounds of a page of raw rows; `None` for no limit.
    pub raw_span_max: Option<Duration>,
    /// Maximum number of bytes in the download cache on disk, next to the store. 0 disables the cache.
    pub piece_bytes_max: u64,
}

impl ReadOptions {
    /// Limit of the upstream's API, and a download cache of a gigabyte, enough for about ten million
    /// rows.
    pub const USUAL: Self =
        Self { raw_span_max: Resolution::Raw.span_max(), piece_bytes_max: 1 << 30 };
}

impl Datasets {
    /// Creates the operations on `store`. Stopping `group` ends downloads in progress.
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
            raw_span_max: ReadOptions::USUAL.raw_span_max,
            era: u32::from_le_bytes([a, b, c, d]),
            catching_up: Arc::new(Semaphore::new(CATCHING_UP_MAX)),
            reading_changes: Arc::new(Semaphore::new(CATCHING_UP_MAX)),
            long_reads: KeyLimit::new(LONG_READS_MAX, LONG_READS_MAX / 2),
            group: group.clone(),
            metrics: metrics::new(),
            file: None,
        }
    }

    /// Checks that the store can be read and written.
    ///
    /// # Errors
    /// [`StoreError`] with the reason why it cannot.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await?;
        self.read_store(|store| store.retained()).await.map(drop)
    }

    /// Returns true if the store was opened read-only, so writes fail.
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

/// Runs `work` on a blocking thread. Propagates a panic of `work`.
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
