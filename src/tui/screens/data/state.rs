//! The state of the Data screen: the list of datasets and the charted dataset.
//!
//! Columns, rows and the stream are loaded only for the selected dataset. For the sparklines, the
//! latest rows of the other datasets are read in turn. The crosshair is a time and not a column of
//! the screen, so that live rows do not move it. While the screen is paused, streamed rows are
//! held back.

pub(crate) mod chart;
pub(crate) mod compare;
pub(crate) mod forecast;
pub(crate) mod live;
pub(crate) mod rows;
pub(crate) mod zoom;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::dataset::{Column, Dataset, DatasetId};
use model::page::Limit;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use strum::VariantArray;

use crate::event::{DatasetsPage, Effect, NamedRow, RowsQuery};
use crate::screens::data::state::chart::{Chart, Shape};
use crate::screens::data::state::compare::Compared;
use crate::screens::data::state::forecast::Forecast;
use crate::screens::data::state::live::{Export, LiveStream, Pin};
use crate::screens::data::state::rows::{OlderRows, RecentValues, Table};
use crate::screens::data::state::zoom::{ChartKind, Indicators, Zoom};
use crate::state::field::Field;
use crate::state::navigation::{ColumnOrder, cycled};
use crate::state::resource::Resource;

/// The panes, in the order in which `Tab` selects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Pane {
    #[default]
    List,
    /// The chart, or the table of rows in its place.
    Chart,
    /// The tape, which lists the latest rows.
    Tape,
}

/// Title of the column with the latest values.
pub(crate) const LAST: &str = "LAST";

/// Columns by which the list of datasets can be sorted. The sort key selects them in this order.
pub(crate) const LIST_ORDERS: [&str; 4] = ["NAME", "SOURCE", "FREQ", LAST];

/// The state of the Data screen.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct State {
    /// Effects that the current update requests.
    pub(crate) effects: Vec<Effect>,
    /// The listed datasets.
    pub(crate) datasets: Resource<DatasetsPage>,
    /// Dataset whose deletion was requested last. The end of its stream is not a failure.
    pub(crate) deleted: Option<DatasetId>,
    /// The order of the list.
    pub(crate) order: ColumnOrder,
    /// Number of rows by which the list is scrolled down, compared with the position that shows
    /// the selected dataset.
    pub(crate) n_list_scrolled: isize,
    /// Id, name and description of all datasets that the last list without a search contained.
    pub(crate) all: Vec<(DatasetId, String, String)>,
    /// Dataset that is selected as soon as it is listed.
    pub(crate) wanted: Option<DatasetId>,
    /// Text field of the search in names and descriptions.
    pub(crate) search: Field,
    /// True if the screen is in view.
    pub(crate) is_shown: bool,
    /// True if the Overview screen is in view, which shows latest values.
    pub(crate) is_in_overview: bool,
    /// The focused pane.
    pub(crate) pane: Pane,
    /// The dataset that is charted.
    pub(crate) selected: Option<DatasetId>,
    /// Columns of each dataset, once loaded. Every view chooses its column among these.
    pub(crate) known_columns: BTreeMap<DatasetId, Vec<Column>>,
    /// Names of columns that occurred in rows but not in the list of columns. For each name, the
    /// list is requested again once.
    pub(crate) new_columns: BTreeSet<String>,
    /// Column that the user chose to chart, for each dataset.
    pub(crate) chosen_columns: BTreeMap<DatasetId, String>,
    /// Loading of the rows of the charted dataset.
    pub(crate) rows: Resource<()>,
    pub(crate) chart: Chart,
    /// Resolution and density of the chart.
    pub(crate) zoom: Zoom,
    /// The kind of chart.
    pub(crate) kind: ChartKind,
    /// Indicators that are drawn over candles or a line.
    pub(crate) indicators: Indicators,
    /// Topic whose forecasts are drawn over candles or a line.
    pub(crate) forecast: Forecast,
    /// Datasets that are compared with the charted one. Can include the charted one.
    pub(crate) compared: Vec<Compared>,
    /// True if the table of rows replaces the chart.
    pub(crate) is_table: bool,
    /// Start of the candle under the crosshair. `None` while the crosshair follows the latest
    /// candle.
    pub(crate) crosshair: Option<Timestamp>,
    pub(crate) live: LiveStream,
    /// Rows of the tape, latest first.
    pub(crate) tape: VecDeque<NamedRow>,
    /// Timestamp of the first visible row of the tape. `None` while the tape follows the latest
    /// row.
    pub(crate) tape_top: Option<Timestamp>,
    /// Latest values of the listed datasets.
    pub(crate) sparklines: BTreeMap<DatasetId, RecentValues>,
    /// Tags of the charted dataset.
    pub(crate) tags: Resource<Vec<String>>,
    /// Metadata filter of the list.
    pub(crate) filter: Filter,
    /// The pinned datasets.
    pub(crate) pins: Vec<Pin>,
    /// Ids and names of the datasets pinned at other services, by [`pins_key`].
    pub(crate) saved_pins: BTreeMap<String, Vec<(DatasetId, String)>>,
    /// Table of rows.
    pub(crate) table: Table,
    /// Export of rows to a file.
    pub(crate) export: Export,
    /// True if only documented resolutions can be selected, because the service refused another
    /// one.
    pub(crate) is_documented_only: bool,
    /// True if the addresses of the services are known.
    pub(crate) is_connected: bool,
    /// Pending query for rows of the chart or of a sparkline.
    pub(crate) asked: Option<RowsQuery>,
    /// Existence of rows before the oldest loaded row.
    pub(crate) older: OlderRows,
    /// End of the wait that the service's rate limit demands.
    pub(crate) limited_until: Option<Timestamp>,
    /// Time at which failed requests are repeated.
    pub(crate) retry_at: Option<Timestamp>,
}

