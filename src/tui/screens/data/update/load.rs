//! Requests for the list of datasets, the charted dataset and sparklines, and their responses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::dataset::{Column, Dataset, DatasetId};
use model::page::Limit;
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use crate::event::{DatasetSearch, DatasetsPage, Effect, NamedRow, Rows, RowsPage, RowsQuery};
use crate::screens::data::state::chart::{Chart, Shape, is_number};
use crate::screens::data::state::live::{LiveStream, OTHERS_MAX, PIN_VALUES};
use crate::screens::data::state::rows::{self, OlderRows, RecentValues, SPARK_VALUES};
use crate::screens::data::state::{Pane, State};
use crate::screens::data::update::{
    BUCKETS, RAW_ROWS, ROWS_APART, ROWS_EVERY, ROWS_FIRST, SPARKS_MAX, TAPE_ROWS,
};
use crate::state::resource::{Failure, Outcome, Resource};

/// Minimum wait before a failed request is repeated.
const RETRY_AFTER: Duration = Duration::from_secs(3);

/// HTTP statuses of a request at a resolution that the service does not support.
const UNFIT: [u16; 2] = [400, 422];

impl State {
    /// Clears the failure of the list of datasets and loads the list again.
    pub(crate) fn reload_list(&mut self) {
        if self.is_connected {
            self.datasets.clear_error();
            self.load_datasets();
        }
    }

    pub(crate) fn load_datasets(&mut self) {
        self.datasets.begin();
        self.effects.push(Effect::LoadDatasets(self.dataset_search()));
    }

    pub(crate) fn dataset_search(&self) -> DatasetSearch {
        match self.filter.active().cloned() {
            Some((field, value)) => DatasetSearch::Metadata(field, value),
            None => DatasetSearch::Text(self.search.value().to_owned()),
        }
    }

    pub(crate) fn on_datasets(&mut self, result: Outcome<DatasetsPage>, now: Timestamp) {
        let is_listed = result.is_ok();
        // After a change of the service's data, an id can be that of another dataset.
        let created: BTreeMap<_, _> = self.list().iter().map(|it| (it.id, it.created_at)).collect();
        let listed = result.iter().flat_map(|page| &page.datasets);
        let is_other = |it: &&Dataset| created.get(&it.id).is_some_and(|at| *at != it.created_at);
        let replaced: Vec<_> = listed.filter(is_other).map(|it| it.id).collect();
        self.datasets.settle(result, now);
        for dataset in replaced {
            self.forget_values(dataset);
            self.known_columns.remove(&dataset);
            self.chosen_columns.remove(&dataset);
            if Some(dataset) == self.selected {
                self.select(dataset);
            }
        }
        // After a failure, the earlier list remains. It is sorted already, and sorting it again
        // could reverse it.
        if is_listed {
            self.sort_list();
        }
        let list = self.datasets.value().map_or(&[][..], |page| &page.datasets);
        if self.dataset_search() == DatasetSearch::ALL {
            let entry = |it: &Dataset| (it.id, it.name.clone(), it.description.clone());
            self.all = list.iter().map(entry).collect();
        }
        self.filter.add_values(list);
        if let Some(wanted) = self.wanted.take_if(|id| list.iter().any(|it| it.id == *id)) {
            self.select(wanted);
        }
        self.keep_selection();
        if is_listed {
            self.load_pins(now);
        }
    }

    /// Selects another dataset if the selected one is not listed: the first with a ticker, which
    /// has candles, otherwise the first of the list.
    fn keep_selection(&mut self) {
        if self.dataset().is_some() {
            return;
        }
        let list = self.list();
        let ticker = list.iter().find(|dataset| dataset.metadata.contains_key("ticker"));
        if let Some(first) = ticker.or_else(|| list.first()).map(|dataset| dataset.id) {
            self.select(first);
        }
    }

    /// Selects another dataset. `to` converts the index of the selected dataset to the index of the
    /// other dataset.
    pub(crate) fn select_by(&mut self, to: impl FnOnce(usize) -> usize) {
        self.wanted = None;
        let list = self.list();
        let idx = list.iter().position(|dataset| Some(dataset.id) == self.selected).unwrap_or(0);
        let dataset = list.get(to(idx).min(list.len().saturating_sub(1))).map(|dataset| dataset.id);
        if let Some(dataset) = dataset.filter(|id| Some(*id) != self.selected) {
            self.select(dataset);
        }
    }

