//! The newest values of the datasets in the list, read in turn, one dataset at a time.

use std::{collections::VecDeque, time::Duration};

use model::{dataset::DatasetId, page::Limit, resolution::Resolution, timestamp::Timestamp};

use super::{
    ROWS_APART, ROWS_EVERY, ROWS_FIRST, SPARKS_MAX, State, pins::OTHERS_MAX, sample::Shape,
};
use crate::{
    event::{Effect, NamedRow, Rows, RowsQuery},
    widget::candles::Candle,
};

/// Values kept of each dataset: a few more than a sparkline has columns.
pub const SPARK_VALUES: usize = 64;

/// The newest values of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Spark {
    /// Moments and values, oldest first.
    values: VecDeque<(Timestamp, f64)>,
    /// When they were read.
    at: Timestamp,
    /// When the newest one came: its own moment as far as that was not seen here.
    came_at: Timestamp,
    /// How many are kept.
    n_max: usize,
}

impl Spark {
    /// Returns no values, of which `n_max` will be kept.
    pub(super) const fn new(n_max: usize, now: Timestamp) -> Self {
        Self { values: VecDeque::new(), at: now, came_at: Timestamp::MIN, n_max }
    }

    /// The values, oldest first.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = f64> {
        self.values.iter().map(|(_, value)| *value)
    }

    /// The time from the oldest value to the newest.
    #[must_use]
    pub fn length(&self) -> Duration {
        let ends = self.values.front().zip(self.values.back());
        ends.map_or(Duration::ZERO, |((first, _), (last, _))| last.since(*first))
    }

    /// The newest moment and value.
    #[must_use]
    pub fn newest(&self) -> Option<(Timestamp, f64)> {
        self.values.back().copied()
    }

    /// How long ago the newest value came. Data of the past that is played back now is new, too.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> Duration {
        now.since(self.came_at)
    }

    /// Takes values, each in the place of an older one of its moment.
    pub(super) fn take(&mut self, samples: impl IntoIterator<Item = Candle>, now: Timestamp) {
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
    #[must_use]
    pub fn spark(&self, dataset: DatasetId) -> Option<&Spark> {
        let pinned = self.pins.iter().filter(|pin| pin.dataset == dataset).map(|pin| &pin.spark);
        let read = self.sparks.get(&dataset);
        read.into_iter().chain(pinned).max_by_key(|spark| spark.newest().map(|(time, _)| time))
    }

    /// Asks for the newest rows of the dataset whose values were read longest ago.
    pub(super) fn load_spark(&mut self) -> Option<Effect> {
        if self.asked.is_some() {
            return None;
        }
        let oldest =
            self.read_in_turn().min_by_key(|id| self.sparks.get(id).map(|spark| spark.at))?;
        Some(self.ask(glance(oldest)))
    }

    /// The datasets whose values are read in turn: those that are seen, and do not come anyway.
    fn read_in_turn(&self) -> impl Iterator<Item = DatasetId> {
        // On another screen the pinned ones are shown by what their streams bring.
        let is_charted = |id: DatasetId| self.is_shown && Some(id) == self.selected;
        let is_streamed = |id: DatasetId| !self.is_shown && self.is_pinned(id);
        let n_max = if self.is_shown { SPARKS_MAX } else { OTHERS_MAX };
        let listed = self.list().iter().map(|dataset| dataset.id);
        listed.filter(move |id| !is_charted(*id) && !is_streamed(*id)).take(n_max)
    }

    /// Whether `query` is of the newest values alone, while the chart is not in view.
    pub(super) fn is_glance(&self, query: RowsQuery) -> bool {
        !self.is_shown && query == glance(query.dataset)
    }

    /// How long to wait for the next of these reads: as long as one was not read for a while, as after
    /// another screen was in view, little.
    pub(super) fn spark_wait(&self, now: Timestamp) -> Duration {
        let is_old = |id| self.sparks.get(&id).is_none_or(|it| now.since(it.at) > ROWS_EVERY * 2);
        if self.read_in_turn().any(is_old) {
            return ROWS_FIRST;
        }
        let n_others = u32::try_from(self.read_in_turn().count()).unwrap_or(u32::MAX).max(1);
        (ROWS_EVERY / n_others).max(ROWS_APART)
    }

    /// Takes the newest rows of a dataset that is not charted.
    pub(super) fn take_spark(&mut self, dataset: DatasetId, rows: &Rows, now: Timestamp) {
        let Some(metadata) =
            self.list().iter().find(|one| one.id == dataset).map(|one| one.metadata.clone())
        else {
            return;
        };
        let Rows::Raw(rows) = rows else { return };
        let shape = rows.first().map(|row| Shape::guess(&metadata, row));
        let samples = rows.iter().filter_map(|row| shape.as_ref()?.sample(row)).collect();
        self.keep_spark(dataset, samples, now);
    }

    /// Takes rows of the dataset that is charted.
    pub(super) fn take_own_spark(&mut self, samples: &[Candle], now: Timestamp) {
        if let Some(dataset) = self.selected {
            let newest = samples.iter().skip(samples.len().saturating_sub(SPARK_VALUES));
            self.keep_spark(dataset, newest.copied().collect(), now);
        }
    }

    fn keep_spark(&mut self, dataset: DatasetId, samples: Vec<Candle>, now: Timestamp) {
        if self.sparks.len() >= SPARKS_MAX && !self.sparks.contains_key(&dataset) {
            let oldest = self.sparks.iter().min_by_key(|(_, spark)| spark.at).map(|(id, _)| *id);
            self.sparks.retain(|id, _| Some(*id) != oldest);
        }
        let spark = self.sparks.entry(dataset);
        spark.or_insert_with(|| Spark::new(SPARK_VALUES, now)).take(samples, now);
    }
}

/// What is asked for a sparkline.
fn glance(dataset: DatasetId) -> RowsQuery {
    RowsQuery::newest(dataset, Resolution::Raw, Limit::clamp(SPARK_VALUES))
}

/// The newest rows as they are kept: newest first, each moment once, at most `n_max`.
pub(super) fn put_newest(tape: &mut VecDeque<NamedRow>, row: NamedRow, n_max: usize) {
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
