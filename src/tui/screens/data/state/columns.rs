//! Which column of a dataset is charted, and what its values are counted in.

use model::resolution::Resolution;

use super::{State, pins, sample::Shape};
use crate::event::NamedRow;

impl State {
    /// The column chosen of the dataset that is charted; none for its usual one.
    pub(crate) fn chosen_column(&self) -> Option<&String> {
        self.chosen_columns.get(&self.selected?)
    }

    /// The unit of the charted values, by the dataset's metadata; empty where a column
    /// is charted that the metadata does not mention.
    pub(crate) fn unit(&self) -> &str {
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
    pub(crate) fn resolutions(&self) -> &'static [Resolution] {
        match (self.chosen_column(), self.is_documented_only) {
            (Some(_), _) => &[Resolution::Raw],
            (None, true) => &Resolution::DOCUMENTED,
            (None, false) => &Resolution::ALL,
        }
    }

    /// The shape of the dataset that is charted, as far as its columns are known.
    pub(crate) fn shape(&self) -> Option<Shape> {
        let dataset = self.dataset()?;
        if let Some(column) = self.chosen_column() {
            return Some(Shape::Value(column.clone()));
        }
        match self.columns.value() {
            Some(columns) => Some(Shape::from_columns(&dataset.metadata, columns)),
            None => self.tape.front().map(|row| Shape::guess(&dataset.metadata, row)),
        }
    }

    /// As [`Self::shape`]; of a dataset of which no row is there yet, by the first of its rows.
    pub(crate) fn shape_of(&self, row: Option<&NamedRow>) -> Option<Shape> {
        self.shape().or_else(|| Some(Shape::guess(&self.dataset()?.metadata, row?)))
    }
}
