//! The candles of one dataset at one resolution, from the service's buckets and from live rows.
//!
//! The service's buckets and the rows of the stream overlap, and it is unknown which of these rows
//! a bucket already contains. The latest rows are therefore stored and folded into a second bucket.
//! The second bucket replaces the service's bucket if its rows reach back to the start of the bucket
//! and it has at least as many rows. Otherwise, the candle is the service's bucket with the close of
//! the second bucket and the extremes of both.
//! Corrections replace stored rows.

use std::collections::{BTreeMap, BTreeSet};

use model::dataset::{Column, Dtype, VALUE_COLUMN};
use model::resolution::Resolution;
use model::row::{Bucket, Value};
use model::timestamp::Timestamp;

use crate::event::NamedRow;

/// Maximum number of rows that are stored for folding: half an hour with one row per second. Older
/// buckets come from the service.
const ROWS_MAX: usize = 2_000;

/// Maximum number of candles. The oldest candles are dropped, and loaded again when the user
/// scrolls to them.
pub(crate) const CANDLES_MAX: usize = 12_000;

/// Number of candles that are dropped together. Dropping moves all remaining candles. With 1000
/// rows per second, this happens once per second.
const CANDLES_STEP: usize = 1_000;

/// The candles of a chart, with the buckets and rows from which they are made.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    resolution: Resolution,
    /// Buckets of the service.
    given: BTreeMap<Timestamp, Bucket>,
    /// Latest rows, each as a candle.
    rows: BTreeMap<Timestamp, Bucket>,
    /// Time from which all live rows are stored. `None` if there are no rows.
    since: Option<Timestamp>,
    /// Candles merged from the service's buckets and the latest rows, oldest first.
    candles: Vec<Bucket>,
    /// Number of candles appended since the service's buckets were last added.
    n_added: usize,
}

impl Default for Chart {
    fn default() -> Self {
        Self::new(Resolution::Raw)
    }
}

impl Chart {
    /// Returns a chart without candles.
    pub(crate) const fn new(resolution: Resolution) -> Self {
        Self {
            resolution,
            given: BTreeMap::new(),
            rows: BTreeMap::new(),
            since: None,
            candles: Vec::new(),
            n_added: 0,
        }
    }

    /// Returns the resolution of the candles.
    pub(crate) const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// Returns the candles, oldest first.
    pub(crate) fn candles(&self) -> &[Bucket] {
        &self.candles
    }

    /// Returns the number of free slots at the right edge. The chart moves by `step` slots when no
    /// slot is free. A move redraws the whole chart. Between moves, a new candle redraws only one
    /// column.
    pub(crate) const fn n_free(&self, step: usize) -> usize {
        match self.n_added.checked_rem(step) {
            None | Some(0) => 0,
            Some(n) => step - n,
        }
    }

    /// Returns the distance of the candle at `time` from the latest candle.
    pub(crate) fn index_from_newest(&self, time: Timestamp) -> Option<usize> {
        let idx = self.candles.binary_search_by_key(&time, |candle| candle.timestamp).ok()?;
        Some(self.candles.len() - 1 - idx)
    }

    /// Returns the candle at distance `n` from the latest, or the oldest candle if there are
    /// fewer.
    pub(crate) fn nth_newest(&self, n: usize) -> Option<&Bucket> {
        self.candles.iter().rev().nth(n).or_else(|| self.candles.first())
    }

    /// Changes the resolution. Drops the service's buckets and retains the live rows.
    pub(crate) fn change_resolution(&mut self, resolution: Resolution) {
        self.resolution = resolution;
        self.given.clear();
        self.rebuild();
    }

    /// Adds buckets of the service, in any order. These buckets replace buckets with the same timestamp.
    pub(crate) fn add_service_candles(&mut self, candles: impl IntoIterator<Item = Bucket>) {
        self.given.extend(candles.into_iter().map(|candle| (candle.timestamp, candle)));
        self.rebuild();
        self.n_added = 0;
    }

    /// Adds live rows and corrections, each as a candle.
    pub(crate) fn add_live_rows(&mut self, rows: impl IntoIterator<Item = Bucket>) {
        let mut touched = BTreeSet::new();
        for row in rows {
            // A late row can follow, so the first row is not always the earliest.
            self.since = self.since.or(Some(row.timestamp));
            touched.insert(self.resolution.bucket_start(row.timestamp));
            self.rows.insert(row.timestamp, row);
        }
        while self.rows.len() > ROWS_MAX {
            let first = self.rows.pop_first();
            self.given.extend(first.filter(|_| self.resolution == Resolution::Raw));
            self.since = self.since.max(self.rows.keys().next().copied());
        }
        self.trim_given();
        self.put(touched);
    }

