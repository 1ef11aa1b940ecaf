//! Which column of a dataset is charted, and what its values are counted in.

use model::{
    dataset::{Column, Dtype},
    resolution::Resolution,
    timestamp::Timestamp,
};

use super::{State, chart::Chart, pins, sample::Shape, zoom::Zoom};
use crate::event::{Effect, NamedRow};

impl State {
    /// Whether `rows` have a value in a column that was added since the columns were read, and that
    /// these were not read again for.
    pub(super) fn has_new_column(&mut self, rows: &[NamedRow]) -> bool {
        let Some(columns) = self.columns.value() else { return false };
        let is_known = |name: &&String| columns.iter().any(|column| column.name == **name);
        let names = rows.iter().flat_map(|row| row.values.keys());
        let new: Vec<String> = names.filter(|name| !is_known(name)).cloned().collect();
        // One that the service does not list is not asked for with each row.
        let n_before = self.new_columns.len();
        self.new_columns.extend(new);
        self.new_columns.len() > n_before
    }

    /// The column chosen of the dataset that is charted; none for its usual one.
    pub(super) fn chosen_column(&self) -> Option<&String> {
        self.chosen_columns.get(&self.selected?)
    }

    /// What the values charted are counted in, as far as the dataset says so; empty where a column
    /// is charted that it does not speak of.
    pub fn unit(&self) -> &str {
        let metadata = self.dataset().map(|dataset| &dataset.metadata);
        match (metadata, self.chosen_column()) {
            (Some(metadata), None) => pins::unit(metadata),
            (Some(metadata), Some(column)) => {
                metadata.get(&format!("{column}_unit")).map_or("", |unit| pins::unit_in_short(unit))
            }
            (None, _) => "",
        }
    }

    /// The resolutions to choose from: the service keeps buckets of the usual column alone.
    pub fn resolutions(&self) -> &'static [Resolution] {
        if self.chosen_column().is_some() { &[Resolution::Raw] } else { self.resolutions }
    }

    /// Charts the next column of numbers, after the last one the usual one again.
    pub(super) fn next_column(&mut self, now: Timestamp) -> Vec<Effect> {
        let (Some(dataset), Some(columns)) = (self.dataset(), self.columns.value()) else {
            return Vec::new();
        };
        let usual = Shape::of(&dataset.metadata, columns);
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
        self.chart = Chart::new(self.zoom.resolution);
        self.crosshair = None;
        self.load_rows(now).into_iter().collect()
    }

    /// The shape of the dataset that is charted, as far as its columns are known.
    pub fn shape(&self) -> Option<Shape> {
        let dataset = self.dataset()?;
        if let Some(column) = self.chosen_column() {
            return Some(Shape::Value(column.clone()));
        }
        match self.columns.value() {
            Some(columns) => Some(Shape::of(&dataset.metadata, columns)),
            None => self.tape.front().map(|row| Shape::guess(&dataset.metadata, row)),
        }
    }

    /// As [`Self::shape`]; of a dataset of which no row is there yet, by the first of its rows.
    pub(super) fn shape_of(&self, row: Option<&NamedRow>) -> Option<Shape> {
        self.shape().or_else(|| Some(Shape::guess(&self.dataset()?.metadata, row?)))
    }
}
