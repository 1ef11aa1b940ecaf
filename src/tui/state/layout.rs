//! The layout of panes: positions of dividers, adjacent panes, and hidden columns of tables.

use std::collections::BTreeSet;

use strum::IntoStaticStr;

use crate::keymap::Action;
use crate::screens::Screen;
use crate::state::State;
use crate::state::navigation::Steps as _;

/// Columns by which a key moves a divider.
const COLUMNS_STEP: i16 = 2;

/// Rows by which a key moves a divider.
const ROWS_STEP: i16 = 1;

/// Maximum offset of a divider. No terminal is wider.
const NUDGE_MAX: i16 = 400;

/// Minimum width of a pane next to a moved divider.
const COLUMNS_MIN: u16 = 16;

/// Minimum height of a pane next to a moved divider.
const ROWS_MIN: u16 = 4;

/// Offsets of the dividers of a screen from their default positions, to the right or down, indexed
/// by [`Divider`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Nudge(pub(crate) [i16; 3]);

/// A divider between panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Divider {
    /// Between the left and the right panes.
    Columns,
    /// Between the upper and the lower pane on the left.
    LeftRows,
    /// Between the upper and the lower pane on the right.
    RightRows,
}

/// The positions of the dividers on all screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Layout {
    nudges: [Nudge; Screen::ALL.len()],
    /// Offsets of the current screen before the divider was dragged.
    pub(crate) grabbed: Nudge,
}

/// Column and row of a pane in a grid that describes the arrangement of a screen's panes.
type Cell = (u8, u8);

impl Nudge {
    /// Returns the position of `divider` in an area of `length` cells. `at` is its default
    /// position. A moved divider leaves the minimum space on both sides.
    pub(crate) fn place(self, divider: Divider, at: u16, length: u16) -> u16 {
        let by = self.0.get(divider as usize).copied().unwrap_or_default();
        if by == 0 {
            return at;
        }
        let least = if divider == Divider::Columns { COLUMNS_MIN } else { ROWS_MIN };
        let least = least.min(length / 2);
        at.saturating_add_signed(by).clamp(least, length - least)
    }
}

impl Layout {
    /// Returns the offsets of the dividers of `screen`.
    pub(crate) fn nudge(&self, screen: Screen) -> Nudge {
        self.nudges.get(screen as usize).copied().unwrap_or_default()
    }

    /// Sets the offsets of the dividers of `screen`.
    pub(crate) fn set(&mut self, screen: Screen, nudge: Nudge) {
        if let Some(place) = self.nudges.get_mut(screen as usize) {
            *place = Nudge(nudge.0.map(|by| by.clamp(-NUDGE_MAX, NUDGE_MAX)));
        }
    }
}

impl State {
    /// Returns the offsets of the dividers of the current screen.
    pub(crate) fn nudge(&self) -> Nudge {
        self.layout.nudge(self.screen)
    }

    /// Makes the focused pane narrower, wider, shorter or taller, or resets all dividers of the
    /// screen.
    pub(crate) fn resize_pane(&mut self, action: Action) {
        let Nudge([mut columns, mut left_rows, mut right_rows]) = self.nudge();
        let (column, row) = self.focused_cell();
        let wider = if column == 0 { COLUMNS_STEP } else { -COLUMNS_STEP };
        let taller = if row == 0 { ROWS_STEP } else { -ROWS_STEP };
        let rows = if column == 0 { &mut left_rows } else { &mut right_rows };
        match action {
            Action::Wider => columns += wider,
            Action::Narrower => columns -= wider,
            Action::Taller => *rows += taller,
            Action::Shorter => *rows -= taller,
            _ => (columns, left_rows, right_rows) = (0, 0, 0),
        }
        self.layout.set(self.screen, Nudge([columns, left_rows, right_rows]));
    }

    /// Moves a divider to a distance of `by` cells from the position at which the drag began.
    pub(crate) fn drag_divider(&mut self, divider: Divider, by: i16) {
        let mut nudge = self.layout.grabbed;
        if let Some(offset) = nudge.0.get_mut(divider as usize) {
            *offset = offset.saturating_add(by);
        }
        self.layout.set(self.screen, nudge);
    }