/// Returns the key of the pins of the service at `address`. It is the same for all services on this
/// machine, since each start of the local stack uses other ports.
pub(crate) fn pins_key(address: &str) -> &str {
    let is_local = ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|host| address.strip_prefix("http://").is_some_and(|it| it.starts_with(host)));
    if is_local { "this machine" } else { address }
}

impl State {
    /// Returns the text field that has focus.
    pub(crate) fn field(&mut self) -> Option<&mut Field> {
        let fields = [&mut self.filter.text, &mut self.search];
        fields.into_iter().find(|field| field.is_edited())
    }

    /// Returns true if a text field has focus.
    pub(crate) const fn is_edited(&self) -> bool {
        self.filter.text.is_edited() || self.search.is_edited()
    }

    /// Returns the text that the copy action copies, or `None` if no dataset is selected.
    pub(crate) fn selection(&self) -> Option<String> {
        let name = &self.dataset()?.name;
        let candle = self.crosshair.and_then(|time| self.candle_at(time));
        let Some(Bucket { timestamp, open, high, low, close, volume, .. }) = candle else {
            return Some(name.clone());
        };
        Some(format!("{name},{timestamp},{open},{high},{low},{close},{volume}"))
    }

    /// Returns true if a spinner is visible.
    pub(crate) fn is_animated(&self) -> bool {
        self.is_shown && (self.datasets.is_loading() || self.rows.is_loading())
    }

    /// Returns true if a countdown is visible, either to the next attempt to connect a stream or to
    /// the end of a rate limit.
    pub(crate) fn is_counting(&self, now: Timestamp) -> bool {
        let mut streams = self.pins.iter().map(|pin| &pin.live).chain([&self.live]);
        streams.any(LiveStream::is_counting) || self.limited_until.is_some_and(|at| at > now)
    }

    /// Returns the datasets in the order of the list.
    pub(crate) fn list(&self) -> &[Dataset] {
        self.datasets.value().map_or(&[], |page| &page.datasets)
    }

    /// Returns the number of rows that are scrolled out above the visible part of the tape.
    pub(crate) fn n_tape_above(&self) -> usize {
        let Some(top) = self.tape_top else { return 0 };
        let last = self.tape.len().saturating_sub(1);
        self.tape.iter().position(|row| row.timestamp <= top).unwrap_or(last)
    }

