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
    pub(crate) fn load_table(&mut self) -> Option<Effect> {
        let source = self.source().filter(|_| self.is_table)?;
        Some(Effect::LoadTable(self.table.newest(source)))
    }

    /// Drops the rows, and asks for the newest ones if the table is shown.
    pub(crate) fn reload_table(&mut self) -> Vec<Effect> {
        self.table.clear().into_iter().chain(self.load_table()).collect()
    }

    /// Shows rows as a table, or no longer.
    pub(crate) fn toggle_table(&mut self) -> Vec<Effect> {
        self.is_table = !self.is_table;
        if self.is_table {
            self.pane = crate::screens::data::state::Pane::Chart;
            return self.load_table().into_iter().collect();
        }
        self.table.clear().into_iter().collect()
    }

    /// Moves through the table.
    pub(crate) fn move_table(&mut self, n: isize) -> Vec<Effect> {
        let Some(source) = self.source() else { return Vec::new() };
        if n == isize::MIN && self.table.has_newer {
            return self.reload_table();
        }
        self.table.move_by(n, source).map(Effect::LoadTable).into_iter().collect()
    }

    /// Handles a page of the table.
    pub(crate) fn on_table(
        &mut self,
        query: RowsQuery,
        result: Result<RowsPage, Failure>,
        now: Timestamp,
    ) -> Vec<Effect> {
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
        self.table.take(query, result, columns, now).map(Effect::LoadTable).into_iter().collect()
    }

    pub(crate) fn source(&self) -> Option<Source> {
        Some(Source { dataset: self.selected?, resolution: self.chart.resolution() })
    }
}
