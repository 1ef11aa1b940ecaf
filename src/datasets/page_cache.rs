//! Caches rendered pages, and datasets as they are visible to each key ([`Sight`]).
//!
//! Stale entries are never returned. A page is valid until a commit touches a timestamp that it depends
//! on, which [`commits`] tracks. Thus pages of history remain valid while new rows arrive. A sight is
//! valid for one version of the store, which any commit of any process changes. `cargo bench -p datasets
//! --bench http -- page` shows the gain (lines "requested again" and "next").

mod commits;

use std::sync::Arc;

use bytes::Bytes;
use model::dataset::DatasetId;
use model::key::KeyId;
use parking_lot::Mutex;
use task::cache::{Cache, Capacity};
use tsdb::catalog::DatasetRef;
use tsdb::span::Span;
use tsdb::store::Sight;

use self::commits::Commits;
use crate::etag::ETag;
use crate::query::params::Params;

/// Maximum total size of cached pages: some four hundred pages of 250 rows.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum size of a cached page, so that a few large pages do not evict all other pages.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Estimated memory of a cached page besides its body.
const OVERHEAD_BYTES: usize = 512;

/// Maximum number of recorded links. Each reader that follows links needs one at a time.
const LINKS_MAX: usize = 4096;

/// Maximum number of cached sights. A sight of a dataset with seven columns occupies about a kilobyte.
const SIGHTS_MAX: usize = 4096;

/// Key of a page: everything besides the rows that determines its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    pub(crate) dataset: DatasetId,
    /// Hash of the columns of the dataset, since columns can be added without a commit of rows. If the
    /// page shows which buckets are complete, also a hash of the current, incomplete bucket.
    pub(crate) columns: ETag,
    /// Timestamps that the page covers.
    pub(crate) span: Span,
    /// Parameters of the query as the caller wrote them. The link to the next page repeats them.
    pub(crate) params: Params,
}

/// A rendered page, with the revision and the timestamps for which it is valid.
#[derive(Debug, Clone)]
pub(crate) struct CachedPage {
    /// Response body without content coding.
    pub(crate) body: Bytes,
    /// Number of rows of the page, for the metrics.
    pub(crate) n_rows: u64,
    /// Revision of the dataset when the page was read.
    pub(crate) revision: u64,
    /// Timestamps that the page depends on. Rows at other timestamps change neither the rows of the
    /// page, nor its count, nor whether there is a next page.
    pub(crate) depends_on: Span,
}

#[derive(Debug)]
pub(crate) struct PageCache {
    pages: Cache<PageKey, CachedPage>,
    /// Timestamps that recent commits have changed, which decide whether a cached page is still valid.
    commits: Mutex<Commits>,
    /// Hashes of the keys of pages to which responses contained links.
    links: Cache<ETag, ()>,
    /// Datasets as they are visible to keys, each with a version of the store, determined before the
    /// dataset was read.
    sights: Cache<(KeyId, DatasetRef), (i64, Arc<Sight>)>,
}

impl Default for PageCache {
    fn default() -> Self {
        let pages = Capacity { n_values_max: usize::MAX, bytes_max: BYTES_MAX };
        let by_number = |n_values_max| Capacity { n_values_max, bytes_max: usize::MAX };
        Self {
            pages: Cache::new(pages),
            commits: Mutex::default(),
            links: Cache::new(by_number(LINKS_MAX)),
            sights: Cache::new(by_number(SIGHTS_MAX)),
        }
    }
}

impl PageCache {
    /// Returns the page if it is cached and still valid at `revision`, the current revision of the
    /// dataset.
    pub(crate) fn get(&self, key: &PageKey, revision: u64) -> Option<CachedPage> {
        let page = self.pages.get(key)?;
        let commits = self.commits.lock();
        let is_valid = commits.is_untouched(key.dataset, page.revision, revision, page.depends_on);
        is_valid.then_some(page)
    }

    /// Caches a page unless it is longer than [`PAGE_BYTES_MAX`].
    pub(crate) fn put(&self, key: PageKey, page: CachedPage) {
        if page.body.len() <= PAGE_BYTES_MAX {
            self.commits.lock().begin(key.dataset, page.revision);
            let n_bytes = page.body.len() + OVERHEAD_BYTES;
            self.pages.put(key, page, n_bytes);
        }
    }

    /// Records that commit `revision` of a dataset only touched rows within `span`. A commit that is not
    /// recorded counts as touching all rows.
    pub(crate) fn record_commit(&self, dataset: DatasetId, revision: u64, span: Span) {
        self.commits.lock().add(dataset, revision, span);
    }

    /// Records that a response contained a link to a page, which is not cached yet.
    pub(crate) fn add_link(&self, page: &PageKey) {
        self.links.put(ETag::hash(page), (), 0);
    }

    /// Returns true if a response contained a link to the page, so the caller is probably following
    /// links.
    pub(crate) fn is_linked(&self, page: &PageKey) -> bool {
        self.links.get(&ETag::hash(page)).is_some()
    }

    /// Returns the cached sight of a dataset and a key if it was read at `version` of the store.
    pub(crate) fn sight(&self, version: i64, who: &(KeyId, DatasetRef)) -> Option<Arc<Sight>> {
        let (read_at, sight) = self.sights.get(who)?;
        (read_at == version).then_some(sight)
    }

    /// Caches the sight of a dataset and a key. `version` is the version of the store before the sight
    /// was read.
    pub(crate) fn put_sight(&self, version: i64, who: (KeyId, DatasetRef), sight: Arc<Sight>) {
        self.sights.put(who, (version, sight), 0);
    }
}

#[cfg(test)]
mod tests;
