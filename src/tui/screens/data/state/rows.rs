//! Rows of datasets: the latest values of each dataset, the table of rows, and the search for
//! older rows over spans longer than one query permits.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::dataset::DatasetId;
use model::page::Limit;
use model::resolution::Resolution;
use model::row::{Bucket, Value};
use model::timestamp::Timestamp;

use crate::event::{Effect, NamedRow, Order, Rows, RowsPage, RowsQuery};
use crate::screens::data::state::State;
use crate::screens::data::state::chart::Shape;
use crate::state::resource::{Failure, Outcome};

/// Number of stored values of each dataset, somewhat more than the number of a sparkline's
/// columns.
pub(crate) const SPARK_VALUES: usize = 64;

/// Latest values of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecentValues {
    values: BTreeMap<Timestamp, f64>,
    /// Name of the column. `None` if there are no rows or no numeric column.
    column: Option<String>,
    /// Timestamp and first value of the latest row. `None` if the dataset has a numeric column.
    text: Option<(Timestamp, String)>,
    /// Time at which the values were last read.
    pub(crate) at: Timestamp,
    /// Time at which the latest value arrived. If it was among the first values loaded, its
    /// timestamp.
    came_at: Timestamp,
    /// Maximum number of values.
    n_max: usize,
}

impl RecentValues {
    /// Returns an empty series of at most `n_max` values.
    pub(crate) const fn new(n_max: usize, now: Timestamp) -> Self {
        let came_at = Timestamp::MIN;
        Self { values: BTreeMap::new(), column: None, text: None, at: now, came_at, n_max }
    }

    /// Returns the column of the values.
    pub(crate) fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }

    /// Returns the timestamp and the first value of the latest row of a dataset without a numeric
    /// column.
    pub(crate) fn text(&self) -> Option<(Timestamp, &str)> {
        self.text.as_ref().map(|(time, text)| (*time, text.as_str()))
    }

    /// Returns the values, oldest first.
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = f64> {
        self.values.values().copied()
    }

    /// Returns the time between the oldest and the latest value.
    pub(crate) fn length(&self) -> Duration {
        let ends = self.values.keys().next().zip(self.values.keys().next_back());
        ends.map_or(Duration::ZERO, |(first, last)| last.since(*first))
    }

    /// Returns the latest value and its timestamp, timestamp first.
    pub(crate) fn newest(&self) -> Option<(Timestamp, f64)> {
        self.values.last_key_value().map(|(time, value)| (*time, *value))
    }

    /// Returns the time since the arrival of the latest value.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        now.since(self.came_at)
    }

    /// Adds rows of a dataset with this shape, in any order.
    pub(crate) fn take_rows<'a>(
        &mut self,
        shape: Option<&Shape>,
        rows: impl IntoIterator<Item = &'a NamedRow>,
        now: Timestamp,
    ) {
        if shape == Some(&Shape::Nothing) {
            let newest = rows.into_iter().max_by_key(|row| row.timestamp);
            let text = newest
                .and_then(|row| Some((row.timestamp, value_text(row.values.values().next()?))));
            self.text = text.max(self.text.take());
            self.at = now;
            return;
        }
        let samples: Vec<_> = rows.into_iter().filter_map(|row| shape?.sample(row)).collect();
        self.take(shape.and_then(Shape::value_column), samples, now);
    }

    /// Adds values of `column`. Each replaces the value with the same timestamp. If the column has
    /// changed, the earlier values are dropped.
    pub(crate) fn take(
        &mut self,
        column: Option<&str>,
        samples: impl IntoIterator<Item = Bucket>,
        now: Timestamp,
    ) {
        if self.column.as_deref() != column {
            self.column = column.map(str::to_owned);
            self.values.clear();
        }
        self.text = None;
        let newest_before = self.newest().map(|(time, _)| time);
        for sample in samples {
            self.values.insert(sample.timestamp, sample.close);
            if self.values.len() > self.n_max {
                self.values.pop_first();
            }
        }
        self.at = now;
        let newest = self.newest().map(|(time, _)| time);
        if newest > newest_before {
            self.came_at = if newest_before.is_some() { now } else { newest.unwrap_or(now) };
        }
    }
}

impl State {
    /// Returns the latest known values of a dataset. For a pinned dataset, values from its stream
    /// can be more recent than those read for the list.
    pub(crate) fn sparkline(&self, dataset: DatasetId) -> Option<&RecentValues> {
        let pinned = self.pins.iter().filter(|pin| pin.dataset == dataset).map(|pin| &pin.spark);
        let read = self.sparklines.get(&dataset);
        read.into_iter().chain(pinned).max_by_key(|spark| spark.newest().map(|(time, _)| time))
    }

    /// Returns the columns of the table: the columns of a bucket or of the dataset, or the columns
    /// of the latest row while those are unknown.
    pub(crate) fn table_columns(&self) -> Vec<&str> {
        match self.columns() {
            _ if self.chart.resolution() != Resolution::Raw => BUCKET_COLUMNS.to_vec(),
            Some(columns) => columns.iter().map(|column| column.name.as_str()).collect(),
            None => {
                let newest = self.table.rows.front().into_iter();
                newest.flat_map(|row| row.values.keys()).map(String::as_str).collect()
            }
        }
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
    }
}

