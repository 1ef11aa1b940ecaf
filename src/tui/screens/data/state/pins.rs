//! Datasets that are watched while others are charted: a value, a sparkline and a stream of each.
//!
//! Beside those that are pinned, the newest values of others can be looked at, without a stream.

use std::collections::BTreeMap;

use model::{
    dataset::{Dataset, DatasetId},
    timestamp::Timestamp,
};

use super::{Live, Spark, State, sample::Shape, set_timers};
use crate::{
    event::{Effect, StreamNews, Timer},
    state::loadable::{Failure, Loadable},
};

/// Datasets pinned at once: each has a stream of its own, of which a service gives a key few.
pub const PINS_MAX: usize = 6;

/// Datasets looked at without being pinned: more than fit on most screens.
pub(super) const OTHERS_MAX: usize = 12;

/// Values kept of a pinned dataset: two for each column of the widest sparkline.
pub const PIN_VALUES: usize = 240;

/// What a service answers of a dataset that is gone, or that it does not show.
const GONE: [u16; 2] = [404, 410];

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
    /// Whether the service told of it: one of an earlier session is kept until then.
    pub told: Loadable<()>,
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
    /// Whether the service told of it, if it is pinned.
    pub told: Option<&'a Loadable<()>>,
}

/// The unit of shares.
pub const PERCENT: &str = "%";

/// What values are counted in, by the metadata of a dataset: in short where that is common.
#[must_use]
pub fn unit(metadata: &BTreeMap<String, String>) -> &str {
    unit_in_short(metadata.get("unit").map_or("", String::as_str))
}

/// A unit in short where that is common.
pub(super) fn unit_in_short(unit: &str) -> &str {
    match unit {
        "percent" => PERCENT,
        "bytes per second" => "B/s",
        "bytes" => "B",
        "seconds" => "s",
        other => other,
    }
}

impl<'a> From<&'a Pin> for Watched<'a> {
    fn from(pin: &'a Pin) -> Self {
        Self {
            dataset: pin.dataset,
            name: &pin.name,
            live: Some(&pin.live),
            spark: Some(&pin.spark),
            unit: unit(&pin.metadata),
            told: Some(&pin.told),
        }
    }
}

/// Whether a dataset is not there any more, or not to be seen.
pub(super) fn is_gone(why: &Failure) -> bool {
    why.status.is_some_and(|status| GONE.contains(&status))
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
            told: None,
        });
        self.pins.iter().map(Watched::from).chain(others).collect()
    }

    /// Pins datasets again, each by its id and its name, that were pinned in an earlier session.
    pub fn remember(&mut self, datasets: impl IntoIterator<Item = (DatasetId, String)>) {
        for (dataset, name) in datasets {
            if self.pins.len() < PINS_MAX && !self.is_pinned(dataset) {
                self.pins.push(Pin {
                    dataset,
                    name,
                    live: Live::default(),
                    spark: Spark::new(PIN_VALUES, Timestamp::MIN),
                    told: Loadable::Idle,
                    metadata: BTreeMap::new(),
                });
            }
        }
    }

    /// Takes what is pinned out, to be remembered: the service is another one, or asked anew.
    pub(super) fn taken_pins(&mut self) -> Vec<(DatasetId, String)> {
        std::mem::take(&mut self.pins).into_iter().map(|pin| (pin.dataset, pin.name)).collect()
    }

    /// Pins nothing any more: the service is another one.
    pub fn forget_pins(&mut self) {
        self.pins.clear();
    }

    /// Asks for the pinned datasets that the service has not told of; those that are listed are
    /// known by that.
    pub(super) fn load_pins(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        let is_untold = |pin: &&mut Pin| pin.told.value().is_none();
        let untold: Vec<_> =
            self.pins.iter_mut().filter(is_untold).map(|pin| pin.dataset).collect();
        for dataset in untold {
            if let Some(listed) = self.list().iter().find(|it| it.id == dataset).cloned() {
                effects.extend(self.pin(listed, now));
                continue;
            }
            // The list is of the first ones alone.
            if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == dataset) {
                pin.told.begin(now);
            }
            effects.push(Effect::LoadPinned { dataset });
        }
        effects
    }

    /// The service told of a pinned dataset, or why it does not. One that is gone, or not to be seen
    /// any more, is no longer pinned; whatever else failed is tried again.
    pub(super) fn on_pinned(
        &mut self,
        id: DatasetId,
        result: Result<Dataset, Failure>,
        now: Timestamp,
    ) -> Vec<Effect> {
        match result {
            Ok(dataset) => return self.pin(dataset, now),
            Err(why) if is_gone(&why) => {
                self.pins.retain(|pin| pin.dataset != id);
            }
            Err(why) => {
                if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == id) {
                    pin.told.settle(Err(why), now);
                }
            }
        }
        Vec::new()
    }

    /// Follows a pinned dataset, now that it is told of.
    fn pin(&mut self, dataset: Dataset, now: Timestamp) -> Vec<Effect> {
        let is_charted = self.is_shown && self.selected == Some(dataset.id);
        let live = if is_charted { self.live.clone() } else { Live::default() };
        let is_this = |pin: &&mut Pin| pin.dataset == dataset.id && pin.told.value().is_none();
        let Some(pin) = self.pins.iter_mut().find(is_this) else { return Vec::new() };
        pin.name = dataset.name;
        pin.metadata = dataset.metadata;
        pin.live = live;
        pin.told.settle(Ok(()), now);
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
            told: Loadable::Ready { value: (), at: now },
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
