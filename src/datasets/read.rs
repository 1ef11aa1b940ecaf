//! Reading rows: a page, or the newest ones. A whole range is in `download`.

mod pace;
mod stretch;

use std::{io, sync::Arc};

use bytes::Bytes;
use model::{
    block::Rows,
    dataset::{Column, DatasetId, Dtype},
    key::KeyId,
    resolution::Resolution,
    timestamp::Timestamp,
};
use tokio::{runtime::Handle, task::block_in_place, time::Instant};
use tsdb::{
    catalog::DatasetRef,
    span::{Order, Span},
    store::{Count, PageRead, Sight, StoreError},
};

pub(crate) use self::pace::Pace;
use self::stretch::Stretch;
use crate::{
    Datasets,
    answers::{Answer, AnswerKey},
    aside, metrics,
    query::{
        Position, QueryError, RowsQuery, link,
        params::{LiveQuery, Params},
    },
    tag::{Seen, Tag},
};

/// Values that are read where they are asked for: it takes a fraction of a millisecond, less than to
/// wake another thread. What is longer, or may be, is read on a thread that may take its time.
const AT_ONCE_VALUES_MAX: usize = 8192;

/// Values that are read in one go for who follows links: twice as many.
const TOGETHER_VALUES_MAX: usize = 16_384;

/// Pages that are: of 250 rows, as many as two chunks have.
const PAGES_MAX: usize = 8;

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
    /// The disk failed that keeps files while callers read parts of them.
    #[error("keep the file for reading in parts")]
    Spool(#[source] io::Error),
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
    /// The last commit that it includes.
    pub(crate) revision: u64,
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
    /// The last commit of the dataset.
    revision: u64,
    /// Of pages of closed ranges: what is the same at all commits.
    tag: Option<Tag>,
}

impl Wanted {
    /// The tag of the page as it was read at a commit.
    fn tag(&self, revision: u64) -> Option<Tag> {
        self.tag.map(|tag| Tag::of((tag, revision)))
    }
}

