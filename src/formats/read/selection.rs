//! Finds the values of a field that divide the rows of a file into several datasets.

use std::collections::HashMap;
use std::path::Path;

use super::cell::Cell;
use super::source::Input;
use super::{BadRow, FileError, Place, ReadOptions, Records, Stop};

/// Maximum number of different values, enough for the symbols of a large index. Each becomes a dataset.
const VALUES_MAX: usize = 1_000;

/// Maximum length of a value, the same as of the name of a dataset.
const VALUE_BYTES_MAX: usize = 200;

/// Rows of a file that have the same value in a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Name of the field.
    pub field: String,
    /// Value of the field, without surrounding whitespace.
    pub value: String,
    /// Position before the first of the rows.
    pub begin: Place,
    /// Line of the last of the rows, counted as in [`Place`].
    pub last_line: u64,
}

/// All values of a field.
#[derive(Debug, Default)]
pub struct Selections {
    /// A selection for each value, in the order of their first rows.
    pub selections: Vec<Selection>,
    /// The first row that is invalid or has no value.
    pub first_bad: Option<BadRow>,
    /// Number of rows that are invalid or have no value.
    pub n_bad: u64,
}

/// Reads the file at `path` and finds the values of `field`.
///
/// # Errors
/// [`FileError`], in particular [`FileError::Invalid`] if there are more than a thousand values.
pub fn find_selections(
    path: &Path,
    options: ReadOptions,
    field: &str,
) -> Result<Selections, FileError> {
    let wanted = |name: &str| name == field;
    let mut records = Records::open(Input::open(path)?, options, Place::default(), &wanted)?;
    let mut by_value: HashMap<String, Selection> = HashMap::new();
    let mut found = Selections::default();
    let mut begin = Place::default();
    loop {
        let mut value = None;
        let read = records.next(&mut |_, name, cell| {
            if name == field {
                value = value_text(cell).filter(|value| value.len() <= VALUE_BYTES_MAX);
            }
        });
        let place = match read {
            Ok(Some(place)) => place,
            Ok(None) => break,
            Err(Stop::Bad(bad)) => {
                found.record_bad(bad);
                continue;
            }
            Err(Stop::File(error)) => return Err(error),
        };
        if let Some(value) = value {
            let (name, last_line) = (field.to_owned(), place.line);
            let first = Selection { field: name, value: value.clone(), begin, last_line };
            by_value.entry(value).or_insert(first).last_line = last_line;
            if by_value.len() > VALUES_MAX {
                return Err(FileError::Invalid(format!(
                    "column {field} has more than {VALUES_MAX} different values, and each of them \
                     would become a dataset"
                )));
            }
        } else {
            let reason = format!("column {field}: no value of 1 to {VALUE_BYTES_MAX} bytes");
            found.record_bad(BadRow { line: place.line, reason });
        }
        begin = place;
    }
    found.selections = by_value.into_values().collect();
    found.selections.sort_by_key(|selection| selection.begin.line);
    Ok(found)
}

impl Selections {
    fn record_bad(&mut self, bad: BadRow) {
        self.n_bad += 1;
        self.first_bad.get_or_insert(bad);
    }
}

impl Selection {
    /// Returns true if the rows with this cell are selected.
    pub(super) fn matches(&self, cell: Cell<'_>) -> bool {
        match cell {
            Cell::Text(text) | Cell::Bare(text) => text.trim() == self.value,
            cell => value_text(cell).is_some_and(|value| value == self.value),
        }
    }
}

/// Returns the value of a field as a text, or `None` if there is no value.
pub(super) fn value_text(cell: Cell<'_>) -> Option<String> {
    match cell {
        _ if cell.is_absent() => None,
        Cell::Float(number) => Some(number.to_string()),
        Cell::Boolean(truth) => Some(truth.to_string()),
        cell => cell.plain_text().filter(|text| !text.is_empty()),
    }
}