    /// Sorts the list by the values known now. Values that change later do not move a dataset.
    pub(crate) fn sort_list(&mut self) {
        /// Returns the value of the first of `names` that the metadata contains. Datasets without
        /// such metadata are sorted last.
        fn fact<'a>(dataset: &'a Dataset, names: &[&str]) -> (bool, Option<&'a String>) {
            let fact = names.iter().find_map(|name| dataset.metadata.get(*name));
            (fact.is_none(), fact)
        }
        let newest = |it: &Dataset| Some((it.id, self.sparkline(it.id)?.newest()?.1));
        let last: BTreeMap<DatasetId, f64> = self.list().iter().filter_map(newest).collect();
        let value = |it: &Dataset| last.get(&it.id).copied().unwrap_or(f64::NEG_INFINITY);
        let order = self.order;
        let Some(page) = self.datasets.value_mut() else { return };
        order.sort(&mut page.datasets, |column, a, b| match column {
            "NAME" => a.name.to_lowercase().cmp(&b.name.to_lowercase()),
            "SOURCE" => fact(a, &["source", "provider"]).cmp(&fact(b, &["source", "provider"])),
            "FREQ" => fact(a, &["frequency"]).cmp(&fact(b, &["frequency"])),
            _ => value(b).total_cmp(&value(a)),
        });
    }

    /// Returns the charted dataset, if it is listed.
    pub(crate) fn dataset(&self) -> Option<&Dataset> {
        self.list().iter().find(|dataset| Some(dataset.id) == self.selected)
    }

    /// Returns true if the chart is a line: because the user chose it, because datasets are
    /// compared, or because raw rows with a single value cannot be drawn as candles.
    pub(crate) fn is_line(&self) -> bool {
        let is_raw = self.chart.resolution() == Resolution::Raw;
        self.kind == ChartKind::Line
            || self.is_comparing()
            || (is_raw && matches!(self.shape(), Some(Shape::Value(_))))
    }

    /// Returns a query for the latest `n` rows or buckets of the charted dataset.
    pub(crate) fn newest_rows(&self, n: usize) -> Option<RowsQuery> {
        Some(RowsQuery::newest(self.selected?, self.chart.resolution(), Limit::clamp(n)))
    }

    /// Returns the candle that starts at `time`.
    pub(crate) fn candle_at(&self, time: Timestamp) -> Option<&Bucket> {
        self.chart.nth_newest(self.chart.index_from_newest(time)?)
    }

    /// Returns the columns of the charted dataset. `None` until they are loaded.
    pub(crate) fn columns(&self) -> Option<&Vec<Column>> {
        self.known_columns.get(&self.selected?)
    }

    /// Returns the column that the user chose for the charted dataset, or `None` for the default
    /// column.
    pub(crate) fn chosen_column(&self) -> Option<&String> {
        self.chosen_columns.get(&self.selected?)
    }

    /// Returns the unit of the charted values. Empty if the metadata does not contain it.
    pub(crate) fn unit(&self) -> &str {
        let Some(dataset) = self.dataset() else { return "" };
        match self.chosen_column() {
            None => live::unit(&dataset.metadata),
            Some(column) => {
                let unit = dataset.metadata.get(&format!("{column}_unit"));
                unit.map_or("", |unit| live::unit_in_short(unit))
            }
        }
    }

    /// Returns the resolutions at which the charted column is available. The service has buckets
    /// only for its default column, which is an integer column only if the metadata names it.
    pub(crate) fn resolutions(&self) -> &'static [Resolution] {
        let has_buckets = match (self.dataset(), self.columns()) {
            _ if self.chosen_column().is_some() => false,
            (Some(dataset), Some(columns)) => Shape::has_buckets(&dataset.metadata, columns),
            _ => true,
        };
        match (has_buckets, self.is_documented_only) {
            (false, _) => &[Resolution::Raw],
            (true, true) => &Resolution::DOCUMENTED,
            (true, false) => &Resolution::ALL,
        }
    }

    /// Returns the shape in which all views show a dataset. The shape is determined by the column that
    /// the user chose, otherwise by the columns of the dataset, or by `row` while these are unknown.
    pub(crate) fn shape_for(
        &self,
        dataset: DatasetId,
        metadata: &BTreeMap<String, String>,
        row: Option<&NamedRow>,
    ) -> Option<Shape> {
        if let Some(column) = self.chosen_columns.get(&dataset) {
            return Some(Shape::Value(column.clone()));
        }
        match self.known_columns.get(&dataset) {
            Some(columns) => Some(Shape::from_columns(metadata, columns)),
            None => row.map(|row| Shape::guess(metadata, row)),
        }
    }

    /// Returns the name of the displayed column if the dataset has several numeric columns.
    pub(crate) fn shown_column(
        &self,
        dataset: DatasetId,
        metadata: &BTreeMap<String, String>,
    ) -> Option<String> {
        let columns = self.known_columns.get(&dataset)?.iter();
        let is_ambiguous = columns.filter(|column| chart::is_number(column)).count() > 1;
        let shape = self.shape_for(dataset, metadata, None).filter(|_| is_ambiguous)?;
        shape.value_column().map(str::to_owned)
    }

    /// Returns the shape of the charted dataset, if it is known.
    pub(crate) fn shape(&self) -> Option<Shape> {
        self.shape_of(None)
    }

    /// Like [`Self::shape`]. If no row is loaded, the shape can be determined by `row`.
    pub(crate) fn shape_of(&self, row: Option<&NamedRow>) -> Option<Shape> {
        let dataset = self.dataset()?;
        self.shape_for(dataset.id, &dataset.metadata, self.tape.front().or(row))
    }
}

