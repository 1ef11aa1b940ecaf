//! Loads and moves through the table of rows.

use model::timestamp::Timestamp;

use crate::{
    event::{Effect, RowsPage, RowsQuery},
    screens::data::state::{Pane, State, table::PAGE_ROWS},
    state::loadable::Failure,
};

impl State {
    /// Asks for the newest rows, if the table is shown.
    pub(crate) fn load_table(&mut self) {
        if let Some(query) = self.newest_rows(PAGE_ROWS).filter(|_| self.is_table) {
            self.table.asked = Some(query);
            self.effects.push(Effect::LoadTable(query));
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
            self.pane = Pane::Chart;
            self.load_table();
        } else {
            self.effects.extend(self.table.clear());
        }
    }

    /// Moves through the table.
    pub(crate) fn move_table(&mut self, n: isize) {
        let Some(newest) = self.newest_rows(PAGE_ROWS) else { return };
        if n == isize::MIN && self.table.has_newer {
            return self.reload_table();
        }
        self.effects.extend(self.table.move_by(n, newest).map(Effect::LoadTable));
    }

    /// Scrolls the table by `n` columns.
    pub(crate) fn scroll_table(&mut self, n: isize) {
        let last = self.table_columns().len().saturating_sub(1);
        self.table.n_hidden = self.table.n_hidden.saturating_add_signed(n).min(last);
    }

    /// Handles a page of the table.
    pub(crate) fn on_table(
        &mut self,
        query: RowsQuery,
        result: Result<RowsPage, Failure>,
        now: Timestamp,
    ) {
        let next = self.table.take(query, result, now);
        self.effects.extend(next.map(Effect::LoadTable));
    }
}
