//! The candles of one dataset at one resolution: those the service gave, and the newest rows.
//!
//! The service's buckets and the rows of the stream overlap, and which rows a bucket holds is not
//! said. So the newest rows are kept, a bucket is folded from them, and the fold stands as soon as
//! it holds at least as many rows as the service's bucket did. Until then it only moves that
//! bucket's close and its extremes. Corrected rows replace the ones they correct.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    dataset::{Column, Dtype},
    resolution::Resolution,
    row::{Bucket, Value},
    timestamp::Timestamp,
};

use crate::event::NamedRow;

/// The newest rows kept to fold buckets from: half an hour of one a second. Older ones are dropped;
/// their buckets stand as the service gave them.
const ROWS_MAX: usize = 2_000;

/// The most candles kept. Older ones are dropped, and are asked for again when scrolled to.
pub(crate) const CANDLES_MAX: usize = 12_000;

/// Candles dropped at once: at a thousand rows per second, the rest moves once per second.
const CANDLES_STEP: usize = 1_000;

/// The candles of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    resolution: Resolution,
    /// The candles of the service.
    given: BTreeMap<Timestamp, Bucket>,
    /// The newest rows, each as a candle of its own.
    rows: BTreeMap<Timestamp, Bucket>,
    /// Both together, oldest first.
    candles: Vec<Bucket>,
    /// Candles appended since the service's last answer.
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
            candles: Vec::new(),
            n_added: 0,
        }
    }

    /// The resolution of its candles.
    pub(crate) const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// The candles, oldest first.
    pub(crate) fn candles(&self) -> &[Bucket] {
        &self.candles
    }

    /// Number of places left free after the newest candle of a chart that moves by `step` places at
    /// a time: each move redraws the whole chart, a candle in between only one column.
    pub(crate) const fn n_free(&self, step: usize) -> usize {
        match self.n_added.checked_rem(step) {
            None | Some(0) => 0,
            Some(n) => step - n,
        }
    }

    /// The candle at `time`, counted from the newest one, which is 0.
    pub(crate) fn index_from_newest(&self, time: Timestamp) -> Option<usize> {
        let idx = self.candles.binary_search_by_key(&time, |candle| candle.timestamp).ok()?;
        Some(self.candles.len() - 1 - idx)
    }

    /// The candle that is `n` from the newest one, or the oldest.
    pub(crate) fn nth_newest(&self, n: usize) -> Option<&Bucket> {
        self.candles.iter().rev().nth(n).or_else(|| self.candles.first())
    }

    /// Takes another resolution: the newest rows stay, as they are of no resolution.
    pub(crate) fn change_resolution(&mut self, resolution: Resolution) {
        self.resolution = resolution;
        self.given.clear();
        self.rebuild();
    }

    /// Adds the service's candles, in any order; they replace those with the same timestamp.
    pub(crate) fn add_service_candles(&mut self, candles: impl IntoIterator<Item = Bucket>) {
        self.given.extend(candles.into_iter().map(|candle| (candle.timestamp, candle)));
        self.rebuild();
        self.n_added = 0;
    }

    /// Adds live rows, new ones and corrections, each as a candle of its own.
    pub(crate) fn add_live_rows(&mut self, rows: impl IntoIterator<Item = Bucket>) {
        let mut touched = BTreeSet::new();
        for row in rows {
            touched.insert(self.resolution.bucket_start(row.timestamp));
            self.rows.insert(row.timestamp, row);
        }
        while self.rows.len() > ROWS_MAX {
            self.rows.pop_first();
        }
        self.put(touched);
    }

    fn rebuild(&mut self) {
        while self.given.len() > CANDLES_MAX {
            self.given.pop_first();
        }
        self.candles = self.given.values().copied().collect();
        self.put(self.rows.keys().map(|time| self.resolution.bucket_start(*time)).collect());
    }

    /// The bucket that starts at `start`, from the service's candle and the live rows.
    fn merged(&self, start: Timestamp) -> Option<Bucket> {
        let folded = match self.resolution.bucket() {
            None => self.rows.get(&start).copied(),
            Some(length) => {
                fold(start, self.rows.range(start..start + length).map(|(_, row)| *row))
            }
        };
        match (self.given.get(&start).copied(), folded) {
            (Some(given), Some(folded)) if folded.count < given.count => Some(Bucket {
                high: given.high.max(folded.high),
                low: given.low.min(folded.low),
                close: folded.close,
                ..given
            }),
            (given, folded) => folded.or(given),
        }
    }

    /// Puts the buckets that start at `starts` in their places among the candles.
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
            // In larger steps, since each moves all that is kept.
            if self.candles.len() > CANDLES_MAX + CANDLES_STEP {
                self.candles.drain(..CANDLES_STEP);
            }
        }
    }
}

