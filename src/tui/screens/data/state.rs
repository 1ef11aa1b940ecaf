//! The Data screen: which datasets there are, and the one that is charted.
//!
//! One dataset is selected: its columns, its rows at a resolution, and its stream are asked for. Of
//! the others in the list a few newest rows are read in turn, for their sparklines. The crosshair is
//! a time, not a place, so that live rows do not move it. While paused, what the stream brings is
//! held back.

pub(crate) mod chart;
pub(crate) mod chart_style;
pub(crate) mod columns;
pub(crate) mod export;
pub(crate) mod filter;
pub(crate) mod past;
pub(crate) mod pins;
pub(crate) mod sample;
pub(crate) mod spark;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod zoom;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use model::{
    dataset::{Column, Dataset, DatasetId},
    page::Limit,
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};
use strum::{IntoStaticStr, VariantArray};

use self::{
    chart::Chart, export::Export, filter::Filter, past::OlderRows, pins::Pin, sample::Shape,
    table::Table, zoom::Zoom,
};
pub(crate) use self::{
    chart_style::{ChartKind, Indicators},
    spark::{RecentValues, SPARK_VALUES},
    stream::{LiveStream, fresh_for, is_past},
};
use crate::{
    event::{Acquired, DatasetsPage, Effect, NamedRow, RowsQuery},
    state::{field::Field, loadable::Loadable},
};

/// The panes, in the order of `Tab`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Pane {
    #[default]
    List,
    /// The chart, or the rows as a table.
    Chart,
    /// The newest rows.
    Tape,
}

impl Pane {
    /// Its column and row in the grid of the screen, from the upper left.
    pub(crate) const fn cell(self) -> (u8, u8) {
        match self {
            Self::List => (0, 0),
            Self::Tape => (0, 1),
            Self::Chart => (1, 0),
        }
    }
}

/// The order of the list of datasets; the names are the titles of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "UPPERCASE")]
pub(crate) enum ListOrder {
    /// As the service lists them.
    #[default]
    #[strum(serialize = "as listed")]
    Listed,
    Name,
    Source,
    #[strum(serialize = "FREQ")]
    Frequency,
    /// Newest values, greatest first.
    Last,
}

impl ListOrder {
    /// Returns the order by the column whose title begins with its name; `None` if there is none.
    pub(crate) fn of_column(title: &str) -> Option<Self> {
        let name = title.split(' ').next()?;
        Self::VARIANTS.iter().copied().find(|order| order.into_str() == name)
    }
}

/// The state of the Data screen.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub(crate) struct State {
    /// What the update under way asks for.
    pub(crate) effects: Vec<Effect>,
    /// The datasets found.
    pub(crate) datasets: Loadable<DatasetsPage>,
    /// The order of the list.
    pub(crate) order: ListOrder,
    /// Whether the order is reversed.
    pub(crate) is_reversed: bool,
    /// Rows that the list is scrolled down, from where the selected dataset is in view.
    pub(crate) n_list_scrolled: isize,
    /// Every dataset that the key may see, as last listed without a search: number, name, description.
    pub(crate) all: Vec<(DatasetId, String, String)>,
    /// A dataset to be selected once it is listed.
    pub(crate) wanted: Option<DatasetId>,
    /// The search field over names and descriptions.
    pub(crate) search: Field,
    /// Whether the screen is in view.
    pub(crate) is_shown: bool,
    /// Whether the newest values are in view on the Overview screen.
    pub(crate) is_in_overview: bool,
    /// The focused pane.
    pub(crate) pane: Pane,
    /// The dataset that is charted.
    pub(crate) selected: Option<DatasetId>,
    pub(crate) columns: Loadable<Vec<Column>>,
    /// The columns of datasets that were asked for them, so that one column is shown of each
    /// everywhere.
    pub(crate) known_columns: BTreeMap<DatasetId, Vec<Column>>,
    /// Columns seen in rows that were not listed, each requested once.
    pub(crate) new_columns: BTreeSet<String>,
    /// The charted column of each dataset, where the user chose one.
    pub(crate) chosen_columns: BTreeMap<DatasetId, String>,
    /// Whether its rows are loaded.
    pub(crate) rows: Loadable<()>,
    pub(crate) chart: Chart,
    /// How much of them is shown.
    pub(crate) zoom: Zoom,
    /// How they are drawn.
    pub(crate) kind: ChartKind,
    /// What is drawn with them.
    pub(crate) indicators: Indicators,
    /// Whether rows are shown as numbers in place of the chart.
    pub(crate) is_table: bool,
    /// The candle under the crosshair; none while the newest is followed.
    pub(crate) crosshair: Option<Timestamp>,
    pub(crate) live: LiveStream,
    /// Its newest rows, newest first.
    pub(crate) tape: VecDeque<NamedRow>,
    /// The first row of the tape in view; `None` for the newest.
    pub(crate) tape_top: Option<Timestamp>,
    /// The newest values of datasets in the list.
    pub(crate) sparklines: BTreeMap<DatasetId, RecentValues>,
    /// The outcome of acquiring a tag.
    pub(crate) tag: Loadable<Acquired>,
    /// The tags of the dataset that is charted.
    pub(crate) tags: Loadable<Vec<String>>,
    /// The field of metadata that the list is filtered by.
    pub(crate) filter: Filter,
    /// The pinned datasets.
    pub(crate) pins: Vec<Pin>,
    /// The rows as a table.
    pub(crate) table: Table,
    /// Writing rows to a file.
    pub(crate) export: Export,
    /// Whether the service refused a resolution that its document does not name.
    pub(crate) is_documented_only: bool,
    /// Whether the services' addresses are known.
    pub(crate) is_connected: bool,
    /// Whether the list still shows a search that was cleared.
    pub(crate) is_list_old: bool,
    /// The pending query of rows.
    pub(crate) asked: Option<RowsQuery>,
    /// Whether there are rows before the oldest one.
    pub(crate) older: OlderRows,
    /// The end of the service's rate limit.
    pub(crate) limited_until: Option<Timestamp>,
    /// When failed requests are retried.
    pub(crate) retry_at: Option<Timestamp>,
}

