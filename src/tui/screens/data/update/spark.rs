//! Reads the newest rows of the datasets in the list in turn, for their sparklines.

use std::time::Duration;

use model::{dataset::DatasetId, page::Limit, resolution::Resolution, timestamp::Timestamp};

use super::{ROWS_APART, ROWS_EVERY, ROWS_FIRST, SPARKS_MAX};
use crate::{
    event::{Effect, NamedRow, Rows, RowsQuery},
    screens::data::state::{
        State,
        pins::OTHERS_MAX,
        sample::Shape,
        spark::{RecentValues, SPARK_VALUES},
    },
};

impl State {
    /// Asks for the newest rows of the dataset whose values were read longest ago.
    pub(crate) fn load_sparkline(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let read_at = |id: &DatasetId| self.sparklines.get(id).map(|spark| spark.at);
        if let Some(oldest) = self.read_in_turn().min_by_key(read_at) {
            self.ask(sparkline_query(oldest));
        }
    }

    /// The datasets whose values are read in turn: those that are seen, and do not come anyway.
    fn read_in_turn(&self) -> impl Iterator<Item = DatasetId> {
        // On another screen the pinned ones are shown by what their streams bring.
        let is_streamed = |id: DatasetId| !self.is_shown && self.is_pinned(id);
        let n_max = if self.is_shown { SPARKS_MAX } else { OTHERS_MAX };
        let list = self.list();
        // Of a long list those around the selected one are in view.
        let selected = list.iter().position(|dataset| Some(dataset.id) == self.selected);
        let first = selected
            .filter(|_| self.is_shown)
            .map_or(0, |idx| idx.saturating_sub(n_max / 2).min(list.len().saturating_sub(n_max)));
        let listed = list.iter().skip(first).map(|dataset| dataset.id);
        listed.filter(move |id| !self.is_charted(*id) && !is_streamed(*id)).take(n_max)
    }

    /// Whether the chart in view is of this dataset.
    pub(crate) fn is_charted(&self, id: DatasetId) -> bool {
        self.is_shown && Some(id) == self.selected
    }

    /// Whether `query` is of the newest values alone, while the chart is not in view.
    pub(crate) fn is_sparkline_query(&self, query: RowsQuery) -> bool {
        !self.is_shown && query == sparkline_query(query.dataset)
    }

    /// How long to wait for the next of these reads: as long as one was not read for a while, as after
    /// another screen was in view, little.
    pub(crate) fn next_sparkline_wait(&self, now: Timestamp) -> Duration {
        let is_old =
            |id| self.sparklines.get(&id).is_none_or(|it| now.since(it.at) > ROWS_EVERY * 2);
        if self.read_in_turn().any(is_old) {
            return ROWS_FIRST;
        }
        let n_others = u32::try_from(self.read_in_turn().count()).unwrap_or(u32::MAX).max(1);
        (ROWS_EVERY / n_others).max(ROWS_APART)
    }

    /// Takes the newest rows of a dataset that is not charted.
    pub(crate) fn add_sparkline_rows(&mut self, dataset: DatasetId, rows: &Rows, now: Timestamp) {
        let Some(metadata) =
            self.list().iter().find(|one| one.id == dataset).map(|one| one.metadata.clone())
        else {
            return;
        };
        let Rows::Raw(rows) = rows else { return };
        let shape = self.shape_for(dataset, &metadata, rows.first());
        let n_numbers =
            |row: &NamedRow| row.values.values().filter(|value| value.as_f64().is_some()).count();
        // A single number needs no list of columns to be found.
        let is_ambiguous = rows.first().is_some_and(|row| n_numbers(row) > 1);
        if is_ambiguous && !self.known_columns.contains_key(&dataset) {
            self.effects.push(Effect::LoadColumns { dataset });
        }
        self.store_sparkline(dataset, shape.as_ref(), rows, now);
    }

    /// Records that the newest rows of a dataset could not be read, so that the next one's are.
    pub(crate) fn skip_sparkline(&mut self, dataset: DatasetId, now: Timestamp) {
        let spark = self.sparklines.entry(dataset);
        spark.or_insert_with(|| RecentValues::new(SPARK_VALUES, now)).at = now;
    }

    /// Takes rows of the dataset that is charted, newest first or last.
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
            let oldest =
                self.sparklines.iter().min_by_key(|(_, spark)| spark.at).map(|(id, _)| *id);
            self.sparklines.retain(|id, _| Some(*id) != oldest);
        }
        let spark = self.sparklines.entry(dataset);
        spark.or_insert_with(|| RecentValues::new(SPARK_VALUES, now)).take_rows(shape, rows, now);
    }
}

/// What is asked for a sparkline.
fn sparkline_query(dataset: DatasetId) -> RowsQuery {
    RowsQuery::newest(dataset, Resolution::Raw, Limit::clamp(SPARK_VALUES))
}
