//! Reads several pages at a time for a caller that follows links, and splits the rows into pages.
//!
//! `cargo bench -p datasets --bench http -- page` shows the gain (line "next").

use formats::write::{bare_row_bytes, text_bytes};
use model::block::{Block, Rows};
use model::dataset::{Column, DatasetId};
use model::timestamp::Timestamp;
use tsdb::span::{Order, Span};
use tsdb::store::{Count, PAGE_TEXT_BYTES_MAX, PageRead, Sight, Store, StoreError};

use super::RowsPage;
use crate::query::{Position, RowsQuery};

/// Maximum number of values of a page, including missing values: 10 000 rows of 64 columns. With more
/// columns, a page has fewer rows.
const PAGE_VALUES_MAX: usize = 640_000;

/// Rows that were read at once for several consecutive pages.
#[derive(Debug)]
pub(super) struct ReadAhead<'a> {
    dataset: DatasetId,
    /// Columns that the pages show.
    columns: &'a [Column],
    query: &'a RowsQuery,
    /// Span of the query that is not returned yet. It begins with the next page.
    span: Span,
    /// Maximum number of rows of a page.
    limit: usize,
    rows: Rows,
    /// True if the rows include the last match of the query.
    is_whole: bool,
    count: u64,
    revision: u64,
    /// Start of the current, incomplete bucket.
    current: Timestamp,
}

impl<'a> ReadAhead<'a> {
    /// Reads up to `n_pages` pages of the rows within `span`. More than one page can be read only if the
    /// query has a cursor and no column has texts.
    pub(super) fn read(
        store: &dyn Store,
        sight: &Sight,
        columns: &'a [Column],
        query: &'a RowsQuery,
        (span, current): (Span, Timestamp),
        n_pages: usize,
    ) -> Result<Self, StoreError> {
        let n_columns = sight.columns.len().max(1);
        let limit = query.limit.get().min((PAGE_VALUES_MAX / n_columns).max(1));
        let (skip, count) = match query.position {
            Position::Offset(skip) => (skip, Count::All),
            Position::After(_) => (0, Count::Nothing),
        };
        let RowsQuery { resolution, order, .. } = *query;
        // Reads one additional row to find out if there is a next page.
        let n_rows = limit * n_pages + 1;
        let read = PageRead { resolution, span, order, skip, limit: n_rows, count };
        let page = store.page_at(sight, &read)?;
        let (is_whole, count) = (page.rows.len() < n_rows, page.count.unwrap_or(0));
        let (rows, revision) = (page.rows, page.revision);
        let dataset = sight.dataset.id;
        Ok(Self { dataset, columns, query, span, limit, rows, is_whole, count, revision, current })
    }

    /// Returns true if the first page of `span` was read completely.
    pub(super) fn has_page_of(&self, span: Span) -> bool {
        let is_same_end = match self.query.order {
            Order::Ascending => span.last == self.span.last,
            Order::Descending => span.first == self.span.first,
        };
        is_same_end && (self.is_whole || self.rows.len() > self.limit)
    }

    /// Returns the next page and the timestamps that it depends on. The page has fewer rows than
    /// requested if they are very long, which limits its memory.
    pub(super) fn take_page(&mut self) -> (RowsPage<'a>, Span) {
        let (dataset, columns) = (self.dataset, self.columns);
        let n_rows = match &self.rows {
            Rows::Raw(block) => n_fitting(block, columns, self.limit),
            Rows::Buckets(_) => self.limit,
        };
        // Timestamp of the last row of the page, and of the row after it if there is a next page.
        let ends = self.rows.timestamp(n_rows.saturating_sub(1)).zip(self.rows.timestamp(n_rows));
        let rows = self.rows.take(n_rows);
        let (mut depends_on, next) = match (ends, self.query.position) {
            (Some((last, seen)), Position::After(_)) => {
                let depends_on = match self.query.order {
                    Order::Ascending => {
                        let depends_on = Span { last: seen, ..self.span };
                        self.span.first = last;
                        depends_on
                    }
                    Order::Descending => {
                        let depends_on = Span { first: seen, ..self.span };
                        self.span.last = last;
                        depends_on
                    }
                };
                (depends_on, Some(Position::After(last)))
            }
            (None, _) => (self.span, None),
            // Depends on the whole span, since a page by offset contains the count of all matches.
            (Some(_), Position::Offset(skip)) => {
                let n_rows = u64::try_from(rows.len()).unwrap_or(u64::MAX);
                (self.span, Some(Position::Offset(skip.saturating_add(n_rows))))
            }
        };
        // The last bucket depends on all rows up to its end. For raw rows, this changes nothing.
        depends_on.last = self.query.resolution.bucket_end(depends_on.last);
        let Self { count, revision, current, .. } = *self;
        (RowsPage { dataset, columns, count, rows, next, revision, current }, depends_on)
    }
}

/// Returns the number of rows that fit into a page, from 1 to `limit`, given the lengths of their texts.
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