/// Inserts `row` into `rows`, which are sorted latest first and have distinct timestamps, unless
/// `n_max` rows are newer.
pub(crate) fn put_newest(rows: &mut VecDeque<NamedRow>, row: NamedRow, n_max: usize) {
    match rows.binary_search_by(|kept| row.timestamp.cmp(&kept.timestamp)) {
        Ok(idx) => {
            if let Some(kept) = rows.get_mut(idx) {
                *kept = row;
            }
        }
        Err(idx) if idx < n_max => rows.insert(idx, row),
        Err(_) => {}
    }
}

/// Smallest difference between two timestamps.
const STEP: Duration = Duration::from_micros(1);

/// Existence of rows before the oldest loaded row.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum OlderRows {
    /// There can be older rows.
    #[default]
    Unknown,
    /// The span of this query has no rows. The latest day with rows before this span is being
    /// requested.
    Probing(RowsQuery),
    /// There are no older rows.
    Nothing,
}

impl OlderRows {
    /// Records that the span of `searched` has no rows. Returns a query for the latest day with
    /// rows before this span.
    pub(crate) fn probe(&mut self, searched: RowsQuery) -> Option<RowsQuery> {
        let probe = probe_query(&searched);
        *self = if probe.is_some() { Self::Probing(searched) } else { Self::Nothing };
        probe
    }

    /// If `query` searches before the span of an earlier query that found no rows, returns the
    /// earlier query.
    pub(crate) fn searched_before(&self, query: &RowsQuery) -> Option<RowsQuery> {
        let Self::Probing(searched) = self else { return None };
        (probe_query(searched).as_ref() == Some(query)).then_some(*searched)
    }

    /// Records the result of searching before the span of `searched`. If rows were found, returns
    /// the query that reads them.
    pub(crate) fn take_probe(&mut self, searched: &RowsQuery, rows: &Rows) -> Option<RowsQuery> {
        let next = next_query(searched, rows);
        *self = if next.is_some() { Self::Unknown } else { Self::Nothing };
        next
    }
}

/// Returns `query` changed to read the latest rows before `time`, over the longest span that the
/// resolution permits.
pub(crate) fn query_before(query: RowsQuery, time: Timestamp) -> RowsQuery {
    let end = time - STEP;
    let start = query.resolution.span_max().map(|span| end - span);
    RowsQuery { start, end: Some(end), order: Order::Descending, ..query }
}

/// Returns `query` changed to read the oldest rows after `time`.
pub(crate) fn query_after(query: RowsQuery, time: Timestamp) -> RowsQuery {
    let start = time + STEP;
    let end = query.resolution.span_max().map(|span| start + span);
    RowsQuery { start: Some(start), end, order: Order::Ascending, ..query }
}

/// Returns a query for the latest day with rows before the span of `searched`, or `None` if this
/// span has no start.
fn probe_query(searched: &RowsQuery) -> Option<RowsQuery> {
    let end = searched.start? - STEP;
    let newest = RowsQuery::newest(searched.dataset, Resolution::Day, Limit::clamp(1));
    Some(RowsQuery { end: Some(end), ..newest })
}

/// Returns the query that continues `searched` at the day that `found` contains, or `None` if it
/// contains no day.
fn next_query(searched: &RowsQuery, found: &Rows) -> Option<RowsQuery> {
    let Rows::Buckets(days) = found else { return None };
    let end = days.first()?.timestamp + Resolution::Day.bucket()?;
    let time = searched.start.map_or(end, |start| start.min(end));
    Some(query_before(*searched, time))
}

/// Number of rows of a page, enough for several screens.
pub(crate) const PAGE_ROWS: usize = 500;

/// Maximum number of loaded rows. With ten columns, they take a few megabytes.
const ROWS_KEPT_MAX: usize = 4_000;

/// Maximum distance of the selection from the first or last loaded row at which a further page is
/// loaded.
const ROWS_AHEAD: usize = 150;

/// Columns of a table of buckets.
const BUCKET_COLUMNS: [&str; 6] = ["open", "high", "low", "close", "volume", "count"];

#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// Loaded rows, latest first.
    pub(crate) rows: VecDeque<NamedRow>,
    /// Timestamp of the selected row. `None` while the selection follows the latest row.
    pub(crate) chosen: Option<Timestamp>,
    /// True if newer rows were dropped, so live rows cannot be added.
    pub(crate) has_newer: bool,
    /// Existence of rows before the oldest loaded row.
    pub(crate) older: OlderRows,
    /// Query for a page, if pending.
    pub(crate) asked: Option<RowsQuery>,
    /// Rows of the stream that arrived while a page is pending. The page can lack them.
    held: Vec<NamedRow>,
    /// Number of columns that are scrolled out on the left.
    pub(crate) n_hidden: usize,
    /// Failure of the last query. `None` if it succeeded.
    pub(crate) failure: Option<Failure>,
}

impl Table {
    /// Returns the index of the selected row.
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

