//! The last commit of each dataset that a client has seen. Requests name it, since a service behind a
//! load balancer could otherwise read a copy of the database that is older than the previous response.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use model::dataset::DatasetId;
use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response};
use wire::paths::REVISION_HEADER;

/// Maximum number of remembered datasets. The least recently used one is evicted.
const DATASETS_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Commits that were seen. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct SeenRevisions(Arc<Mutex<LruCache<DatasetId, u64>>>);

impl Default for SeenRevisions {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(DATASETS_MAX))))
    }
}

impl SeenRevisions {
    /// Requests a response that includes the last seen commit of a dataset.
    pub(crate) fn ask(&self, request: RequestBuilder, dataset: DatasetId) -> RequestBuilder {
        match self.0.lock().get(&dataset) {
            Some(revision) => request.header(REVISION_HEADER, *revision),
            None => request,
        }
    }

    /// Records the commit in a response, if it contains one.
    pub(crate) fn note(&self, response: &Response, dataset: DatasetId) {
        let revision = response.headers().get(REVISION_HEADER);
        let Some(revision) = revision.and_then(|revision| revision.to_str().ok()?.parse().ok())
        else {
            return;
        };
        let mut all = self.0.lock();
        let last = all.get_or_insert_mut(dataset, || revision);
        *last = revision.max(*last);
    }
}
