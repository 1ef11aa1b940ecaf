//! The rows of a dataset as a table without end: what is near the chosen row is kept, the rest is
//! read again when it is come to.

use std::collections::VecDeque;

use model::{
    resolution::Resolution,
    row::{Bucket, Value},
    timestamp::Timestamp,
};

use super::{
    State,
    past::{self, OlderRows},
    spark::put_newest,
};
use crate::{
    event::{Effect, NamedRow, Order, Rows, RowsPage, RowsQuery},
    state::loadable::Failure,
};

/// Rows of a page: some screens full.
pub(crate) const PAGE_ROWS: usize = 500;

/// Rows kept. Of ten columns they are a few megabytes.
const ROWS_KEPT_MAX: usize = 4_000;

/// So many rows before the last one that is known, the next page is asked for.
const ROWS_AHEAD: usize = 150;

/// The columns of a bucket.
const BUCKET_COLUMNS: [&str; 6] = ["open", "high", "low", "close", "volume", "count"];

#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// The rows that are kept, newest first.
    pub(crate) rows: VecDeque<NamedRow>,
    /// The timestamp of the selected row; none while the newest is followed.
    pub(crate) chosen: Option<Timestamp>,
    /// Whether newer rows were dropped.
    pub(crate) has_newer: bool,
    /// Whether there are rows before the oldest one kept.
    pub(crate) older: OlderRows,
    /// The page that is awaited.
    pub(crate) asked: Option<RowsQuery>,
    /// Columns scrolled out on the left.
    pub(crate) n_hidden: usize,
    /// Why the last page did not come.
    pub(crate) failure: Option<Failure>,
}

impl Table {
    /// The index of the selected row among those kept.
    pub(crate) fn selected_idx(&self) -> usize {
        let Some(time) = self.chosen else { return 0 };
        let found = self.rows.binary_search_by(|row| time.cmp(&row.timestamp));
        found.unwrap_or_else(|idx| idx).min(self.rows.len().saturating_sub(1))
    }

    /// Drops all rows.
    pub(crate) fn clear(&mut self) -> Option<Effect> {
        let was_asked = self.asked.is_some();
        *self = Self { n_hidden: self.n_hidden, ..Self::default() };
        was_asked.then_some(Effect::DropTable)
    }

    /// Takes rows of the stream.
    pub(crate) fn add_live_rows(&mut self, rows: &[NamedRow]) {
        if self.has_newer {
            return;
        }
        for row in rows {
            // Before the oldest it would leave a gap.
            let n_kept = self.rows.len();
            put_newest(&mut self.rows, row.clone(), n_kept);
        }
        self.drop_oldest();
    }

    fn drop_oldest(&mut self) {
        if self.rows.len() > ROWS_KEPT_MAX {
            self.rows.truncate(ROWS_KEPT_MAX);
            self.older = OlderRows::Unknown;
        }
    }

    /// Moves the selection by `n` rows and returns the query for the next page, if needed: as
    /// `newest`, which is the one for the first page.
    pub(crate) fn move_by(&mut self, n: isize, newest: RowsQuery) -> Option<RowsQuery> {
        let last = self.rows.len().checked_sub(1)?;
        let idx = self.selected_idx().saturating_add_signed(n).min(last);
        let is_newest = idx == 0 && !self.has_newer;
        self.chosen = self.rows.get(idx).filter(|_| !is_newest).map(|row| row.timestamp);
        if self.asked.is_some() {
            return None;
        }
        self.asked = if idx + ROWS_AHEAD >= self.rows.len() && self.older == OlderRows::Unknown {
            Some(past::query_before(newest, self.rows.back()?.timestamp))
        } else if idx < ROWS_AHEAD && self.has_newer {
            Some(past::query_after(newest, self.rows.front()?.timestamp))
        } else {
            None
        };
        self.asked
    }

    /// Takes a page; returns the next query, if any.
    pub(crate) fn take(
        &mut self,
        query: RowsQuery,
        result: Result<RowsPage, Failure>,
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
            None => self.add_rows(query, page.rows, now),
        };
        self.asked
    }

    fn add_rows(&mut self, query: RowsQuery, rows: Rows, now: Timestamp) -> Option<RowsQuery> {
        let rows = match rows {
            Rows::Raw(rows) => rows,
            Rows::Buckets(buckets) => buckets.into_iter().map(named).collect(),
        };
        let is_empty = rows.is_empty();
        if query.order == Order::Ascending {
            for row in rows {
                self.rows.push_front(row);
            }
            self.drop_oldest();
            let end = query.end.filter(|end| is_empty && *end < now);
            self.has_newer = !is_empty || end.is_some();
            return end.map(|end| past::query_after(query, end));
        }
        if query.end.is_none() {
            // The newest page of a dataset that was silent for longer than a span is empty, too.
            self.rows = rows.into();
            self.has_newer = false;
            let searched = past::query_before(query, now);
            return is_empty.then(|| self.older.probe(searched)).flatten();
        }
        self.rows.extend(rows);
        let n_over = self.rows.len().saturating_sub(ROWS_KEPT_MAX);
        self.rows.drain(..n_over);
        self.has_newer |= n_over > 0;
        if is_empty { self.older.probe(query) } else { None }
    }
}

impl State {
    /// The columns of the table: those of a bucket or of the dataset, as long as these are not known
    /// those of its newest row.
    pub(crate) fn table_columns(&self) -> Vec<&str> {
        match self.columns.value() {
            _ if self.chart.resolution() != Resolution::Raw => BUCKET_COLUMNS.to_vec(),
            Some(columns) => columns.iter().map(|column| column.name.as_str()).collect(),
            None => {
                let newest = self.table.rows.front().into_iter();
                newest.flat_map(|row| row.values.keys()).map(String::as_str).collect()
            }
        }
    }
}

/// The numbers of a bucket as a row of [`BUCKET_COLUMNS`].
fn named(bucket: Bucket) -> NamedRow {
    let Bucket { timestamp, open, high, low, close, volume, count } = bucket;
    let numbers = [open, high, low, close, volume].map(Value::Float);
    let count = Value::Integer(i64::try_from(count).unwrap_or(i64::MAX));
    let names = BUCKET_COLUMNS.map(str::to_owned).into_iter();
    NamedRow { timestamp, values: names.zip(numbers.into_iter().chain([count])).collect() }
}

#[cfg(test)]
mod tests;
