//! Changes that give a copy the columns of its source.

use model::dataset::Column;
use model::timestamp::Timestamp;

use crate::catalog::{ColumnChange, DatasetChange};

/// Returns the columns that are not deleted, with their places.
pub(super) fn list_visible(columns: &[Column]) -> impl Iterator<Item = (usize, &Column)> {
    columns.iter().enumerate().filter(|(_, column)| !column.is_deleted())
}

/// Returns true if the visible columns have the same names and types, in the same order.
pub(super) fn are_equal(source: &[Column], copied: &[Column]) -> bool {
    let names = |columns| list_visible(columns).map(|(_, column)| (&column.name, column.dtype));
    names(source).eq(names(copied))
}

/// Returns the changes that give a copy the columns of its source, and the creation time of each
/// new column.
///
/// A column of the copy that is missing in the source counts as renamed if the source has a new column
/// with the same type and creation time. If this guess is wrong, values differ afterwards.
pub(super) fn changes(
    source: &[Column],
    copied: &[Column],
) -> Vec<(DatasetChange, Option<Timestamp>)> {
    let is_in = |columns: &[Column], one: &Column| {
        list_visible(columns)
            .any(|(_, column)| (&column.name, column.dtype) == (&one.name, one.dtype))
    };
    let missing = |from: &[Column], at: &[Column]| -> Vec<Column> {
        list_visible(from)
            .map(|(_, column)| column)
            .filter(|one| !is_in(at, one))
            .cloned()
            .collect()
    };
    let mut new = missing(source, copied);
    let (mut deleted, mut changes) = (Vec::new(), Vec::new());
    for Column { name, dtype, created_at, .. } in missing(copied, source) {
        let renamed = new.iter().position(|one| (one.dtype, one.created_at) == (dtype, created_at));
        match renamed.map(|idx| new.remove(idx)) {
            Some(Column { name: new_name, .. }) => {
                changes
                    .push((DatasetChange::Column(ColumnChange::Rename { name, new_name }), None));
            }
            None => deleted.push((DatasetChange::Column(ColumnChange::Delete(name)), None)),
        }
    }
    // Deletions first, since their names may be reused.
    deleted.append(&mut changes);
    deleted.extend(new.into_iter().map(|Column { name, dtype, created_at, .. }| {
        (DatasetChange::NewColumns(vec![(name, dtype)]), Some(created_at))
    }));
    deleted
}
