//! Reads pages of rows, and the latest rows. `download` reads whole ranges.

pub(crate) mod coverage;
pub(crate) mod fill;
mod read_ahead;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::block::Rows;
use model::dataset::{Column, DatasetId, Dtype};
use model::key::KeyId;
use model::resolution::Resolution;
use model::row::Fill;
use model::timestamp::Timestamp;
use tokio::time::{Instant, sleep};
use tsdb::catalog::DatasetRef;
use tsdb::span::{Order, Span};
use tsdb::store::{Count, PageRead, Sight, StoreError};

use self::read_ahead::ReadAhead;
use crate::error::{OperationError, Result};
use crate::etag::{ETag, KnownETags};
use crate::key_limit::KeyPermit;
use crate::page_cache::{CachedPage, PageKey};
use crate::query::params::Params;
use crate::query::{self, Position, RowsQuery};
use crate::{Datasets, metrics, run_blocking};

/// Maximum number of values of a page that is read together with the following pages. Larger pages are
/// read one by one.
const AHEAD_PAGE_VALUES_MAX: usize = 8192;

/// Maximum number of values that are read at a time for a caller that follows links.
const AHEAD_VALUES_MAX: usize = 16_384;

/// Maximum number of pages that are read at a time. Eight pages of 250 rows are as long as two chunks.
const AHEAD_PAGES_MAX: usize = 8;

/// Time for which a read-only service waits for a commit that its caller has seen. A healthy standby
/// lags by milliseconds. A longer wait would delay the caller although its load balancer can choose
/// another service.
const REACH_WITHIN: Duration = Duration::from_millis(500);

/// Interval at which a waiting read-only service looks for the commit. Each look is a statement.
const REACH_EVERY: Duration = Duration::from_millis(50);

/// Maximum number of concurrent long reads, which scan up to millions of rows for a short response:
/// pages of computed buckets, and coverages. A key can have half of them. Further reads wait.
pub(crate) const LONG_READS_MAX: usize = 4;

/// A page of rows, with everything else that is needed to render it.
#[derive(Debug)]
pub(crate) struct RowsPage<'a> {
    pub(crate) dataset: DatasetId,
    pub(crate) columns: &'a [Column],
    /// Number of all matches, or 0 if the page was requested by cursor, as in the upstream's API.
    pub(crate) count: u64,
    /// Rows or buckets of the page, in the requested order.
    pub(crate) rows: Rows,
    /// Start of the next page, if there is a next page.
    pub(crate) next: Option<Position>,
    /// Revision of the dataset up to which the page has all rows.
    pub(crate) revision: u64,
    /// Start of the current, incomplete bucket. Used only if the page shows which buckets are complete.
    pub(crate) current: Timestamp,
}

/// Request for a page of rows or buckets.
#[derive(Debug, Clone)]
pub(crate) struct PageRequest {
    pub(crate) query: RowsQuery,
    /// Parameters from which the query was parsed. The link to the next page repeats them.
    pub(crate) params: Params,
    /// Entity tags of the responses that the caller already has.
    pub(crate) known: KnownETags,
    /// Latest revision of the dataset that the caller has seen, if it sent one.
    pub(crate) seen: Option<u64>,
}

/// Response to a [`PageRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageResponse {
    /// Revision of the dataset up to which the response has all rows.
    pub(crate) revision: u64,
    pub(crate) body: PageResponseBody,
}

/// A page, or a reference to a page that the caller already has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageResponseBody {
    /// The caller already has the current page, with this entity tag.
    NotModified(String),
    /// The rendered page and its entity tag. A page of a query without both bounds has no tag.
    Page(Bytes, Option<ETag>),
}

/// Cache key and entity tag of a requested page.
struct PageLookup {
    key: PageKey,
    /// Latest revision of the dataset at the time of the lookup.
    revision: u64,
    /// Hash of everything in the entity tag besides the revision. `None` for a query without both
    /// bounds.
    tag: Option<ETag>,
    /// Start of the current, incomplete bucket.
    current: Timestamp,
}