    /// Adds rows of the stream, unless newer rows were dropped.
    pub(crate) fn add_live_rows(&mut self, rows: &[NamedRow]) {
        self.held.extend_from_slice(rows);
        if self.asked.is_none() {
            self.add_held();
        }
    }

    fn add_held(&mut self) {
        for row in self.held.split_off(0).into_iter().filter(|_| !self.has_newer) {
            // Rows can be missing between the loaded rows and an older one, unless all are loaded.
            let is_complete = self.older == OlderRows::Nothing;
            let n_max = if is_complete { ROWS_KEPT_MAX } else { self.rows.len() };
            put_newest(&mut self.rows, row, n_max);
        }
        self.drop_oldest();
    }

    fn drop_oldest(&mut self) {
        if self.rows.len() > ROWS_KEPT_MAX {
            self.rows.truncate(ROWS_KEPT_MAX);
            self.older = OlderRows::Unknown;
        }
    }

    /// Moves the selection by `n` rows. Returns the query for a further page if one is needed,
    /// derived from `newest`, the query for the first page.
    pub(crate) fn move_by(&mut self, n: isize, newest: RowsQuery) -> Option<RowsQuery> {
        let last = self.rows.len().checked_sub(1)?;
        let idx = self.selected_idx().saturating_add_signed(n).min(last);
        let is_newest = idx == 0 && !self.has_newer;
        self.chosen = self.rows.get(idx).filter(|_| !is_newest).map(|row| row.timestamp);
        if self.asked.is_some() {
            return None;
        }
        self.asked = if idx + ROWS_AHEAD >= self.rows.len() && self.older == OlderRows::Unknown {
            Some(query_before(newest, self.rows.back()?.timestamp))
        } else if idx < ROWS_AHEAD && self.has_newer {
            Some(query_after(newest, self.rows.front()?.timestamp))
        } else {
            None
        };
        self.asked
    }

    /// Handles a page that was read. Returns the next query, if one is needed.
    pub(crate) fn take(
        &mut self,
        query: RowsQuery,
        result: Outcome<RowsPage>,
        now: Timestamp,
    ) -> Option<RowsQuery> {
        self.asked.take_if(|asked| *asked == query)?;
        self.failure = None;
        self.asked = match (result, self.older.searched_before(&query)) {
            (Err(why), _) => {
                self.failure = Some(why);
                None
            }
            (Ok(page), Some(searched)) => self.older.take_probe(&searched, &page.rows),
            (Ok(page), None) => self.add_rows(query, page.rows, now),
        };
        if self.asked.is_none() {
            self.add_held();
        }
        self.asked
    }

    fn add_rows(&mut self, query: RowsQuery, rows: Rows, now: Timestamp) -> Option<RowsQuery> {
        let rows = rows.into_rows();
        let is_empty = rows.is_empty();
        if query.order == Order::Ascending {
            for row in rows {
                self.rows.push_front(row);
            }
            self.drop_oldest();
            let end = query.end.filter(|end| is_empty && *end < now);
            self.has_newer = !is_empty || end.is_some();
            return end.map(|end| query_after(query, end));
        }
        if query.end.is_none() {
            // The first page spans only recent times, so the dataset can have rows even if this
            // page is empty.
            self.rows = rows.into();
            self.has_newer = false;
            let searched = query_before(query, now);
            return is_empty.then(|| self.older.probe(searched)).flatten();
        }
        self.rows.extend(rows);
        let n_over = self.rows.len().saturating_sub(ROWS_KEPT_MAX);
        self.rows.drain(..n_over);
        self.has_newer |= n_over > 0;
        if is_empty { self.older.probe(query) } else { None }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod past_tests {
    use model::dataset::DatasetId;

    use super::*;
    use crate::harness::flat_candle;

    fn timestamp(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    fn newest(resolution: Resolution) -> RowsQuery {
        RowsQuery::newest(DatasetId::new(1).unwrap(), resolution, Limit::clamp(10))
    }

    #[test]
    fn search_for_rows_before_an_empty_time_range_goes_back_day_by_day() {
        let searched = query_before(newest(Resolution::Raw), timestamp(900_000));
        let asked = probe_query(&searched).unwrap();
        assert_eq!((asked.resolution, asked.limit.get()), (Resolution::Day, 1));
        assert!(asked.end < searched.start);
        let next = next_query(&searched, &Rows::Buckets(vec![flat_candle(timestamp(86_400), 1.0)]))
            .unwrap();
        assert_eq!(next.end, Some(timestamp(172_800) - STEP), "the whole day is read");
        let next =
            next_query(&searched, &Rows::Buckets(vec![flat_candle(timestamp(777_600), 1.0)]))
                .unwrap();
        assert_eq!(
            next.end,
            Some(searched.start.unwrap() - STEP),
            "the rest of the day that was not searched is read"
        );
        assert_eq!(next_query(&searched, &Rows::Buckets(Vec::new())), None);
    }

    #[test]
    fn query_for_older_daily_buckets_has_no_start() {
        let searched = query_before(newest(Resolution::Day), timestamp(900_000));
        assert_eq!((searched.start, probe_query(&searched)), (None, None));
    }
}
