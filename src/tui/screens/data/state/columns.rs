//! Which column of a dataset is charted, and what its values are counted in.

use std::collections::BTreeMap;

use model::{
    dataset::{Column, DatasetId, Dtype},
    resolution::Resolution,
};

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

    /// The resolutions to choose from: the service keeps buckets of the usual column alone, if that
    /// is not one of integers.
    pub(crate) fn resolutions(&self) -> &'static [Resolution] {
        let has_buckets = match (self.dataset(), self.columns.value()) {
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

    /// The shape of any dataset, the same for the list, the Overview, pins and the chart: by the column
    /// that the user chose, else by its columns, and as long as these are unknown by a `row` of it.
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

    /// The column of a dataset that is shown as its value, if it has several columns of numbers.
    pub(crate) fn shown_column(
        &self,
        dataset: DatasetId,
        metadata: &BTreeMap<String, String>,
    ) -> Option<String> {
        let columns = self.known_columns.get(&dataset)?;
        let is_number = |column: &&Column| matches!(column.dtype, Dtype::Float | Dtype::Integer);
        let is_ambiguous = columns.iter().filter(is_number).count() > 1;
        let shape = self.shape_for(dataset, metadata, None).filter(|_| is_ambiguous)?;
        shape.value_column().map(str::to_owned)
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
