//! The rows of a dataset as a table without end: what is near the chosen row is kept, the rest is
//! read again when it is come to.

use std::collections::VecDeque;

use model::{
    dataset::DatasetId,
    page::Limit,
    resolution::Resolution,
    row::{Bucket, Value},
    timestamp::Timestamp,
};

use super::past::{self, OlderRows};
use crate::{
    event::{Effect, NamedRow, Order, Rows, RowsPage, RowsQuery},
    state::loadable::Failure,
};

/// Rows of a page: some screens full.
const PAGE_ROWS: usize = 500;

/// Rows kept. Of ten columns they are about two megabytes.
const ROWS_KEPT_MAX: usize = 4_000;

/// So many rows before the last one that is known, the next page is asked for.
const ROWS_AHEAD: usize = 150;

/// The columns of a bucket.
pub(crate) const BUCKET_COLUMNS: [&str; 6] = ["open", "high", "low", "close", "volume", "count"];

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableRow {
    pub(crate) time: Timestamp,
    /// A value for each column, or none.
    pub(crate) cells: Vec<Option<Value>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// The names of the columns.
    pub(crate) columns: Vec<String>,
    rows: VecDeque<TableRow>,
    /// The timestamp of the selected row; none while the newest is followed.
    chosen: Option<Timestamp>,
    /// Whether newer rows were dropped.
    pub(crate) has_newer: bool,
    older: OlderRows,
    asked: Option<RowsQuery>,
    /// Columns scrolled out on the left.
    pub(crate) n_hidden: usize,
    /// Why the last page did not come.
    pub(crate) failure: Option<Failure>,
}

/// What a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) dataset: DatasetId,
    pub(crate) resolution: Resolution,
}

impl Table {
    /// The rows that are kept, newest first.
    pub(crate) const fn rows(&self) -> &VecDeque<TableRow> {
        &self.rows
    }

    /// The index of the selected row among those kept.
    pub(crate) fn selected_idx(&self) -> usize {
        let Some(time) = self.chosen else { return 0 };
        let found = self.rows.binary_search_by(|row| time.cmp(&row.time));
        found.unwrap_or_else(|idx| idx).min(self.rows.len().saturating_sub(1))
    }

    /// Whether the newest row is followed.
    pub(crate) const fn is_following(&self) -> bool {
        self.chosen.is_none()
    }

    /// Whether a page is awaited.
    pub(crate) const fn is_loading(&self) -> bool {
        self.asked.is_some()
    }

    /// Whether the oldest row kept is the first one there is.
    pub(crate) fn is_at_start(&self) -> bool {
        self.older == OlderRows::Nothing
    }

    /// Drops all rows.
    pub(crate) fn clear(&mut self) -> Option<Effect> {
        let was_asked = self.asked.is_some();
        *self = Self { n_hidden: self.n_hidden, ..Self::default() };
        was_asked.then_some(Effect::DropTable)
    }

    /// Takes rows of the stream.
    pub(crate) fn add_live_rows(&mut self, rows: &[NamedRow]) {
        let is_raw = !self.columns.is_empty() && self.source_is_raw();
        if !is_raw || self.has_newer || self.rows.is_empty() {
            return;
        }
        for row in rows {
            let row = named(row, &self.columns);
            match self.rows.binary_search_by(|kept| row.time.cmp(&kept.time)) {
                Ok(idx) => {
                    if let Some(kept) = self.rows.get_mut(idx) {
                        *kept = row;
                    }
                }
                // Before the oldest it would leave a gap.
                Err(idx) if idx < self.rows.len() => self.rows.insert(idx, row),
                Err(_) => {}
            }
        }
        if self.rows.len() > ROWS_KEPT_MAX {
            self.rows.truncate(ROWS_KEPT_MAX);
            self.older = OlderRows::Unknown;
        }
    }

    /// Scrolls by `n` columns.
    pub(crate) fn scroll(&mut self, n: isize) {
        let last = self.columns.len().saturating_sub(1);
        self.n_hidden = self.n_hidden.saturating_add_signed(n).min(last);
    }

    fn source_is_raw(&self) -> bool {
        !self.columns.iter().map(String::as_str).eq(BUCKET_COLUMNS)
    }

    /// Asks for the newest page.
    pub(crate) fn newest(&mut self, source: Source) -> RowsQuery {
        let limit = Limit::clamp(PAGE_ROWS);
        let query = RowsQuery::newest(source.dataset, source.resolution, limit);
        self.asked = Some(query);
        query
    }

