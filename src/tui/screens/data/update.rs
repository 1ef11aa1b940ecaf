//! Updates of the Data screen: responses of the service, timers, keys and clicks.

pub(crate) mod forecast;
mod load;
mod stream;

use std::time::Duration;

use model::dataset::DatasetId;
use model::timestamp::Timestamp;

use crate::event::{DataEvent, DatasetSearch, Effect, ExportNews, StreamEvent, Target, Timer};
use crate::keymap::Action;
use crate::screens::data::state::forecast::Forecast;
use crate::screens::data::state::live::{Status, is_gone};
use crate::screens::data::state::rows::{self, OlderRows, PAGE_ROWS};
use crate::screens::data::state::zoom::Zoom;
use crate::screens::data::state::{LIST_ORDERS, Pane, State, chart};
use crate::state::navigation::{Steps as _, rows_down};
use crate::state::resource::Resource;

/// Number of raw rows on the first page: an hour with one row per second. Scrolling loads more.
const RAW_ROWS: usize = 3_600;

/// Number of buckets on the first page, more than the widest screen shows.
const BUCKETS: usize = 1_000;

/// Number of buckets that are read again when a bucket closes. The buckets that are read replace buckets
/// folded from live rows.
pub(crate) const BUCKETS_AGAIN: usize = 3;

/// Number of rows on the tape.
const TAPE_ROWS: usize = 200;

/// Maximum number of sparklines.
const SPARKS_MAX: usize = 32;

/// Poll interval of the latest rows of a dataset without a stream. A response contains few new
/// values but is parsed as a whole, so polling costs more than a stream.
const ROWS_EVERY: Duration = Duration::from_secs(10);

/// Minimum wait between the reads of two datasets. Two reads per second are little load, even for
/// a remote service.
const ROWS_APART: Duration = Duration::from_millis(500);

/// Poll interval of a list of up to [`DATASETS_OFTEN`] datasets.
pub(crate) const DATASETS_EVERY: Duration = Duration::from_secs(30);

/// Number of datasets on two pages of the list. Longer lists are polled less often.
const DATASETS_OFTEN: usize = 500;

/// Wait between the first reads of latest values, which fill the list quickly.
const ROWS_FIRST: Duration = Duration::from_millis(150);

impl State {
    /// Handles new addresses of the services. The details of the pins are loaded. If `is_connected` is
    /// false, no dataset service is known.
    pub(crate) fn connect(&mut self, is_connected: bool) {
        let pins = self.named_pins();
        *self = Self {
            effects: std::mem::take(&mut self.effects),
            search: std::mem::take(&mut self.search),
            saved_pins: std::mem::take(&mut self.saved_pins),
            order: self.order,
            is_shown: self.is_shown,
            is_in_overview: self.is_in_overview,
            is_connected,
            pane: self.pane,
            kind: self.kind,
            indicators: self.indicators,
            forecast: Forecast { is_off: self.forecast.is_off, ..Forecast::default() },
            ..Self::default()
        };
        self.restore_pins(pins);
        if is_connected {
            self.load_datasets();
        }
        self.set_timers(is_connected && (self.is_shown || self.is_in_overview));
    }

    /// Sets the timers of this screen if `is_on` is true, otherwise clears them.
    fn set_timers(&mut self, is_on: bool) {
        for (timer, wait) in [(Timer::Datasets, DATASETS_EVERY), (Timer::Rows, ROWS_FIRST)] {
            let set = Effect::SetTimer(timer, wait);
            self.effects.push(if is_on { set } else { Effect::ClearTimer(timer) });
        }
    }

    /// Loads data when the screen comes into view.
    pub(crate) fn show(&mut self) {
        if std::mem::replace(&mut self.is_shown, true) || !self.is_connected {
            return;
        }
        self.set_timers(true);
        self.datasets.clear_error();
        self.rows.clear_error();
        if self.datasets.is_idle() {
            self.load_datasets();
        }
        self.load_rows();
        self.open_stream();
        let others: Vec<_> = self.others().map(|(_, it)| it.dataset.id).collect();
        self.effects.extend(others.into_iter().map(|dataset| Effect::OpenStream { dataset }));
    }

    /// Closes the streams and clears the timers when the screen goes out of view.
    pub(crate) fn hide(&mut self) {
        self.is_shown = false;
        self.live.status = Status::Closed;
        let others = self.others().map(|(_, it)| it.dataset.id);
        let followed: Vec<_> = self.selected.into_iter().chain(others).collect();
        self.close_unneeded_streams(followed);
        self.set_timers(false);
    }

