//! The newest values of the datasets in the list, read in turn, one dataset at a time.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use model::{
    dataset::DatasetId,
    row::{Bucket, Value},
    timestamp::Timestamp,
};

use super::{State, sample::Shape};
use crate::event::NamedRow;

/// Values kept of each dataset: a few more than a sparkline has columns.
pub(crate) const SPARK_VALUES: usize = 64;

/// The newest values of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecentValues {
    values: BTreeMap<Timestamp, f64>,
    /// The column that they are of; `None` if the dataset has none of numbers, or no rows yet.
    column: Option<String>,
    /// The newest row, if its dataset has no column of numbers: its timestamp, and its first value.
    text: Option<(Timestamp, String)>,
    /// When they were read.
    pub(crate) at: Timestamp,
    /// When the newest value arrived; its own timestamp if it was loaded.
    came_at: Timestamp,
    /// How many are kept.
    n_max: usize,
}

impl RecentValues {
    /// Returns no values, of which `n_max` will be kept.
    pub(crate) const fn new(n_max: usize, now: Timestamp) -> Self {
        let came_at = Timestamp::MIN;
        Self { values: BTreeMap::new(), column: None, text: None, at: now, came_at, n_max }
    }

    /// The column that the values are of.
    pub(crate) fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }

    /// The newest row of a dataset without a column of numbers: its timestamp, and its first value.
    pub(crate) fn text(&self) -> Option<(Timestamp, &str)> {
        self.text.as_ref().map(|(time, text)| (*time, text.as_str()))
    }

    /// The values, oldest first.
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = f64> {
        self.values.values().copied()
    }

    /// The time from the oldest value to the newest.
    pub(crate) fn length(&self) -> Duration {
        let ends = self.values.keys().next().zip(self.values.keys().next_back());
        ends.map_or(Duration::ZERO, |(first, last)| last.since(*first))
    }

    /// The newest timestamp and value.
    pub(crate) fn newest(&self) -> Option<(Timestamp, f64)> {
        self.values.last_key_value().map(|(time, value)| (*time, *value))
    }

    /// How long ago the newest value came. Data of the past that is played back now is new, too.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        now.since(self.came_at)
    }

    /// Adds rows of a dataset of this shape, in any order.
    pub(crate) fn take_rows<'a>(
        &mut self,
        shape: Option<&Shape>,
        rows: impl IntoIterator<Item = &'a NamedRow>,
        now: Timestamp,
    ) {
        if shape == Some(&Shape::Nothing) {
            let newest = rows.into_iter().max_by_key(|row| row.timestamp);
            let newest = newest.and_then(|row| {
                let text = row.values.values().next().map(value_text)?;
                Some((row.timestamp, text))
            });
            self.text = newest.max(self.text.take());
            self.at = now;
            return;
        }
        let column = shape.and_then(Shape::value_column);
        let samples = rows.into_iter().filter_map(|row| shape?.sample(row));
        self.take(column, samples.collect::<Vec<_>>(), now);
    }

    /// Adds values of `column`; each replaces an older one with the same timestamp.
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
    /// The newest values of a dataset that are known: a pinned one's stream may be ahead of what was
    /// read for the list.
    pub(crate) fn sparkline(&self, dataset: DatasetId) -> Option<&RecentValues> {
        let pinned = self.pins.iter().filter(|pin| pin.dataset == dataset).map(|pin| &pin.spark);
        let read = self.sparklines.get(&dataset);
        read.into_iter().chain(pinned).max_by_key(|spark| spark.newest().map(|(time, _)| time))
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

/// Inserts a row: newest first, each timestamp once, none at `n_max` or behind.
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
