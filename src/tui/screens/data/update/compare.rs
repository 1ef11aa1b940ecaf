//! Loads and follows the datasets that are compared with the charted one.

use model::dataset::{Dataset, DatasetId};
use model::page::Limit;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

use crate::event::{DataEvent, NamedRow, Rows, RowsEvent, RowsPage, RowsQuery, StreamEvent};
use crate::screens::data::state::State;
use crate::screens::data::state::chart::{Chart, Shape};
use crate::screens::data::state::compare::Compared;
use crate::screens::data::state::live::is_gone;
use crate::screens::data::update::BUCKETS_AGAIN;
use crate::state::resource::{Outcome, Resource};

impl State {
    /// Adds the charted dataset to the compared ones, or removes it. Its rows and its stream are
    /// those of the chart.
    pub(crate) fn toggle_compared(&mut self) {
        let Some(dataset) = self.dataset().cloned().filter(|_| self.can_compare()) else { return };
        if self.remove_compared(|it| it.dataset.id == dataset.id).is_empty() {
            let loaded_from = self.chart.candles().first().map(|candle| candle.timestamp);
            let (chart, rows) = (self.chart.clone(), self.rows.clone());
            self.compared.push(Compared { dataset, chart, rows, loaded_from });
        }
    }

    /// Removes compared datasets and closes their streams. Returns their names.
    pub(crate) fn remove_compared(
        &mut self,
        is_removed: impl Fn(&mut Compared) -> bool,
    ) -> Vec<String> {
        let removed: Vec<_> = self.compared.extract_if(.., is_removed).collect();
        self.close_unneeded_streams(removed.iter().map(|it| it.dataset.id));
        removed.into_iter().map(|it| it.dataset.name).collect()
    }

    /// Removes the compared dataset that is deleted or not visible according to `event`. Returns
    /// its name.
    pub(crate) fn remove_gone(&mut self, event: &DataEvent) -> Option<String> {
        let (dataset, why) = match event {
            DataEvent::Rows { query, result: Err(why) } => (query.dataset, why),
            DataEvent::Stream { dataset, news: StreamEvent::Lost { why, .. } } => (*dataset, why),
            _ => return None,
        };
        self.remove_compared(|it| it.dataset.id == dataset && is_gone(why)).pop()
    }

    /// Loads the rows of compared datasets again. Earlier candles remain until they are replaced.
    pub(crate) fn reload_compared(&mut self, is_reloaded: impl Fn(&Compared) -> bool) {
        for it in self.compared.iter_mut().filter(|it| is_reloaded(it)) {
            it.chart.note_gap();
            (it.rows, it.loaded_from) = (Resource::EMPTY, None);
        }
        self.load_compared();
    }

    /// Loads missing rows of the compared datasets, at the resolution of the chart and back to its
    /// oldest candle.
    pub(crate) fn load_compared(&mut self) {
        let candles = self.chart.candles();
        let is_drawn = self.is_shown && !candles.is_empty();
        let Some(newest) = self.first_page().filter(|_| is_drawn) else { return };
        let mut queries = Vec::new();
        for it in self.compared.iter_mut().filter(|it| it.dataset.id != newest.dataset) {
            if it.chart.resolution() != newest.resolution {
                it.reset(newest.resolution);
            }
            let query = it.next_page(newest, candles).filter(|_| it.rows.failure().is_none());
            queries.extend(query.filter(|_| it.rows.begin()));
        }
        for query in queries {
            self.ask(query);
        }
    }

    /// Adds a page of rows to the compared dataset to which it belongs, if any.
    pub(crate) fn add_compared_page(
        &mut self,
        query: RowsQuery,
        result: &Outcome<RowsPage>,
        now: Timestamp,
    ) {
        let is_this = |it: &Compared| {
            it.dataset.id == query.dataset && it.chart.resolution() == query.resolution
        };
        let Some(idx) = self.compared.iter().position(is_this) else { return };
        let samples = match result.as_ref().map(|page| &page.rows) {
            Ok(Rows::Buckets(buckets)) => buckets.clone(),
            Ok(Rows::Raw(rows)) => self.compared_samples(&self.compared[idx], rows),
            Err(_) => Vec::new(),
        };
        self.compared[idx].add_page(query, result, samples, now);
    }

    /// Handles an event of the stream of `dataset`, if it is compared. While the screen is paused,
    /// rows are ignored. They are loaded when it resumes.
    pub(crate) fn on_compared_event(
        &mut self,
        dataset: DatasetId,
        news: &RowsEvent,
        now: Timestamp,
    ) {
        match news {
            // The stream repeats missed rows but no missed buckets.
            StreamEvent::Connected | StreamEvent::Reset => {
                self.reload_compared(|it| it.dataset.id == dataset);
            }
            StreamEvent::Item(rows) if !self.live.is_paused() => {
                self.add_compared_rows(dataset, rows, now);
            }
            _ => {}
        }
    }

    /// Adds rows of the stream. Loads the latest buckets again once a bucket has ended.
    fn add_compared_rows(&mut self, dataset: DatasetId, rows: &[NamedRow], now: Timestamp) {
        let is_this = |it: &Compared| it.dataset.id == dataset;
        let Some(idx) = self.compared.iter().position(is_this) else { return };
        let samples = self.compared_samples(&self.compared[idx], rows);
        let Compared { chart, rows: loading, .. } = &mut self.compared[idx];
        let resolution = chart.resolution();
        let newest = |chart: &Chart| chart.nth_newest(0).map(|candle| candle.timestamp);
        let before = newest(chart);
        chart.add_live_rows(samples);
        // A charted dataset has its own updates.
        if Some(dataset) == self.selected {
            return;
        }
        let has_ended = before.is_some() && newest(chart) > before;
        if has_ended && resolution != Resolution::Raw && loading.begin() {
            self.ask(RowsQuery::newest(dataset, resolution, Limit::clamp(BUCKETS_AGAIN)));
        }
        self.add_sparkline_rows(dataset, &Rows::Raw(rows.to_vec()), now);
    }

    /// Converts rows of a compared dataset to candles. The service has buckets only of the default
    /// column, so rows are not added to them if the user chose another column.
    fn compared_samples(&self, compared: &Compared, rows: &[NamedRow]) -> Vec<Bucket> {
        let Dataset { id, metadata, .. } = &compared.dataset;
        let is_raw = compared.chart.resolution() == Resolution::Raw;
        let is_charted = |_: &Shape| is_raw || !self.chosen_columns.contains_key(id);
        let shape = self.shape_for(*id, metadata, rows.first()).filter(is_charted);
        rows.iter().filter_map(|row| shape.as_ref()?.sample(row)).collect()
    }
}