impl PageLookup {
    /// Returns the entity tag of the page as read at `revision`.
    fn tag(&self, revision: u64) -> Option<ETag> {
        self.tag.map(|tag| ETag::hash((tag, revision)))
    }
}

/// Function that renders a page. The function repeats the parameters in the link to the next page.
pub(crate) type WritePage = fn(&RowsPage<'_>, &Params) -> Vec<u8>;

impl PageRequest {
    /// Returns the request for the next page, as in the link to it. Returns `None` if there is no next
    /// page or it is not requested by cursor.
    fn after(&self, next: Option<Position>) -> Option<Self> {
        let Some(Position::After(cursor)) = next else { return None };
        let query = RowsQuery { position: Position::After(cursor), ..self.query.clone() };
        let params = query::params_after(&self.params, cursor);
        Some(Self { query, params, known: KnownETags::default(), seen: None })
    }
}

impl Datasets {
    /// Reads a page and renders it with `write`, on a blocking thread. Returns a page from the cache if
    /// no commit has touched its timestamps since it was rendered.
    ///
    /// A page of a query with both bounds has an entity tag, which changes with every commit that
    /// touches its timestamps. Most requests of a caller that follows links are served from the cache.
    ///
    /// # Errors
    /// [`OperationError::NotFound`] if the dataset is not visible to `key`, or
    /// [`OperationError::Invalid`] if the query exceeds a limit.
    pub(crate) async fn rows(
        &self,
        key: KeyId,
        request: PageRequest,
        write: WritePage,
    ) -> Result<PageResponse> {
        self.reach(key, &request.query.dataset, request.seen).await?;
        let who = (key, request.query.dataset.clone());
        let version = self.store.version();
        let sight = version.and_then(|version| self.page_cache.sight(version, &who));
        if let Some(sight) = &sight
            && let Some(response) = self.find_cached(&request, &self.look_up(sight, &request)?)
        {
            return Ok(response);
        }
        let permit = match request.query.resolution {
            Resolution::Every(..) => Some(self.long_read(key).await),
            _ => None,
        };
        let datasets = self.clone();
        let read = move || {
            let sight = sight.map_or_else(|| datasets.load_sight(who), Ok)?;
            let response = datasets.respond(&sight, &request, write);
            // Released only now, even if the caller was cancelled, since the read continues then.
            drop(permit);
            response
        };
        run_blocking(read).await?
    }

    /// Waits until `key` is allowed another long read, and returns the permit for it.
    async fn long_read(&self, key: KeyId) -> KeyPermit {
        let mut permit = self.long_reads.empty_permit(key);
        permit.acquire(1).await;
        permit
    }

    /// Waits briefly until the store has the commit that the caller has seen. Only a read-only store
    /// can lack it, since it is a replica.
    ///
    /// # Errors
    /// [`OperationError::Behind`] if the commit does not arrive in time.
    pub(crate) async fn reach(
        &self,
        key: KeyId,
        which: &DatasetRef,
        seen: Option<u64>,
    ) -> Result<()> {
        let Some(revision) = seen.filter(|_| self.is_read_only()) else { return Ok(()) };
        let deadline = Instant::now() + REACH_WITHIN;
        loop {
            let sight = self.find_sight(key, which.clone()).await?;
            if sight.is_some_and(|sight| sight.revision >= revision) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(OperationError::Behind { revision });
            }
            sleep(REACH_EVERY).await;
        }
    }

    /// Reads a dataset as it is visible to a key and caches the result. Blocks.
    fn load_sight(&self, who: (KeyId, DatasetRef)) -> Result<Arc<Sight>> {
        let version = self.store.version();
        let sight = self.store.sight(Some(who.0), &who.1)?.ok_or(OperationError::NotFound)?;
        let sight = Arc::new(sight);
        if let Some(version) = version {
            self.page_cache.put_sight(version, who, Arc::clone(&sight));
        }
        Ok(sight)
    }

    /// Returns a page from the cache, or reads it. Blocks.
    fn respond(
        &self,
        sight: &Sight,
        request: &PageRequest,
        write: WritePage,
    ) -> Result<PageResponse> {
        let wanted = self.look_up(sight, request)?;
        if let Some(read) = self.find_cached(request, &wanted) {
            return Ok(read);
        }
        let answer = self.read_pages(sight, request, &wanted, write)?;
        // If a commit was made after the lookup, omits the tag, which might contain outdated columns.
        let tag = wanted.tag(answer.revision).filter(|_| answer.revision == wanted.revision);
        let revision = answer.revision;
        Ok(PageResponse { revision, body: self.count_sent(answer, tag) })
    }

    /// Reads a page and caches it. A caller that followed a link to the page will probably request the
    /// next pages. Therefore these are read and cached, too, most of them from the same chunk. Blocks.
    fn read_pages(
        &self,
        sight: &Sight,
        request: &PageRequest,
        wanted: &PageLookup,
        write: WritePage,
    ) -> Result<CachedPage> {
        let n_values = request.query.limit.get().saturating_mul(sight.columns.len()).max(1);
        let is_following_links =
            is_short(&request.query, &sight.columns) && self.page_cache.is_linked(&wanted.key);
        let n_pages = if is_following_links {
            (AHEAD_VALUES_MAX / n_values).clamp(1, AHEAD_PAGES_MAX)
        } else {
            1
        };
        let span = wanted.key.span;
        let query = &request.query;
        let columns = query.columns.of(sight, query.resolution, query.extras.complete)?;
        let params = query.link_params(&request.params, span);
        if query.extras.fill != Fill::None {
            let span = match query.position {
                Position::Offset(_) => span,
                Position::After(_) => query.bounds.span(query.resolution)?,
            };
            let page = fill::read_page(&*self.store, sight, &columns, query, span, wanted.current)?;
            let length = query.resolution.bucket().unwrap_or_default();
            let depends_on = Span { last: span.last + length, ..span };
            let page = render_page(&page, &params, depends_on, write);
            if page.revision == wanted.revision {
                self.page_cache.put(wanted.key.clone(), page.clone());
            }
            return Ok(page);
        }
        let at = (span, wanted.current);
        let mut ahead = ReadAhead::read(&*self.store, sight, &columns, query, at, n_pages)?;
        let (page, depends_on) = ahead.take_page();
        let first = render_page(&page, &params, depends_on, write);
        // If a commit was made after the lookup, does not cache the page, since its key might contain
        // outdated columns.
        if page.revision != wanted.revision {
            return Ok(first);
        }
        self.page_cache.put(wanted.key.clone(), first.clone());
        let mut next = page.next;
        while let Some(request) = request.after(next) {
            let Ok(wanted) = self.look_up(sight, &request) else { break };
            if !ahead.has_page_of(wanted.key.span) {
                self.page_cache.add_link(&wanted.key);
                break;
            }
            let (page, depends_on) = ahead.take_page();
            self.page_cache.put(wanted.key, render_page(&page, &request.params, depends_on, write));
            next = page.next;
        }
        Ok(first)
    }

    /// Returns the response if the caller already has the current page, or if it is cached.
    fn find_cached(&self, request: &PageRequest, wanted: &PageLookup) -> Option<PageResponse> {
        let cached = self.page_cache.get(&wanted.key, wanted.revision);
        // The tag contains the revision at which the page was read, which can be earlier than the
        // latest.
        let revision = cached.as_ref().map_or(wanted.revision, |answer| answer.revision);
        let tag = wanted.tag(revision);
        let body = match tag.and_then(|tag| request.known.find(tag)) {
            Some(known) => PageResponseBody::NotModified(known),
            None => self.count_sent(cached?, tag),
        };
        // A valid cached page has all rows of the latest revision.
        Some(PageResponse { revision: wanted.revision, body })
    }

    /// Counts the rows of a response in the metrics.
    fn count_sent(&self, answer: CachedPage, tag: Option<ETag>) -> PageResponseBody {
        self.metrics.add_n(metrics::ROWS_OUT, &["rows"], answer.n_rows);
        PageResponseBody::Page(answer.body, tag)
    }

    /// Computes the cache key and the entity tag of a page.
    fn look_up(&self, sight: &Sight, request: &PageRequest) -> Result<PageLookup> {
        let PageRequest { query, params, .. } = request;
        let now = self.clock.now();
        let window_end = if query.is_open() { self.window_end(sight, now)? } else { None };
        let span = query.span(window_end, now, self.raw_span_max)?;
        let names = sight.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
        let (dataset, revision) = (sight.dataset.id, sight.revision);
        let current = query.resolution.bucket_start(now);
        let columns = ETag::hash((&names, query.extras.complete.then_some(current)));
        let tag =
            query.is_closed().then(|| ETag::hash((self.era, ETag::hash(params), dataset, columns)));
        let key = PageKey { dataset, columns, span, params: params.clone() };
        Ok(PageLookup { key, revision, tag, current })
    }

    /// Returns the end of the span of a query without bounds: the timestamp of the latest row that is
    /// not in the future, or of the latest row if all are in the future. Returns `None` if there are no
    /// rows.
    ///
    /// Thus a single row with a wrong date in the future does not hide all other rows. Only if the
    /// latest row is in the future, the store is read.
    fn window_end(&self, sight: &Sight, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        if sight.newest.is_none_or(|newest| newest <= now) {
            return Ok(sight.newest);
        }
        let read = PageRead {
            resolution: Resolution::Raw,
            span: Span { first: Timestamp::MIN, last: now },
            order: Order::Descending,
            skip: 0,
            limit: 1,
            count: Count::Nothing,
        };
        let page = self.store.page(sight.dataset.id, &read)?;
        Ok(page.rows.timestamp(0).or(sight.newest))
    }

    /// Reads the latest rows of a dataset, newest first, and converts them with `convert`. If rows are
    /// very long, there are fewer than requested, since their total size is limited.
    ///
    /// # Errors
    /// The same as for [`Self::rows`].
    pub(crate) async fn newest<T: Send + 'static>(
        &self,
        key: KeyId,
        query: RowsQuery,
        seen: Option<u64>,
        convert: impl FnOnce(&RowsPage<'_>) -> T + Send + 'static,
    ) -> Result<T> {
        let span = query.bounds.span(Resolution::Raw)?;
        self.reach(key, &query.dataset, seen).await?;
        let datasets = self.clone();
        run_blocking(move || {
            let store = &*datasets.store;
            let sight = store.sight(Some(key), &query.dataset)?.ok_or(OperationError::NotFound)?;
            let columns = query.columns.of(&sight, query.resolution, false)?;
            let at = (span, Timestamp::MIN);
            let (page, _) = ReadAhead::read(store, &sight, &columns, &query, at, 1)?.take_page();
            datasets.metrics.add_n(metrics::ROWS_OUT, &["live"], n_rows(&page));
            Ok(convert(&page))
        })
        .await?
    }
}

/// Renders a page with `write`, as an entry of the page cache.
fn render_page(
    page: &RowsPage<'_>,
    params: &Params,
    depends_on: Span,
    write: WritePage,
) -> CachedPage {
    let mut body = write(page, params);
    // Frees the spare capacity, which would otherwise occupy memory in the cache.
    body.shrink_to_fit();
    let body = Bytes::from(body);
    CachedPage { body, n_rows: n_rows(page), revision: page.revision, depends_on }
}

/// Returns the number of rows of a page.
fn n_rows(page: &RowsPage<'_>) -> u64 {
    u64::try_from(page.rows.len()).unwrap_or(u64::MAX)
}

/// Returns true if a page has few values, all of types with a fixed size.
fn is_short(query: &RowsQuery, columns: &[Column]) -> bool {
    query.limit.get().saturating_mul(columns.len()) <= AHEAD_PAGE_VALUES_MAX
        && columns.iter().all(|column| column.dtype != Dtype::String)
}
