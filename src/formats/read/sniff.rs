//! Guesses from the beginning of a file what its fields hold, and which is the timestamp.

pub mod time_column;

use std::{ops::Range, path::Path};

use model::{dataset::Dtype, timestamp::Timestamp};

use self::time_column::{is_clock_name, is_hour_name};
use super::{
    BadRow, FileError, Format, Place, ReadOptions, Records, Stop,
    cell::{Cell, exact_integer},
    number_text::{Decimal, Telling, telling},
    source::Input,
    time_text::{TimeTexts, day_first, is_clock, is_date},
    timestamps::{TimeUnit, timestamp},
};

/// Records looked at. More would say more of what a column holds, and take longer than a second.
pub const SNIFFED_RECORDS: usize = 10_000;

/// Whole numbers of more than this do not fit a column of floats exactly.
const EXACT_MAX: i64 = 1 << 53;

/// Years of timestamps, 1900 to 2100: what is outside of them is no evidence of a time column.
const PLAUSIBLE: Range<Timestamp> =
    Timestamp::from_seconds(-2_208_988_800)..Timestamp::from_seconds(4_133_980_800);

/// Timestamps of a field that are kept to compare it with others: more tell no more.
const TIMES_KEPT: usize = 2_000;

/// What the beginning of a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SniffedFields {
    /// The fields, in their order.
    pub fields: Vec<Field>,
    /// How many records were looked at.
    pub n_records: usize,
    /// Whether dates whose order is open were read in a format.
    pub(super) has_format: bool,
}

/// A field of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// As the header or the first records name it.
    pub name: String,
    /// What it seems to hold: numbers are floats, unless they are whole and too large for that, or
    /// the file itself says otherwise.
    pub dtype: Dtype,
    /// The first value, as it stands in the file; none where there is none.
    pub example: Option<String>,
    /// How many of its values are timestamps.
    timestamps: TimestampShare,
    /// True if its timestamps are numbers.
    is_number_time: bool,
    /// Timestamps of the first records.
    pub(super) times: Vec<Option<Timestamp>>,
    /// Why its first value is no timestamp.
    pub(super) no_time: Option<String>,
    parts: Parts,
    /// Whether its values are texts, each of them of a number.
    pub has_number_texts: bool,
    /// Why no column can be made of it, as of lists; none if one can.
    pub unfit: Option<String>,
    marks: Marks,
}

/// What the values of a field tell of the decimal mark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Marks {
    n_points: usize,
    n_commas: usize,
    /// The first that is a number with either.
    open: Option<String>,
}

/// Whether a field holds parts of timestamps: at least nine in ten of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Parts {
    /// Dates without a time.
    is_date: bool,
    /// Dates of which the day or the month is first.
    is_day_first: bool,
    /// Times of day.
    is_clock: bool,
    /// The smallest and largest number of an hour, if it is called so.
    hours: Option<(i64, i64)>,
}

/// How many values of a field are timestamps. One that is none does not make another field the timestamp:
/// reading reports its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TimestampShare {
    /// Less than half.
    Few,
    /// At least half: enough for a field that is called like it.
    Half,
    /// At least nine in ten: enough for one that is not.
    Most,
}

/// How values are read as timestamps.
#[derive(Clone, Copy)]
struct TimeReading<'a> {
    texts: &'a TimeTexts,
    /// Unit of numbers; `None` for the one of each.
    unit: Option<TimeUnit>,
}

/// What is known of a field so far.
#[derive(Default)]
struct Seen {
    name: String,
    example: Option<String>,
    /// Values that are neither true nor false.
    n_others: usize,
    /// Values that are no number but may be a text.
    n_dashes: usize,
    /// Texts in quotes that would stand for no value without them.
    n_quoted_absent: usize,
    n_numbers: usize,
    n_number_texts: usize,
    marks: Marks,
    unfit: Option<String>,
    n_values: usize,
    n_timestamps: usize,
    /// How many of them are numbers.
    n_number_times: usize,
    times: Vec<Option<Timestamp>>,
    no_time: Option<String>,
    n_hours: usize,
    hours: Option<(i64, i64)>,
    /// How many are dates without a time, dates with the day or month first, and times of day.
    n_dates: usize,
    n_day_first: usize,
    n_clocks: usize,
    /// Numbers that are not whole.
    n_fractions: usize,
    /// Whole numbers that are too large for a float.
    n_large: usize,
    /// Values that are not written as whole numbers.
    n_undeclared: usize,
}

impl SniffedFields {
    /// The fields of a file whose caller knows them: the one with the timestamp, and the others with
    /// their types.
    #[must_use]
    pub fn declare(time: &str, fields: impl IntoIterator<Item = (String, Dtype)>) -> Self {
        let field = |(name, dtype), timestamps| Field {
            name,
            dtype,
            timestamps,
            ..Seen::default().conclude(true)
        };
        let time = field((time.to_owned(), Dtype::String), TimestampShare::Most);
        let others = fields.into_iter().map(|told| field(told, TimestampShare::Few));
        Self {
            fields: std::iter::once(time).chain(others).collect(),
            n_records: 0,
            has_format: true,
        }
    }

