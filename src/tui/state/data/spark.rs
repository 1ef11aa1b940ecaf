//! The newest values of the datasets in the list, read in turn, one dataset at a time.

use std::{collections::VecDeque, time::Duration};

use model::{dataset::DatasetId, page::Limit, resolution::Resolution, timestamp::Timestamp};

use super::{ROWS_APART, ROWS_EVERY, ROWS_FIRST, SPARKS_MAX, State, sample::Shape};
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
    /// Asks for the newest rows of the dataset whose values were read longest ago.
    pub(super) fn load_spark(&mut self) -> Option<Effect> {
        if self.asked.is_some() {
            return None;
        }
        let others = self.list().iter().map(|dataset| dataset.id);
        // The rows of the one that is charted come anyway, where it is in view.
        let is_read = |id: &DatasetId| !self.is_shown || Some(*id) != self.selected;
        let others = others.filter(is_read).take(SPARKS_MAX);
        let oldest = others.min_by_key(|id| self.sparks.get(id).map(|spark| spark.at))?;
        Some(self.ask(glance(oldest)))
    }

    /// Whether `query` is of the newest values alone, while the chart is not in view.
    pub(super) fn is_glance(&self, query: RowsQuery) -> bool {
        !self.is_shown && query == glance(query.dataset)
    }

    /// How long to wait for the next of these reads.
    pub(super) fn spark_wait(&self) -> Duration {
        let n_known = self.list().iter().filter(|one| self.sparks.contains_key(&one.id)).count();
        let n_others = self.list().len().min(SPARKS_MAX).saturating_sub(1);
        if n_known < n_others {
            return ROWS_FIRST;
        }
        let n_others = u32::try_from(n_others).unwrap_or(u32::MAX).max(1);
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
    RowsQuery::newest(dataset, Resolution::Raw, Limit::clamped(SPARK_VALUES))
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
