//! The Data screen: which datasets there are, and the one that is charted.
//!
//! One dataset is selected: its columns, its rows at a resolution, and its stream are asked for. Of
//! the others in the list a few newest rows are read in turn, for their sparklines. The crosshair is
//! a moment, not a place, so that live rows do not move it. While paused, what the stream brings is
//! held back.

pub mod chart;
mod crosshair;
pub mod sample;
mod spark;
mod stream;
pub mod zoom;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use model::{
    dataset::{Column, Dataset, DatasetId, PUBLIC_TAG},
    page::Limit,
    resolution::Resolution,
    timestamp::Timestamp,
};

use self::{chart::Chart, sample::Shape, zoom::Zoom};
pub use self::{
    spark::{SPARK_VALUES, Spark},
    stream::{Live, Status, fresh_for},
};
use crate::{
    action::Action,
    event::{
        Acquired, DataEvent, DatasetsPage, Effect, NamedRow, Rows, RowsPage, RowsQuery, Target,
        Timer,
    },
    state::{
        field::Field,
        loadable::{Failure, Loadable},
    },
    widget::candles::Candle,
};

/// How often the list of datasets is read again: new ones are rare.
const DATASETS_EVERY: Duration = Duration::from_secs(30);

/// How often the newest rows of each of the other datasets are read, one after another.
const ROWS_EVERY: Duration = Duration::from_secs(5);

/// The shortest wait between two such reads, however many datasets there are: two a second are
/// little for a service, also for a remote one.
const ROWS_APART: Duration = Duration::from_millis(500);

/// The wait between the first reads, which fill the list.
const ROWS_FIRST: Duration = Duration::from_millis(150);

/// Rows of a first look at raw rows: an hour of one a second. More are asked for when scrolled to.
const RAW_ROWS: usize = 3_600;

/// Buckets of a first look: more than fit on the widest screen.
const BUCKETS: usize = 1_000;

/// Buckets read again when one is over, so that what was folded here becomes what the service says.
const BUCKETS_AGAIN: usize = 3;

/// Rows on the tape.
const TAPE_ROWS: usize = 200;

/// Datasets whose sparklines are kept.
const SPARKS_MAX: usize = 32;

/// Rows shown a page up or down of the list.
const PAGE_ROWS: usize = 10;

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// As candles.
    #[default]
    Candles,
    /// As a line through the closes.
    Line,
    /// As candles, smoothed.
    Heikin,
}

/// The panes, in the order of `Tab`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    /// The datasets.
    #[default]
    List,
    /// The chart, or the rows as a table.
    Chart,
    /// The newest rows.
    Tape,
}

/// What the Data screen shows.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub struct State {
    /// The datasets found.
    pub datasets: Loadable<DatasetsPage>,
    /// What is searched for, and whether it is edited.
    pub search: Field,
    /// Whether the screen is in view.
    pub is_shown: bool,
    /// The pane that keys go to.
    pub pane: Pane,
    /// The dataset that is charted.
    pub selected: Option<DatasetId>,
    /// Its columns.
    pub columns: Loadable<Vec<Column>>,
    /// Whether its rows are there.
    pub rows: Loadable<()>,
    /// Its candles.
    pub chart: Chart,
    /// How much of them is shown.
    pub zoom: Zoom,
    /// How they are drawn.
    pub kind: Kind,
    /// Whether averages are drawn with them.
    pub has_indicators: bool,
    /// Whether rows are shown as numbers in place of the chart.
    pub is_table: bool,
    /// The candle under the crosshair; none while the newest is followed.
    pub crosshair: Option<Timestamp>,
    /// Its stream.
    pub live: Live,
    /// Its newest rows, newest first.
    pub tape: VecDeque<NamedRow>,
    /// The newest values of datasets in the list.
    pub sparks: BTreeMap<DatasetId, Spark>,
    /// How acquiring a tag went.
    pub tag: Loadable<Acquired>,
    /// Whether the services are known.
    is_connected: bool,
    /// Whether the list is of a search that was left.
    is_list_old: bool,
    /// The rows asked for last, as long as there is no answer.
    asked: Option<RowsQuery>,
    /// Whether there are rows before the oldest one.
    has_older: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            datasets: Loadable::Idle,
            search: Field::default(),
            is_shown: false,
            pane: Pane::default(),
            selected: None,
            columns: Loadable::Idle,
            rows: Loadable::Idle,
            chart: Chart::new(Zoom::START.resolution),
            zoom: Zoom::START,
            kind: Kind::default(),
            has_indicators: true,
            is_table: false,
            crosshair: None,
            live: Live::default(),
            tape: VecDeque::new(),
            sparks: BTreeMap::new(),
            tag: Loadable::Idle,
            is_connected: false,
            is_list_old: false,
            asked: None,
            has_older: true,
        }
    }
}

