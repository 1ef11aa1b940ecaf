//! Loads and moves through the table of rows.

use model::timestamp::Timestamp;

use crate::{
    event::{Effect, Rows, RowsPage, RowsQuery},
    screens::data::state::{
        State,
        table::{BUCKET_COLUMNS, Source},
    },
    state::loadable::Failure,
};

impl State {
    /// Asks for the newest rows, if the table is shown.
    pub(crate) fn load_table(&mut self) {
        if let Some(source) = self.source().filter(|_| self.is_table) {
            self.effects.push(Effect::LoadTable(self.table.newest(source)));
        }
    }

    /// Drops the rows, and asks for the newest ones if the table is shown.
    pub(crate) fn reload_table(&mut self) {
        self.effects.extend(self.table.clear());
        self.load_table();
    }

    /// Shows rows as a table, or no longer.
    pub(crate) fn toggle_table(&mut self) {
        self.is_table = !self.is_table;
        if self.is_table {
            self.pane = crate::screens::data::state::Pane::Chart;
            self.load_table();
        } else {
            self.effects.extend(self.table.clear());
        }
    }

    /// Moves through the table.
    pub(crate) fn move_table(&mut self, n: isize) {
        let Some(source) = self.source() else { return };
        if n == isize::MIN && self.table.has_newer {
            return self.reload_table();
        }
        self.effects.extend(self.table.move_by(n, source).map(Effect::LoadTable));
    }

    /// Handles a page of the table.
    pub(crate) fn on_table(
        &mut self,
        query: RowsQuery,
        result: Result<RowsPage, Failure>,
        now: Timestamp,
    ) {
        let columns = match (&result, self.columns.value()) {
            (Ok(RowsPage { rows: Rows::Buckets(_), .. }), _) => {
                BUCKET_COLUMNS.map(str::to_owned).to_vec()
            }
            (_, Some(columns)) => columns.iter().map(|column| column.name.clone()).collect(),
            (Ok(RowsPage { rows: Rows::Raw(rows), .. }), None) => {
                rows.first().map_or_else(Vec::new, |row| row.values.keys().cloned().collect())
            }
            _ => Vec::new(),
        };
        let next = self.table.take(query, result, columns, now);
        self.effects.extend(next.map(Effect::LoadTable));
    }

    pub(crate) fn source(&self) -> Option<Source> {
        Some(Source { dataset: self.selected?, resolution: self.chart.resolution() })
    }
}
