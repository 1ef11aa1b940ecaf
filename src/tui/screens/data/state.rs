//! The Data screen: which datasets there are, and the one that is charted.
//!
//! One dataset is selected: its columns, its rows at a resolution, and its stream are asked for. Of
//! the others in the list a few newest rows are read in turn, for their sparklines. The crosshair is
//! a moment, not a place, so that live rows do not move it. While paused, what the stream brings is
//! held back.

pub mod chart;
mod columns;
mod crosshair;
pub mod export;
pub mod filter;
mod load;
mod look;
mod past;
pub mod pins;
pub mod sample;
mod spark;
mod stream;
pub mod table;
pub mod zoom;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use model::{
    dataset::{Column, Dataset, DatasetId, PUBLIC_TAG},
    resolution::Resolution,
    timestamp::Timestamp,
};

use self::{
    chart::Chart, export::Export, filter::Filter, past::Older, pins::Pin, sample::Shape,
    table::Table, zoom::Zoom,
};
pub use self::{
    look::{Indicators, Kind},
    spark::{SPARK_VALUES, Spark},
    stream::{Live, Status, fresh_for, is_past},
};
use crate::{
    action::Action,
    event::{
        Acquired, DataEvent, DatasetsPage, Effect, NamedRow, RowsQuery, StreamNews, Target, Timer,
    },
    state::{
        field::Field,
        loadable::{Failure, Loadable},
    },
    widget::candles::Candle,
};

/// How often the list of datasets is read again: new ones are rare.
pub(crate) const DATASETS_EVERY: Duration = Duration::from_secs(30);

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
const PAGE_ROWS: usize = 20;

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
    /// Whether the newest values alone are in view, on another screen.
    is_glanced_at: bool,
    /// The pane that keys go to.
    pub pane: Pane,
    /// The dataset that is charted.
    pub selected: Option<DatasetId>,
    /// Its columns.
    pub columns: Loadable<Vec<Column>>,
    /// Columns of rows that were not among those, and were asked for since.
    new_columns: BTreeSet<String>,
    /// The column charted of each dataset where another than its usual one was chosen.
    chosen_columns: BTreeMap<DatasetId, String>,
    /// Whether its rows are there.
    pub rows: Loadable<()>,
    /// Its candles.
    pub chart: Chart,
    /// How much of them is shown.
    pub zoom: Zoom,
    /// How they are drawn.
    pub kind: Kind,
    /// What is drawn with them.
    pub indicators: Indicators,
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
    /// The tags of the dataset that is charted.
    pub tags: Loadable<Vec<String>>,
    /// The field of metadata that the list is filtered by.
    pub filter: Filter,
    /// What is watched whatever is charted.
    pub pins: Vec<Pin>,
    /// The rows as a table.
    pub table: Table,
    /// Writing rows to a file.
    pub export: Export,
    /// The resolutions that the service has, as far as that is known.
    pub resolutions: &'static [Resolution],
    /// Whether the services are known.
    is_connected: bool,
    /// Whether the list is of a search that was left.
    is_list_old: bool,
    /// The rows asked for last, as long as there is no answer.
    asked: Option<RowsQuery>,
    /// Whether there are rows before the oldest one.
    older: Older,
    /// Until when the service asked to be left alone.
    pub limited_until: Option<Timestamp>,
    /// When rows that did not come are asked for again.
    retry_at: Option<Timestamp>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            datasets: Loadable::Idle,
            search: Field::default(),
            is_shown: false,
            is_glanced_at: false,
            pane: Pane::default(),
            selected: None,
            columns: Loadable::Idle,
            new_columns: BTreeSet::new(),
            chosen_columns: BTreeMap::new(),
            rows: Loadable::Idle,
            chart: Chart::new(Zoom::START.resolution),
            zoom: Zoom::START,
            kind: Kind::default(),
            indicators: Indicators::default(),
            is_table: false,
            crosshair: None,
            live: Live::default(),
            tape: VecDeque::new(),
            sparks: BTreeMap::new(),
            tag: Loadable::Idle,
            tags: Loadable::Idle,
            filter: Filter::default(),
            pins: Vec::new(),
            table: Table::default(),
            export: Export::default(),
            resolutions: &Resolution::ALL,
            is_connected: false,
            is_list_old: false,
            asked: None,
            older: Older::Unknown,
            limited_until: None,
            retry_at: None,
        }
    }
}

