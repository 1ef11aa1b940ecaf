//! Pins datasets, loads and follows the pinned ones.

use model::{
    dataset::{Dataset, DatasetId},
    timestamp::Timestamp,
};

use super::{CLEAR_TIMERS, set_timers};
use crate::{
    event::{Effect, RowsEvent, StreamEvent},
    screens::data::state::{
        LiveStream, State,
        pins::{PIN_VALUES, PINS_MAX, Pin, is_gone},
        sample::Shape,
    },
    state::loadable::{Failure, Loadable},
};

impl State {
    /// Starts or stops reading the newest values for the Overview screen.
    pub(crate) fn set_in_overview(&mut self, is_in_overview: bool) {
        self.is_in_overview = is_in_overview;
        if !is_in_overview {
            self.effects.extend(CLEAR_TIMERS);
        } else if self.is_connected {
            self.effects.extend(set_timers());
        }
    }

    /// Restores the pins of an earlier session, each by id and name.
    pub(crate) fn restore_pins(&mut self, datasets: impl IntoIterator<Item = (DatasetId, String)>) {
        for (dataset, name) in datasets {
            if self.pins.len() < PINS_MAX && !self.is_pinned(dataset) {
                self.pins.push(Pin::new(dataset, name));
            }
        }
    }

    /// Removes and returns the pins, to restore them after a reconnect.
    pub(crate) fn take_pins(&mut self) -> Vec<(DatasetId, String)> {
        std::mem::take(&mut self.pins).into_iter().map(|pin| (pin.dataset, pin.name)).collect()
    }

    /// Removes all pins: they belong to another service.
    pub(crate) fn clear_pins(&mut self) {
        self.pins.clear();
    }

    /// Loads the details of pins that have none; those of listed datasets are
    /// known by that.
    pub(crate) fn load_pins(&mut self, now: Timestamp) {
        let is_untold = |pin: &&mut Pin| pin.details.value().is_none();
        let untold: Vec<_> =
            self.pins.iter_mut().filter(is_untold).map(|pin| pin.dataset).collect();
        for dataset in untold {
            if let Some(listed) = self.list().iter().find(|it| it.id == dataset).cloned() {
                self.pin(listed, now);
                continue;
            }
            // The list is of the first ones alone.
            if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == dataset) {
                pin.details.begin(now);
            }
            self.effects.push(Effect::LoadPinned { dataset });
        }
    }

    /// Takes the details of a pinned dataset. One that is deleted or no longer visible
    /// is unpinned; other failures are retried.
    pub(crate) fn on_pin_details(
        &mut self,
        id: DatasetId,
        result: Result<Dataset, Failure>,
        now: Timestamp,
    ) {
        match result {
            Ok(dataset) => self.pin(dataset, now),
            Err(why) if is_gone(&why) => {
                self.pins.retain(|pin| pin.dataset != id);
            }
            Err(why) => {
                if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == id) {
                    pin.details.settle(Err(why), now);
                }
            }
        }
    }

    /// Follows a pinned dataset once its details are loaded.
    pub(crate) fn pin(&mut self, dataset: Dataset, now: Timestamp) {
        let is_charted = self.is_shown && self.selected == Some(dataset.id);
        let live = if is_charted { self.live.clone() } else { LiveStream::default() };
        let is_this = |pin: &&mut Pin| pin.dataset == dataset.id && pin.details.value().is_none();
        let Some(pin) = self.pins.iter_mut().find(is_this) else { return };
        pin.name = dataset.name;
        pin.metadata = dataset.metadata;
        pin.live = live;
        pin.details.settle(Ok(()), now);
        if !is_charted {
            self.effects.push(Effect::OpenStream { dataset: dataset.id });
        }
        if !self.known_columns.contains_key(&dataset.id) {
            self.effects.push(Effect::LoadColumns { dataset: dataset.id });
        }
    }

    /// Pins or unpins the charted dataset.
    pub(crate) fn toggle_pin(&mut self, now: Timestamp) {
        let Some(dataset) = self.dataset().cloned() else { return };
        let is_charted = self.is_shown;
        if self.is_pinned(dataset.id) {
            self.pins.retain(|pin| pin.dataset != dataset.id);
            // The chart needs the stream as long as it is in view.
            if !is_charted || Some(dataset.id) != self.selected {
                self.effects.push(Effect::CloseStream { dataset: dataset.id });
            }
            return;
        }
        if self.pins.len() >= PINS_MAX {
            let oldest = self.pins.remove(0).dataset;
            if Some(oldest) != self.selected || !is_charted {
                self.effects.push(Effect::CloseStream { dataset: oldest });
            }
        }
        let mut pin = Pin::new(dataset.id, dataset.name);
        pin.live = self.live.clone();
        pin.live.held = None;
        pin.details = Loadable::Ready { value: (), at: now };
        pin.metadata = dataset.metadata;
        let newest = self.chart.candles().iter().rev().take(PIN_VALUES).rev().copied();
        if self.chart.resolution().bucket().is_none() {
            let shape = self.shape();
            pin.spark.take(shape.as_ref().and_then(Shape::value_column), newest, now);
        }
        self.pins.push(pin);
        if !is_charted {
            self.effects.push(Effect::OpenStream { dataset: dataset.id });
        }
    }

    /// Handles an event on the stream of a dataset that may be pinned.
    pub(crate) fn on_pin_event(&mut self, dataset: DatasetId, news: &RowsEvent, now: Timestamp) {
        let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == dataset) else { return };
        pin.live.on_event(news, now);
        if let StreamEvent::Item(rows) = news {
            let metadata = std::mem::take(&mut pin.metadata);
            let shape = self.shape_for(dataset, &metadata, rows.first());
            if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == dataset) {
                pin.metadata = metadata;
                pin.spark.take_rows(shape.as_ref(), rows, now);
            }
        }
    }
}