    /// Charts a dataset. If the list does not contain the dataset, clears the search and the
    /// filter, and charts the dataset as soon as it is listed.
    pub(crate) fn find_dataset(&mut self, dataset: DatasetId) {
        self.pane = Pane::List;
        self.wanted = None;
        if Some(dataset) == self.selected && self.dataset().is_some() {
            return;
        }
        if self.list().iter().any(|listed| listed.id == dataset) {
            return self.select(dataset);
        }
        self.wanted = Some(dataset);
        self.search.clear();
        self.filter.clear();
        self.load_datasets();
    }

    pub(crate) fn select(&mut self, dataset: DatasetId) {
        let before = self.selected.replace(dataset);
        self.close_unneeded_streams(before);
        self.tape.clear();
        self.tape_top = None;
        self.n_list_scrolled = 0;
        if !self.resolutions().contains(&self.zoom.resolution) {
            self.zoom.resolution = Resolution::Raw;
        }
        self.new_columns.clear();
        self.tags = Resource::EMPTY;
        self.effects.extend([Effect::LoadColumns { dataset }, Effect::LoadTags { dataset }]);
        self.load_anew();
        self.live = LiveStream::default();
        if self.is_shown {
            self.open_stream();
        }
    }

    /// Drops the rows of the chart and the table, and loads them.
    fn load_anew(&mut self) {
        self.chart = Chart::new(self.zoom.resolution);
        self.rows = Resource::EMPTY;
        self.crosshair = None;
        self.load_rows();
        self.reload_table();
    }

    /// Records the columns of a dataset. Loads its rows again if the charted column was guessed
    /// wrong.
    pub(crate) fn on_columns(&mut self, dataset: DatasetId, result: Outcome<Vec<Column>>) {
        let guess = self.shape();
        if let Ok(columns) = result {
            self.know_columns(dataset, columns);
        }
        if Some(dataset) != self.selected {
            return;
        }
        let is_unserved = !self.resolutions().contains(&self.zoom.resolution);
        if is_unserved {
            self.zoom.resolution = Resolution::Raw;
        }
        if !is_unserved && (guess.is_none() || guess == self.shape()) {
            return;
        }
        self.sparklines.retain(|id, _| Some(*id) != self.selected);
        self.load_anew();
    }

    /// Repeats failed requests when their wait is over.
    pub(crate) fn load_failed(&mut self, now: Timestamp) {
        if self.retry_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        if self.datasets.value().is_none() {
            return self.load_datasets();
        }
        self.load_pins(now);
        if let (Some(dataset), None) = (self.selected, self.columns()) {
            self.effects.push(Effect::LoadColumns { dataset });
        }
        if self.rows.failure().is_some() {
            self.load_rows();
        }
        if self.table.failure.is_some() {
            self.reload_table();
        }
        self.reload_compared(|it| it.rows.failure().is_some());
    }

    /// Records the service's rate limit and the time at which failed requests are repeated.
    pub(crate) fn note_limit(&mut self, why: &Failure, now: Timestamp) {
        let wait = why.retry_after.unwrap_or(RETRY_AFTER).max(RETRY_AFTER);
        if let Some(limit) = why.limit(RETRY_AFTER) {
            self.limited_until = self.limited_until.max(Some(now + limit));
        }
        self.retry_at = Some(now + wait);
    }

    /// Loads the latest rows of the selected dataset.
    pub(crate) fn load_rows(&mut self) {
        let Some(query) = self.first_page() else { return };
        self.rows.begin();
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

    /// Handles the response to a query for rows of the charted dataset.
    pub(crate) fn on_rows(&mut self, query: RowsQuery, result: Outcome<RowsPage>, now: Timestamp) {
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
            Err(why) if is_unserved(query.resolution, &why) => {
                self.is_documented_only = true;
                return self.set_zoom(self.zoom.coarser(self.resolutions()));
            }
            Err(why) => return self.rows.settle(Err(why), now),
        };
        let n_before = self.chart.candles().len();
        self.add_page(query, page.rows, now);
        self.rows.settle(Ok(()), now);
        if query.end.is_none() || self.chart.candles().len() > n_before {
            return;
        }
        // The span of the query is empty, but there can be rows before it.
        if let Some(probe) = self.older.probe(query) {
            self.ask(probe);
        }
    }

    fn add_page(&mut self, query: RowsQuery, rows: Rows, now: Timestamp) {
        let rows = match rows {
            Rows::Raw(rows) => rows,
            Rows::Buckets(buckets) => return self.chart.add_service_candles(buckets),
        };
        let shape = self.shape_of(rows.first());
        let samples = rows.iter().rev().filter_map(|row| shape.as_ref()?.sample(row));
        let samples: Vec<_> = samples.collect();
        if query.end.is_none() {
            self.update_own_sparkline(&rows, now);
        }
        self.chart.add_service_candles(samples);
        if query.end.is_none() || self.tape.is_empty() {
            for row in rows {
                rows::put_newest(&mut self.tape, row, TAPE_ROWS);
            }
            self.tape.truncate(TAPE_ROWS);
        }
    }