impl State {
    /// The services are known, or changed.
    pub fn connected(&mut self, now: Timestamp) -> Vec<Effect> {
        let search = std::mem::take(&mut self.search);
        let Self { is_shown, pane, kind, .. } = *self;
        *self = Self { search, is_shown, pane, kind, is_connected: true, ..Self::default() };
        let mut effects = self.load_datasets(now);
        if self.is_shown {
            effects.extend(set_timers());
        }
        effects
    }

    /// The screen comes into view.
    pub fn show(&mut self, now: Timestamp) -> Vec<Effect> {
        if std::mem::replace(&mut self.is_shown, true) || !self.is_connected {
            return Vec::new();
        }
        let mut effects: Vec<_> = set_timers().into();
        if matches!(self.datasets, Loadable::Idle | Loadable::Failed { .. }) {
            effects.extend(self.load_datasets(now));
        }
        if let Some(dataset) = self.selected {
            effects.extend(self.load_rows(now));
            effects.push(self.live.open(dataset, now));
        }
        effects
    }

    /// The screen leaves the view.
    pub fn hide(&mut self) -> Vec<Effect> {
        self.is_shown = false;
        self.live.close();
        vec![Effect::CloseStream, Effect::Forget(Timer::Datasets), Effect::Forget(Timer::Rows)]
    }

    /// A service answered.
    pub fn on(&mut self, event: DataEvent, now: Timestamp) -> Vec<Effect> {
        match event {
            DataEvent::Datasets { search, result } if search == self.search.value() => {
                self.datasets.settle(result, now);
                self.keep_selection(now)
            }
            DataEvent::Columns { dataset, result } if Some(dataset) == self.selected => {
                self.on_columns(result, now)
            }
            DataEvent::Rows { query, result } => {
                if self.asked == Some(query) {
                    self.asked = None;
                }
                if Some(query.dataset) != self.selected {
                    if let Ok(page) = result {
                        self.take_spark(query.dataset, &page.rows, now);
                    }
                } else if query.resolution == self.chart.resolution() {
                    self.take_page(query, result, now);
                }
                Vec::new()
            }
            DataEvent::Stream { dataset, news } if Some(dataset) == self.selected => {
                self.on_stream(news, now)
            }
            DataEvent::Acquired { result, .. } => {
                self.tag.settle(result, now);
                if self.tag.failure().is_none() { self.load_datasets(now) } else { Vec::new() }
            }
            DataEvent::Datasets { .. } | DataEvent::Columns { .. } | DataEvent::Stream { .. } => {
                Vec::new()
            }
        }
    }

    /// A timer is due.
    pub fn woke(&mut self, timer: Timer, now: Timestamp) -> Vec<Effect> {
        if !self.is_shown {
            return Vec::new();
        }
        match timer {
            Timer::Datasets => {
                let mut effects = self.load_datasets(now);
                effects.push(Effect::Wake(Timer::Datasets, DATASETS_EVERY));
                effects
            }
            Timer::Rows => {
                let mut effects =
                    if self.is_list_old { self.load_datasets(now) } else { Vec::new() };
                effects.extend(self.load_spark());
                effects.push(Effect::Wake(Timer::Rows, self.spark_wait()));
                effects
            }
            _ => Vec::new(),
        }
    }

    /// A key asked for something.
    pub fn act(&mut self, action: Action, now: Timestamp) -> Vec<Effect> {
        match action {
            Action::Filter => self.search.edit(),
            Action::Up => return self.select_by(|idx| idx.saturating_sub(1), now),
            Action::Down => return self.select_by(|idx| idx.saturating_add(1), now),
            Action::First => return self.select_by(|_| 0, now),
            Action::Last => return self.select_by(|_| usize::MAX, now),
            Action::HalfPageUp => {
                return self.select_by(|idx| idx.saturating_sub(PAGE_ROWS / 2), now);
            }
            Action::HalfPageDown => return self.select_by(|idx| idx + PAGE_ROWS / 2, now),
            Action::PageUp => return self.select_by(|idx| idx.saturating_sub(PAGE_ROWS), now),
            Action::PageDown => return self.select_by(|idx| idx + PAGE_ROWS, now),
            Action::Open => {
                self.search.keep();
                self.pane = Pane::Chart;
            }
            Action::Refresh => {
                let mut effects = self.load_datasets(now);
                effects.extend(self.load_rows(now));
                return effects;
            }
            Action::NextPane => self.pane = self.pane.next(),
            Action::PreviousPane => self.pane = self.pane.next().next(),
            Action::Earlier => return self.move_crosshair(),
            Action::Later => self.move_crosshair_later(),
            Action::Follow => self.crosshair = None,
            Action::Pause => return self.pause(now),
            Action::ZoomIn => return self.take_zoom(self.zoom.closer(self.is_line()), now),
            Action::ZoomOut => return self.take_zoom(self.zoom.out(self.is_line()), now),
            Action::Coarser => return self.take_zoom(self.zoom.coarser(), now),
            Action::Finer => return self.take_zoom(self.zoom.finer(), now),
            Action::NextChart => self.kind = self.kind.next(),
            Action::Indicators => self.has_indicators = !self.has_indicators,
            Action::RowsTable => self.is_table = !self.is_table,
            Action::AcquireTag => {
                self.tag.begin(now);
                return vec![Effect::AcquireTag { tag: PUBLIC_TAG.to_owned() }];
            }
            _ => {}
        }
        Vec::new()
    }

