//! What is asked of the service for the list and for the dataset that is charted, and the answers.

use std::time::Duration;

use model::{
    dataset::{Column, Dataset, DatasetId},
    resolution::Resolution,
    timestamp::Timestamp,
};

use super::{BUCKETS, RAW_ROWS, TAPE_ROWS};
use crate::{
    event::{DatasetSearch, DatasetsPage, Effect, Rows, RowsPage, RowsQuery},
    screens::data::state::{LiveStream, Pane, State, chart::Chart, past::OlderRows},
    state::loadable::{Failure, Loadable},
};

/// How long what did not come is not asked for again.
const RETRY_AFTER: Duration = Duration::from_secs(3);

/// What a service answers to a resolution that it does not have.
const UNFIT: [u16; 2] = [400, 422];

impl State {
    /// Reloads the list of datasets and clears a failure.
    pub(crate) fn reload_list(&mut self, now: Timestamp) {
        if self.is_connected {
            self.datasets.clear_error();
            self.load_datasets(now);
        }
    }

    pub(crate) fn load_datasets(&mut self, now: Timestamp) {
        self.datasets.begin(now);
        self.is_list_old = false;
        self.effects.push(Effect::LoadDatasets(self.dataset_search()));
    }

    pub(crate) fn dataset_search(&self) -> DatasetSearch {
        match self.filter.active().cloned() {
            Some((field, value)) => DatasetSearch::Metadata(field, value),
            None => DatasetSearch::Text(self.search.value().to_owned()),
        }
    }

    pub(crate) fn on_datasets(&mut self, result: Result<DatasetsPage, Failure>, now: Timestamp) {
        let is_new = result.is_ok();
        self.datasets.settle(result, now);
        // The list of before is sorted already, and would be reversed again.
        if is_new {
            self.sort_list();
        }
        let list = self.datasets.value().map_or(&[][..], |page| &page.datasets);
        if self.dataset_search() == DatasetSearch::ALL {
            let entry = |it: &Dataset| (it.id, it.name.clone(), it.description.clone());
            self.all = list.iter().map(entry).collect();
        }
        self.filter.add_values(list);
        if let Some(wanted) = self.wanted.take_if(|id| list.iter().any(|it| it.id == *id)) {
            self.select(wanted, now);
        }
        let is_listed = self.datasets.failure().is_none();
        self.keep_selection(now);
        if is_listed {
            self.load_pins(now);
        }
    }

    /// Keeps the selected dataset if it was found again, else takes the first one.
    fn keep_selection(&mut self, now: Timestamp) {
        if self.dataset().is_some() {
            return;
        }
        // While a search is typed, what is charted stays until something else is chosen.
        // What has a ticker has candles: the better picture to begin with.
        let list = self.list();
        let ticker = list.iter().find(|dataset| dataset.metadata.contains_key("ticker"));
        if let Some(first) = ticker.or_else(|| list.first()).map(|dataset| dataset.id) {
            self.select(first, now);
        }
    }

    pub(crate) fn select_by(&mut self, to: impl FnOnce(usize) -> usize, now: Timestamp) {
        let list = self.list();
        let idx = list.iter().position(|dataset| Some(dataset.id) == self.selected).unwrap_or(0);
        let idx = to(idx).min(list.len().saturating_sub(1));
        let dataset = list.get(idx).map(|dataset| dataset.id);
        if let Some(dataset) = dataset.filter(|id| Some(*id) != self.selected) {
            self.select(dataset, now);
        }
    }

    /// Charts a dataset, in the list of which it may be missing as long as that is searched.
    pub(crate) fn find_dataset(&mut self, dataset: DatasetId, now: Timestamp) {
        self.pane = Pane::List;
        if Some(dataset) == self.selected && self.dataset().is_some() {
            return;
        }
        if self.list().iter().any(|listed| listed.id == dataset) {
            return self.select(dataset, now);
        }
        self.wanted = Some(dataset);
        self.search.clear();
        self.filter.clear();
        self.load_datasets(now);
    }

    pub(crate) fn select(&mut self, dataset: DatasetId, now: Timestamp) {
        self.close_stream();
        self.selected = Some(dataset);
        self.crosshair = None;
        self.tape.clear();
        self.tape_top = None;
        self.n_list_scrolled = 0;
        self.columns = match self.known_columns.get(&dataset) {
            Some(columns) => Loadable::Ready { value: columns.clone(), at: now },
            None => Loadable::Loading { since: now },
        };
        if !self.resolutions().contains(&self.zoom.resolution) {
            self.zoom.resolution = Resolution::Raw;
        }
        self.chart = Chart::new(self.zoom.resolution);
        self.new_columns.clear();
        self.rows = Loadable::Idle;
        self.tags = Loadable::Idle;
        self.effects.extend([Effect::LoadColumns { dataset }, Effect::LoadTags { dataset }]);
        self.load_rows(now);
        self.effects.extend(self.table.clear());
        self.live = LiveStream::default();
        if self.is_shown {
            self.open_stream();
        }
        self.load_table();
    }