    /// Records that live rows are missing. Further rows do not complete their buckets. The candles
    /// remain until the service's are added.
    pub(crate) fn note_gap(&mut self) {
        self.rows.clear();
        self.since = None;
        if self.resolution == Resolution::Raw {
            self.given.clear();
        }
    }

    /// Returns true if only the service has all rows of the latest candle.
    pub(crate) fn is_partial(&self) -> bool {
        let newest = self.candles.last().map(|candle| candle.timestamp);
        self.resolution != Resolution::Raw && newest.is_some() && newest < self.since
    }

    fn trim_given(&mut self) {
        while self.given.len() > CANDLES_MAX {
            self.given.pop_first();
        }
    }

    fn rebuild(&mut self) {
        self.trim_given();
        self.candles = self.given.values().copied().collect();
        self.put(self.rows.keys().map(|time| self.resolution.bucket_start(*time)).collect());
    }

    /// Returns the candle that starts at `start`, merged from the service's bucket and the live
    /// rows.
    fn merged(&self, start: Timestamp) -> Option<Bucket> {
        let is_whole = self.resolution == Resolution::Raw || self.since <= Some(start);
        let folded = match self.resolution.bucket() {
            None => self.rows.get(&start).copied(),
            Some(length) => {
                // Late rows can be older than `since`. The service's bucket has them.
                let live = self.rows.range(start..start + length).map(|(_, row)| *row);
                fold(start, live.filter(|row| Some(row.timestamp) >= self.since))
            }
        };
        match (self.given.get(&start).copied(), folded) {
            (Some(given), Some(folded)) if folded.count < given.count || !is_whole => {
                Some(Bucket {
                    high: given.high.max(folded.high),
                    low: given.low.min(folded.low),
                    close: folded.close,
                    ..given
                })
            }
            (given, folded) => folded.or(given),
        }
    }

    /// Updates the candles that start at `starts`.
    fn put(&mut self, starts: BTreeSet<Timestamp>) {
        for candle in starts.into_iter().filter_map(|start| self.merged(start)).collect::<Vec<_>>()
        {
            match self.candles.binary_search_by_key(&candle.timestamp, |it| it.timestamp) {
                Ok(idx) => self.candles[idx] = candle,
                Err(idx) => {
                    let is_newest = idx == self.candles.len();
                    self.n_added = self.n_added.wrapping_add(usize::from(is_newest));
                    self.candles.insert(idx, candle);
                }
            }
            // Many candles are dropped together, since each drop moves all remaining candles.
            if self.candles.len() > CANDLES_MAX + CANDLES_STEP {
                self.candles.drain(..CANDLES_STEP);
            }
        }
    }
}

/// Folds candles into a single candle that starts at `start`. Returns `None` if there are no
/// candles.
fn fold(start: Timestamp, candles: impl Iterator<Item = Bucket>) -> Option<Bucket> {
    let whole = candles.reduce(|earlier, later| Bucket {
        timestamp: earlier.timestamp,
        open: earlier.open,
        high: earlier.high.max(later.high),
        low: earlier.low.min(later.low),
        close: later.close,
        volume: earlier.volume + later.volume,
        count: earlier.count.saturating_add(later.count),
    })?;
    Some(Bucket { timestamp: start, ..whole })
}

/// Returns Heikin-Ashi candles. Each candle opens in the middle of the previous candle and closes
/// at the mean of its own four prices, so the candles of a trend have the same color.
pub(crate) fn heikin(candles: &[Bucket]) -> Vec<Bucket> {
    let mut before: Option<(f64, f64)> = None;
    let smooth = |candle: &Bucket| {
        let close = candle.open / 4.0 + candle.high / 4.0 + candle.low / 4.0 + candle.close / 4.0;
        let (first, last) = before.unwrap_or((candle.open, candle.close));
        let open = f64::midpoint(first, last);
        before = Some((open, close));
        let high = candle.high.max(open).max(close);
        let low = candle.low.min(open).min(close);
        Bucket { open, high, low, close, ..*candle }
    };
    candles.iter().map(smooth).collect()
}

/// Columns of a row with four prices.
const PRICES: [&str; 4] = ["open", "high", "low", "close"];

