//! Guesses from the beginning of a file what its fields hold, and which is the timestamp.

use std::path::Path;

use model::dataset::Dtype;

use super::{
    BadRow, FileError, Format, Place, ReadOptions, Records, Stop,
    cell::Cell,
    number_text::{Decimal, Telling, telling},
    source::Input,
    time_text::{TimeTexts, day_first, is_clock, is_date},
    timestamps::{TimeUnit, number, timestamp},
};

/// Records looked at. More would say more of what a column holds, and take longer than a second.
pub const SNIFFED_RECORDS: usize = 10_000;

/// Names of the field with the timestamp, the likeliest first, in lower case.
const TIME_NAMES: [&str; 11] = [
    "timestamp",
    "time",
    "open_time",
    "datetime",
    "date_time",
    "date",
    "ts",
    "t",
    "unix",
    "unix_timestamp",
    "open time",
];

/// Names of the field with the time of day beside one with the date, in lower case.
const CLOCK_NAMES: [&str; 3] = ["time", "time_of_day", "time of day"];

/// Whole numbers of more than this do not fit a column of floats exactly.
const EXACT_MAX: i64 = 1 << 53;

/// Every unit, the coarsest first.
const UNITS: [TimeUnit; 5] =
    [TimeUnit::Seconds, TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos, TimeUnit::Date];

/// What the beginning of a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SniffedFields {
    /// The fields, in their order.
    pub fields: Vec<Field>,
    /// How many records were looked at.
    pub n_records: usize,
    /// Whether dates whose order is open were read in a format.
    has_format: bool,
}

/// Which fields of a file hold the timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFields {
    /// The field with the timestamp, or with its date alone.
    pub name: String,
    /// The field with the time of day, where the other has the date alone.
    pub time_of_day: Option<String>,
    /// What its numbers count; none where it has texts.
    pub unit: Option<TimeUnit>,
}

impl TimeFields {
    /// Whether `field` is one of them.
    #[must_use]
    pub fn contains(&self, field: &str) -> bool {
        self.name == field || self.time_of_day.as_deref() == Some(field)
    }
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
    /// The unit of its numbers, if they are timestamps.
    unit: Option<TimeUnit>,
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

/// What is known of a field so far.
#[derive(Default)]
struct Seen {
    name: String,
    example: Option<String>,
    /// Values that are neither true nor false.
    n_others: usize,
    /// Values that are no number but may be a text.
    n_dashes: usize,
    n_numbers: usize,
    n_number_texts: usize,
    marks: Marks,
    unfit: Option<String>,
    n_values: usize,
    n_timestamps: usize,
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
    /// How many of its numbers are of the size of each of [`UNITS`].
    units: [usize; 5],
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

