//! Reads pages of rows and the latest rows. `download` reads whole ranges.

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

/// Maximum number of values of a page that can be read ahead together with other pages. Larger pages are
/// read individually.
const AHEAD_PAGE_VALUES_MAX: usize = 8192;

/// Maximum number of values that one read returns for a caller that follows links.
const AHEAD_VALUES_MAX: usize = 16_384;

/// Maximum number of pages that one read returns. Two chunks contain as many pages of 250 rows.
const AHEAD_PAGES_MAX: usize = 8;

/// Time for which a read-only service waits for a commit that its caller has seen. A healthy standby
/// lags by milliseconds. A longer wait would delay the caller, although its load balancer could choose
/// another service.
const REACH_WITHIN: Duration = Duration::from_millis(500);

/// Interval of checks for that commit. Each check runs a statement.
const REACH_EVERY: Duration = Duration::from_millis(50);

/// Maximum number of concurrent reads of up to millions of rows whose response is short: pages of computed
/// buckets, and coverages. A key can have half of them. Further reads wait.
pub(crate) const LONG_READS_MAX: usize = 4;

/// A page of rows, with everything that is needed to render it.
#[derive(Debug)]
pub(crate) struct RowsPage<'a> {
    pub(crate) dataset: DatasetId,
    pub(crate) columns: &'a [Column],
    /// Number of all matches. It is 0 if the page was requested by cursor, as in the upstream's API.
    pub(crate) count: u64,
    /// Rows in the requested order.
    pub(crate) rows: Rows,
    /// Start of the next page, if there is one.
    pub(crate) next: Option<Position>,
    /// Revision of the dataset that the page fully includes.
    pub(crate) revision: u64,
    /// Start of the current, incomplete bucket. Only used if the page shows which buckets are complete.
    pub(crate) current: Timestamp,
}

/// Request for a page.
#[derive(Debug, Clone)]
pub(crate) struct PageRequest {
    pub(crate) query: RowsQuery,
    /// Parameters from which the query was parsed. The link to the next page repeats them.
    pub(crate) params: Params,
    /// Entity tags of the responses that the caller already has.
    pub(crate) known: KnownETags,
    /// Latest revision that the caller has seen, if it sent one.
    pub(crate) seen: Option<u64>,
}

/// Response to a [`PageRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageResponse {
    /// Revision of the dataset that the response fully includes.
    pub(crate) revision: u64,
    pub(crate) body: PageResponseBody,
}

/// A page, unless the caller already has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageResponseBody {
    /// The caller already has the current page, which has this entity tag.
    NotModified(String),
    /// The rendered page and its entity tag. The tag is `None` for a page without both bounds.
    Page(Bytes, Option<ETag>),
}

/// Cache key and entity tag of a page.
struct PageLookup {
    key: PageKey,
    /// Latest revision of the dataset.
    revision: u64,
    /// Part of the entity tag that does not depend on the revision. `None` for a page without both
    /// bounds.
    tag: Option<ETag>,
    /// Start of the current, incomplete bucket.
    current: Timestamp,
}

impl PageLookup {
    /// Returns the entity tag of the page at a revision.
    fn tag(&self, revision: u64) -> Option<ETag> {
        self.tag.map(|tag| ETag::hash((tag, revision)))
    }
}