/// Column with the volumes, which are drawn below a chart.
const VOLUME: &str = "volume";

/// Columns of a dataset that a chart shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Four columns `open`, `high`, `low` and `close`: each row is a candle.
    Bars,
    /// The column with this name: each row is a single value.
    Value(String),
    /// No column, since none is numeric.
    Nothing,
}

impl Shape {
    /// Returns the shape of a dataset with this metadata and these columns. Without a column named
    /// by the metadata, the first float column is charted, otherwise the first integer column.
    pub(crate) fn from_columns(metadata: &BTreeMap<String, String>, columns: &[Column]) -> Self {
        let first = first_of(columns, Dtype::Float).or_else(|| first_of(columns, Dtype::Integer));
        Self::choose(metadata, has_number(columns), first.map(|column| &column.name))
    }

    /// Returns true if the service has buckets of a dataset with this metadata and these columns.
    /// The service chooses columns like [`Self::from_columns`], but does not fall back to an
    /// integer column.
    pub(crate) fn has_buckets(metadata: &BTreeMap<String, String>, columns: &[Column]) -> bool {
        let first = first_of(columns, Dtype::Float).map(|column| &column.name);
        Self::choose(metadata, has_number(columns), first) != Self::Nothing
    }

    /// Guesses the shape from a row while the columns are unknown. If the row has several numbers,
    /// the first by name is charted.
    pub(crate) fn guess(metadata: &BTreeMap<String, String>, row: &NamedRow) -> Self {
        let has = |name: &str| number(row, name).is_some();
        // A float without a fraction looks like an integer, so the types are not distinguished.
        let first = row.values.iter().find(|(_, value)| value.as_f64().is_some());
        Self::choose(metadata, has, first.map(|(name, _)| name))
    }

    /// Returns bars if `has` is true for all four prices, otherwise the column named by the
    /// metadata, otherwise the column `first`.
    fn choose(
        metadata: &BTreeMap<String, String>,
        has: impl Fn(&str) -> bool,
        first: Option<&String>,
    ) -> Self {
        if PRICES.into_iter().all(&has) {
            return Self::Bars;
        }
        let named = metadata.get(VALUE_COLUMN).filter(|name| has(name));
        named.or(first).cloned().map_or(Self::Nothing, Self::Value)
    }

    /// Converts a row to a candle. Returns `None` if the row has no number in the charted columns.
    pub(crate) fn sample(&self, row: &NamedRow) -> Option<Bucket> {
        let timestamp = row.timestamp;
        let volume = number(row, VOLUME).unwrap_or(0.0);
        match self {
            Self::Nothing => None,
            Self::Value(column) => {
                let value = number(row, column)?;
                let volume = if column == VOLUME { 0.0 } else { volume };
                let (open, high, low, close) = (value, value, value, value);
                Some(Bucket { timestamp, open, high, low, close, volume, count: 1 })
            }
            Self::Bars => {
                let [open, high, low, close] = PRICES.map(|name| number(row, name));
                let open = open.or(close).or(high).or(low)?;
                let close = close.unwrap_or(open);
                let high = high.unwrap_or_else(|| open.max(close));
                let low = low.unwrap_or_else(|| open.min(close));
                Some(Bucket { timestamp, open, high, low, close, volume, count: 1 })
            }
        }
    }

    /// Returns the column that is used where a row is shown as a single value: `close` for bars.
    /// `None` if no column is numeric.
    pub(crate) fn value_column(&self) -> Option<&str> {
        match self {
            Self::Bars => Some("close"),
            Self::Value(column) => Some(column),
            Self::Nothing => None,
        }
    }
}

/// Returns the first column of type `dtype` that is not deleted. Deleted columns have no name.
fn first_of(columns: &[Column], dtype: Dtype) -> Option<&Column> {
    columns.iter().find(|column| column.dtype == dtype && !column.name.is_empty())
}

/// Returns a function that is true for the names of numeric columns.
fn has_number(columns: &[Column]) -> impl Fn(&str) -> bool {
    move |name| columns.iter().any(|column| is_number(column) && column.name == name)
}

/// Returns true for a numeric column.
pub(crate) const fn is_number(column: &Column) -> bool {
    matches!(column.dtype, Dtype::Float | Dtype::Integer)
}

/// Returns the number in column `name`, or `None` if there is no number.
fn number(row: &NamedRow, name: &str) -> Option<f64> {
    row.values.get(name).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests;