/// Maximum number of pairs that are listed below the typed text.
const CHOICES_MAX: usize = 8;

/// The metadata filter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Typed text `field=value`.
    pub(crate) text: Field,
    /// Field and value by which the list is filtered.
    chosen: Option<(String, String)>,
    /// Pairs `field=value` in the metadata of all datasets that were listed so far.
    known: BTreeSet<String>,
    /// Text that the user typed before selecting a known pair. The known pairs are still filtered
    /// by this text.
    typed: Option<String>,
}

impl Filter {
    /// Returns the field and the value by which the list is filtered.
    pub(crate) const fn active(&self) -> Option<&(String, String)> {
        self.chosen.as_ref()
    }

    /// Returns the known pairs that contain the typed text.
    pub(crate) fn choices(&self) -> Vec<&str> {
        let typed = self.typed.as_deref().unwrap_or_else(|| self.text.value()).to_lowercase();
        let known = self.known.iter().filter(|pair| pair.to_lowercase().contains(&typed));
        known.take(CHOICES_MAX).map(String::as_str).collect()
    }

    pub(crate) fn add_values(&mut self, datasets: &[Dataset]) {
        for (field, value) in datasets.iter().flat_map(|dataset| &dataset.metadata) {
            // Limits the memory. This is enough for a few hundred datasets.
            if self.known.len() < 500 {
                self.known.insert(format!("{field}={value}"));
            }
        }
    }

    /// Handles a change of the typed text.
    pub(crate) fn edited(&mut self) {
        self.typed = None;
    }

    /// Selects the known pair `n` places after the current pair.
    pub(crate) fn choose(&mut self, n: isize) {
        let choices = self.choices();
        let here = choices.iter().position(|choice| *choice == self.text.value());
        let next = if here.is_none() && n < 0 {
            choices.len().saturating_sub(1)
        } else {
            cycled(here, n, choices.len())
        };
        let Some(choice) = choices.get(next).map(|choice| (*choice).to_owned()) else { return };
        self.typed.get_or_insert_with(|| self.text.value().to_owned());
        self.text.set(&choice);
    }

    /// Applies the typed filter. Returns true if the filter differs from the last filter. A text that is
    /// not a pair removes the filter and remains in the field, which keeps the focus.
    pub(crate) fn apply(&mut self) -> bool {
        let (field, value) = self.text.value().split_once('=').unwrap_or_default();
        let (field, value) = (field.trim().to_owned(), value.trim().to_owned());
        let pair = (!field.is_empty() && !value.is_empty()).then_some((field, value));
        self.typed = None;
        if pair.is_some() || self.text.value().trim().is_empty() {
            self.text.confirm();
        }
        let is_other = pair != self.chosen;
        self.chosen = pair;
        is_other
    }

    /// Removes the filter. Returns true if there was one.
    pub(crate) fn clear(&mut self) -> bool {
        self.typed = None;
        self.text.clear() | self.chosen.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(known: &[&str], typed: &str) -> Filter {
        let known = known.iter().map(|pair| (*pair).to_owned()).collect();
        Filter { text: Field::edited(typed), known, ..Filter::default() }
    }

    #[test]
    fn metadata_filter_is_applied_only_if_it_is_a_valid_pair() {
        let mut filter = filter(&[], "ticker");
        filter.text.edit();
        assert!(!filter.apply() && filter.text.is_edited());
        filter.text.set(" ticker = BTC ");
        assert!(filter.apply() && !filter.text.is_edited());
        assert_eq!(filter.active(), Some(&("ticker".to_owned(), "BTC".to_owned())));
        assert!(!filter.apply(), "an unchanged filter is not applied again");
        assert!(filter.clear() && filter.active().is_none());
    }

    #[test]
    fn arrow_keys_select_the_metadata_pairs_that_contain_the_typed_text() {
        let mut filter = filter(&["source=tiingo", "ticker=BTC", "ticker=ETH"], "tick");
        for want in ["ticker=BTC", "ticker=ETH", "ticker=BTC"] {
            filter.choose(1);
            assert_eq!(filter.text.value(), want);
        }
        filter.choose(-1);
        assert_eq!(filter.text.value(), "ticker=ETH");
    }
}
