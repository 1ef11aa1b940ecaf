//! Remembers the latest revision of each dataset from the responses to a client. Later requests contain
//! this revision. Otherwise, a service behind a load balancer could read from a replica of the database
//! that is older than the previous response.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use model::dataset::DatasetId;
use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response};
use wire::paths::REVISION_HEADER;

/// Maximum number of datasets with a remembered revision. The least recently used dataset is forgotten.
const DATASETS_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Latest seen revision of each dataset. Clones share the revisions.
#[derive(Debug, Clone)]
pub(crate) struct SeenRevisions(Arc<Mutex<LruCache<DatasetId, u64>>>);

impl Default for SeenRevisions {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(DATASETS_MAX))))
    }
}

impl SeenRevisions {
    /// Adds the latest seen revision of a dataset to `request`, so that a replica responds only when it
    /// has this revision.
    pub(crate) fn ask(&self, request: RequestBuilder, dataset: DatasetId) -> RequestBuilder {
        match self.0.lock().get(&dataset) {
            Some(revision) => request.header(REVISION_HEADER, *revision),
            None => request,
        }
    }

    /// Records the revision in the header of `response`, if there is one.
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