    /// Returns the number of the nearest pane in the direction of `action`, seen from the focused
    /// pane.
    pub(crate) fn adjacent_pane(&self, action: Action) -> Option<usize> {
        let (column, row) = self.focused_cell();
        let is_there = |(other_column, other_row): Cell| match action {
            Action::PaneLeft => other_column < column,
            Action::PaneRight => other_column > column,
            Action::PaneUp => other_row < row,
            Action::PaneDown => other_row > row,
            _ => false,
        };
        let is_sideways = matches!(action, Action::PaneLeft | Action::PaneRight);
        let far = |(other_column, other_row): Cell| {
            let (columns, rows) = (other_column.abs_diff(column), other_row.abs_diff(row));
            if is_sideways { (columns, rows) } else { (columns, rows.saturating_mul(2)) }
        };
        let adjacent = self.grid().iter().enumerate().filter(|(_, cell)| is_there(**cell));
        adjacent.min_by_key(|(_, cell)| far(**cell)).map(|(pane, _)| pane)
    }

    fn focused_cell(&self) -> Cell {
        self.grid().get(self.focused_pane()).copied().unwrap_or_default()
    }

    /// Returns the number of the focused pane.
    fn focused_pane(&self) -> usize {
        match self.screen {
            Screen::Cluster => self.cluster.focus.number(),
            Screen::Execute => self.execute.focus.number(),
            Screen::Data => self.data.pane.number(),
            Screen::Inference => self.inference.pane.number(),
            Screen::Overview => self.overview.pane(self.overview_counts()),
            Screen::Logs => 0,
        }
    }

    /// Returns the cells of the panes of the current screen, indexed by the number of the pane.
    const fn grid(&self) -> &'static [Cell] {
        match self.screen {
            Screen::Cluster => &[(0, 0), (1, 0), (1, 1), (0, 1)],
            Screen::Execute => &[(0, 0), (1, 0)],
            Screen::Data => &[(0, 0), (1, 0), (0, 1)],
            Screen::Inference => &[(1, 4), (0, 1), (0, 0), (1, 1), (1, 2), (1, 3)],
            Screen::Overview => &[(0, 0), (1, 0), (1, 1)],
            Screen::Logs => &[(0, 0)],
        }
    }
}

/// A table with columns that can be hidden. Its name is part of the session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum TableName {
    Nodes,
    Runs,
    Processes,
    Datasets,
    Topics,
    Actors,
}

/// The hidden columns, each as the name of its table and its title, such as `nodes PING`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HiddenColumns(pub(crate) BTreeSet<String>);

impl HiddenColumns {
    /// Returns true if the column of `table` with this title is hidden.
    pub(crate) fn is_hidden(&self, table: TableName, title: &str) -> bool {
        self.0.contains(&column_text(table, title))
    }

    /// Hides a visible column, or shows a hidden one.
    pub(crate) fn toggle(&mut self, table: TableName, title: &str) {
        let column = column_text(table, title);
        if !self.0.remove(&column) {
            self.0.insert(column);
        }
    }
}

fn column_text(table: TableName, title: &str) -> String {
    format!("{} {}", <&str>::from(table), title.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;

    #[track_caller]
    fn check(keys: &str, want: (usize, Nudge)) {
        let mut screen = Harness::ready(160, 45);
        screen.press(keys);
        assert_eq!((screen.state.focused_pane(), screen.state.nudge()), want, "after {keys}");
    }

    #[test]
    fn moving_a_divider_grows_the_focused_pane() {
        check("] } }", (0, Nudge([2, 2, 0])));
        check("L ] {", (1, Nudge([-2, 0, -1])));
        check("L J }", (2, Nudge([0, 0, -1])));
        check("] } =", (0, Nudge::default()));
    }

    #[test]
    fn direction_keys_move_between_panes() {
        let none = Nudge::default();
        check("L J H", (3, none));
        check("J", (3, none));
        check("K", (0, none));
        check("3 L", (1, none));
        check("4 K J L", (3, none));
    }

    #[test]
    fn divider_leaves_space_for_the_panes_on_both_sides() {
        let place = |at, by, width| Nudge([by, 0, 0]).place(Divider::Columns, at, width);
        assert_eq!((place(40, 10, 100), place(40, 90, 100)), (50, 84));
        assert_eq!((place(40, -90, 100), place(5, -1, 9)), (16, 4));
        assert_eq!(place(0, 0, 0), 0);
    }

    #[test]
    fn hidden_column_is_named_by_its_table_and_its_title() {
        let mut hidden = HiddenColumns::default();
        hidden.toggle(TableName::Actors, "MEAN LOSS");
        hidden.toggle(TableName::Nodes, "PING");
        assert_eq!(hidden.0.iter().collect::<Vec<_>>(), ["actors MEAN LOSS", "nodes PING"]);
        assert!(hidden.is_hidden(TableName::Nodes, " PING"));
        hidden.toggle(TableName::Nodes, "PING");
        assert!(!hidden.is_hidden(TableName::Nodes, "PING"));
    }
}
