//! Streams of the charted and the pinned datasets, and exports.

use std::{path::PathBuf, time::Duration};

use model::{
    dataset::{Dataset, DatasetId},
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};

use crate::{
    event::{DownloadQuery, Effect, NamedRow, Progress, RowsEvent, StreamEvent},
    screens::data::{
        state::{
            State,
            chart::Shape,
            live::{
                HELD_ROWS_MAX, HeldRows, LiveStream, PIN_VALUES, PINS_MAX, Pin, Range, Status,
                is_gone,
            },
            rows,
        },
        update::{BUCKETS_AGAIN, CLEAR_TIMERS, TAPE_ROWS, set_timers},
    },
    state::loadable::{Failure, Loadable},
};

impl State {
    /// Follows the dataset that is charted.
    pub(crate) fn open_stream(&mut self) {
        let Some(dataset) = self.selected else { return };
        self.live.status = Status::Opening;
        self.effects.push(Effect::OpenStream { dataset });
    }

    /// Follows the dataset that is charted no longer, unless it is pinned.
    pub(crate) fn close_stream(&mut self) {
        self.live.status = Status::Closed;
        if let Some(dataset) = self.selected.filter(|dataset| !self.is_pinned(*dataset)) {
            self.effects.push(Effect::CloseStream { dataset });
        }
    }

    /// Handles an event of the charted dataset's stream.
    pub(crate) fn on_stream(&mut self, news: RowsEvent, now: Timestamp) {
        self.live.on_event(&news, now);
        match news {
            // What came meanwhile comes by the stream, in rows; what is shown may be buckets.
            StreamEvent::Connected => {
                let was_lost = std::mem::take(&mut self.live.was_lost);
                let is_raw = self.chart.resolution() == Resolution::Raw;
                if was_lost && !is_raw {
                    self.load_rows(now);
                }
            }
            // Late rows may have been missed.
            StreamEvent::Reset => self.load_rows(now),
            StreamEvent::Item(rows) => match &mut self.live.held {
                Some(held) => {
                    held.n_rows = held.n_rows.saturating_add(rows.len());
                    held.rows.extend(rows);
                    let n_over = held.rows.len().saturating_sub(HELD_ROWS_MAX);
                    held.rows.drain(..n_over);
                }
                None => self.add_rows(rows, now),
            },
            StreamEvent::Heartbeat | StreamEvent::Lost { .. } | StreamEvent::NotServed => {}
        }
    }

    /// Holds back what comes from now on, or takes what was held back.
    pub(crate) fn pause(&mut self, now: Timestamp) {
        let Some(held) = self.live.held.take() else {
            self.live.held = Some(HeldRows::default());
            return;
        };
        if held.n_rows != held.rows.len() {
            self.load_rows(now);
        }
        self.add_rows(held.rows.into(), now);
    }

    /// Takes rows into the chart, the tape and the sparkline.
    pub(crate) fn add_rows(&mut self, rows: Vec<NamedRow>, now: Timestamp) {
        let shape = self.shape_of(rows.first());
        let samples = rows.iter().filter_map(|row| shape.as_ref()?.sample(row));
        let samples: Vec<Bucket> = samples.collect();
        let has_new_column = self.has_new_column(&rows);
        self.update_own_sparkline(&rows, now);
        if self.chart.resolution() == Resolution::Raw {
            self.table.add_live_rows(&rows);
        }
        for row in rows {
            rows::put_newest(&mut self.tape, row, TAPE_ROWS);
        }
        self.tape.truncate(TAPE_ROWS);
        let newest_before = self.chart.nth_newest(0).map(|candle| candle.timestamp);
        self.chart.add_live_rows(samples);
        let newest = self.chart.nth_newest(0).map(|candle| candle.timestamp);
        let is_over = newest_before.is_some() && newest > newest_before;
        self.load_again(is_over);
        if has_new_column && let Some(dataset) = self.selected {
            self.columns.begin(now);
            self.effects.push(Effect::LoadColumns { dataset });
        }
    }

    /// Asks for the newest buckets again if one is over, and nothing else is under way.
    pub(crate) fn load_again(&mut self, is_over: bool) {
        let is_raw = self.chart.resolution() == Resolution::Raw;
        if let Some(query) = self.newest_rows(BUCKETS_AGAIN)
            && is_over
            && !is_raw
            && self.asked.is_none()
        {
            self.ask(query);
        }
    }
}

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

/// The longest name of a dataset within the name of a file.
const NAME_MAX: usize = 48;

impl State {
    /// Opens the form, or ends the export that is under way.
    pub(crate) fn export(&mut self) {
        if self.export.progress.take().is_some() {
            return self.effects.push(Effect::DropExport);
        }
        let Some(dataset) = self.dataset() else { return };
        let is_plain = |letter: &char| letter.is_alphanumeric() || "-_.".contains(*letter);
        let name = dataset.name.chars().map(|letter| if is_plain(&letter) { letter } else { '_' });
        let name: String = name.take(NAME_MAX).collect();
        let path = format!("{}-{}.csv", name.trim_start_matches('.'), self.chart.resolution());
        self.export.path.set(&path);
        self.export.path.edit();
        self.pane = crate::screens::data::state::Pane::Chart;
    }

    /// Begins to write, as the form says.
    pub(crate) fn begin_export(&mut self) {
        let path = self.export.path.value().trim().to_owned();
        let Some(dataset) = self.selected.filter(|_| !path.is_empty()) else { return };
        self.export.path.confirm();
        let (start, end) = self.export_bounds();
        let query = DownloadQuery {
            dataset,
            resolution: self.chart.resolution(),
            start,
            end,
            output: self.export.format(),
        };
        self.export.progress = Some(Progress::default());
        self.effects.push(Effect::Export { query, path: PathBuf::from(path) });
    }

    fn export_bounds(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let candles = self.chart.candles();
        let (Some(first), Some(last)) = (candles.first(), candles.last()) else {
            return (None, None);
        };
        // A bucket starts before the end.
        let end = last.timestamp + self.chart.resolution().bucket().unwrap_or_default();
        let back = |hours| Some(end - Duration::from_hours(hours));
        match self.export.range {
            Range::Loaded => (Some(first.timestamp), Some(end)),
            Range::Day => (back(24), Some(end)),
            Range::Week => (back(7 * 24), Some(end)),
            Range::All => (None, None),
        }
    }
}
