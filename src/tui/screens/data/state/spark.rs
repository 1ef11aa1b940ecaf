//! The newest values of the datasets in the list, read in turn, one dataset at a time.

use std::{collections::VecDeque, time::Duration};

use model::{dataset::DatasetId, timestamp::Timestamp};

use super::State;
use crate::{event::NamedRow, widget::candles::Candle};

/// Values kept of each dataset: a few more than a sparkline has columns.
pub(crate) const SPARK_VALUES: usize = 64;

/// The newest values of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecentValues {
    /// Timestamps and values, oldest first.
    values: VecDeque<(Timestamp, f64)>,
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
        Self { values: VecDeque::new(), at: now, came_at: Timestamp::MIN, n_max }
    }

    /// The values, oldest first.
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = f64> {
        self.values.iter().map(|(_, value)| *value)
    }

    /// The time from the oldest value to the newest.
    pub(crate) fn length(&self) -> Duration {
        let ends = self.values.front().zip(self.values.back());
        ends.map_or(Duration::ZERO, |((first, _), (last, _))| last.since(*first))
    }

    /// The newest timestamp and value.
    pub(crate) fn newest(&self) -> Option<(Timestamp, f64)> {
        self.values.back().copied()
    }

    /// How long ago the newest value came. Data of the past that is played back now is new, too.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        now.since(self.came_at)
    }

    /// Adds values; each replaces an older one with the same timestamp.
    pub(crate) fn take(&mut self, samples: impl IntoIterator<Item = Candle>, now: Timestamp) {
        let newest_before = self.newest().map(|(time, _)| time);
        for sample in samples {
            match self.values.binary_search_by_key(&sample.time, |(time, _)| *time) {
                Ok(idx) => {
                    if let Some(value) = self.values.get_mut(idx) {
                        value.1 = sample.close;
                    }
                }
                Err(idx) => self.values.insert(idx, (sample.time, sample.close)),
            }
            if self.values.len() > self.n_max {
                self.values.pop_front();
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

/// Inserts a row: newest first, each timestamp once, at most `n_max` rows.
pub(crate) fn put_newest(tape: &mut VecDeque<NamedRow>, row: NamedRow, n_max: usize) {
    match tape.binary_search_by(|kept| row.timestamp.cmp(&kept.timestamp)) {
        Ok(idx) => {
            if let Some(kept) = tape.get_mut(idx) {
                *kept = row;
            }
        }
        Err(idx) if idx < n_max => tape.insert(idx, row),
        Err(_) => {}
    }
    tape.truncate(n_max);
}