/// Folds candles in their order into one that starts at `start`; none if there are none.
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

/// Returns the candles smoothed as Heikin and Ashi do: each opens in the middle of the one before
/// and closes at its own mean, so that a trend keeps one color.
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

/// The columns of a bar.
const PRICES: [&str; 4] = ["open", "high", "low", "close"];

/// The column of the amounts below a chart.
const VOLUME: &str = "volume";

/// The charted columns of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `open`, `high`, `low` and `close`: rows are bars.
    Bars,
    /// This one column.
    Value(String),
    /// No column holds numbers.
    Nothing,
}

impl Shape {
    /// The shape of a dataset with these facts and columns: of several numbers the first float, else
    /// the first integer.
    pub(crate) fn from_columns(metadata: &BTreeMap<String, String>, columns: &[Column]) -> Self {
        let first = first_of(columns, Dtype::Float).or_else(|| first_of(columns, Dtype::Integer));
        Self::choose(metadata, has_number(columns), first.map(|column| &column.name))
    }

    /// True if a service keeps buckets of a dataset with these facts and columns. It does so by the same
    /// rule, except that it never chooses a column of integers by itself.
    pub(crate) fn has_buckets(metadata: &BTreeMap<String, String>, columns: &[Column]) -> bool {
        let first = first_of(columns, Dtype::Float).map(|column| &column.name);
        Self::choose(metadata, has_number(columns), first) != Self::Nothing
    }

    /// The shape that a row of a dataset with these facts suggests, as long as its columns are not
    /// known: without them the first is not, so it is the first by name.
    pub(crate) fn guess(metadata: &BTreeMap<String, String>, row: &NamedRow) -> Self {
        let has = |name: &str| number(row, name).is_some();
        // A float that is a whole number reads as an integer.
        let first = row.values.iter().find(|(_, value)| value.as_f64().is_some());
        Self::choose(metadata, has, first.map(|(name, _)| name))
    }

    /// Bars where a dataset `has` all prices, else the column that its metadata names, else `first`.
    fn choose(
        metadata: &BTreeMap<String, String>,
        has: impl Fn(&str) -> bool,
        first: Option<&String>,
    ) -> Self {
        if PRICES.into_iter().all(&has) {
            return Self::Bars;
        }
        // Names the charted column of a dataset without `open` to `close`.
        let named = metadata.get("value_column").filter(|name| has(name));
        named.or(first).cloned().map_or(Self::Nothing, Self::Value)
    }

    /// The row as a candle of its own; `None` if it has no number to chart.
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

    /// The column that a single number of a row is taken from.
    pub(crate) fn value_column(&self) -> Option<&str> {
        match self {
            Self::Bars => Some("close"),
            Self::Value(column) => Some(column),
            Self::Nothing => None,
        }
    }
}

/// The first column of this type that was not deleted.
fn first_of(columns: &[Column], dtype: Dtype) -> Option<&Column> {
    columns.iter().find(|column| column.dtype == dtype && !column.name.is_empty())
}

/// Returns a test for names of columns of numbers.
fn has_number(columns: &[Column]) -> impl Fn(&str) -> bool {
    move |name| columns.iter().any(|column| is_number(column) && column.name == name)
}

/// Returns true for a column of numbers.
pub(crate) const fn is_number(column: &Column) -> bool {
    matches!(column.dtype, Dtype::Float | Dtype::Integer)
}

/// The number in column `name`, if there is one.
fn number(row: &NamedRow, name: &str) -> Option<f64> {
    row.values.get(name).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests;
