//! Document 2: the dataset service. Time series behind tags, read by page, by range or live.
//!
//! [`DatasetsService`] starts all of it. Inside, the façade `Datasets` is every operation without
//! HTTP; `server/` is one file for each path of it; `query`, `rollup`, `render` and `block` are the
//! rules, as plain functions of values; `store/` keeps rows and the buckets made of them; `hub`
//! takes new rows to those who follow; `source/` makes live data. Absent on purpose: how keys are
//! made and kept, which is `accounts`.

mod append;
mod block;
mod catalog;
mod follow;
mod hub;
mod query;
mod read;
mod render;
mod rollup;
mod server;
mod source;
mod store;

use std::sync::Arc;

use task::{clock::Clock, group::Group};
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    hub::Hub,
    read::DOWNLOADS_MAX,
    store::{Store, StoreError},
};
pub use crate::{
    server::{DatasetsOptions, DatasetsService, HEARTBEAT_EVERY, StartError},
    source::{load::LoadOptions, market::MarketOptions},
};

/// Every operation on datasets. Cheap to clone; all clones share one store.
///
/// The operations are grouped by file: `catalog` (datasets, tags, access), `append`, `read` (pages,
/// newest rows, downloads) and `follow`. Those that take a key see what the key may see: a dataset
/// that it may not see is to it one that does not exist.
#[derive(Debug, Clone)]
pub(crate) struct Datasets {
    store: Arc<dyn Store>,
    hub: Hub,
    clock: Clock,
    downloads: Arc<Semaphore>,
    group: Group,
}

impl Datasets {
    /// The operations on what is in `store`. Downloads under way end when `group` stops.
    pub(crate) fn new(store: Arc<dyn Store>, clock: Clock, group: &Group) -> Self {
        let downloads = Arc::new(Semaphore::new(DOWNLOADS_MAX));
        Self { store, hub: Hub::default(), clock, downloads, group: group.clone() }
    }

    /// Runs `read` on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        aside(move || read(&*store)).await?
    }
}

/// Runs `work` on a thread that may take its time. A panic goes on here.
///
/// # Errors
/// [`StoreError::Closed`] if the program is stopping.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    match spawn_blocking(work).await {
        Ok(result) => Ok(result),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Closed),
    }
}