/// Writes a page, whose link to the next one repeats the parameters.
pub(crate) type Write = fn(&RowsPage<'_>, &Params) -> Vec<u8>;

impl Asked {
    /// The page that follows by a cursor, as who follows the link to it asks for it.
    fn after(&self, next: Next) -> Option<Self> {
        let Next::After(cursor) = next else { return None };
        let query = RowsQuery { position: Position::After(cursor), ..self.query.clone() };
        let params = link::params_after(&self.params, cursor);
        Some(Self { query, params, seen: Seen::default() })
    }
}

impl Datasets {
    /// Reads a page, written as `write` does it, on a thread that may take its time if it takes
    /// long; one that was written before, and that no commit has touched since, comes out of memory.
    ///
    /// Pages of closed ranges have a tag, which changes with every commit that touches them. Who
    /// follows the links from page to page finds most of them read.
    ///
    /// # Errors
    /// [`ReadError::NotFound`] if `key` does not see the dataset, [`ReadError::Query`] if the query
    /// asks too much.
    pub(crate) async fn rows(
        &self,
        key: KeyId,
        asked: Asked,
        write: Write,
    ) -> Result<Read, ReadError> {
        let who = (key, asked.query.dataset.clone());
        // Looking at memory takes less time than handing the work to another thread.
        let mut sight = self.store.version().and_then(|version| self.answers.sight(version, &who));
        if let Some(sight) = &sight
            && let Some(read) = self.known(&asked, &self.wanted(sight, &asked)?)
        {
            return Ok(read);
        }
        if is_near(&asked.query)
            && has_other_threads()
            && let Some(mut pace) = self.pace.try_lock()
        {
            let look = || here(&mut pace, || self.look(who.clone()));
            let near = sight.take().map_or_else(look, Ok)?;
            if is_short(&asked.query, &near.columns) {
                return here(&mut pace, || self.answer(&near, &asked, write));
            }
            sight = Some(near);
        }
        let datasets = self.clone();
        let read = move || {
            let sight = sight.map_or_else(|| datasets.look(who), Ok)?;
            datasets.answer(&sight, &asked, write)
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

    /// Answers with a page out of memory, or with one that is read. Blocks.
    fn answer(&self, sight: &Sight, asked: &Asked, write: Write) -> Result<Read, ReadError> {
        let wanted = self.wanted(sight, asked)?;
        if let Some(read) = self.known(asked, &wanted) {
            return Ok(read);
        }
        let answer = self.read_pages(sight, asked, &wanted, write)?;
        // With a commit that came in between, columns may have come that the tag does not name.
        let tag = wanted.tag(answer.revision).filter(|_| answer.revision == wanted.revision);
        Ok(self.sent(answer, tag))
    }

    /// Reads a page, and keeps it. If the caller came to it by the link of the page before, and so
    /// is about to ask for the next ones, those are read with it: they are for the most part in the
    /// same chunk, and no other thread has to be woken or waited for. Blocks.
    fn read_pages(
        &self,
        sight: &Sight,
        asked: &Asked,
        wanted: &Wanted,
        write: Write,
    ) -> Result<Answer, ReadError> {
        let n_values = asked.query.limit.get().saturating_mul(sight.columns.len()).max(1);
        let is_led = is_short(&asked.query, &sight.columns) && self.answers.is_linked(&wanted.key);
        let n_pages = if is_led { (TOGETHER_VALUES_MAX / n_values).clamp(1, PAGES_MAX) } else { 1 };
        let span = wanted.key.span;
        let mut stretch = Stretch::read(&*self.store, sight, &asked.query, (span, n_pages))?;
        let (page, reach) = stretch.page();
        let first = answer(&page, &asked.params, reach, write);
        // As with the tag.
        if page.revision != wanted.revision {
            return Ok(first);
        }
        self.answers.put(wanted.key.clone(), first.clone());
        let mut next = page.next;
        while let Some(asked) = asked.after(next) {
            let Ok(wanted) = self.wanted(sight, &asked) else { break };
            if !stretch.has_page_of(wanted.key.span) {
                self.answers.link(&wanted.key);
                break;
            }
            let (page, reach) = stretch.page();
            self.answers.put(wanted.key, answer(&page, &asked.params, reach, write));
            next = page.next;
        }
        Ok(first)
    }

    /// The answer, if the caller has the page or it is in memory.
    fn known(&self, asked: &Asked, wanted: &Wanted) -> Option<Read> {
        let kept = self.answers.get(&wanted.key, wanted.revision);
        // A page that still holds has the tag of the commit that it was read at.
        let revision = kept.as_ref().map_or(wanted.revision, |answer| answer.revision);
        let tag = wanted.tag(revision);
        if let Some(known) = tag.and_then(|tag| asked.seen.find(tag)) {
            return Some(Read::Same(known));
        }
        Some(self.sent(kept?, tag))
    }

    /// A page that is sent, which is counted.
    fn sent(&self, answer: Answer, tag: Option<Tag>) -> Read {
        self.metrics.add_n(metrics::ROWS_OUT, &["rows"], answer.n_rows);
        Read::New(answer.body, tag)
    }

    /// Where to find the page, and its tag.
    fn wanted(&self, sight: &Sight, asked: &Asked) -> Result<Wanted, ReadError> {
        let Asked { query, params, .. } = asked;
        let now = self.clock.now();
        let window_end = if query.is_open() { self.window_end(sight, now)? } else { None };
        let span = query.span(window_end, now, self.caps)?;
        let names = sight.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
        let (dataset, revision) = (sight.grant.dataset, sight.revision);
        let tag = query.is_closed().then(|| Tag::of((self.era, Tag::of(params), dataset, &names)));
        let (columns, params) = (Tag::of(&names), params.clone());
        Ok(Wanted { key: AnswerKey { dataset, columns, span, params }, revision, tag })
    }

    /// Returns the timestamp at which the window of an open query ends: that of the newest row that
    /// is not in the future, else of the newest row. `None` if the dataset has no rows.
    ///
    /// One row with a wrong date in the future thus hides none of the others. Reads the store only
    /// where the newest row is in the future.
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
        let page = self.store.page(sight.grant.dataset, &read)?;
        Ok(page.rows.timestamp(0).or(sight.newest))
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
            let (page, _) = Stretch::read(store, &sight, &query, (span, 1))?.page();
            datasets.metrics.add_n(metrics::ROWS_OUT, &["live"], n_rows(&page));
            Ok(convert(&page))
        })
        .await?
    }
}

/// A page as it is kept.
fn answer(page: &RowsPage<'_>, params: &Params, reach: Span, write: Write) -> Answer {
    let mut body = write(page, params);
    // Room that was left would be kept with it, and count for nothing.
    body.shrink_to_fit();
    let body = Bytes::from(body);
    Answer { body, n_rows: n_rows(page), revision: page.revision, reach }
}

/// How many rows a page has.
fn n_rows(page: &RowsPage<'_>) -> u64 {
    u64::try_from(page.rows.len()).unwrap_or(u64::MAX)
}

/// Whether what a page is made of is found at once: by the dataset's number, and without a count.
const fn is_near(query: &RowsQuery) -> bool {
    matches!(query.dataset, DatasetRef::Id(_)) && matches!(query.position, Position::After(_))
}

/// Whether a page has few values, of types that have a length.
fn is_short(query: &RowsQuery, columns: &[Column]) -> bool {
    query.limit.get().saturating_mul(columns.len()) <= AT_ONCE_VALUES_MAX
        && columns.iter().all(|column| column.dtype != Dtype::String)
}

/// Reads on this thread. Where the store was slow of late others get its tasks meanwhile, which takes
/// longer than a page that is in memory.
fn here<T>(pace: &mut Pace, read: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = if pace.is_fast(began) { read() } else { block_in_place(read) };
    pace.took(began, Instant::now());
    done
}

/// Whether others are served while this thread waits for the disk.
fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.metrics().num_workers() > 1)
}
