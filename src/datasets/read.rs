//! Reading rows: a page, or the newest ones. A whole range is in `download`.

use std::sync::Arc;

use accounts::KeyId;
use bytes::Bytes;
use model::{
    dataset::{Column, DatasetId},
    resolution::Resolution,
    timestamp::Timestamp,
};

use crate::{
    Datasets,
    answers::{Answer, AnswerKey},
    aside,
    block::{Block, Rows},
    metrics,
    query::{
        DatasetRef, Order, Position, QueryError, RowsQuery, Span,
        params::{LiveQuery, Params},
    },
    render::{bare_row_bytes, text_bytes},
    store::{Count, PAGE_TEXT_BYTES_MAX, PageRead, Sight, Store, StoreError},
    tag::{Seen, Tag},
};

/// Values of a page at most, those that are not there included: 10 000 rows of 64 columns. A page of
/// more columns has fewer rows.
const PAGE_VALUES_MAX: usize = 640_000;

/// Why rows were not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ReadError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// The query asks what it may not.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// There are too many downloads.
    #[error("too many downloads are under way")]
    Busy,
    /// The store failed.
    #[error("read rows")]
    Store(#[from] StoreError),
}

/// Where the page after this one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is none: the data ends here.
    End,
    /// After this many rows.
    Offset(u64),
    /// After the row at this moment.
    After(Timestamp),
}

/// A page of rows, and what is needed to write it.
#[derive(Debug)]
pub(crate) struct RowsPage<'a> {
    pub(crate) dataset: DatasetId,
    pub(crate) columns: &'a [Column],
    /// How many match in all; 0 with a cursor, by document 2.
    pub(crate) count: u64,
    /// The rows, in the order asked for.
    pub(crate) rows: Rows,
    pub(crate) next: Next,
}

/// A page that is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) query: RowsQuery,
    /// What the query was read from. The link to the next page repeats it.
    pub(crate) params: Params,
    /// What the caller has already.
    pub(crate) seen: Seen,
}

/// What comes of asking for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// The caller has it, under this tag.
    Same(String),
    /// The page as it is sent, and its tag where it has one.
    New(Bytes, Option<Tag>),
}

/// A page as it is to be found or read.
struct Wanted {
    key: AnswerKey,
    /// Of pages of closed ranges.
    tag: Option<Tag>,
}