    /// Goes back one step; whether there was one.
    pub fn back(&mut self) -> bool {
        self.is_list_old |= !self.search.value().is_empty();
        if self.search.leave() {
            return true;
        }
        if self.crosshair.take().is_some() {
            return true;
        }
        if self.is_table {
            self.is_table = false;
            return true;
        }
        false
    }

    /// Finds everything again, after a search was left.
    pub fn relist(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.is_list_old { self.load_datasets(now) } else { Vec::new() }
    }

    /// The text that letters go to.
    pub fn field(&mut self) -> Option<&mut Field> {
        Some(&mut self.search).filter(|search| search.is_edited())
    }

    /// That text changed.
    pub fn edited(&mut self, now: Timestamp) -> Vec<Effect> {
        self.load_datasets(now)
    }

    /// Something was pointed at.
    pub fn click(&mut self, target: Target, now: Timestamp) -> Vec<Effect> {
        match target {
            Target::Pane(pane) => self.pane = Pane::numbered(pane),
            Target::Row { pane, row } => {
                self.pane = Pane::numbered(pane);
                if self.pane == Pane::List {
                    return self.select_by(|_| row, now);
                }
            }
            Target::Screen(_) | Target::Action(_) => {}
        }
        Vec::new()
    }

    /// What `y` copies, if something is selected.
    pub fn selection(&self) -> Option<String> {
        let dataset = self.dataset()?;
        let candle = self.crosshair.and_then(|time| self.candle_at(time));
        Some(candle.map_or_else(
            || dataset.name.clone(),
            |c| {
                let Candle { time, open, high, low, close, volume, .. } = c;
                format!("{},{time},{open},{high},{low},{close},{volume}", dataset.name)
            },
        ))
    }

    /// Whether something on the screen moves by itself, such as a spinner.
    pub fn is_animated(&self) -> bool {
        self.is_shown && (self.datasets.is_loading() || self.rows.is_loading())
    }

    /// The datasets found, in the order of the list.
    pub fn list(&self) -> &[Dataset] {
        self.datasets.value().map_or(&[], |page| &page.datasets)
    }

    /// The dataset that is charted, if it is in the list.
    pub fn dataset(&self) -> Option<&Dataset> {
        self.list().iter().find(|dataset| Some(dataset.id) == self.selected)
    }

    /// The shape of the dataset that is charted, as far as its columns are known.
    pub fn shape(&self) -> Option<Shape> {
        let dataset = self.dataset()?;
        match self.columns.value() {
            Some(columns) => Some(Shape::of(&dataset.metadata, columns)),
            None => self.tape.front().map(|row| Shape::guess(&dataset.metadata, row)),
        }
    }

    /// Whether the chart is a line: by choice, or because rows of one value have no candles.
    pub fn is_line(&self) -> bool {
        let is_raw = self.chart.resolution() == Resolution::Raw;
        self.kind == Kind::Line || (is_raw && matches!(self.shape(), Some(Shape::Value(_))))
    }

    /// The candle at this moment.
    pub fn candle_at(&self, time: Timestamp) -> Option<&Candle> {
        self.chart.nth_newest(self.chart.from_newest(time)?)
    }

    fn load_datasets(&mut self, now: Timestamp) -> Vec<Effect> {
        self.datasets.begin(now);
        self.is_list_old = false;
        vec![Effect::LoadDatasets { search: self.search.value().to_owned() }]
    }

