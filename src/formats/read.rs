//! Reads rows from CSV, NDJSON, JSON and Parquet files one by one, each with its position.
//!
//! [`sniff`](sniff::sniff) reads the beginning of a file and determines which field is the timestamp and
//! which types the other fields have. A [`ColumnMapping`] maps fields to columns. [`Rows`] reads the
//! mapped rows from the beginning or from a position where an earlier reader stopped. An error in a row
//! includes its line, and reading can continue after it. The caller sends the rows to a service.

pub mod cell;
pub mod column_mapping;
mod compression;
pub mod csv;
mod csv_file;
pub mod json;
mod json_array;
pub mod loaded;
mod ndjson;
pub mod number_text;
pub mod parquet;
mod repeated_hour;
pub mod selection;
pub mod sniff;
mod source;
pub mod time_text;
pub mod timestamps;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::row::{Row, check_row};
use model::timestamp::Timestamp;

use self::cell::Cell;
use self::column_mapping::{Built, ColumnMapping, Target};
use self::csv_file::CsvRecords;
use self::json_array::JsonArrayRecords;
use self::loaded::LoadedReader;
use self::ndjson::{JsonText, NdjsonRecords};
use self::parquet::{ParquetRecords, ParquetSource};
use self::repeated_hour::{ReadRow, RepeatedHour};
use self::source::{Input, Position};
use self::timestamps::TimeUnit;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A header, followed by a line for each row, as in RFC 4180 with some leniency.
    Csv,
    /// One JSON object per line, or a JSON array of objects or of arrays.
    Ndjson,
    /// Apache Parquet without nesting.
    Parquet,
}

/// Options for reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Format of the file.
    pub format: Format,
    /// Delimiter of CSV fields, or `None` to detect it from the header.
    pub delimiter: Option<u8>,
    /// True if the first record of CSV, or the first row of a JSON array of arrays, is a header. `None`
    /// to detect it from the data.
    pub has_header: Option<bool>,
    /// Number of lines of a CSV file to skip before the header, or before the data.
    pub skip_lines: u64,
    /// Unit of timestamps that are numbers, or `None` to detect it from their size.
    pub time_unit: Option<TimeUnit>,
}

impl ReadOptions {
    /// Creates options in which everything but the format is detected.
    #[must_use]
    pub const fn new(format: Format) -> Self {
        Self { format, delimiter: None, has_header: None, skip_lines: 0, time_unit: None }
    }
}

/// A position in a file just after a record, from which reading can resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Line on which the record begins, counted from 1. In Parquet and in a JSON array, the number of
    /// the row.
    pub line: u64,
    /// Start of the next record in the text. Not used for Parquet.
    next: Position,
}

/// A row and its position in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedRow {
    /// The row. Its values are in the order of the mapping's columns.
    pub row: Row,
    /// Position from which reading can resume after the row.
    pub place: Place,
    /// True if reading can resume after the row. In an hour that the clock shows twice, reading can only
    /// resume after the last row, since these rows are interpreted together.
    pub is_resumable: bool,
    /// True if the timestamp was truncated to microseconds.
    pub is_cut: bool,
}

/// A record that is not a valid row. Reading can continue after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// Line on which the record begins, counted from 1. In Parquet and in a JSON array, the number of
    /// the row.
    pub line: u64,
    /// Description of the error.
    pub reason: String,
}

/// Error that prevents reading of a file, or of the rest of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be opened, or it is truncated.
    #[error("file cannot be read")]
    Read(#[from] io::Error),
    /// The file has no rows.
    #[error("file has no rows")]
    Empty,
    /// The file has a different format, or an unsupported one, or the names of its columns are missing or
    /// duplicate, or the columns can be interpreted in several ways.
    #[error("{0}")]
    Invalid(String),
}

impl FileError {
    fn no_header() -> Self {
        Self::Invalid("file has no header with the names of its columns".to_owned())
    }

