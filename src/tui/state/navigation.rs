//! Steps through small enums, such as panes and sort orders, and through rows of lists.

use std::cmp::Ordering;

use strum::VariantArray;

use crate::keymap::Action;

/// An enum with variants that keys step through, in declaration order.
pub(crate) trait Steps: VariantArray + Copy + PartialEq {
    /// Returns the index in [`Self::VARIANTS`], by which click targets refer to panes.
    fn number(self) -> usize {
        Self::VARIANTS.iter().position(|it| *it == self).unwrap_or(0)
    }

    /// Returns the variant at this index in [`Self::VARIANTS`].
    fn numbered(number: usize) -> Option<Self> {
        Self::VARIANTS.get(number).copied()
    }

    /// Returns the variant `n` steps ahead, wrapping around.
    fn cycled(self, n: isize) -> Self {
        Self::numbered(cycled(Some(self.number()), n, Self::VARIANTS.len())).unwrap_or(self)
    }

    /// Returns the variant `n` steps ahead, stopping at the first and last variant.
    fn shifted(self, n: isize) -> Self {
        let last = Self::VARIANTS.len().saturating_sub(1);
        Self::numbered(self.number().saturating_add_signed(n).min(last)).unwrap_or(self)
    }
}

impl<T: VariantArray + Copy + PartialEq> Steps for T {}

/// Returns the index `by` steps after `idx` in a list of length `n`, wrapping around. Starts at 0.
pub(crate) fn cycled(idx: Option<usize>, by: isize, n: usize) -> usize {
    let len = n.max(1).cast_signed();
    idx.map_or(0, |idx| (idx.cast_signed() + by).rem_euclid(len).cast_unsigned())
}

/// Returns the number of rows that `action` moves down, or `None` if it is not a movement.
pub(crate) fn rows_down(action: Action, page: usize) -> Option<isize> {
    let (page, half) = (page.max(1).cast_signed(), (page / 2).max(1).cast_signed());
    Some(match action {
        Action::Up => -1,
        Action::Down => 1,
        Action::HalfPageUp => -half,
        Action::HalfPageDown => half,
        Action::PageUp => -page,
        Action::PageDown => page,
        Action::First => isize::MIN,
        Action::Last => isize::MAX,
        _ => return None,
    })
}

/// Returns the row that `action` moves to from row `idx`, or `None` if it is not a movement.
pub(crate) fn moved(action: Action, idx: usize, n_rows: usize, page: usize) -> Option<usize> {
    let last = n_rows.checked_sub(1)?;
    Some(idx.saturating_add_signed(rows_down(action, page)?).min(last))
}

/// The order of a table by one of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ColumnOrder {
    /// Title of the column, or `None` for the listed order.
    pub(crate) column: Option<&'static str>,
    pub(crate) is_reversed: bool,
}

impl ColumnOrder {
    /// Sorts by `column`, or reverses the order if it is already in use.
    pub(crate) fn choose(&mut self, column: &'static str) {
        self.is_reversed = self.column == Some(column) && !self.is_reversed;
        self.column = Some(column);
    }

    /// Sorts by the next column in `columns`, or restores the listed order after the last column.
    pub(crate) fn cycle(&mut self, columns: &[&'static str]) {
        let next = match self.column {
            None => 0,
            Some(now) => columns.iter().position(|it| *it == now).map_or(0, |idx| idx + 1),
        };
        *self = Self { column: columns.get(next).copied(), is_reversed: false };
    }

    /// Sorts `rows`, which are in the listed order. `compare` compares two rows by a column.
    pub(crate) fn sort<T>(self, rows: &mut [T], compare: impl Fn(&str, &T, &T) -> Ordering) {
        if let Some(column) = self.column {
            rows.sort_by(|a, b| compare(column, a, b));
        }
        if self.is_reversed {
            rows.reverse();
        }
    }

    /// Returns a label such as `METHOD ▾`. `listed` is the name of the listed order, which has no label
    /// without a name.
    pub(crate) fn note(self, listed: &str) -> String {
        let arrow = if self.is_reversed { '▴' } else { '▾' };
        match self.column.unwrap_or(listed).trim() {
            "" => String::new(),
            column => format!("{column} {arrow}"),
        }
    }
}