    /// Returns true if `rows` have a column that is not in the list of columns. Returns true only
    /// once for each column.
    pub(crate) fn has_new_column(&mut self, rows: &[NamedRow]) -> bool {
        let Some(columns) = self.columns() else { return false };
        let n_before = self.new_columns.len();
        let names = rows.iter().flat_map(|row| row.values.keys());
        let new = names.filter(|name| columns.iter().all(|column| column.name != **name));
        let new: Vec<String> = new.cloned().collect();
        self.new_columns.extend(new);
        self.new_columns.len() > n_before
    }

    /// Charts the next numeric column. After the last column, charts the default column again.
    pub(crate) fn next_column(&mut self) {
        let (Some(dataset), Some(columns)) = (self.dataset(), self.columns()) else {
            return;
        };
        let usual = Shape::from_columns(&dataset.metadata, columns);
        // The four prices of a bar are charted together by default, then one after another.
        let mut others = columns
            .iter()
            .filter(|it| is_number(it) && usual != Shape::Value(it.name.clone()))
            .map(|column| &column.name);
        let next = match self.chosen_column() {
            None => others.next(),
            Some(chosen) => others.skip_while(|name| *name != chosen).nth(1),
        };
        let (id, next) = (dataset.id, next.cloned());
        if let Some(name) = next {
            self.chosen_columns.insert(id, name);
            self.zoom.resolution = Resolution::Raw;
        } else {
            self.chosen_columns.remove(&id);
        }
        self.forget_values(id);
        self.load_anew();
    }

    /// Records the columns of a dataset. If they change the displayed column, its values are
    /// loaded again.
    pub(crate) fn know_columns(&mut self, dataset: DatasetId, columns: Vec<Column>) {
        self.known_columns.insert(dataset, columns);
        // Limits the memory. This is several times the number of datasets that are read in turn.
        while self.known_columns.len() > 128 {
            let is_needless = |id: &&DatasetId| **id != dataset && Some(**id) != self.selected;
            let Some(other) = self.known_columns.keys().find(is_needless).copied() else { break };
            self.known_columns.remove(&other);
        }
        let listed = self.list().iter().find(|it| it.id == dataset).map(|it| &it.metadata);
        let pin = self.pins.iter().find(|it| it.dataset == dataset);
        let Some(metadata) = listed.or(pin.map(|pin| &pin.metadata)) else { return };
        let shape = self.shape_for(dataset, metadata, None);
        let column = shape.as_ref().and_then(Shape::value_column);
        let mut values = self.sparklines.get(&dataset).into_iter().chain(pin.map(|pin| &pin.spark));
        if values.any(|values| values.column() != column) {
            self.forget_values(dataset);
        }
    }

