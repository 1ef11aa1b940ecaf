//! Moving through the past of a dataset: the crosshair, the zoom, and the rows they need.

use model::timestamp::Timestamp;

use super::BUCKETS;
use crate::{
    screens::data::state::{
        State, chart,
        past::{self, OlderRows},
        zoom::Zoom,
    },
    state::loadable::Loadable,
};

impl State {
    pub(crate) fn set_zoom(&mut self, zoom: Zoom, now: Timestamp) {
        let is_other = zoom.resolution != self.chart.resolution();
        self.zoom = zoom;
        if !is_other {
            return;
        }
        self.crosshair = None;
        self.chart.change_resolution(zoom.resolution);
        self.rows = Loadable::Idle;
        self.load_rows(now);
        self.reload_table();
    }

    /// Moves the crosshair into the past, and asks for older rows where it nears the oldest.
    pub(crate) fn move_crosshair(&mut self) {
        let n = self.crosshair.and_then(|time| self.chart.index_from_newest(time));
        let n = n.map_or(0, |n| n + self.stride());
        self.crosshair = self.chart.nth_newest(n).map(|candle| candle.timestamp);
        let n_left = self.chart.candles().len().saturating_sub(n);
        if n_left <= BUCKETS / 4 {
            self.load_older();
        }
    }

    /// Puts the crosshair on the candle at `time`.
    pub(crate) fn set_crosshair(&mut self, time: Timestamp) {
        self.crosshair = self.candle_at(time).map(|candle| candle.timestamp);
        let n = self.chart.index_from_newest(time).unwrap_or(0);
        if self.chart.candles().len().saturating_sub(n) <= BUCKETS / 4 {
            self.load_older();
        }
    }

    pub(crate) fn move_crosshair_later(&mut self) {
        let n = self.crosshair.and_then(|time| self.chart.index_from_newest(time));
        let n = n.and_then(|n| n.checked_sub(self.stride()));
        self.crosshair = n.and_then(|n| self.chart.nth_newest(n)).map(|candle| candle.timestamp);
    }

    fn stride(&self) -> usize {
        if self.is_line() { self.zoom.density.stride() } else { 1 }
    }

    fn load_older(&mut self) {
        let oldest = self.chart.candles().first().map(|candle| candle.timestamp);
        let (Some(newest), Some(oldest)) = (self.first_page(), oldest) else { return };
        if self.older != OlderRows::Unknown
            || self.asked.is_some()
            || self.chart.candles().len() >= chart::CANDLES_MAX
        {
            return;
        }
        self.ask(past::query_before(newest, oldest));
    }
}
