//! Reading rows: a page, or the newest ones. A whole range is in `download`.

use accounts::KeyId;
use model::{
    dataset::{Column, DatasetId},
    resolution::Resolution,
    timestamp::Timestamp,
};

use crate::{
    Datasets,
    block::Rows,
    query::{Order, Position, QueryError, RowsQuery, Span, params::LiveQuery},
    store::{Count, PageRead, Store, StoreError},
    tag::{Seen, Tag},
};

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
pub(crate) struct RowsPage {
    pub(crate) dataset: DatasetId,
    pub(crate) columns: Vec<Column>,
    /// How many match in all; 0 with a cursor, by document 2.
    pub(crate) count: u64,
    /// The rows, in the order asked for.
    pub(crate) rows: Rows,
    pub(crate) next: Next,
}

/// What a caller has, and how it asked for it.
#[derive(Debug, Clone)]
pub(crate) struct Had {
    /// The tags of what it has.
    pub(crate) tags: Seen,
    /// All parameters, which the link to the next page repeats.
    pub(crate) link: Tag,
}

/// What comes of asking for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read<T> {
    /// The caller has it, under this tag.
    Same(String),
    /// The page, and its tag where it has one.
    New(T, Option<Tag>),
}

impl Datasets {
    /// Reads a page, and makes of it what `convert` makes, on a thread that may take its time.
    ///
    /// Pages of closed ranges have a tag, which changes with every commit to the dataset.
    ///
    /// # Errors
    /// [`ReadError::NotFound`] if `key` does not see the dataset, [`ReadError::Query`] if the query
    /// asks too much.
    pub(crate) async fn rows<T: Send + 'static>(
        &self,
        key: KeyId,
        query: RowsQuery,
        had: Had,
        convert: impl FnOnce(RowsPage) -> T + Send + 'static,
    ) -> Result<Read<T>, ReadError> {
        let convert = self.counting("rows", convert);
        let (now, caps, era) = (self.clock.now(), self.caps, self.era);
        let page = self.blocking(move |store| {
            let Some(grant) = store.grant(key, &query.dataset)? else {
                return Ok(Err(ReadError::NotFound));
            };
            let newest = if query.is_open() { store.newest_moment(grant.dataset)? } else { None };
            let span = match query.span(newest, now, caps) {
                Ok(span) => span,
                Err(error) => return Ok(Err(error.into())),
            };
            let dataset = grant.dataset;
            if !query.is_closed() {
                return Ok(Ok(Read::New(convert(page(store, dataset, &query, span)?), None)));
            }
            let revision = store.revision(dataset)?;
            let columns = store.columns(dataset)?;
            let names = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
            let tag = Tag::of((era, had.link, dataset, revision, names));
            if let Some(known) = had.tags.find(tag) {
                return Ok(Ok(Read::Same(known)));
            }
            let page = page(store, dataset, &query, span)?;
            let is_so = store.revision(dataset)? == revision;
            Ok(Ok(Read::New(convert(page), is_so.then_some(tag))))
        });
        page.await?
    }

    /// Reads the newest rows of a dataset, newest first, and makes of them what `convert` makes.
    ///
    /// # Errors
    /// As [`Self::rows`].
    pub(crate) async fn newest<T: Send + 'static>(
        &self,
        key: KeyId,
        query: LiveQuery,
        convert: impl FnOnce(RowsPage) -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        let convert = self.counting("live", convert);
        let span = query.bounds.span(Resolution::Raw)?;
        let query = RowsQuery {
            dataset: query.dataset,
            resolution: Resolution::Raw,
            bounds: query.bounds,
            order: Order::Descending,
            limit: query.limit,
            position: Position::Offset(0),
        };
        let page = self.blocking(move |store| {
            let Some(grant) = store.grant(key, &query.dataset)? else { return Ok(None) };
            Ok(Some(convert(page(store, grant.dataset, &query, span)?)))
        });
        page.await?.ok_or(ReadError::NotFound)
    }
}

/// Reads a page; one row more than asked for tells whether there is a next one.
fn page(
    store: &dyn Store,
    dataset: DatasetId,
    query: &RowsQuery,
    span: Span,
) -> Result<RowsPage, StoreError> {
    let limit = query.limit.get();
    let (skip, count) = match query.position {
        Position::Offset(skip) => (skip, Count::All),
        Position::After(_) => (0, Count::Nothing),
    };
    let RowsQuery { resolution, order, .. } = *query;
    let read = PageRead { resolution, span, order, skip, limit: limit + 1, count };
    let columns = store.columns(dataset)?;
    let mut page = store.page(dataset, &read)?;
    let last = match &mut page.rows {
        Rows::Raw(block) if block.len() > limit => {
            *block = block.part(0..limit);
            block.times.last().copied()
        }
        Rows::Buckets(buckets) if buckets.len() > limit => {
            buckets.truncate(limit);
            buckets.last().map(|bucket| bucket.timestamp)
        }
        Rows::Raw(_) | Rows::Buckets(_) => None,
    };
    let next = match (last, query.position) {
        (None, _) => Next::End,
        (Some(last), Position::After(_)) => Next::After(last),
        (Some(_), Position::Offset(skip)) => {
            Next::Offset(skip.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX)))
        }
    };
    Ok(RowsPage { dataset, columns, count: page.count.unwrap_or(0), rows: page.rows, next })
}