impl State {
    /// The services are known, or changed. What is pinned stays, and is asked for anew.
    pub fn connected(&mut self, now: Timestamp) -> Vec<Effect> {
        let search = std::mem::take(&mut self.search);
        let pins = self.taken_pins();
        let Self { is_shown, is_glanced_at, pane, kind, indicators, .. } = *self;
        let kept =
            Self { search, is_shown, is_glanced_at, pane, kind, indicators, ..Self::default() };
        *self = Self { is_connected: true, ..kept };
        self.remember(pins);
        let mut effects = self.load_datasets(now);
        if self.is_shown || self.is_glanced_at {
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
        self.datasets.forgive();
        self.rows.forgive();
        if matches!(self.datasets, Loadable::Idle) {
            effects.extend(self.load_datasets(now));
        }
        effects.extend(self.load_rows(now));
        effects.extend(self.open_stream());
        effects
    }

    /// The screen leaves the view.
    pub fn hide(&mut self) -> Vec<Effect> {
        self.is_shown = false;
        let mut effects = self.close_stream();
        effects.extend([Effect::Forget(Timer::Datasets), Effect::Forget(Timer::Rows)]);
        effects
    }

    /// A service answered.
    pub fn on(&mut self, event: DataEvent, now: Timestamp) -> Vec<Effect> {
        if let Some(why) = failure(&event) {
            self.note_limit(why, now);
        }
        match event {
            DataEvent::Datasets { search, result }
                if search == self.search.value() && self.filter.chosen().is_none() =>
            {
                self.on_datasets(result, now)
            }
            DataEvent::Filtered { field, value, result }
                if self.filter.chosen() == Some(&(field.clone(), value.clone())) =>
            {
                self.on_datasets(result, now)
            }
            DataEvent::Columns { dataset, result } if Some(dataset) == self.selected => {
                self.on_columns(result, now)
            }
            DataEvent::Pinned { dataset, result } => {
                self.on_pinned(dataset, result.map(|told| *told), now)
            }
            DataEvent::Tags { dataset, result } if Some(dataset) == self.selected => {
                self.tags.settle(result, now);
                Vec::new()
            }
            DataEvent::Rows { query, result } => {
                if self.asked == Some(query) {
                    self.asked = None;
                }
                if Some(query.dataset) == self.selected && !self.is_glance(query) {
                    return self.on_rows(query, result, now);
                }
                if let Ok(page) = result {
                    self.take_spark(query.dataset, &page.rows, now);
                }
                Vec::new()
            }
            DataEvent::Table { query, result } => self.on_table(query, result, now),
            DataEvent::Stream { dataset, news } => {
                self.pin_hears(dataset, &news, now);
                if Some(dataset) == self.selected { self.on_stream(news, now) } else { Vec::new() }
            }
            DataEvent::Acquired { result, .. } => {
                self.tag.settle(result, now);
                if self.tag.failure().is_none() { self.load_datasets(now) } else { Vec::new() }
            }
            DataEvent::Export(news) => {
                self.export.take(&news);
                Vec::new()
            }
            DataEvent::Datasets { .. }
            | DataEvent::Filtered { .. }
            | DataEvent::Columns { .. }
            | DataEvent::Tags { .. } => Vec::new(),
        }
    }

    /// A timer is due.
    pub fn woke(&mut self, timer: Timer, now: Timestamp) -> Vec<Effect> {
        if !self.is_shown && !self.is_glanced_at {
            return Vec::new();
        }
        if let Some(until) = self.limited_until.take_if(|until| *until > now) {
            self.limited_until = Some(until);
            return vec![Effect::Wake(timer, until.since(now))];
        }
        self.limited_until = None;
        match timer {
            Timer::Datasets => {
                let mut effects = self.load_datasets(now);
                effects.push(Effect::Wake(Timer::Datasets, DATASETS_EVERY));
                effects
            }
            Timer::Rows => {
                let mut effects = self.load_failed(now);
                if self.is_list_old && effects.is_empty() {
                    effects = self.load_datasets(now);
                }
                effects.extend(self.load_spark());
                effects.push(Effect::Wake(Timer::Rows, self.spark_wait(now)));
                effects
            }
            _ => Vec::new(),
        }
    }

    /// A key asked for something.
    pub fn act(&mut self, action: Action, now: Timestamp) -> Vec<Effect> {
        if let Some(n) = steps(action) {
            return self.move_by(n, now);
        }
        match action {
            Action::Filter => {
                self.filter.text.keep();
                self.search.edit();
            }
            Action::MetadataFilter => self.edit_filter(),
            Action::Open => self.pane = Pane::Chart,
            Action::Refresh => {
                self.datasets.forgive();
                self.rows.forgive();
                let mut effects = self.load_datasets(now);
                effects.extend(self.load_rows(now));
                effects.extend(self.selected.map(|dataset| Effect::LoadColumns { dataset }));
                effects.extend(self.table.clear());
                effects.extend(self.load_table(now));
                return effects;
            }
            Action::NextPane => self.pane = self.pane.next(),
            Action::PreviousPane => self.pane = self.pane.next().next(),
            Action::Earlier if self.is_table => self.table.scroll(-1),
            Action::Later if self.is_table => self.table.scroll(1),
            Action::Earlier => return self.move_crosshair(),
            Action::Later => self.move_crosshair_later(),
            Action::Follow => {
                self.crosshair = None;
                return if self.is_table { self.move_table(isize::MIN, now) } else { Vec::new() };
            }
            Action::Pause => return self.pause(now),
            Action::ZoomIn => {
                return self.take_zoom(self.zoom.closer(self.is_line(), self.resolutions()), now);
            }
            Action::ZoomOut => {
                return self.take_zoom(self.zoom.out(self.is_line(), self.resolutions()), now);
            }
            Action::Coarser => return self.take_zoom(self.zoom.coarser(self.resolutions()), now),
            Action::Finer => return self.take_zoom(self.zoom.finer(self.resolutions()), now),
            Action::NextChart => self.kind = self.kind.next(),
            Action::Indicators => self.indicators = self.indicators.next(),
            Action::NextColumn => return self.next_column(now),
            Action::RowsTable => return self.toggle_table(now),
            Action::Pin => return self.toggle_pin(now),
            Action::Export => return self.export(),
            Action::AcquireTag => {
                self.tag.begin(now);
                return vec![Effect::AcquireTag { tag: PUBLIC_TAG.to_owned() }];
            }
            _ => {}
        }
        Vec::new()
    }

    /// What was typed is meant.
    pub fn entered(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.export.path.is_edited() {
            return self.begin_export();
        }
        if self.filter.text.is_edited() {
            return self.take_filter(now);
        }
        self.search.keep();
        self.pane = Pane::Chart;
        Vec::new()
    }

    /// Moves through what is typed, the table or the list: `n` rows down.
    fn move_by(&mut self, n: isize, now: Timestamp) -> Vec<Effect> {
        if self.export.path.is_edited() {
            self.export.choose(n.signum());
        } else if self.filter.text.is_edited() {
            self.filter.choose(n.signum());
        } else if self.is_table && self.pane == Pane::Chart {
            return self.move_table(n, now);
        } else {
            return self.select_by(|idx| idx.saturating_add_signed(n), now);
        }
        Vec::new()
    }

    /// Goes back one step; whether there was one.
    pub fn back(&mut self) -> bool {
        if self.export.path.is_edited() {
            return self.export.path.leave();
        }
        if self.filter.leave() {
            self.is_list_old = true;
            return true;
        }
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
        let fields = [&mut self.export.path, &mut self.filter.text, &mut self.search];
        fields.into_iter().find(|field| field.is_edited())
    }

    /// Whether letters go to a text.
    pub const fn is_edited(&self) -> bool {
        self.export.path.is_edited() || self.filter.text.is_edited() || self.search.is_edited()
    }

    /// That text changed.
    pub fn edited(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.search.is_edited() {
            self.is_list_old |= self.filter.leave();
            return self.load_datasets(now);
        }
        self.filter.edited();
        Vec::new()
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

    /// Whether seconds are counted: until a stream is tried again, or its service asked.
    pub fn is_counting(&self, now: Timestamp) -> bool {
        let mut streams = self.pins.iter().map(|pin| &pin.live).chain([&self.live]);
        streams.any(Live::is_counting) || self.limited_until.is_some_and(|at| at > now)
    }

    /// The datasets found, in the order of the list.
    pub fn list(&self) -> &[Dataset] {
        self.datasets.value().map_or(&[], |page| &page.datasets)
    }

    /// The dataset that is charted, if it is in the list.
    pub fn dataset(&self) -> Option<&Dataset> {
        self.list().iter().find(|dataset| Some(dataset.id) == self.selected)
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

/// How many rows down an action of lists moves.
fn steps(action: Action) -> Option<isize> {
    let page = PAGE_ROWS.cast_signed();
    Some(match action {
        Action::Up => -1,
        Action::Down => 1,
        Action::HalfPageUp => -(page / 2),
        Action::HalfPageDown => page / 2,
        Action::PageUp => -page,
        Action::PageDown => page,
        Action::First => isize::MIN,
        Action::Last => isize::MAX,
        _ => return None,
    })
}

/// Why an event brings nothing, if it does not.
fn failure(event: &DataEvent) -> Option<&Failure> {
    match event {
        DataEvent::Datasets { result, .. } | DataEvent::Filtered { result, .. } => {
            result.as_ref().err()
        }
        DataEvent::Columns { result, .. } => result.as_ref().err(),
        DataEvent::Pinned { result, .. } => result.as_ref().err().filter(|why| !pins::is_gone(why)),
        DataEvent::Rows { result, .. } | DataEvent::Table { result, .. } => result.as_ref().err(),
        DataEvent::Stream { news: StreamNews::Lost { why, .. }, .. } => Some(why),
        _ => None,
    }
}

const fn set_timers() -> [Effect; 2] {
    [Effect::Wake(Timer::Datasets, DATASETS_EVERY), Effect::Wake(Timer::Rows, ROWS_FIRST)]
}

#[cfg(test)]
mod tests;
