//! Changes of the charted column, and columns added since they were read.

use model::{
    dataset::{Column, Dtype},
    resolution::Resolution,
    timestamp::Timestamp,
};

use crate::{
    event::NamedRow,
    screens::data::state::{State, chart::Chart, sample::Shape, zoom::Zoom},
};

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
        self.chart = Chart::new(self.zoom.resolution);
        self.crosshair = None;
        self.load_rows(now);
    }
}
