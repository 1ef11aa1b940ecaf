//! Streams of the charted and the pinned datasets, and exports.

use std::time::Duration;

use model::dataset::{Dataset, DatasetId};
use model::resolution::Resolution;
use model::row::BucketExtras;
use model::timestamp::Timestamp;

use crate::event::{DownloadQuery, Effect, ExportSize, NamedRow, RowsEvent, StreamEvent};
use crate::screens::data::state::chart::Shape;
use crate::screens::data::state::live::{
    Export, HELD_ROWS_MAX, HeldRows, LiveStream, PIN_VALUES, PINS_MAX, Pin, Status, format_of,
    is_gone,
};
use crate::screens::data::state::{State, pins_key, rows};
use crate::screens::data::update::{BUCKETS_AGAIN, ROWS_EVERY, TAPE_ROWS};
use crate::state::resource::{Outcome, Resource};

impl State {
    /// Opens the stream of the charted dataset.
    pub(crate) fn open_stream(&mut self) {
        let Some(dataset) = self.selected else { return };
        self.live.status = Status::Opening;
        self.effects.push(Effect::OpenStream { dataset });
    }

    /// Closes the streams of those `datasets` that are neither pinned nor needed by the chart in
    /// view.
    pub(crate) fn close_unneeded_streams(&mut self, datasets: impl IntoIterator<Item = DatasetId>) {
        for dataset in datasets {
            if !self.is_pinned(dataset) && !self.is_charted(dataset) {
                self.effects.push(Effect::CloseStream { dataset });
            }
        }
    }

    /// Handles an event of the charted dataset's stream.
    pub(crate) fn on_stream(&mut self, news: RowsEvent, now: Timestamp) {
        self.live.on_event(&news, now);
        match news {
            // The stream repeats missed rows but no missed buckets, so buckets are loaded again.
            StreamEvent::Connected => {
                let was_lost = std::mem::take(&mut self.live.was_lost);
                if was_lost && self.chart.resolution() != Resolution::Raw {
                    self.load_rows();
                }
            }
            // The service cannot tell which rows were missed, so all are loaded again.
            StreamEvent::Reset => self.load_all_rows(),
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

    /// Loads the rows of the chart, the tape and the table again, since rows of the stream are missing.
    fn load_all_rows(&mut self) {
        self.chart.note_gap();
        self.tape.clear();
        self.reload_table();
        self.load_rows();
    }

    /// Pauses: holds back rows of the stream. If paused already, resumes and adds the rows that
    /// were held back.
    pub(crate) fn pause(&mut self, now: Timestamp) {
        let Some(held) = self.live.held.take() else {
            self.live.held = Some(HeldRows::default());
            return;
        };
        if held.n_rows != held.rows.len() {
            self.load_all_rows();
        }
        self.add_rows(held.rows.into(), now);
        self.reload_compared(|_| true);
    }

    /// Adds rows to the chart, the tape and the sparkline.
    pub(crate) fn add_rows(&mut self, rows: Vec<NamedRow>, now: Timestamp) {
        let shape = self.shape_of(rows.first());
        let samples: Vec<_> = rows.iter().filter_map(|row| shape.as_ref()?.sample(row)).collect();
        let has_new_column = self.has_new_column(&rows);
        self.update_own_sparkline(&rows, now);
        if self.chart.resolution() == Resolution::Raw {
            self.table.add_live_rows(&rows);
        }
        for row in rows {
            rows::put_newest(&mut self.tape, row, TAPE_ROWS);
        }
        self.tape.truncate(TAPE_ROWS);
        let before = self.chart.nth_newest(0).map(|candle| candle.timestamp);
        self.chart.add_live_rows(samples);
        let newest = self.chart.nth_newest(0).map(|candle| candle.timestamp);
        if before.is_some() && newest > before {
            self.load_again();
        }
        if has_new_column && let Some(dataset) = self.selected {
            self.effects.push(Effect::LoadColumns { dataset });
        }
    }

    /// Loads the latest buckets again if rows of the latest one are not stored and it was not
    /// loaded recently.
    pub(crate) fn load_partial(&mut self, now: Timestamp) {
        let is_old = self.rows.age(now).is_some_and(|age| age >= ROWS_EVERY);
        let is_moving = self.is_shown && !self.live.is_paused() && self.rows.failure().is_none();
        if is_old && is_moving && self.chart.is_partial() {
            self.load_again();
        }
    }

    /// Loads the latest buckets again, unless another query is pending.
    fn load_again(&mut self) {
        if let Some(query) = self.newest_rows(BUCKETS_AGAIN)
            && self.chart.resolution() != Resolution::Raw
            && self.asked.is_none()
        {
            self.ask(query);
        }
    }

    /// Starts or stops reading latest values for the Overview screen.
    pub(crate) fn set_in_overview(&mut self, is_in_overview: bool) {
        self.is_in_overview = is_in_overview;
        if self.is_connected || !is_in_overview {
            self.set_timers(is_in_overview);
        }
    }

    /// Returns the ids and names of the pinned datasets.
    pub(crate) fn named_pins(&self) -> Vec<(DatasetId, String)> {
        self.pins.iter().map(|pin| (pin.dataset, pin.name.clone())).collect()
    }

    /// Saves the pins of the service at `before` and restores those of the service at `now`.
    pub(crate) fn change_pins(&mut self, before: Option<&String>, now: Option<&String>) {
        self.saved_pins.extend(before.map(|it| (pins_key(it).to_owned(), self.named_pins())));
        self.pins.clear();
        let pins = now.and_then(|it| self.saved_pins.remove(pins_key(it))).unwrap_or_default();
        self.restore_pins(pins);
    }

    /// Adds pins without details.
    pub(crate) fn restore_pins(&mut self, datasets: Vec<(DatasetId, String)>) {
        let free = PINS_MAX.saturating_sub(self.pins.len());
        let pins = datasets.into_iter().map(|(dataset, name)| Pin::new(dataset, name));
        self.pins.extend(pins.take(free));
    }

    /// Completes pins without details: from the list if it contains the dataset, otherwise by a
    /// request to the service.
    pub(crate) fn load_pins(&mut self, now: Timestamp) {
        let pins = self.pins.iter().filter(|pin| pin.details.value().is_none());
        for dataset in pins.map(|pin| pin.dataset).collect::<Vec<_>>() {
            if let Some(listed) = self.list().iter().find(|it| it.id == dataset).cloned() {
                self.pin(listed, now);
                continue;
            }
            if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == dataset) {
                pin.details.begin();
            }
            self.effects.push(Effect::LoadPinned { dataset });
        }
    }

    /// Handles the details of a pinned dataset. Unpins a dataset that is deleted or not visible.
    /// Other failures are recorded, and the request is repeated later.
    pub(crate) fn on_pin_details(
        &mut self,
        id: DatasetId,
        result: Outcome<Dataset>,
        now: Timestamp,
    ) {
        match result {
            Ok(dataset) => self.pin(dataset, now),
            Err(why) if is_gone(&why) => self.pins.retain(|pin| pin.dataset != id),
            Err(why) => {
                if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == id) {
                    pin.details.settle(Err(why), now);
                }
            }
        }
    }

