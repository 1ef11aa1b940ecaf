//! Rows in files: CSV, NDJSON and Parquet, read one by one, each with its position.
//!
//! [`sniff`](sniff::sniff) reads the beginning of a file and guesses which field holds the timestamp
//! and what the others are; a [`ColumnMapping`] maps fields to columns; [`Rows`] reads the mapped rows,
//! from the beginning or from where an earlier reading stopped. An error of a row names its line, and
//! reading can go on after it. Absent on purpose: services, which the caller sends the rows to.

pub mod cell;
pub mod column_mapping;
mod compression;
pub mod csv;
mod csv_file;
pub mod json;
mod ndjson;
pub mod number_text;
pub mod parquet;
mod repeated_hour;
pub mod sniff;
mod source;
pub mod time_text;
pub mod timestamps;

use std::{collections::VecDeque, fmt, io, path::Path, sync::atomic::Ordering};

use model::{
    row::{Row, check_row},
    timestamp::Timestamp,
};

use self::{
    cell::Cell,
    column_mapping::{Built, ColumnMapping, Target},
    csv_file::CsvRecords,
    ndjson::NdjsonRecords,
    parquet::{ParquetRecords, ParquetSource},
    repeated_hour::{ReadRow, RepeatedHour},
    source::{Input, Position},
    timestamps::TimeUnit,
};

/// How rows are written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A header, and a line for each row, by RFC 4180 or nearly so.
    Csv,
    /// A JSON object in each line.
    Ndjson,
    /// Apache Parquet without nesting.
    Parquet,
}

/// What to know of a file before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// How it is written.
    pub format: Format,
    /// What separates the fields of CSV; none to find out from the header.
    pub delimiter: Option<u8>,
    /// Whether the first record of CSV is a header; none to find out from what it holds.
    pub has_header: Option<bool>,
    /// Lines of CSV before the header, or before the data.
    pub skip_lines: u64,
    /// What a number counts that is a timestamp; `None` to find out by its size.
    pub time_unit: Option<TimeUnit>,
}

impl ReadOptions {
    /// Options that leave all but the format to be found out.
    #[must_use]
    pub const fn new(format: Format) -> Self {
        Self { format, delimiter: None, has_header: None, skip_lines: 0, time_unit: None }
    }
}

/// A place in a file, just after a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The line that the record begins on, from 1; of Parquet the row.
    pub line: u64,
    /// Where in the text the next record begins, and on which line. Not of Parquet.
    next: Position,
}

/// A row and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedRow {
    /// Its values are in the order of the mapping's columns.
    pub row: Row,
    /// From where reading resumes after it.
    pub place: Place,
    /// True if reading can resume there; else at the next row of which it is true, since the rows in
    /// between have their timestamps from one another.
    pub is_resumable: bool,
    /// Whether its timestamp was cut: the file has it finer than microseconds.
    pub is_cut: bool,
}

/// A record that is no row, and why. Reading can go on after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// The line it begins on, from 1; of Parquet the row.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// Why a file cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It does not open, or breaks off.
    #[error("read it")]
    Read(#[from] io::Error),
    /// It has no rows.
    #[error("find a row in it")]
    Empty,
    /// It is not written as its name says, or in a way that is not read here.
    #[error("understand it: {what}")]
    Form {
        /// What is wrong.
        what: String,
    },
    /// Its columns are not named, not told apart, or may be read in several ways.
    #[error("{0}")]
    Columns(String),
}

impl FileError {
    fn no_header() -> Self {
        Self::Columns("find a header with the names of its columns".to_owned())
    }

    fn named_twice(name: &str) -> Self {
        Self::Columns(format!("tell its columns apart: two are called `{name}`"))
    }

    /// What is wrong with how the file is written.
    fn form(what: impl fmt::Display) -> Self {
        Self::Form { what: what.to_string() }
    }
}

/// What reading a record came to.
type Record = Result<Option<Place>, Stop>;

