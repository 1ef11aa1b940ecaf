//! Changes of the charted column, and columns added since they were read.

use model::{
    dataset::{Column, DatasetId, Dtype},
    resolution::Resolution,
    timestamp::Timestamp,
};

use crate::{
    event::{Effect, NamedRow},
    screens::data::state::{
        RecentValues, State, chart::Chart, pins::PIN_VALUES, sample::Shape, zoom::Zoom,
    },
};

/// Number of datasets whose columns are kept: several times as many as are read in turn.
const COLUMNS_KNOWN_MAX: usize = 128;

impl State {
    /// Whether `rows` have a value in a column that was added since the columns were read, and that
    /// these were not read again for.
    pub(crate) fn has_new_column(&mut self, rows: &[NamedRow]) -> bool {
        let Some(columns) = self.columns.value() else { return false };
        let is_known = |name: &&String| columns.iter().any(|column| column.name == **name);
        let names = rows.iter().flat_map(|row| row.values.keys());
        let new: Vec<String> = names.filter(|name| !is_known(name)).cloned().collect();
        // One that the service does not list is not asked for with each row.
        let n_before = self.new_columns.len();
        self.new_columns.extend(new);
        self.new_columns.len() > n_before
    }

    /// Charts the next column of numbers, after the last one the usual one again.
    pub(crate) fn next_column(&mut self, now: Timestamp) {
        let (Some(dataset), Some(columns)) = (self.dataset(), self.columns.value()) else {
            return;
        };
        let usual = Shape::from_columns(&dataset.metadata, columns);
        let is_number = |column: &&Column| matches!(column.dtype, Dtype::Float | Dtype::Integer);
        let names = columns.iter().filter(is_number).map(|column| &column.name);
        // A bar is charted as a whole, and then column by column.
        let others = names.filter(|name| usual != Shape::Value(String::clone(name)));
        let next = match self.chosen_column() {
            None => others.clone().next(),
            Some(chosen) => others.clone().skip_while(|name| *name != chosen).nth(1),
        };
        let (id, next) = (dataset.id, next.cloned());
        match next {
            Some(name) => self.chosen_columns.insert(id, name),
            None => self.chosen_columns.remove(&id),
        };
        let zoom = Zoom { resolution: Resolution::Raw, ..self.zoom };
        if self.chosen_column().is_some() {
            self.zoom = zoom;
        }
        self.forget_values(id);
        self.chart = Chart::new(self.zoom.resolution);
        self.crosshair = None;
        self.load_rows(now);
    }

    /// Takes the columns of a dataset. Values that were taken of another column are read again.
    pub(crate) fn know_columns(&mut self, dataset: DatasetId, columns: Vec<Column>) {
        let listed = self.list().iter().find(|it| it.id == dataset).map(|it| it.metadata.clone());
        let pinned = self.pins.iter().find(|it| it.dataset == dataset);
        let metadata = listed.or_else(|| pinned.map(|pin| pin.metadata.clone()));
        self.known_columns.insert(dataset, columns);
        while self.known_columns.len() > COLUMNS_KNOWN_MAX {
            let is_needless = |id: &&DatasetId| **id != dataset && Some(**id) != self.selected;
            let Some(other) = self.known_columns.keys().find(is_needless).copied() else { break };
            self.known_columns.remove(&other);
        }
        let Some(metadata) = metadata else { return };
        let shape = self.shape_for(dataset, &metadata, None);
        let column = shape.as_ref().and_then(Shape::value_column);
        let is_of_other = |spark: &RecentValues| spark.column() != column;
        let is_wrong = self.sparklines.get(&dataset).is_some_and(is_of_other)
            || self.pins.iter().any(|it| it.dataset == dataset && is_of_other(&it.spark));
        if is_wrong {
            self.forget_values(dataset);
        }
    }

    /// Drops the newest values of a dataset, of which another column is shown from now on. They are
    /// read again: those of a pinned one by opening its stream anew.
    fn forget_values(&mut self, dataset: DatasetId) {
        self.sparklines.remove(&dataset);
        if let Some(pin) = self.pins.iter_mut().find(|pin| pin.dataset == dataset) {
            pin.spark = RecentValues::new(PIN_VALUES, Timestamp::MIN);
            if pin.details.value().is_some() {
                self.effects.push(Effect::OpenStream { dataset });
            }
        }
    }
}