    /// Takes the columns of a dataset, and reads its rows again if they were taken by another column
    /// than these say.
    pub(crate) fn on_columns(
        &mut self,
        dataset: DatasetId,
        result: Result<Vec<Column>, Failure>,
        now: Timestamp,
    ) {
        let guess = self.shape();
        if let Ok(columns) = &result {
            self.know_columns(dataset, columns.clone());
        }
        if Some(dataset) != self.selected {
            return;
        }
        self.columns.settle(result, now);
        let is_unserved = !self.resolutions().contains(&self.zoom.resolution);
        if is_unserved {
            self.zoom.resolution = Resolution::Raw;
        }
        if !is_unserved && (guess.is_none() || guess == self.shape()) {
            return;
        }
        self.chart = Chart::new(self.zoom.resolution);
        self.sparklines.retain(|id, _| Some(*id) != self.selected);
        self.load_rows(now);
        self.reload_table();
    }

    /// Asks again for what did not come, some time after.
    pub(crate) fn load_failed(&mut self, now: Timestamp) {
        if self.retry_at.is_none_or(|at| at > now) {
            return;
        }
        self.retry_at = None;
        if self.datasets.value().is_none() {
            return self.load_datasets(now);
        }
        self.load_pins(now);
        if let (Some(dataset), None) = (self.selected, self.columns.value()) {
            self.effects.push(Effect::LoadColumns { dataset });
        }
        if self.rows.failure().is_some() {
            self.load_rows(now);
        }
        if self.table.failure.is_some() {
            self.reload_table();
        }
    }

    /// Records the service's rate limit, and when to retry.
    pub(crate) fn note_limit(&mut self, why: &Failure, now: Timestamp) {
        let wait = why.retry_after.unwrap_or(RETRY_AFTER).max(RETRY_AFTER);
        if let Some(limit) = why.limit(RETRY_AFTER) {
            self.limited_until = self.limited_until.max(Some(now + limit));
        }
        self.retry_at = Some(now + wait);
    }

    /// Asks for the newest rows of the selected dataset.
    pub(crate) fn load_rows(&mut self, now: Timestamp) {
        let Some(query) = self.first_page() else { return };
        self.rows.begin(now);
        self.older = OlderRows::Unknown;
        self.ask(query);
    }

    pub(crate) fn first_page(&self) -> Option<RowsQuery> {
        let is_raw = self.chart.resolution() == Resolution::Raw;
        self.newest_rows(if is_raw { RAW_ROWS } else { BUCKETS })
    }

    pub(crate) fn ask(&mut self, query: RowsQuery) {
        self.asked = Some(query);
        self.effects.push(Effect::LoadRows(query));
    }

    /// Takes the answer to a query of rows of the dataset that is charted.
    pub(crate) fn on_rows(
        &mut self,
        query: RowsQuery,
        result: Result<RowsPage, Failure>,
        now: Timestamp,
    ) {
        if let Some(searched) = self.older.searched_before(&query) {
            self.older = OlderRows::Unknown;
            match result.map(|page| self.older.take_probe(&searched, &page.rows)) {
                Ok(next) => next.into_iter().for_each(|query| self.ask(query)),
                Err(why) => self.rows.settle(Err(why), now),
            }
            return;
        }
        if query.resolution != self.chart.resolution() {
            return;
        }
        let page = match result {
            Ok(page) => page,
            Err(why) if is_unserved(query.resolution, &why) => return self.leave_resolution(now),
            Err(why) => return self.rows.settle(Err(why), now),
        };
        let n_before = self.chart.candles().len();
        self.add_page(query, page.rows, now);
        self.rows.settle(Ok(()), now);
        if query.end.is_none() || self.chart.candles().len() > n_before {
            return;
        }
        // Nothing in this span says nothing about what is before it.
        if let Some(probe) = self.older.probe(query) {
            self.ask(probe);
        }
    }

    fn add_page(&mut self, query: RowsQuery, rows: Rows, now: Timestamp) {
        match rows {
            Rows::Raw(rows) => {
                let shape = self.shape_of(rows.first());
                let samples = rows.iter().rev().filter_map(|row| shape.as_ref()?.sample(row));
                let samples: Vec<_> = samples.collect();
                if query.end.is_none() {
                    self.update_own_sparkline(&rows, now);
                }
                self.chart.add_service_candles(samples);
                if self.tape.is_empty() {
                    self.tape = rows.into_iter().take(TAPE_ROWS).collect();
                }
            }
            Rows::Buckets(buckets) => {
                self.chart.add_service_candles(buckets);
            }
        }
    }

    /// Goes on without the resolutions of our own, at the next coarser one.
    fn leave_resolution(&mut self, now: Timestamp) {
        self.is_documented_only = true;
        self.set_zoom(self.zoom.coarser(self.resolutions()), now);
    }
}

/// Whether a service refuses a resolution that document 2 does not have.
fn is_unserved(resolution: Resolution, why: &Failure) -> bool {
    !Resolution::DOCUMENTED.contains(&resolution)
        && why.status.is_some_and(|status| UNFIT.contains(&status))
}