    fn carriage_returns() -> Self {
        Self::Invalid(
            "lines end in CR only: convert them, for example with `tr '\\r' '\\n'`".to_owned(),
        )
    }

    fn named_twice(name: &str) -> Self {
        Self::Invalid(format!("duplicate column `{name}`"))
    }
}

/// Result of reading a record.
type Record = Result<Option<Place>, Stop>;

/// Reason for not returning a record.
enum Stop {
    /// The record is not a valid row.
    Bad(BadRow),
    /// The rest of the file cannot be read.
    File(FileError),
}

impl From<FileError> for Stop {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::File(error.into())
    }
}

/// Callback for a field of a record, called with its index among all fields, its name, and its value.
pub(crate) type Take<'a> = &'a mut dyn FnMut(usize, &str, Cell<'_>);

/// Records of a file.
enum Records {
    Csv(CsvRecords),
    Ndjson(NdjsonRecords),
    JsonArray(JsonArrayRecords),
    Parquet(Box<ParquetRecords>),
    /// Records that were read earlier.
    Loaded(LoadedReader),
}

impl Records {
    /// Opens the records after `from`. For Parquet, only the `wanted` fields are read.
    fn open(
        input: Input,
        options: ReadOptions,
        from: Place,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Self, FileError> {
        Ok(match options.format {
            Format::Csv => Self::Csv(CsvRecords::open(input, options, from.next)?),
            Format::Ndjson => Self::open_json(input, options.has_header, from.next)?,
            Format::Parquet => {
                let source = ParquetSource::of_file(input.into_file()?);
                Self::Parquet(Box::new(ParquetRecords::open(source, from.line, wanted)?))
            }
        })
    }

    /// Opens NDJSON, or a JSON array, which begins with a bracket.
    fn open_json(
        input: Input,
        has_header: Option<bool>,
        from: Position,
    ) -> Result<Self, FileError> {
        let again = input.again()?;
        let mut text = JsonText::open(input.text(0)?, Position::default())?;
        let is_array = text.peek()? == Some(b'[');
        let resumed = || JsonText::open(again.text(from.offset_bytes)?, from);
        if is_array {
            let records = JsonArrayRecords::open(text, has_header)?;
            let is_later = from.offset_bytes >= records.position().offset_bytes;
            let records = if is_later { records.resume(resumed()?, from) } else { records };
            return Ok(Self::JsonArray(records));
        }
        let text = if from.offset_bytes > text.at.offset_bytes { resumed()? } else { text };
        Ok(Self::Ndjson(NdjsonRecords::new(text)))
    }

    /// Passes the fields of the next record to `take`. Returns `None` at the end.
    fn next(&mut self, take: Take<'_>) -> Record {
        match self {
            Self::Csv(records) => records.next(take),
            Self::Ndjson(records) => records.next(take),
            Self::JsonArray(records) => records.next(take),
            Self::Parquet(records) => Ok(records.next_record(take)?),
            Self::Loaded(records) => Ok(records.next(take)),
        }
    }
}

/// Rows of a file.
#[derive(derive_more::Debug)]
#[debug("Rows of {mapping:?}")]
pub struct Rows {
    records: Records,
    mapping: ColumnMapping,
    /// Target of each field that was seen so far.
    targets: Vec<Target>,
    /// First timestamp, as written in the file and as parsed.
    example: Option<(String, Timestamp)>,
    /// Rows that were read ahead to resolve an hour that the clock shows twice.
    ahead: VecDeque<Result<PlacedRow, BadRow>>,
    /// Timestamp of the previous row.
    last_at: Option<Timestamp>,
    /// Line of the previous record.
    line: u64,
    read_bytes: source::Counter,
    size_bytes: Option<u64>,
}

impl Rows {
    /// Opens the file at `path` and maps its rows after `from` with `mapping`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(
        path: &Path,
        options: ReadOptions,
        mapping: ColumnMapping,
        from: Place,
    ) -> Result<Self, FileError> {
        let input = Input::open(path)?;
        let (read_bytes, size_bytes) = (input.counter(), input.size_bytes());
        let wanted = |field: &str| mapping.is_read(field);
        let records = match mapping.loaded() {
            Some(loaded) => Records::Loaded(LoadedReader::new(Arc::clone(loaded), from)),
            None => Records::open(input, options, from, &wanted)?,
        };
        Ok(Self {
            records,
            mapping,
            targets: Vec::new(),
            example: None,
            ahead: VecDeque::new(),
            last_at: None,
            line: from.line,
            read_bytes,
            size_bytes,
        })
    }

    /// Returns the mapping. Values of rows are in the order of its columns.
    #[must_use]
    pub fn mapping(&self) -> &ColumnMapping {
        &self.mapping
    }

    /// Returns the number of bytes read, and the size of the file if it is known. Records that were
    /// loaded are counted instead of their bytes.
    #[must_use]
    pub fn progress_bytes(&self) -> (u64, Option<u64>) {
        match &self.records {
            Records::Parquet(records) => {
                (records.progress(self.size_bytes.unwrap_or(0)), self.size_bytes)
            }
            Records::Loaded(records) => {
                let (n_read, n_all) = records.progress();
                (n_read, Some(n_all))
            }
            _ => (self.read_bytes.load(Ordering::Relaxed), self.size_bytes),
        }
    }

    /// Returns the first timestamp, as written in the file and as parsed, or `None` before the first
    /// row.
    #[must_use]
    pub const fn time_example(&self) -> Option<&(String, Timestamp)> {
        self.example.as_ref()
    }

    /// Returns the next row, or `None` at the end of the file.
    ///
    /// # Errors
    /// [`FileError`]. No rows can be read after it.
    pub fn next_row(&mut self) -> Result<Option<Result<PlacedRow, BadRow>>, FileError> {
        if let Some(row) = self.ahead.pop_front() {
            return Ok(Some(row));
        }
        let next = self.read_row()?;
        match next {
            Some(Ok(ReadRow { placed, later: None })) => {
                self.last_at = Some(placed.row.timestamp);
                Ok(Some(Ok(placed)))
            }
            Some(Ok(first)) => {
                self.read_repeated_hour(first)?;
                Ok(self.ahead.pop_front())
            }
            Some(Err(bad)) => Ok(Some(Err(bad))),
            None => Ok(None),
        }
    }

    /// Reads the rows of an hour that the clock shows twice, beginning with `first`, and the row after
    /// them. Resolves their timestamps.
    fn read_repeated_hour(&mut self, first: ReadRow) -> Result<(), FileError> {
        let mut hour = RepeatedHour::new(self.last_at, first);
        loop {
            match self.read_row()? {
                Some(Ok(row)) if row.later.is_some() && !hour.is_full() => hour.push(row),
                Some(Err(bad)) if !hour.is_full() => hour.push_bad(bad),
                after => {
                    let after = after.map(|row| row.map(|row| row.placed));
                    let row = after.as_ref().and_then(|row| row.as_ref().ok());
                    self.last_at = row.map(|row| row.row.timestamp);
                    self.ahead = hour.resolve(after);
                    return Ok(());
                }
            }
        }
    }

    /// Reads the next row. If the mapping has a selection, skips invalid records and rows that are not
    /// selected.
    fn read_row(&mut self) -> Result<Option<Result<ReadRow, BadRow>>, FileError> {
        let selection = self.mapping.selection();
        while selection.is_none_or(|selection| self.line < selection.last_line) {
            let (mapping, targets, example) = (&self.mapping, &mut self.targets, &self.example);
            let mut building = mapping.begin();
            let mut time = None;
            let read = self.records.next(&mut |field, name, cell| {
                if field >= targets.len() {
                    targets.resize(field + 1, Target::Unknown);
                }
                let Some(target) = targets.get_mut(field) else { return };
                if *target == Target::Unknown {
                    *target = mapping.target(name);
                }
                if example.is_none() && matches!(target, Target::Time | Target::TimePart(_)) {
                    let text = cell.describe();
                    let text = text.trim_matches('`').trim();
                    time =
                        Some(time.take().map_or(text.to_owned(), |date| format!("{date} {text}")));
                }
                building.take(mapping, *target, name, cell);
            });
            let place = match read {
                Ok(Some(place)) => place,
                Ok(None) => return Ok(None),
                Err(Stop::Bad(_)) if selection.is_some() => continue,
                Err(Stop::Bad(bad)) => return Ok(Some(Err(bad))),
                Err(Stop::File(error)) => return Err(error),
            };
            self.line = place.line;
            if selection.is_some() && !building.is_selected() {
                continue;
            }
            return Ok(Some(match building.finish(mapping) {
                Ok(Built { row, is_cut, later }) => {
                    if self.example.is_none() {
                        self.example = time.map(|text| (text, row.timestamp));
                    }
                    let placed = PlacedRow { row, place, is_resumable: true, is_cut };
                    Ok(ReadRow { placed, later })
                }
                Err(reason) => Err(BadRow { line: place.line, reason }),
            }));
        }
        Ok(None)
    }
}

/// Reads a Parquet file from `from` to its end to check it, and discards the rows. Returns the first
/// invalid row. Text files are not checked in advance, since they may be streams.
///
/// # Errors
/// [`FileError`] if the file is damaged anywhere.
pub fn judge(
    path: &Path,
    options: ReadOptions,
    mapping: &ColumnMapping,
    from: Place,
) -> Result<Option<BadRow>, FileError> {
    if options.format != Format::Parquet {
        return Ok(None);
    }
    let mut rows = Rows::open(path, options, mapping.clone(), from)?;
    let mut first_bad = None;
    while let Some(read) = rows.next_row()? {
        let checked = read.and_then(|PlacedRow { row, place, .. }| {
            let columns =
                mapping.columns().iter().map(|column| (column.name.as_str(), column.dtype));
            check_row(columns, &row).map_err(|reason| BadRow { line: place.line, reason })
        });
        first_bad = first_bad.or(checked.err());
    }
    Ok(first_bad)
}

impl Place {
    /// Returns the place as numbers that can be stored: the line, and the start of the next record.
    #[must_use]
    pub const fn to_numbers(self) -> [u64; 3] {
        [self.line, self.next.offset_bytes, self.next.line]
    }

    /// Restores a place from the numbers of [`Self::to_numbers`].
    #[must_use]
    pub const fn of_numbers([line, offset_bytes, next_line]: [u64; 3]) -> Self {
        Self { line, next: Position { offset_bytes, line: next_line } }
    }
}

/// Returns a dataset name for the file at `path`: the file name without extensions.
#[must_use]
pub fn stem(path: &Path) -> Option<&str> {
    let name = compression::strip_ending(path.file_name()?.to_str()?);
    Some(name.rsplit_once('.').map_or(name, |(stem, _)| stem))
}

impl Format {
    /// Returns the format of the file at `path` according to its extension, or to the extension of the
    /// data file inside an archive. Returns `None` if the format is unknown.
    ///
    /// # Errors
    /// [`FileError::Read`] if it is an archive that has several data files or none, or an unsupported one.
    pub fn of_file(path: &Path) -> Result<Option<Self>, FileError> {
        if let Some(format) = Self::of_name(path) {
            return Ok(Some(format));
        }
        let inside = compression::name_in_archive(path)?;
        Ok(inside.and_then(|name| Self::of_name(name.as_ref())))
    }

    /// Returns the format according to the extension of a file name. Extensions for compression are
    /// ignored.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_lowercase();
        let name = compression::strip_ending(&name);
        let (_, ending) = name.rsplit_once('.')?;
        match ending {
            "csv" | "tsv" | "txt" => Some(Self::Csv),
            "ndjson" | "jsonl" | "json" => Some(Self::Ndjson),
            "parquet" | "pq" => Some(Self::Parquet),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