    /// Records the details of a pinned dataset and opens its stream.
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
        if self.is_pinned(dataset.id) {
            return self.unpin(dataset.id);
        }
        if self.pins.len() >= PINS_MAX {
            self.unpin(self.pins[0].dataset);
        }
        let mut pin = Pin::new(dataset.id, dataset.name);
        pin.live = self.live.clone();
        pin.live.held = None;
        pin.details = Resource::loaded((), now);
        pin.metadata = dataset.metadata;
        if self.chart.resolution() == Resolution::Raw {
            let newest = self.chart.candles().iter().rev().take(PIN_VALUES).rev().copied();
            let shape = self.shape();
            pin.spark.take(shape.as_ref().and_then(Shape::value_column), newest, now);
        }
        self.pins.push(pin);
        if !self.is_shown {
            self.effects.push(Effect::OpenStream { dataset: dataset.id });
        }
    }

    /// Unpins a dataset. Closes its stream unless the chart in view needs it.
    fn unpin(&mut self, dataset: DatasetId) {
        self.pins.retain(|pin| pin.dataset != dataset);
        self.close_unneeded_streams([dataset]);
    }

    /// Handles an event of the stream of `dataset`, if it is pinned.
    pub(crate) fn on_pin_event(&mut self, dataset: DatasetId, news: &RowsEvent, now: Timestamp) {
        let Some(idx) = self.pins.iter().position(|pin| pin.dataset == dataset) else { return };
        self.pins[idx].live.on_event(news, now);
        if let StreamEvent::Item(rows) = news {
            let shape = self.shape_for(dataset, &self.pins[idx].metadata, rows.first());
            self.pins[idx].spark.take_rows(shape.as_ref(), rows, now);
        }
    }

    /// Returns the suggested path for an export of the charted dataset. If an export is in progress,
    /// cancels it instead.
    pub(crate) fn export_path(&mut self) -> Option<String> {
        if self.export.progress.take().is_some() {
            self.effects.push(Effect::DropExport);
            return None;
        }
        let is_plain = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
        let name = self.dataset()?.name.replace(|letter| !is_plain(letter), "_");
        let name: String = name.chars().take(NAME_MAX).collect();
        Some(format!("{}-{}.csv", name.trim_start_matches('.'), self.chart.resolution()))
    }

    /// Starts an export of `range`, which is one of [`RANGES`].
    pub(crate) fn begin_export(&mut self, path: &str, range: &str) {
        let Some(dataset) = self.selected else { return };
        let (start, end) = self.export_bounds(range);
        let query = DownloadQuery {
            dataset,
            resolution: self.chart.resolution(),
            start,
            end,
            output: format_of(path),
            columns: Vec::new(),
            extras: BucketExtras::default(),
        };
        self.export = Export { path: path.to_owned(), progress: Some(ExportSize::default()) };
        self.effects.push(Effect::Export { query, path: path.into() });
    }

    fn export_bounds(&self, range: &str) -> (Option<Timestamp>, Option<Timestamp>) {
        let candles = self.chart.candles();
        let (Some(first), Some(last)) = (candles.first(), candles.last()) else {
            return (None, None);
        };
        // A bucket has the timestamp of its start, so the range ends one bucket after the last
        // timestamp.
        let end = last.timestamp + self.chart.resolution().bucket().unwrap_or_default();
        let back = |hours| Some(end - Duration::from_hours(hours));
        match range {
            "24 hours" => (back(24), Some(end)),
            "7 days" => (back(7 * 24), Some(end)),
            "everything" => (None, None),
            _ => (Some(first.timestamp), Some(end)),
        }
    }
}

/// Maximum length of a dataset's name within a file name.
const NAME_MAX: usize = 48;