    /// Handles a response or an event of the service.
    pub(crate) fn on(&mut self, event: DataEvent, now: Timestamp) {
        let failure = match &event {
            DataEvent::Pinned { result: Err(why), .. } if !is_gone(why) => Some(why),
            DataEvent::Stream { news: StreamEvent::Lost { why, .. }, .. } => Some(why),
            other => other.outcome().and_then(Result::err),
        };
        if let Some(why) = failure {
            self.note_limit(why, now);
        }
        match event {
            DataEvent::Datasets { search, result } if search == self.dataset_search() => {
                self.on_datasets(result, now);
            }
            DataEvent::Columns { dataset, result } => self.on_columns(dataset, result),
            DataEvent::Pinned { dataset, result } => {
                self.on_pin_details(dataset, result.map(|details| *details), now);
            }
            DataEvent::Tags { dataset, result } if Some(dataset) == self.selected => {
                self.tags.settle(result, now);
            }
            DataEvent::Rows { query, result } => {
                self.asked.take_if(|asked| *asked == query);
                self.add_compared_page(query, &result, now);
                let is_charted = Some(query.dataset) == self.selected;
                match result {
                    result if is_charted && !self.is_sparkline_query(query) => {
                        self.on_rows(query, result, now);
                    }
                    Ok(page) => self.add_sparkline_rows(query.dataset, &page.rows, now),
                    Err(_) => self.skip_sparkline(query.dataset, now),
                }
                self.load_compared();
            }
            DataEvent::Table { query, result } => {
                let next = self.table.take(query, result, now);
                self.effects.extend(next.map(Effect::LoadTable));
            }
            DataEvent::Stream { dataset, news } => {
                self.on_pin_event(dataset, &news, now);
                self.on_compared_event(dataset, &news, now);
                if Some(dataset) == self.selected {
                    self.on_stream(news, now);
                }
            }
            DataEvent::Acquired(Ok(_)) => self.load_datasets(),
            // A cancelled export has no progress.
            DataEvent::Export(ExportNews::Written(progress)) => {
                self.export.progress = self.export.progress.is_some().then_some(progress);
            }
            DataEvent::Export(_) => self.export.progress = None,
            DataEvent::Datasets { .. } | DataEvent::Tags { .. } | DataEvent::Acquired { .. } => {}
        }
    }

    /// Handles a due timer.
    pub(crate) fn on_timer(&mut self, timer: Timer, now: Timestamp) {
        if !self.is_shown && !self.is_in_overview {
            return;
        }
        if let Some(until) = self.limited_until.filter(|until| *until > now) {
            return self.effects.push(Effect::SetTimer(timer, until.since(now)));
        }
        self.limited_until = None;
        match timer {
            Timer::Datasets => {
                // A long list can take longer than the interval.
                if self.datasets.begin() {
                    self.load_datasets();
                }
                // A long list is polled less often.
                let n_pages = self.list().len().div_ceil(DATASETS_OFTEN).max(1);
                let n_pages = u32::try_from(n_pages).unwrap_or(u32::MAX);
                let wait = DATASETS_EVERY.saturating_mul(n_pages);
                self.effects.push(Effect::SetTimer(Timer::Datasets, wait));
            }
            Timer::Rows => {
                self.load_failed(now);
                self.load_compared();
                self.load_partial(now);
                self.load_sparkline();
                let wait = self.next_sparkline_wait(now);
                self.effects.push(Effect::SetTimer(Timer::Rows, wait));
            }
            _ => {}
        }
    }