    /// Keeps the selected dataset if it was found again, else takes the first one.
    fn keep_selection(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.dataset().is_some() {
            return Vec::new();
        }
        // While a search is typed, what is charted stays until something else is chosen.
        // What has a ticker has candles: the better picture to begin with.
        let list = self.list();
        let ticker = list.iter().find(|dataset| dataset.metadata.contains_key("ticker"));
        match ticker.or_else(|| list.first()).map(|dataset| dataset.id) {
            Some(first) => self.select(first, now),
            None => Vec::new(),
        }
    }

    fn select_by(&mut self, to: impl FnOnce(usize) -> usize, now: Timestamp) -> Vec<Effect> {
        let list = self.list();
        let idx = list.iter().position(|dataset| Some(dataset.id) == self.selected).unwrap_or(0);
        let idx = to(idx).min(list.len().saturating_sub(1));
        match list.get(idx).map(|dataset| dataset.id) {
            Some(dataset) if Some(dataset) != self.selected => self.select(dataset, now),
            _ => Vec::new(),
        }
    }

    fn select(&mut self, dataset: DatasetId, now: Timestamp) -> Vec<Effect> {
        self.selected = Some(dataset);
        self.chart = Chart::new(self.zoom.resolution);
        self.crosshair = None;
        self.tape.clear();
        self.columns = Loadable::Idle;
        self.columns.begin(now);
        self.rows = Loadable::Idle;
        let mut effects = vec![Effect::LoadColumns { dataset }];
        effects.extend(self.load_rows(now));
        self.live = Live::default();
        if self.is_shown {
            effects.push(self.live.open(dataset, now));
        }
        effects
    }

    /// Takes the columns, and reads rows again if they were taken by another column than these say.
    fn on_columns(&mut self, result: Result<Vec<Column>, Failure>, now: Timestamp) -> Vec<Effect> {
        let guess = self.shape();
        self.columns.settle(result, now);
        if guess.is_none() || guess == self.shape() {
            return Vec::new();
        }
        self.chart = Chart::new(self.zoom.resolution);
        self.sparks.retain(|id, _| Some(*id) != self.selected);
        self.load_rows(now).into_iter().collect()
    }

    /// Asks for the newest rows of the selected dataset.
    fn load_rows(&mut self, now: Timestamp) -> Option<Effect> {
        let dataset = self.selected?;
        self.rows.begin(now);
        self.has_older = true;
        let resolution = self.chart.resolution();
        let limit = if resolution == Resolution::Raw { RAW_ROWS } else { BUCKETS };
        Some(self.ask(RowsQuery::newest(dataset, resolution, Limit::clamped(limit))))
    }

    fn ask(&mut self, query: RowsQuery) -> Effect {
        self.asked = Some(query);
        Effect::LoadRows(query)
    }

    fn take_page(&mut self, query: RowsQuery, result: Result<RowsPage, Failure>, now: Timestamp) {
        let page = match result {
            Ok(page) => page,
            Err(why) => return self.rows.settle(Err(why), now),
        };
        let n_before = self.chart.candles().len();
        match page.rows {
            Rows::Raw(rows) => {
                let shape = self.shape().or_else(|| {
                    let metadata = &self.dataset()?.metadata;
                    rows.first().map(|row| Shape::guess(metadata, row))
                });
                let samples = rows.iter().rev().filter_map(|row| shape.as_ref()?.sample(row));
                let samples: Vec<_> = samples.collect();
                if query.end.is_none() {
                    self.take_own_spark(&samples, now);
                }
                self.chart.take_given(samples);
                if self.tape.is_empty() {
                    self.tape = rows.into_iter().take(TAPE_ROWS).collect();
                }
            }
            Rows::Buckets(buckets) => self.chart.take_given(buckets.into_iter().map(Candle::from)),
        }
        if query.end.is_some() {
            self.has_older = self.chart.candles().len() > n_before;
        }
        self.rows.settle(Ok(()), now);
    }
}

impl Kind {
    const fn next(self) -> Self {
        match self {
            Self::Candles => Self::Line,
            Self::Line => Self::Heikin,
            Self::Heikin => Self::Candles,
        }
    }
}

impl Pane {
    const fn next(self) -> Self {
        match self {
            Self::List => Self::Chart,
            Self::Chart => Self::Tape,
            Self::Tape => Self::List,
        }
    }

    /// The number by which hits name it.
    #[must_use]
    pub const fn number(self) -> usize {
        self as usize
    }

    const fn numbered(number: usize) -> Self {
        match number {
            0 => Self::List,
            1 => Self::Chart,
            _ => Self::Tape,
        }
    }
}

const fn set_timers() -> [Effect; 2] {
    [Effect::Wake(Timer::Datasets, DATASETS_EVERY), Effect::Wake(Timer::Rows, ROWS_FIRST)]
}

#[cfg(test)]
mod tests;