impl Datasets {
    /// Reads a page, written as `write` does it, on a thread that may take its time; one that was
    /// written since the last commit comes out of memory.
    ///
    /// Pages of closed ranges have a tag, which changes with every commit to the dataset.
    ///
    /// # Errors
    /// [`ReadError::NotFound`] if `key` does not see the dataset, [`ReadError::Query`] if the query
    /// asks too much.
    pub(crate) async fn rows(
        &self,
        key: KeyId,
        asked: Asked,
        write: impl FnOnce(&RowsPage<'_>, &Params) -> Vec<u8> + Send + 'static,
    ) -> Result<Read, ReadError> {
        let who = (key, asked.query.dataset.clone());
        // Looking at memory takes less time than handing the work to another thread.
        let sight = self.store.version().and_then(|version| self.answers.sight(version, &who));
        if let Some(sight) = &sight
            && let Some(read) = self.known(&self.wanted(sight, &asked)?, &asked.seen)
        {
            return Ok(read);
        }
        let datasets = self.clone();
        let read = move || {
            let sight = sight.map_or_else(|| datasets.look(who), Ok)?;
            datasets.read_page(&sight, &asked, write)
        };
        aside(read).await?
    }

    /// What a key sees of a dataset, which is kept. Blocks.
    fn look(&self, who: (KeyId, DatasetRef)) -> Result<Arc<Sight>, ReadError> {
        let version = self.store.version();
        let sight = self.store.sight(who.0, &who.1)?.ok_or(ReadError::NotFound)?;
        let sight = Arc::new(sight);
        if let Some(version) = version {
            self.answers.saw(version, who, Arc::clone(&sight));
        }
        Ok(sight)
    }

    /// Reads a page. Blocks.
    fn read_page(
        &self,
        sight: &Sight,
        asked: &Asked,
        write: impl FnOnce(&RowsPage<'_>, &Params) -> Vec<u8>,
    ) -> Result<Read, ReadError> {
        let wanted = self.wanted(sight, asked)?;
        if let Some(read) = self.known(&wanted, &asked.seen) {
            return Ok(read);
        }
        let (page, revision) = page(&*self.store, sight, &asked.query, wanted.key.span)?;
        let n_rows = self.count_rows("rows", &page);
        let body = Bytes::from(write(&page, &asked.params));
        // A commit that came in between belongs to another tag.
        let is_so = revision == sight.revision;
        if is_so {
            self.answers.put(wanted.key, Answer { body: body.clone(), n_rows });
        }
        Ok(Read::New(body, wanted.tag.filter(|_| is_so)))
    }

    /// The page, if the caller has it or it is in memory.
    fn known(&self, wanted: &Wanted, seen: &Seen) -> Option<Read> {
        if let Some(known) = wanted.tag.and_then(|tag| seen.find(tag)) {
            return Some(Read::Same(known));
        }
        let Answer { body, n_rows } = self.answers.get(&wanted.key)?;
        self.metrics.add_n(metrics::ROWS_OUT, &["rows"], n_rows);
        Some(Read::New(body, wanted.tag))
    }

    /// Where to find the page, and its tag.
    fn wanted(&self, sight: &Sight, asked: &Asked) -> Result<Wanted, QueryError> {
        let Asked { query, params, .. } = asked;
        let newest = sight.newest.filter(|_| query.is_open());
        let span = query.span(newest, self.clock.now(), self.caps)?;
        let names = sight.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
        let (dataset, revision) = (sight.grant.dataset, sight.revision);
        let tag = || Tag::of((self.era, Tag::of(params), dataset, revision, &names));
        let tag = query.is_closed().then(tag);
        let (columns, params) = (Tag::of(&names), params.clone());
        Ok(Wanted { key: AnswerKey { dataset, revision, columns, span, params }, tag })
    }

    /// Reads the newest rows of a dataset, newest first, and makes of them what `convert` makes.
    /// There are fewer than asked for where they are very long.
    ///
    /// # Errors
    /// As [`Self::rows`].
    pub(crate) async fn newest<T: Send + 'static>(
        &self,
        key: KeyId,
        query: LiveQuery,
        convert: impl FnOnce(&RowsPage<'_>) -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        let span = query.bounds.span(Resolution::Raw)?;
        let query = RowsQuery {
            dataset: query.dataset,
            resolution: Resolution::Raw,
            bounds: query.bounds,
            order: Order::Descending,
            limit: query.limit,
            // Of what is not told, nothing has to be counted.
            position: Position::After(Timestamp::MAX),
        };
        let datasets = self.clone();
        aside(move || {
            let store = &*datasets.store;
            let sight = store.sight(key, &query.dataset)?.ok_or(ReadError::NotFound)?;
            let (page, _) = page(store, &sight, &query, span)?;
            datasets.count_rows("live", &page);
            Ok(convert(&page))
        })
        .await?
    }

    /// Counts the rows of a page as read `by` a path; how many they are.
    fn count_rows(&self, by: &'static str, page: &RowsPage<'_>) -> u64 {
        let n_rows = u64::try_from(page.rows.len()).unwrap_or(u64::MAX);
        self.metrics.add_n(metrics::ROWS_OUT, &[by], n_rows);
        n_rows
    }
}

/// Reads a page, and the last commit that it includes; one row more than asked for tells whether
/// there is a next one.
///
/// A page of very long rows ends early, so that the memory for it is bounded.
fn page<'a>(
    store: &dyn Store,
    sight: &'a Sight,
    query: &RowsQuery,
    span: Span,
) -> Result<(RowsPage<'a>, u64), StoreError> {
    let (dataset, columns) = (sight.grant.dataset, sight.columns.as_slice());
    let limit = query.limit.get().min((PAGE_VALUES_MAX / columns.len().max(1)).max(1));
    let (skip, count) = match query.position {
        Position::Offset(skip) => (skip, Count::All),
        Position::After(_) => (0, Count::Nothing),
    };
    let RowsQuery { resolution, order, .. } = *query;
    let read = PageRead { resolution, span, order, skip, limit: limit + 1, count };
    let mut page = store.page(dataset, &read)?;
    let last = match &mut page.rows {
        Rows::Raw(block) => {
            let n_rows = n_fitting(block, columns, limit);
            let has_more = block.len() > n_rows;
            if has_more {
                *block = block.part(0..n_rows);
            }
            block.times.last().copied().filter(|_| has_more)
        }
        Rows::Buckets(buckets) if buckets.len() > limit => {
            buckets.truncate(limit);
            buckets.last().map(|bucket| bucket.timestamp)
        }
        Rows::Buckets(_) => None,
    };
    let next = match (last, query.position) {
        (None, _) => Next::End,
        (Some(last), Position::After(_)) => Next::After(last),
        (Some(_), Position::Offset(skip)) => {
            Next::Offset(skip.saturating_add(u64::try_from(page.rows.len()).unwrap_or(u64::MAX)))
        }
    };
    let count = page.count.unwrap_or(0);
    Ok((RowsPage { dataset, columns, count, rows: page.rows, next }, page.revision))
}

/// How many of the first rows make a page that is not too long, at least one and at most `limit`.
fn n_fitting(block: &Block, columns: &[Column], limit: usize) -> usize {
    let bare = bare_row_bytes(columns);
    let n_rows = limit.min(PAGE_TEXT_BYTES_MAX / bare).max(1);
    let texts: Vec<_> = block.columns.iter().filter_map(|series| series.texts()).collect();
    if texts.is_empty() {
        return n_rows;
    }
    let mut n_bytes = 0;
    let fits = |row_idx: &usize| {
        let texts = texts.iter().filter_map(|texts| texts.get(*row_idx)?.as_deref());
        n_bytes += bare + texts.map(text_bytes).sum::<usize>();
        n_bytes <= PAGE_TEXT_BYTES_MAX
    };
    (0..n_rows).take_while(fits).count().max(1)
}