    /// Handles an action.
    pub(crate) fn act(&mut self, action: Action, now: Timestamp) {
        // A page key moves by 20 rows.
        if let Some(n) = rows_down(action, 20) {
            return self.move_by(n);
        }
        match action {
            Action::Filter => {
                self.filter.text.confirm();
                self.search.edit();
            }
            Action::MetadataFilter => {
                // The list is filtered either by a text or by metadata, so the text is cleared.
                let is_searched = !self.search.value().is_empty();
                self.search.clear();
                if is_searched {
                    self.load_datasets();
                }
                self.filter.text.edit();
                self.pane = Pane::List;
            }
            Action::Open => self.pane = Pane::Chart,
            Action::Refresh => {
                self.datasets.clear_error();
                self.rows.clear_error();
                self.load_datasets();
                self.load_rows();
                let columns = self.selected.map(|dataset| Effect::LoadColumns { dataset });
                self.effects.extend(columns);
                self.reload_compared(|_| true);
                self.reload_table();
                self.forecast = Forecast { target: None, is_recent: false, ..self.forecast };
            }
            Action::NextPane => self.pane = self.pane.cycled(1),
            Action::PreviousPane => self.pane = self.pane.cycled(-1),
            Action::Sort => {
                self.order.cycle(&LIST_ORDERS);
                self.sort_again();
            }
            Action::Reverse => {
                self.order.is_reversed ^= true;
                self.sort_again();
            }
            Action::Earlier if self.is_table => self.scroll_table(-1),
            Action::Later if self.is_table => self.scroll_table(1),
            Action::Earlier | Action::Later => self.move_crosshair(action == Action::Earlier),
            Action::Follow => {
                self.crosshair = None;
                self.tape_top = None;
                if self.is_table {
                    self.move_table(isize::MIN);
                }
            }
            Action::Pause => self.pause(now),
            Action::ZoomIn => {
                self.set_zoom(self.zoom.closer(self.is_line(), self.resolutions()));
            }
            Action::ZoomOut => {
                self.set_zoom(self.zoom.out(self.is_line(), self.resolutions()));
            }
            Action::Coarser => self.set_zoom(self.zoom.coarser(self.resolutions())),
            Action::Finer => self.set_zoom(self.zoom.finer(self.resolutions())),
            Action::NextChart => self.kind = self.kind.cycled(1),
            Action::Indicators => self.indicators = self.indicators.cycled(1),
            Action::NextColumn => self.next_column(),
            Action::RowsTable => self.toggle_table(),
            Action::Pin => self.toggle_pin(now),
            Action::Compare => self.toggle_compared(),
            Action::AcquireTag => self.effects.push(Effect::AcquireTag),
            _ => {}
        }
    }

    /// Confirms the text field that has focus.
    pub(crate) fn confirm_input(&mut self) {
        if self.filter.text.is_edited() {
            if self.filter.apply() {
                self.load_datasets();
            }
        } else {
            self.search.confirm();
            self.pane = Pane::Chart;
        }
    }

    /// Moves the selection down by `n` rows, in the field, table or list that has focus.
    pub(crate) fn move_by(&mut self, n: isize) {
        if self.filter.text.is_edited() {
            self.filter.choose(n.signum());
        } else if self.is_table && self.pane == Pane::Chart {
            self.move_table(n);
        } else if self.pane == Pane::Tape {
            self.scroll_tape(n);
        } else {
            self.select_by(|idx| idx.saturating_add_signed(n));
        }
    }

    /// Undoes one step: clears a filter, or leaves the crosshair, the
    /// scrolled tape, the table or the comparison. Returns false if there was nothing to undo.
    pub(crate) fn back(&mut self) -> bool {
        let is_whole = self.dataset_search() == DatasetSearch::ALL;
        let is_cleared = self.filter.clear() | self.search.clear();
        if !is_whole {
            self.load_datasets();
        }
        is_cleared
            || self.crosshair.take().is_some()
            || self.tape_top.take().is_some()
            || std::mem::take(&mut self.is_table)
            || !self.remove_compared(|_| true).is_empty()
    }

    /// Handles a change of the text field that has focus.
    pub(crate) fn edited(&mut self) {
        if self.search.is_edited() {
            self.filter.clear();
            return self.load_datasets();
        }
        self.filter.edited();
    }

    /// Handles a click.
    pub(crate) fn click(&mut self, target: Target) {
        match target {
            Target::Pane(pane) => self.pane = Pane::numbered(pane).unwrap_or(self.pane),
            Target::Row { pane, row } => {
                self.pane = Pane::numbered(pane).unwrap_or(self.pane);
                if self.pane == Pane::List {
                    self.select_by(|_| row);
                }
            }
            Target::Column { column, .. } => {
                if LIST_ORDERS.contains(&column) {
                    self.order.choose(column);
                    self.sort_again();
                }
            }
            Target::Chart(kind) => self.kind = kind,
            Target::Resolution(resolution) => self.set_zoom(Zoom { resolution, ..self.zoom }),
            Target::Time(time) => {
                self.pane = Pane::Chart;
                if let Some(n) = self.chart.index_from_newest(time) {
                    self.put_crosshair(n);
                }
            }
            Target::Screen(_) | Target::Action(_) | Target::Output(_) | Target::Label(_) => {}
        }
    }

