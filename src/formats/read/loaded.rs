//! Records of several selections that are read from a file in one pass and held in memory.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::cell::Cell;
use super::selection::{Selection, value_text};
use super::source::Input;
use super::{FileError, Place, ReadOptions, Records, Stop, Take};

/// Approximate size of the allocations of a record, in addition to their contents.
const OVERHEAD_BYTES: usize = 64;

/// Records of a selection. [`Rows`](super::Rows) with this selection reads them instead of the file.
#[derive(derive_more::Debug, Clone, PartialEq)]
#[debug("LoadedRecords")]
pub struct LoadedRecords {
    /// Names of the fields by their index in the file.
    names: Arc<[String]>,
    records: Vec<LoadedRecord>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct LoadedRecord {
    place: Place,
    /// Texts of all cells, one after another.
    texts: String,
    /// Field, length of the text, and value of each cell. The value has an empty text.
    cells: Vec<(usize, usize, Cell<'static>)>,
}

/// Records that were loaded, and the number of those that were already returned.
pub(super) struct LoadedReader {
    pub(super) loaded: Arc<LoadedRecords>,
    pub(super) n_read: usize,
}

/// Reads the records of `selections` in one pass through the file at `path`. The selections have the same
/// field and are in the order of their first records. Only the `wanted` fields are read.
///
/// Returns the records by the values of the selections. If they exceed `bytes_max`, the last selections
/// are omitted, and if the first selection alone exceeds it, nothing is returned.
///
/// # Errors
/// [`FileError`].
pub fn load_selections(
    path: &Path,
    options: ReadOptions,
    wanted: &dyn Fn(&str) -> bool,
    selections: &[Selection],
    bytes_max: usize,
) -> Result<HashMap<String, Arc<LoadedRecords>>, FileError> {
    let Some(Selection { field, begin, .. }) = selections.first() else {
        return Ok(HashMap::new());
    };
    let mut records = Records::open(Input::open(path)?, options, *begin, wanted)?;
    let values = selections.iter().enumerate();
    let values: HashMap<&str, usize> =
        values.map(|(idx, selection)| (selection.value.as_str(), idx)).collect();
    let mut names: Vec<String> = Vec::new();
    let mut parts: Vec<(usize, Vec<LoadedRecord>)> = vec![(0, Vec::new()); selections.len()];
    let last_line = |n: usize| selections.iter().take(n).map(|it| it.last_line).max();
    let (mut line, mut n_bytes) = (begin.line, 0);
    while Some(line) < last_line(parts.len()) {
        let mut record = LoadedRecord::default();
        let mut selected = None;
        let read = records.next(&mut |idx, name, cell| {
            if idx >= names.len() {
                names.resize(idx + 1, String::new());
            }
            if let Some(known) = names.get_mut(idx).filter(|known| known.is_empty()) {
                name.clone_into(known);
            }
            if name == *field {
                selected = value_text(cell).and_then(|value| values.get(value.as_str()));
            }
            record.push(idx, cell);
        });
        match read {
            Ok(Some(place)) => record.place = place,
            Ok(None) => break,
            Err(Stop::Bad(_)) => continue,
            Err(Stop::File(error)) => return Err(error),
        }
        line = record.place.line;
        let Some((part_bytes, part)) = selected.and_then(|idx| parts.get_mut(*idx)) else {
            continue;
        };
        *part_bytes += record.n_bytes();
        n_bytes += record.n_bytes();
        part.push(record);
        while n_bytes > bytes_max {
            let Some((part_bytes, _)) = parts.pop() else { break };
            n_bytes -= part_bytes;
        }
        if parts.is_empty() {
            break;
        }
    }
    let names: Arc<[String]> = names.into();
    let loaded = selections.iter().zip(parts).map(|(selection, (_, records))| {
        let names = Arc::clone(&names);
        (selection.value.clone(), Arc::new(LoadedRecords { names, records }))
    });
    Ok(loaded.collect())
}

impl LoadedRecord {
    fn push(&mut self, field: usize, cell: Cell<'_>) {
        let (text, cell) = match cell {
            Cell::Text(text) => (text, Cell::Text("")),
            Cell::Bare(text) => (text, Cell::Bare("")),
            Cell::Unfit(reason) => (reason, Cell::Unfit("")),
            Cell::Absent => ("", Cell::Absent),
            Cell::Boolean(truth) => ("", Cell::Boolean(truth)),
            Cell::Integer(number) => ("", Cell::Integer(number)),
            Cell::Float(number) => ("", Cell::Float(number)),
            Cell::Time(time) => ("", Cell::Time(time)),
            Cell::Large(number) => ("", Cell::Large(number)),
        };
        self.texts.push_str(text);
        self.cells.push((field, text.len(), cell));
    }

    fn n_bytes(&self) -> usize {
        let cells = self.cells.capacity() * size_of::<(usize, usize, Cell<'_>)>();
        size_of::<Self>() + OVERHEAD_BYTES + cells + self.texts.capacity()
    }
}

impl LoadedReader {
    /// Creates a reader of the records after `from`.
    pub(super) fn new(loaded: Arc<LoadedRecords>, from: Place) -> Self {
        let n_read = loaded.records.partition_point(|record| record.place.line <= from.line);
        Self { loaded, n_read }
    }

    /// Returns the number of records that were read and the number of all records.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.n_read as u64, self.loaded.records.len() as u64)
    }

    /// Passes the fields of the next record to `take`. Returns `None` at the end.
    pub(super) fn next(&mut self, take: Take<'_>) -> Option<Place> {
        let record = self.loaded.records.get(self.n_read)?;
        self.n_read += 1;
        let mut texts = record.texts.as_str();
        for (field, text_bytes, cell) in &record.cells {
            let (text, rest) = texts.split_at_checked(*text_bytes).unwrap_or_default();
            texts = rest;
            let cell = match *cell {
                Cell::Text(_) => Cell::Text(text),
                Cell::Bare(_) => Cell::Bare(text),
                Cell::Unfit(_) => Cell::Unfit(text),
                cell => cell,
            };
            let name = self.loaded.names.get(*field).map_or("", String::as_str);
            take(*field, name, cell);
        }
        Some(record.place)
    }
}