    /// The decimal mark of the numbers.
    ///
    /// # Errors
    /// [`FileError::Columns`] if they are numbers with either.
    pub fn decimal(&self) -> Result<Decimal, FileError> {
        let numbers = || self.fields.iter().filter(|field| field.dtype != Dtype::String);
        let n_points: usize = numbers().map(|field| field.marks.n_points).sum();
        let n_commas: usize = numbers().map(|field| field.marks.n_commas).sum();
        if n_commas > n_points {
            return Ok(Decimal::Comma);
        }
        let open = numbers().find_map(|field| Some((field, field.marks.open.clone()?)));
        match open {
            Some((field, example)) if n_points == 0 => {
                let field = &field.name;
                Err(FileError::Columns(format!(
                    "read the numbers of column {field}: {example} is in thousands or a \
                     fraction: pass --decimal . or --decimal ,"
                )))
            }
            _ => Ok(Decimal::Point),
        }
    }
}

impl Field {
    /// Returns true if it holds timestamps: at least half of its values if it `is_called_so`, else
    /// nine in ten. Dates whose order is open count.
    pub(super) fn is_time(&self, is_called_so: bool) -> bool {
        let least = if is_called_so { TimestampShare::Half } else { TimestampShare::Most };
        self.timestamps >= least || self.parts.is_day_first
    }

    /// Returns true if its timestamps are numbers.
    pub(super) const fn is_number_time(&self) -> bool {
        self.is_number_time
    }

    pub(super) const fn is_date(&self) -> bool {
        self.parts.is_date
    }

    pub(super) const fn is_day_first(&self) -> bool {
        self.parts.is_day_first
    }

    pub(super) const fn is_clock(&self) -> bool {
        self.parts.is_clock
    }

    /// Returns true if it holds numbers of hours, and is called so.
    pub(super) const fn is_hour(&self) -> bool {
        self.parts.hours.is_some() && !self.parts.is_clock
    }

    /// Returns the number of the first hour of a day by the numbers that there are.
    ///
    /// # Errors
    /// [`FileError::Columns`] if there is neither a 0 nor a 24, or there are both.
    pub(super) fn first_hour(&self) -> Result<i8, FileError> {
        match self.parts.hours {
            Some((0, ..=23)) => Ok(0),
            Some((1, 24..)) => Ok(1),
            hours => {
                let (least, most) = hours.unwrap_or_default();
                Err(FileError::Columns(format!(
                    "unclear hours in column {}, {least} to {most}: pass --first-hour 0 or \
                     --first-hour 1",
                    self.name
                )))
            }
        }
    }
}

/// Looks at the first records of the file at `path`. Those that are none are passed over: reading
/// the file reports them.
///
/// # Errors
/// [`FileError`]; [`FileError::Empty`] if there are none.
pub fn sniff(
    path: &Path,
    options: ReadOptions,
    texts: &TimeTexts,
) -> Result<SniffedFields, FileError> {
    let mut records = Records::open(Input::open(path)?, options, Place::default(), &|_| true)?;
    let is_typed = options.format == Format::Parquet;
    let reading = TimeReading { texts, unit: options.time_unit };
    let mut seen: Vec<Seen> = Vec::new();
    let (mut n_records, mut first_bad) = (0, None);
    for _ in 0..SNIFFED_RECORDS {
        let read = records.next(&mut |field, name, cell| {
            while seen.len() <= field {
                seen.push(Seen { name: name.to_owned(), ..Seen::default() });
            }
            let cell = match cell {
                // Quotes tell nothing of a number in CSV.
                Cell::Text(text)
                    if options.format == Format::Csv && !Cell::Bare(text).is_absent() =>
                {
                    Cell::Bare(text)
                }
                cell => cell,
            };
            if let Some(seen) = seen.get_mut(field) {
                seen.look(cell, reading, n_records);
            }
        });
        match read {
            Ok(Some(_)) => n_records += 1,
            Ok(None) => break,
            Err(Stop::Bad(bad)) => drop(first_bad.get_or_insert(bad)),
            Err(Stop::File(error)) => return Err(error),
        }
    }
    match first_bad {
        _ if n_records > 0 => {}
        None => return Err(FileError::Empty),
        Some(BadRow { line, reason }) => {
            return Err(FileError::form(format_args!("line {line}: {reason}")));
        }
    }
    let fields = seen.into_iter().map(|seen| seen.conclude(is_typed)).collect();
    Ok(SniffedFields { fields, n_records, has_format: texts.format.is_some() })
}