    /// Drops the latest values of a dataset, since other values are displayed, which are loaded
    /// again. For a pinned dataset, this is done by reopening its stream.
    fn forget_values(&mut self, dataset: DatasetId) {
        self.sparklines.remove(&dataset);
        if let Some(it) = self.compared.iter_mut().find(|it| it.dataset.id == dataset) {
            it.reset(it.chart.resolution());
        }
        if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == dataset) {
            pin.spark = RecentValues::new(PIN_VALUES, Timestamp::MIN);
            if pin.details.value().is_some() {
                self.effects.push(Effect::OpenStream { dataset });
            }
        }
    }

    /// Loads the latest rows of the dataset that was read the longest time ago, among those that
    /// are read in turn.
    pub(crate) fn load_sparkline(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let read_at = |id: &DatasetId| self.sparklines.get(id).map(|spark| spark.at);
        if let Some(oldest) = self.read_in_turn().min_by_key(read_at) {
            self.ask(sparkline_query(oldest));
        }
    }

    /// Returns the datasets with values that are read in turn: visible datasets without a stream.
    fn read_in_turn(&self) -> impl Iterator<Item = DatasetId> {
        // On other screens, the values of pinned datasets are already streamed.
        let is_streamed = |id: DatasetId| !self.is_shown && self.is_pinned(id);
        let n_max = if self.is_shown { SPARKS_MAX } else { OTHERS_MAX };
        let list = self.list();
        // Of a long list, only the datasets around the selected one are visible.
        let selected = list.iter().position(|dataset| Some(dataset.id) == self.selected);
        let first = selected
            .filter(|_| self.is_shown)
            .map_or(0, |idx| idx.saturating_sub(n_max / 2).min(list.len().saturating_sub(n_max)));
        let listed = list.iter().skip(first).map(|dataset| dataset.id);
        listed.filter(move |id| !self.is_charted(*id) && !is_streamed(*id)).take(n_max)
    }

    /// Returns true if the dataset `id` is charted or compared, and the chart is in view.
    pub(crate) fn is_charted(&self, id: DatasetId) -> bool {
        self.is_shown && (Some(id) == self.selected || self.is_compared(id))
    }

    /// Returns true if the chart is out of view and `query` reads the values of a sparkline.
    pub(crate) fn is_sparkline_query(&self, query: RowsQuery) -> bool {
        !self.is_shown && query == sparkline_query(query.dataset)
    }

    /// Returns the wait until values of the next dataset are read. The wait is short while any
    /// values are old, such as after a change of the screen.
    pub(crate) fn next_sparkline_wait(&self, now: Timestamp) -> Duration {
        let is_old =
            |id| self.sparklines.get(&id).is_none_or(|it| now.since(it.at) > ROWS_EVERY * 2);
        if self.read_in_turn().any(is_old) {
            return ROWS_FIRST;
        }
        let n_others = u32::try_from(self.read_in_turn().count()).unwrap_or(u32::MAX).max(1);
        (ROWS_EVERY / n_others).max(ROWS_APART)
    }

    /// Records the latest rows of a dataset that is not charted. Requests its columns if it is
    /// unclear which one to display.
    pub(crate) fn add_sparkline_rows(&mut self, dataset: DatasetId, rows: &Rows, now: Timestamp) {
        let listed = self.list().iter().find(|one| one.id == dataset);
        let (Some(listed), Rows::Raw(rows)) = (listed, rows) else { return };
        let shape = self.shape_for(dataset, &listed.metadata, rows.first());
        // If the rows have numbers in a single column, the displayed column is clear without a list of
        // columns.
        let numbers = rows.iter().flat_map(|row| &row.values).filter(|it| it.1.as_f64().is_some());
        let numbers: BTreeSet<&String> = numbers.map(|(name, _)| name).collect();
        if numbers.len() > 1 && !self.known_columns.contains_key(&dataset) {
            self.effects.push(Effect::LoadColumns { dataset });
        }
        self.store_sparkline(dataset, shape.as_ref(), rows, now);
    }

    /// Records that the latest rows of a dataset could not be read, so that the rows of another dataset
    /// are read next.
    pub(crate) fn skip_sparkline(&mut self, dataset: DatasetId, now: Timestamp) {
        let spark = self.sparklines.entry(dataset);
        spark.or_insert_with(|| RecentValues::new(SPARK_VALUES, now)).at = now;
    }

    /// Records rows of the charted dataset, in ascending or descending order, for its sparkline.
    pub(crate) fn update_own_sparkline<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a NamedRow>,
        now: Timestamp,
    ) {
        if let Some(dataset) = self.selected {
            let mut rows = rows.into_iter().peekable();
            let shape = self.shape_of(rows.peek().copied());
            self.store_sparkline(dataset, shape.as_ref(), rows, now);
        }
    }

    fn store_sparkline<'a>(
        &mut self,
        dataset: DatasetId,
        shape: Option<&Shape>,
        rows: impl IntoIterator<Item = &'a NamedRow>,
        now: Timestamp,
    ) {
        if self.sparklines.len() >= SPARKS_MAX && !self.sparklines.contains_key(&dataset) {
            let oldest = self.sparklines.iter().min_by_key(|(_, spark)| spark.at);
            let oldest = oldest.map(|(id, _)| *id);
            self.sparklines.retain(|id, _| Some(*id) != oldest);
        }
        let spark = self.sparklines.entry(dataset);
        spark.or_insert_with(|| RecentValues::new(SPARK_VALUES, now)).take_rows(shape, rows, now);
    }
}

/// Returns true if the service refused `resolution`, which is not documented.
fn is_unserved(resolution: Resolution, why: &Failure) -> bool {
    !Resolution::DOCUMENTED.contains(&resolution)
        && why.status.is_some_and(|status| UNFIT.contains(&status))
}

/// Returns the query for the values of a sparkline.
fn sparkline_query(dataset: DatasetId) -> RowsQuery {
    RowsQuery::newest(dataset, Resolution::Raw, Limit::clamp(SPARK_VALUES))
}
