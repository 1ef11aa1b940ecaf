//! Datasets that are watched while others are charted: a value, a sparkline and a stream of each.
//!
//! Beside those that are pinned, the newest values of others can be looked at, without a stream.

use std::collections::BTreeMap;

use model::{
    dataset::{Dataset, DatasetId},
    timestamp::Timestamp,
};

use super::{Live, Spark, State, sample::Shape, set_timers};
use crate::event::{Effect, StreamNews, Timer};

/// Datasets pinned at once: each has a stream of its own, of which a service gives a key few.
pub const PINS_MAX: usize = 6;

/// Datasets looked at without being pinned: more than fit on most screens.
const OTHERS_MAX: usize = 12;

/// Values kept of a pinned dataset: two for each column of the widest sparkline.
pub const PIN_VALUES: usize = 240;

/// A dataset that is watched.
#[derive(Debug, Clone)]
pub struct Pin {
    /// Which.
    pub dataset: DatasetId,
    /// What it is called.
    pub name: String,
    /// Its stream.
    pub live: Live,
    /// Its newest values.
    pub spark: Spark,
    /// What tells which of its columns matters.
    metadata: BTreeMap<String, String>,
}

/// A dataset that is pinned or looked at.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// Which.
    pub dataset: DatasetId,
    /// What it is called.
    pub name: &'a str,
    /// Its stream, if it is pinned.
    pub live: Option<&'a Live>,
    /// Its newest values, as soon as they are there.
    pub spark: Option<&'a Spark>,
    /// What its values are counted in, where that is told.
    pub unit: &'a str,
}

/// What values are counted in, by what is told of a dataset: in short where everybody knows how.
fn unit(metadata: &BTreeMap<String, String>) -> &str {
    match metadata.get("unit").map_or("", String::as_str) {
        "percent" => "%",
        "bytes per second" => "B/s",
        "bytes" => "B",
        "seconds" => "s",
        other => other,
    }
}

impl<'a> From<&'a Pin> for Watched<'a> {
    fn from(pin: &'a Pin) -> Self {
        let (live, spark) = (Some(&pin.live), Some(&pin.spark));
        Self { dataset: pin.dataset, name: &pin.name, live, spark, unit: unit(&pin.metadata) }
    }
}

impl State {
    /// The newest values come into view on another screen, or leave it.
    pub fn glance(&mut self, is_glanced_at: bool) -> Vec<Effect> {
        self.is_glanced_at = is_glanced_at;
        if !is_glanced_at {
            return vec![Effect::Forget(Timer::Datasets), Effect::Forget(Timer::Rows)];
        }
        if self.is_connected { set_timers().into() } else { Vec::new() }
    }

    /// What is pinned, then others in the order of the list.
    pub fn watched(&self) -> Vec<Watched<'_>> {
        let others = self.list().iter().filter(|dataset| !self.is_pinned(dataset.id));
        let others = others.take(OTHERS_MAX).map(|dataset| Watched {
            dataset: dataset.id,
            name: &dataset.name,
            live: None,
            spark: self.sparks.get(&dataset.id),
            unit: unit(&dataset.metadata),
        });
        self.pins.iter().map(Watched::from).chain(others).collect()
    }

    /// Pins `datasets` again; those that are not listed are asked for one by one.
    pub fn pin_again(&mut self, datasets: &[DatasetId], now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        for dataset in datasets.iter().take(PINS_MAX) {
            match self.list().iter().find(|listed| listed.id == *dataset).cloned() {
                Some(listed) => effects.extend(self.pin(listed, now)),
                // The list is of the first ones alone.
                None => effects.push(Effect::LoadPinned { dataset: *dataset }),
            }
        }
        effects
    }

    /// Watches `dataset` from now on, unless it is watched, or as many are as may be.
    pub(super) fn pin(&mut self, dataset: Dataset, now: Timestamp) -> Vec<Effect> {
        if self.is_pinned(dataset.id) || self.pins.len() >= PINS_MAX {
            return Vec::new();
        }
        let is_charted = self.is_shown && self.selected == Some(dataset.id);
        self.pins.push(Pin {
            dataset: dataset.id,
            name: dataset.name,
            live: if is_charted { self.live.clone() } else { Live::default() },
            spark: Spark::new(PIN_VALUES, now),
            metadata: dataset.metadata,
        });
        if is_charted { Vec::new() } else { vec![Effect::OpenStream { dataset: dataset.id }] }
    }

    /// Whether `dataset` is pinned.
    pub fn is_pinned(&self, dataset: DatasetId) -> bool {
        self.pins.iter().any(|pin| pin.dataset == dataset)
    }

    /// Pins the dataset that is charted, or no longer.
    pub(super) fn toggle_pin(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(dataset) = self.dataset().cloned() else { return Vec::new() };
        let is_charted = self.is_shown;
        if self.is_pinned(dataset.id) {
            self.pins.retain(|pin| pin.dataset != dataset.id);
            // The chart needs the stream as long as it is in view.
            let stays = is_charted && Some(dataset.id) == self.selected;
            return if stays {
                Vec::new()
            } else {
                vec![Effect::CloseStream { dataset: dataset.id }]
            };
        }
        let mut effects = Vec::new();
        if self.pins.len() >= PINS_MAX {
            let oldest = self.pins.remove(0).dataset;
            if Some(oldest) != self.selected || !is_charted {
                effects.push(Effect::CloseStream { dataset: oldest });
            }
        }
        let mut spark = Spark::new(PIN_VALUES, now);
        let newest = self.chart.candles().iter().rev().take(PIN_VALUES).rev().copied();
        if self.chart.resolution().bucket().is_none() {
            spark.take(newest, now);
        }
        let mut live = self.live.clone();
        live.release();
        self.pins.push(Pin {
            dataset: dataset.id,
            name: dataset.name,
            live,
            spark,
            metadata: dataset.metadata,
        });
        if !is_charted {
            effects.push(Effect::OpenStream { dataset: dataset.id });
        }
        effects
    }

    /// Something happened on the stream of a dataset that may be pinned.
    pub(super) fn pin_hears(&mut self, dataset: DatasetId, news: &StreamNews, now: Timestamp) {
        let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == dataset) else { return };
        pin.live.hear(news, now);
        if let StreamNews::Rows(rows) = news {
            let shape = rows.first().map(|row| Shape::guess(&pin.metadata, row));
            let samples = rows.iter().filter_map(|row| shape.as_ref()?.sample(row));
            pin.spark.take(samples.collect::<Vec<_>>(), now);
        }
    }
}