impl Seen {
    fn look(&mut self, cell: Cell<'_>, reading: TimeReading<'_>, record_idx: usize) {
        if cell.is_absent() {
            return;
        }
        if matches!(cell, Cell::Text(text) if Cell::Bare(text).is_absent()) {
            self.n_quoted_absent += 1;
            return;
        }
        if cell.is_dash() {
            self.n_dashes += 1;
            return;
        }
        if let Cell::Unfit(reason) = cell {
            self.unfit.get_or_insert_with(|| reason.to_owned());
            return;
        }
        self.example.get_or_insert_with(|| cell.describe());
        self.n_others += usize::from(cell.boolean().is_none());
        if cell.is_number() {
            self.n_numbers += 1;
            self.n_fractions += usize::from(cell.integer().is_none());
        }
        self.n_number_texts +=
            usize::from(matches!(cell, Cell::Text(text) if Cell::Bare(text).is_number()));
        if let Cell::Bare(text) = cell {
            match telling(text) {
                Telling::Nothing => {}
                Telling::One(Decimal::Point) => self.marks.n_points += 1,
                Telling::One(Decimal::Comma) => self.marks.n_commas += 1,
                Telling::Open => drop(self.marks.open.get_or_insert_with(|| cell.describe())),
            }
        }
        let is_large = cell.integer().is_some_and(|number| number.abs() > EXACT_MAX);
        self.n_large += usize::from(is_large);
        self.n_undeclared += usize::from(!matches!(cell, Cell::Integer(_) | Cell::Large(_)));
        self.n_values += 1;
        self.look_for_times(cell, reading, record_idx);
    }

    fn look_for_times(&mut self, cell: Cell<'_>, reading: TimeReading<'_>, record_idx: usize) {
        match timestamp(cell, reading.unit, reading.texts) {
            Ok(read) if PLAUSIBLE.contains(&read.at) => {
                self.n_timestamps += 1;
                self.n_number_times += usize::from(number(cell).is_some());
                if record_idx < TIMES_KEPT {
                    self.times.resize(record_idx, None);
                    self.times.push(Some(read.at));
                }
            }
            Ok(_) => {}
            Err(reason) => drop(self.no_time.get_or_insert(reason)),
        }
        if is_hour_name(&self.name)
            && let Some(hour) = number(cell).and_then(exact_integer)
        {
            self.n_hours += usize::from((0..=24).contains(&hour));
            let (least, most) = self.hours.unwrap_or((hour, hour));
            self.hours = Some((least.min(hour), most.max(hour)));
        }
        if let Some(text) = cell.plain_text() {
            self.n_dates += usize::from(is_date(&text));
            self.n_day_first += usize::from(day_first(&text).is_some());
            self.n_clocks += usize::from(is_clock(&text, is_clock_name(&self.name)));
        }
    }

    /// How many of the values are timestamps.
    fn timestamp_share(&self) -> TimestampShare {
        match () {
            () if self.n_timestamps == 0 || self.n_timestamps * 2 < self.n_values => {
                TimestampShare::Few
            }
            () if self.n_timestamps * 10 < self.n_values * 9 => TimestampShare::Half,
            () => TimestampShare::Most,
        }
    }

    /// What it holds; `is_typed` says that the file itself tells whole numbers from others.
    fn conclude(self, is_typed: bool) -> Field {
        // One text among numbers is left to reading to report: a column of texts would hide all.
        let is_float = self.n_numbers > 0 && self.n_numbers * 2 >= self.n_values;
        let dtype = match () {
            () if self.example.is_none() && self.n_dashes + self.n_quoted_absent == 0 => {
                Dtype::Float
            }
            () if self.example.is_none() => Dtype::String,
            () if self.n_others == 0 => Dtype::Boolean,
            () if is_typed && self.n_undeclared == 0 => Dtype::Integer,
            () if is_float && self.n_fractions == 0 && self.n_large > 0 => Dtype::Integer,
            () if is_float => Dtype::Float,
            () => Dtype::String,
        };
        let is_most = |n_of: usize| n_of > 0 && n_of * 10 >= self.n_values * 9;
        let parts = Parts {
            is_date: is_most(self.n_dates),
            is_day_first: is_most(self.n_day_first),
            is_clock: is_most(self.n_clocks),
            hours: self.hours.filter(|_| is_most(self.n_hours)),
        };
        Field {
            parts,
            has_number_texts: self.n_values > 0 && self.n_number_texts == self.n_values,
            timestamps: self.timestamp_share(),
            is_number_time: self.n_number_times * 2 > self.n_timestamps,
            times: self.times,
            no_time: self.no_time,
            // One value that is unfit is for reading to report.
            unfit: self.unfit.filter(|_| self.n_values == 0),
            marks: self.marks,
            name: self.name,
            dtype,
            example: self.example,
        }
    }
}

/// The size of a number, also of one in a text.
fn number(cell: Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Text(text) => Cell::Bare(text).float(),
        cell => cell.float(),
    }
}