/// Why a record was not read.
enum Stop {
    /// It is no row.
    Bad(BadRow),
    /// There is no going on.
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

/// Takes a field of a record: its place among all fields, its name, and what it holds.
pub(crate) type Take<'a> = &'a mut dyn FnMut(usize, &str, Cell<'_>);

/// The records of a file.
enum Records {
    Csv(CsvRecords),
    Ndjson(NdjsonRecords),
    Parquet(Box<ParquetRecords>),
}

impl Records {
    /// Opens the records after `from`. Of Parquet only the fields that are `wanted` are read.
    fn open(
        input: Input,
        options: ReadOptions,
        from: Place,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Self, FileError> {
        Ok(match options.format {
            Format::Csv => Self::Csv(CsvRecords::open(input, options, from.next)?),
            Format::Ndjson => Self::Ndjson(NdjsonRecords::open(input, from.next)?),
            Format::Parquet => {
                let source = ParquetSource::of_file(input.into_file()?);
                Self::Parquet(Box::new(ParquetRecords::open(source, from.line, wanted)?))
            }
        })
    }

    /// Hands the fields of the next record to `take`; none at the end.
    fn next(&mut self, take: Take<'_>) -> Record {
        match self {
            Self::Csv(records) => records.next(take),
            Self::Ndjson(records) => records.next(take),
            Self::Parquet(records) => Ok(records.next_record(take)?),
        }
    }
}

/// The rows of a file.
#[derive(derive_more::Debug)]
#[debug("Rows of {mapping:?}")]
pub struct Rows {
    records: Records,
    mapping: ColumnMapping,
    /// The target of each field seen so far.
    targets: Vec<Target>,
    /// The first timestamp as the file has it, and as it was read.
    example: Option<(String, Timestamp)>,
    /// Rows that were read ahead to tell the two meanings of a repeated hour apart.
    ahead: VecDeque<Result<PlacedRow, BadRow>>,
    /// Timestamp of the row before.
    last_at: Option<Timestamp>,
    read_bytes: source::Counter,
    size_bytes: Option<u64>,
}

impl Rows {
    /// Opens the rows that `mapping` makes of the file at `path`, those after `from`.
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
        let wanted = |field: &str| mapping.target(field) != Target::LeftOut;
        let records = Records::open(input, options, from, &wanted)?;
        Ok(Self {
            records,
            mapping,
            targets: Vec::new(),
            example: None,
            ahead: VecDeque::new(),
            last_at: None,
            read_bytes,
            size_bytes,
        })
    }

    /// The columns of the rows, in the order of their values.
    #[must_use]
    pub fn mapping(&self) -> &ColumnMapping {
        &self.mapping
    }

    /// How much of the file has been read, and how much there is where that is known.
    #[must_use]
    pub fn progress_bytes(&self) -> (u64, Option<u64>) {
        if let Records::Parquet(records) = &self.records {
            return (records.progress(self.size_bytes.unwrap_or(0)), self.size_bytes);
        }
        (self.read_bytes.load(Ordering::Relaxed), self.size_bytes)
    }

    /// The first timestamp as the file has it, and as it was read; `None` before the first row.
    #[must_use]
    pub const fn time_example(&self) -> Option<&(String, Timestamp)> {
        self.example.as_ref()
    }

    /// The next row; none at the end of the file.
    ///
    /// # Errors
    /// [`FileError`]; then there are no more.
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

    /// Reads the rows of an hour that the clock shows twice, which begin with `first`, and the row
    /// after them, and decides which time each of them has.
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

    fn read_row(&mut self) -> Result<Option<Result<ReadRow, BadRow>>, FileError> {
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
            if example.is_none() && matches!(target, Target::Time | Target::TimeOfDay) {
                let text = cell.describe();
                let text = text.trim_matches('`').trim();
                time = Some(time.take().map_or(text.to_owned(), |date| format!("{date} {text}")));
            }
            building.take(mapping, *target, name, cell);
        });
        match read {
            Ok(None) => Ok(None),
            Ok(Some(place)) => Ok(Some(match building.finish(mapping) {
                Ok(Built { row, is_cut, later }) => {
                    if self.example.is_none() {
                        self.example = time.map(|text| (text, row.timestamp));
                    }
                    let placed = PlacedRow { row, place, is_resumable: true, is_cut };
                    Ok(ReadRow { placed, later })
                }
                Err(reason) => Err(BadRow { line: place.line, reason }),
            })),
            Err(Stop::Bad(bad)) => Ok(Some(Err(bad))),
            Err(Stop::File(error)) => Err(error),
        }
    }
}

/// Reads a Parquet file from `from` to its end without keeping its rows, and returns the first row
/// that does not fit. Files of text are not read beforehand: they may be streams.
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
    /// The place as numbers that can be kept: line, and where the next record begins.
    #[must_use]
    pub const fn to_numbers(self) -> [u64; 3] {
        [self.line, self.next.offset_bytes, self.next.line]
    }

    /// The place of such numbers.
    #[must_use]
    pub const fn of_numbers([line, offset_bytes, next_line]: [u64; 3]) -> Self {
        Self { line, next: Position { offset_bytes, line: next_line } }
    }
}

/// The name of a dataset that the file at `path` makes: without its endings.
#[must_use]
pub fn stem(path: &Path) -> Option<&str> {
    let name = compression::strip_ending(path.file_name()?.to_str()?);
    Some(name.rsplit_once('.').map_or(name, |(stem, _)| stem))
}

impl Format {
    /// How the file at `path` is written, by its ending; by that of the data file in it, if it is an
    /// archive whose own name does not say.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        let inside = || Self::of_name(Path::new(&compression::name_in_archive(path)?));
        Self::of_name(path).or_else(inside)
    }

    /// How a file of this name is written, by its ending; one of compression counts for nothing.
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