    /// Moves the selection by `n` rows and returns the query for the next page, if needed.
    pub(crate) fn move_by(&mut self, n: isize, source: Source) -> Option<RowsQuery> {
        let last = self.rows.len().checked_sub(1)?;
        let idx = self.selected_idx().saturating_add_signed(n).min(last);
        let is_newest = idx == 0 && !self.has_newer;
        self.chosen = self.rows.get(idx).filter(|_| !is_newest).map(|row| row.time);
        self.ask_near(idx, source)
    }

    fn ask_near(&mut self, idx: usize, source: Source) -> Option<RowsQuery> {
        if self.asked.is_some() {
            return None;
        }
        let limit = Limit::clamp(PAGE_ROWS);
        let Source { dataset, resolution } = source;
        let query = if idx + ROWS_AHEAD >= self.rows.len() && self.older == OlderRows::Unknown {
            past::query_before(dataset, resolution, self.rows.back()?.time, limit)
        } else if idx < ROWS_AHEAD && self.has_newer {
            past::query_after(dataset, resolution, self.rows.front()?.time, limit)
        } else {
            return None;
        };
        self.asked = Some(query);
        Some(query)
    }

    /// Takes a page; returns the next query, if any.
    pub(crate) fn take(
        &mut self,
        query: RowsQuery,
        result: Result<RowsPage, Failure>,
        columns: Vec<String>,
        now: Timestamp,
    ) -> Option<RowsQuery> {
        if self.asked != Some(query) {
            return None;
        }
        self.asked = None;
        let page = match result {
            Ok(page) => page,
            Err(why) => {
                self.failure = Some(why);
                return None;
            }
        };
        self.failure = None;
        self.asked = match self.older.searched_before(&query) {
            Some(searched) => self.older.take_probe(&searched, &page.rows),
            None => self.add_rows(query, page.rows, columns, now),
        };
        self.asked
    }

    fn add_rows(
        &mut self,
        query: RowsQuery,
        rows: Rows,
        columns: Vec<String>,
        now: Timestamp,
    ) -> Option<RowsQuery> {
        if self.columns.is_empty() {
            self.columns = columns;
            self.scroll(0);
        }
        let rows: Vec<TableRow> = match rows {
            Rows::Raw(rows) => rows.iter().map(|row| named(row, &self.columns)).collect(),
            Rows::Buckets(buckets) => buckets.into_iter().map(folded).collect(),
        };
        let is_empty = rows.is_empty();
        if query.order == Order::Ascending {
            for row in rows {
                self.rows.push_front(row);
            }
            if self.rows.len() > ROWS_KEPT_MAX {
                self.rows.truncate(ROWS_KEPT_MAX);
                self.older = OlderRows::Unknown;
            }
            let end = query.end.filter(|end| is_empty && *end < now);
            self.has_newer = !is_empty || end.is_some();
            let limit = query.limit;
            return end.map(|end| past::query_after(query.dataset, query.resolution, end, limit));
        }
        if query.end.is_none() {
            // The newest page of a dataset that was silent for longer than a span is empty, too.
            self.rows = rows.into();
            self.has_newer = false;
            let searched = past::query_before(query.dataset, query.resolution, now, query.limit);
            return is_empty.then(|| self.older.probe(searched)).flatten();
        }
        self.rows.extend(rows);
        let n_over = self.rows.len().saturating_sub(ROWS_KEPT_MAX);
        self.rows.drain(..n_over);
        self.has_newer |= n_over > 0;
        if is_empty { self.older.probe(query) } else { None }
    }
}

fn named(row: &NamedRow, columns: &[String]) -> TableRow {
    let cells = columns.iter().map(|name| row.values.get(name).cloned()).collect();
    TableRow { time: row.timestamp, cells }
}

fn folded(bucket: Bucket) -> TableRow {
    let Bucket { timestamp, open, high, low, close, volume, count } = bucket;
    let numbers = [open, high, low, close, volume].map(|number| Some(Value::Float(number)));
    let count = Value::Integer(i64::try_from(count).unwrap_or(i64::MAX));
    let cells = numbers.into_iter().chain([Some(count)]).collect();
    TableRow { time: timestamp, cells }
}

#[cfg(test)]
mod tests;