    /// Handles a turn of the mouse wheel over `pane`: scrolls a list, moves in a table, or zooms
    /// the chart. Does not select another dataset.
    pub(crate) fn wheel(&mut self, pane: usize, n_rows: i32, now: Timestamp) {
        let by = isize::try_from(n_rows).unwrap_or_default();
        match Pane::numbered(pane) {
            Some(Pane::List) => {
                let n = self.list().len().cast_signed();
                self.n_list_scrolled = (self.n_list_scrolled + by).clamp(-n, n);
            }
            Some(Pane::Chart) if self.is_table => self.move_table(by),
            Some(Pane::Chart) if by < 0 => self.act(Action::ZoomIn, now),
            Some(Pane::Chart) => self.act(Action::ZoomOut, now),
            Some(Pane::Tape) => self.scroll_tape(by),
            None => {}
        }
    }

    /// Selects a dataset that was created or changed, and loads it again.
    pub(crate) fn changed(&mut self, dataset: DatasetId, now: Timestamp) {
        self.find_dataset(dataset);
        self.act(Action::Refresh, now);
        self.effects.extend(self.selected.map(|dataset| Effect::LoadTags { dataset }));
    }

    fn scroll_tape(&mut self, by: isize) {
        let last = self.tape.len().saturating_sub(1);
        let idx = self.n_tape_above().saturating_add_signed(by).min(last);
        self.tape_top = self.tape.get(idx).filter(|_| idx > 0).map(|row| row.timestamp);
    }

    fn sort_again(&mut self) {
        if self.order.column.is_none() {
            // The service's own order was lost by sorting, so the list is loaded again.
            return self.load_datasets();
        }
        self.sort_list();
    }

    /// Changes the zoom.
    pub(crate) fn set_zoom(&mut self, zoom: Zoom) {
        self.zoom = zoom;
        if zoom.resolution != self.chart.resolution() {
            self.crosshair = None;
            self.chart.change_resolution(zoom.resolution);
            self.rows = Resource::EMPTY;
            self.load_rows();
            self.reload_table();
        }
    }

    /// Moves the crosshair into the past if `is_back` is true, otherwise towards the present.
    fn move_crosshair(&mut self, is_back: bool) {
        let stride = if self.is_line() { self.zoom.density.stride() } else { 1 };
        let n = self.crosshair.and_then(|time| self.chart.index_from_newest(time));
        if is_back {
            return self.put_crosshair(n.map_or(0, |n| n + stride));
        }
        let later = n.and_then(|n| self.chart.nth_newest(n.checked_sub(stride)?));
        self.crosshair = later.map(|candle| candle.timestamp);
    }

    /// Moves the crosshair to the candle at distance `n` from the latest. Loads older rows if this
    /// is near the oldest candle.
    fn put_crosshair(&mut self, n: usize) {
        self.crosshair = self.chart.nth_newest(n).map(|candle| candle.timestamp);
        let candles = self.chart.candles();
        let is_near = candles.len().saturating_sub(n) <= BUCKETS / 4;
        let is_full = candles.len() >= chart::CANDLES_MAX;
        let (Some(newest), Some(oldest)) = (self.first_page(), candles.first()) else { return };
        if is_near && self.older == OlderRows::Unknown && self.asked.is_none() && !is_full {
            self.ask(rows::query_before(newest, oldest.timestamp));
        }
    }

    /// Drops the rows of the table. Loads the latest rows, if the table is shown.
    pub(crate) fn reload_table(&mut self) {
        self.effects.extend(self.table.clear());
        if let Some(query) = self.newest_rows(PAGE_ROWS).filter(|_| self.is_table) {
            self.table.asked = Some(query);
            self.effects.push(Effect::LoadTable(query));
        }
    }

    /// Shows or hides the table of rows.
    pub(crate) fn toggle_table(&mut self) {
        self.is_table = !self.is_table;
        if self.is_table {
            self.pane = Pane::Chart;
        }
        self.reload_table();
    }

    /// Moves the selection of the table by `n` rows. Loads a further page if needed.
    pub(crate) fn move_table(&mut self, n: isize) {
        let Some(newest) = self.newest_rows(PAGE_ROWS) else { return };
        if n == isize::MIN && self.table.has_newer {
            return self.reload_table();
        }
        self.effects.extend(self.table.move_by(n, newest).map(Effect::LoadTable));
    }

    /// Scrolls the table by `n` columns.
    pub(crate) fn scroll_table(&mut self, n: isize) {
        let last = self.table_columns().len().saturating_sub(1);
        self.table.n_hidden = self.table.n_hidden.saturating_add_signed(n).min(last);
    }
}

#[cfg(test)]
mod tests;