    /// The field with the timestamp: `named`, or the one that is called like it, or the first that
    /// holds hardly anything else; one with dates alone together with one of times of day.
    ///
    /// # Errors
    /// [`FileError::Columns`] if there is none, or its dates may be read in two ways.
    pub fn time(&self, named: Option<&str>) -> Result<TimeFields, FileError> {
        let by_name =
            |name: &str| self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        let is_time =
            |field: &&Field| field.timestamps >= TimestampShare::Half || field.parts.is_day_first;
        let pair = self.date_and_clock();
        let is_clock = |field: &Field| pair.is_some_and(|(_, clock)| clock.name == field.name);
        let found = match (named, pair) {
            (Some(named), _) => by_name(named),
            (None, None) => TIME_NAMES
                .iter()
                .find_map(|name| by_name(name).filter(is_time))
                .or_else(|| self.fields.iter().find(|field| field.is_likely_time()))
                .or_else(|| self.fields.iter().find(|field| field.parts.is_day_first)),
            (None, Some((date, _))) => {
                let called = TIME_NAMES.iter().find_map(|name| by_name(name).filter(is_time));
                Some(called.unwrap_or(date))
            }
        };
        let none = || {
            let fields: Vec<_> = self.fields.iter().map(|field| field.name.as_str()).collect();
            let fields = fields.join(", ");
            FileError::Columns(match named {
                Some(named) => {
                    format!("find the column {named} with the timestamps among {fields}")
                }
                None => format!(
                    "find the column with the timestamps among {fields}: name it with --time"
                ),
            })
        };
        let found = found.ok_or_else(none)?;
        let (field, clock) = match pair {
            Some((date, clock)) if date.name == found.name || is_clock(found) => {
                (date, Some(clock.name.clone()))
            }
            _ => (found, None),
        };
        if field.parts.is_day_first && !self.has_format {
            return Err(self.date_order(field, clock.as_deref()));
        }
        Ok(TimeFields { name: field.name.clone(), time_of_day: clock, unit: field.unit })
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

    /// The field of dates alone and the one of times of day that belongs to it: called so, or just
    /// after it.
    fn date_and_clock(&self) -> Option<(&Field, &Field)> {
        let (idx, date) = self.fields.iter().enumerate().find(|(_, field)| field.parts.is_date)?;
        let called =
            self.fields.iter().find(|field| field.parts.is_clock && is_called_clock(field));
        let next = self.fields.get(idx + 1).filter(|field| field.parts.is_clock);
        Some((date, called.or(next)?))
    }

    fn date_order(&self, field: &Field, clock: Option<&str>) -> FileError {
        let example = |name: &str| {
            let field = self.fields.iter().find(|field| field.name == name);
            let example = field.and_then(|field| field.example.as_deref()).unwrap_or_default();
            example.trim_matches('`').trim().to_owned()
        };
        let parts = [Some(field.name.as_str()), clock];
        let text: Vec<_> = parts.into_iter().flatten().map(example).collect();
        let reason = TimeTexts::default().read(&text.join(" ")).err();
        let reason = reason.unwrap_or_else(|| "pass --time-format".to_owned());
        FileError::Columns(format!("read the dates of column {}: {reason}", field.name))
    }
}

fn is_called_clock(field: &Field) -> bool {
    CLOCK_NAMES.iter().any(|name| field.name.eq_ignore_ascii_case(name))
}

impl Field {
    /// Whether it holds timestamps though it is not called so: numbers only where they are large, as
    /// prices are timestamps of 1970, too.
    fn is_likely_time(&self) -> bool {
        self.timestamps == TimestampShare::Most
            && match self.unit {
                None => self.dtype == Dtype::String,
                Some(unit) => unit >= TimeUnit::Millis,
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
    let mut seen: Vec<Seen> = Vec::new();
    let (mut n_records, mut first_bad) = (0, None);
    for _ in 0..SNIFFED_RECORDS {
        let read = records.next(&mut |field, name, cell| {
            while seen.len() <= field {
                seen.push(Seen { name: name.to_owned(), ..Seen::default() });
            }
            if let Some(seen) = seen.get_mut(field) {
                seen.look(cell, texts);
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
    let is_typed = options.format == Format::Parquet;
    let fields = seen.into_iter().map(|seen| seen.conclude(is_typed)).collect();
    Ok(SniffedFields { fields, n_records, has_format: texts.format.is_some() })
}

impl Seen {
    fn look(&mut self, cell: Cell<'_>, texts: &TimeTexts) {
        if cell.is_absent() {
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
        self.n_timestamps += usize::from(timestamp(cell, None, texts).is_ok());
        if let Some(text) = cell.plain_text() {
            let is_called_so = CLOCK_NAMES.iter().any(|name| self.name.eq_ignore_ascii_case(name));
            self.n_dates += usize::from(is_date(&text));
            self.n_day_first += usize::from(day_first(&text).is_some());
            self.n_clocks += usize::from(is_clock(&text, is_called_so));
        }
        let unit = number(cell).map(TimeUnit::guess);
        for (of, n_of) in UNITS.into_iter().zip(&mut self.units) {
            *n_of += usize::from(Some(of) == unit);
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

    /// The unit that most of the numbers are of the size of, the finer of two.
    fn unit(&self) -> Option<TimeUnit> {
        let counted = UNITS.into_iter().zip(self.units).filter(|(_, n_of)| *n_of > 0);
        counted.max_by_key(|(_, n_of)| *n_of).map(|(unit, _)| unit)
    }

    /// What it holds; `is_typed` says that the file itself tells whole numbers from others.
    fn conclude(self, is_typed: bool) -> Field {
        // One text among numbers is left to reading to report: a column of texts would hide all.
        let is_float = self.n_numbers > 0 && self.n_numbers * 2 >= self.n_values;
        let dtype = match () {
            () if self.example.is_none() && self.n_dashes == 0 => Dtype::Float,
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
        };
        Field {
            parts,
            has_number_texts: self.n_values > 0 && self.n_number_texts == self.n_values,
            timestamps: self.timestamp_share(),
            unit: self.unit(),
            // One value that is unfit is for reading to report.
            unfit: self.unfit.filter(|_| self.n_values == 0),
            marks: self.marks,
            name: self.name,
            dtype,
            example: self.example,
        }
    }
}