/// Function that renders a page. The link to the next page repeats the parameters.
pub(crate) type WritePage = fn(&RowsPage<'_>, &Params) -> Vec<u8>;

impl PageRequest {
    /// Returns the request to which the link to the next page leads. Returns `None` if that page is not
    /// selected by a cursor.
    fn after(&self, next: Option<Position>) -> Option<Self> {
        let Some(Position::After(cursor)) = next else { return None };
        let query = RowsQuery { position: Position::After(cursor), ..self.query.clone() };
        let params = query::params_after(&self.params, cursor);
        Some(Self { query, params, known: KnownETags::default(), seen: None })
    }
}

impl Datasets {
    /// Reads a page and renders it with `write`, on a blocking thread. Returns a cached page if it was
    /// rendered before and no commit has touched its timestamps since.
    ///
    /// A page with both bounds has an entity tag, which changes with every commit that touches its
    /// timestamps. A caller that follows the links from page to page finds most pages in the cache.
    ///
    /// # Errors
    /// [`OperationError::NotFound`] if the dataset is not visible to `key`, [`OperationError::Invalid`]
    /// if the query exceeds a limit.
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
            Resolution::Every(_) => Some(self.long_read(key).await),
            _ => None,
        };
        let datasets = self.clone();
        let read = move || {
            let sight = sight.map_or_else(|| datasets.load_sight(who), Ok)?;
            let response = datasets.respond(&sight, &request, write);
            // Held until the end even if the caller has gone.
            drop(permit);
            response
        };
        run_blocking(read).await?
    }

    /// Waits for a permit for a long read.
    async fn long_read(&self, key: KeyId) -> KeyPermit {
        let mut permit = self.long_reads.empty_permit(key);
        permit.acquire(1).await;
        permit
    }

    /// Waits briefly until a read-only store, which is a replica, has the commit that the caller has
    /// seen. A writable store always has it.
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
        // A commit in between may have added columns that the entity tag does not include.
        let tag = wanted.tag(answer.revision).filter(|_| answer.revision == wanted.revision);
        let revision = answer.revision;
        Ok(PageResponse { revision, body: self.count_sent(answer, tag) })
    }

    /// Reads a page and caches it. If the caller followed a link to it, the caller will probably request
    /// the next pages. These are read at the same time, since most of them are in the same chunk.
    /// Blocks.
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
        if query.extras.fill != Fill::None {
            let span = match query.position {
                Position::Offset(_) => span,
                Position::After(_) => query.bounds.span(query.resolution)?,
            };
            let page =
                fill::read_page(&*self.store, sight, &columns, query, (span, wanted.current))?;
            let length = query.resolution.bucket().unwrap_or_default();
            let depends_on = Span { last: span.last + length, ..span };
            let page = render_page(&page, &request.params, depends_on, write);
            if page.revision == wanted.revision {
                self.page_cache.put(wanted.key.clone(), page.clone());
            }
            return Ok(page);
        }
        let at = (span, wanted.current);
        let mut ahead = ReadAhead::read(&*self.store, sight, &columns, query, at, n_pages)?;
        let (page, depends_on) = ahead.take_page();
        let first = render_page(&page, &request.params, depends_on, write);
        // A commit was made in between: see the entity tag in `respond`.
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

    /// Returns the response if the caller already has the page, or if the page is cached.
    fn find_cached(&self, request: &PageRequest, wanted: &PageLookup) -> Option<PageResponse> {
        let cached = self.page_cache.get(&wanted.key, wanted.revision);
        // The entity tag of a valid cached page contains the revision at which the page was read.
        let revision = cached.as_ref().map_or(wanted.revision, |answer| answer.revision);
        let tag = wanted.tag(revision);
        let body = match tag.and_then(|tag| request.known.find(tag)) {
            Some(known) => PageResponseBody::NotModified(known),
            None => self.count_sent(cached?, tag),
        };
        // A valid cached page is current at the latest revision.
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

    /// Returns the end of the span of a query without bounds. It is the timestamp of the latest row that
    /// is not in the future. If all rows are in the future, it is the timestamp of the latest row, and
    /// if there are no rows, `None`.
    ///
    /// Thus a single row with a wrong date in the future does not hide all others. The store is only
    /// read if the latest row is in the future.
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

    /// Reads the latest rows of a dataset, newest first, and converts them. Their total size is limited,
    /// so that fewer rows than requested are returned if they are very long.
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

/// Renders a page for the cache.
fn render_page(
    page: &RowsPage<'_>,
    params: &Params,
    depends_on: Span,
    write: WritePage,
) -> CachedPage {
    let mut body = write(page, params);
    // Otherwise the spare capacity would also be cached.
    body.shrink_to_fit();
    let body = Bytes::from(body);
    CachedPage { body, n_rows: n_rows(page), revision: page.revision, depends_on }
}

/// Returns the number of rows of a page.
fn n_rows(page: &RowsPage<'_>) -> u64 {
    u64::try_from(page.rows.len()).unwrap_or(u64::MAX)
}

/// Returns true if a page has few values, all of which have types of a fixed size.
fn is_short(query: &RowsQuery, columns: &[Column]) -> bool {
    query.limit.get().saturating_mul(columns.len()) <= AHEAD_PAGE_VALUES_MAX
        && columns.iter().all(|column| column.dtype != Dtype::String)
}