impl State {
    /// The text field that has focus.
    pub(crate) fn field(&mut self) -> Option<&mut Field> {
        let fields = [&mut self.export.path, &mut self.filter.text, &mut self.search];
        fields.into_iter().find(|field| field.is_edited())
    }

    /// Whether a text field has focus.
    pub(crate) const fn is_edited(&self) -> bool {
        self.export.path.is_edited() || self.filter.text.is_edited() || self.search.is_edited()
    }

    /// The text that the copy action takes; none without a selection.
    pub(crate) fn selection(&self) -> Option<String> {
        let dataset = self.dataset()?;
        let candle = self.crosshair.and_then(|time| self.candle_at(time));
        Some(candle.map_or_else(
            || dataset.name.clone(),
            |c| {
                let Bucket { timestamp: time, open, high, low, close, volume, .. } = c;
                format!("{},{time},{open},{high},{low},{close},{volume}", dataset.name)
            },
        ))
    }

    /// Whether a spinner is in view.
    pub(crate) fn is_animated(&self) -> bool {
        self.is_shown && (self.datasets.is_loading() || self.rows.is_loading())
    }

    /// Whether a countdown to a retry is in view.
    pub(crate) fn is_counting(&self, now: Timestamp) -> bool {
        let mut streams = self.pins.iter().map(|pin| &pin.live).chain([&self.live]);
        streams.any(LiveStream::is_counting) || self.limited_until.is_some_and(|at| at > now)
    }

    /// The datasets found, in the order of the list.
    pub(crate) fn list(&self) -> &[Dataset] {
        self.datasets.value().map_or(&[], |page| &page.datasets)
    }

    /// Rows of the tape that are out of view above it.
    pub(crate) fn n_tape_above(&self) -> usize {
        let Some(top) = self.tape_top else { return 0 };
        let last = self.tape.len().saturating_sub(1);
        self.tape.iter().position(|row| row.timestamp <= top).unwrap_or(last)
    }

    /// Sorts the list. Values that change later do not move a dataset.
    pub(crate) fn sort_list(&mut self) {
        let (order, is_reversed) = (self.order, self.is_reversed);
        let newest = |id| Some(self.sparkline(id)?.newest()?.1);
        let last: BTreeMap<DatasetId, f64> =
            self.list().iter().filter_map(|it| Some((it.id, newest(it.id)?))).collect();
        let Some(page) = self.datasets.value_mut() else { return };
        let fact = |it: &Dataset, names: &[&str]| {
            names.iter().find_map(|name| it.metadata.get(*name)).cloned()
        };
        // What is missing comes last.
        let compare_facts = |a: Option<String>, b: Option<String>| {
            a.is_none().cmp(&b.is_none()).then_with(|| a.cmp(&b))
        };
        page.datasets.sort_by(|a, b| match order {
            ListOrder::Listed => Ordering::Equal,
            ListOrder::Name => a.name.to_lowercase().cmp(&b.name.to_lowercase()),
            ListOrder::Source => {
                let source = |it| fact(it, &["source", "provider"]);
                compare_facts(source(a), source(b))
            }
            ListOrder::Frequency => compare_facts(fact(a, &["frequency"]), fact(b, &["frequency"])),
            ListOrder::Last => {
                let value = |it: &Dataset| last.get(&it.id).copied().unwrap_or(f64::NEG_INFINITY);
                value(b).total_cmp(&value(a))
            }
        });
        if is_reversed {
            page.datasets.reverse();
        }
    }

    /// The dataset that is charted, if it is in the list.
    pub(crate) fn dataset(&self) -> Option<&Dataset> {
        self.list().iter().find(|dataset| Some(dataset.id) == self.selected)
    }

    /// Whether the chart is a line: by choice, or because rows of one value have no candles.
    pub(crate) fn is_line(&self) -> bool {
        let is_raw = self.chart.resolution() == Resolution::Raw;
        self.kind == ChartKind::Line || (is_raw && matches!(self.shape(), Some(Shape::Value(_))))
    }

    /// The query for the newest `n` rows or buckets of what is charted.
    pub(crate) fn newest_rows(&self, n: usize) -> Option<RowsQuery> {
        Some(RowsQuery::newest(self.selected?, self.chart.resolution(), Limit::clamp(n)))
    }

    /// The candle at `time`.
    pub(crate) fn candle_at(&self, time: Timestamp) -> Option<&Bucket> {
        self.chart.nth_newest(self.chart.index_from_newest(time)?)
    }
}
