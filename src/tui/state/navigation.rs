//! Movements through the variants of an enum, such as panes, and through the rows of a list.

use std::cmp::Ordering;

use strum::VariantArray;

use crate::keymap::Action;

/// An enum with variants that keys select one after another, in the order of declaration.
pub(crate) trait Steps: VariantArray + Copy + PartialEq {
    /// Returns the index of the variant in [`VARIANTS`](VariantArray::VARIANTS). Click targets
    /// identify panes by it.
    fn number(self) -> usize {
        Self::VARIANTS.iter().position(|it| *it == self).unwrap_or(0)
    }

    /// Returns the variant with this index in [`VARIANTS`](VariantArray::VARIANTS).
    fn numbered(number: usize) -> Option<Self> {
        Self::VARIANTS.get(number).copied()
    }

    /// Returns the variant `n` places further. The last variant is followed by the first.
    fn cycled(self, n: isize) -> Self {
        Self::numbered(cycled(Some(self.number()), n, Self::VARIANTS.len())).unwrap_or(self)
    }

    /// Returns the variant `n` places further, at most the last or the first variant.
    fn shifted(self, n: isize) -> Self {
        let last = Self::VARIANTS.len().saturating_sub(1);
        Self::numbered(self.number().saturating_add_signed(n).min(last)).unwrap_or(self)
    }
}

impl<T: VariantArray + Copy + PartialEq> Steps for T {}

/// Returns the index `by` places after `idx` in a list of length `n`. The last index is followed by
/// 0. Returns 0 if `idx` is `None`.
pub(crate) fn cycled(idx: Option<usize>, by: isize, n: usize) -> usize {
    let len = n.max(1).cast_signed();
    idx.map_or(0, |idx| (idx.cast_signed() + by).rem_euclid(len).cast_unsigned())
}

/// Returns the number of rows by which `action` moves down, or `None` if it is not a movement.
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

/// Returns the row to which `action` moves from row `idx`. Returns `None` if `action` is not a
/// movement or there are no rows.
pub(crate) fn moved(action: Action, idx: usize, n_rows: usize, page: usize) -> Option<usize> {
    let last = n_rows.checked_sub(1)?;
    Some(idx.saturating_add_signed(rows_down(action, page)?).min(last))
}

/// Order of the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ColumnOrder {
    /// Title of the column by which the rows are sorted. `None` for the original order.
    pub(crate) column: Option<&'static str>,
    pub(crate) is_reversed: bool,
}

impl ColumnOrder {
    /// Sorts by `column`. If the rows are already sorted by it, reverses the order.
    pub(crate) fn choose(&mut self, column: &'static str) {
        self.is_reversed = self.column == Some(column) && !self.is_reversed;
        self.column = Some(column);
    }

    /// Sorts by the column that follows the current column in `columns`. After the last column, restores
    /// the original order.
    pub(crate) fn cycle(&mut self, columns: &[&'static str]) {
        let next = match self.column {
            None => 0,
            Some(now) => columns.iter().position(|it| *it == now).map_or(0, |idx| idx + 1),
        };
        *self = Self { column: columns.get(next).copied(), is_reversed: false };
    }

    /// Sorts `rows`, which are in their original order. `compare` compares two rows by a column.
    pub(crate) fn sort<T>(self, rows: &mut [T], compare: impl Fn(&str, &T, &T) -> Ordering) {
        if let Some(column) = self.column {
            rows.sort_by(|a, b| compare(column, a, b));
        }
        if self.is_reversed {
            rows.reverse();
        }
    }

    /// Describes the order, such as `METHOD ▾`. `listed` names the original order. If that name is
    /// empty, so is the description of the original order.
    pub(crate) fn note(self, listed: &str) -> String {
        let arrow = if self.is_reversed { '▴' } else { '▾' };
        match self.column.unwrap_or(listed).trim() {
            "" => String::new(),
            column => format!("{column} {arrow}"),
        }
    }
}
