//! Determines the types of fields, and which field is the timestamp, from the beginning of a file.

pub mod time_column;

use std::ops::Range;
use std::path::Path;

use model::dataset::Dtype;
use model::timestamp::Timestamp;

use self::time_column::{TimePart, is_clock_name};
use super::cell::{Cell, exact_integer};
use super::number_text::{Decimal, MarkEvidence, mark_evidence};
use super::source::Input;
use super::time_text::{ReadTime, TimeTexts, day_first, is_clock, is_date};
use super::timestamps::{TimeUnit, is_date_with_hour, is_short_date, timestamp};
use super::{BadRow, FileError, Format, Place, ReadOptions, Records, Stop};

/// Number of records that are examined. Examining more records would be more reliable, but take longer
/// than a second.
pub const SNIFFED_RECORDS: usize = 10_000;

/// Maximum whole number that a column of floats represents exactly.
const EXACT_MAX: u64 = 1 << 53;

/// Range of plausible timestamps, the years 1900 to 2100. Timestamps outside of it are no evidence of a
/// time column.
const PLAUSIBLE: Range<Timestamp> =
    Timestamp::from_seconds(-2_208_988_800)..Timestamp::from_seconds(4_133_980_800);

/// End of the times that a numeric time of day, such as 93000000 or the milliseconds of a day, would be
/// since 1970 in some unit: 1977-06-24.
const DAY_NUMBERS_END: Timestamp = Timestamp::from_seconds(236_000_000);

/// Times since 1970 that ticks of .NET, which count 100 ns since the year 1, would be in nanoseconds for
/// the years 2000 to 2039.
const TICKS: Range<Timestamp> =
    Timestamp::from_seconds(630_822_816)..Timestamp::from_seconds(643_445_856);

/// Number of timestamps of a field that are stored for a comparison with other fields.
const TIMES_KEPT: usize = 2_000;

/// Fields detected at the beginning of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SniffedFields {
    /// Fields, in order.
    pub fields: Vec<Field>,
    /// Number of examined records.
    pub n_records: usize,
    /// True if ambiguous dates were parsed with a format that the caller specified.
    pub(super) has_format: bool,
    /// True if the caller specified the unit of numbers.
    has_unit: bool,
}

/// A field of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name in the header or in the first records.
    pub name: String,
    /// Type of the values. Numbers are floats, unless they are whole and too large to be exact as
    /// floats, or the file declares types.
    pub dtype: Dtype,
    /// First value as written in the file, if there is one.
    pub example: Option<String>,
    /// True if all values are numbers that are written as texts.
    pub has_number_texts: bool,
    /// Reason why the field cannot be a column, for example because it contains lists.
    pub unfit: Option<String>,
    seen: Seen,
}

/// Rules for interpreting values as timestamps.
#[derive(Clone, Copy)]
struct TimeReading<'a> {
    texts: &'a TimeTexts,
    /// Unit of numbers, or `None` to detect it for each number.
    unit: Option<TimeUnit>,
}

/// Number of values of a field that are valid for each possible type. Missing values are not counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Seen {
    name: String,
    example: Option<String>,
    n_values: usize,
    n_not_booleans: usize,
    n_numbers: usize,
    n_fractions: usize,
    /// Number of whole numbers that are too large to be exact as floats.
    n_large: usize,
    /// Number of values that the file does not declare as whole numbers.
    n_undeclared: usize,
    n_number_texts: usize,
    /// Number of dashes, which do not count as values. A dash is not a number but may be a text.
    n_dashes: usize,
    /// Number of quoted texts that would represent a missing value without quotes. Such texts do not
    /// count as values.
    n_quoted_absent: usize,
    /// Reason why the first list or object cannot be stored in a column.
    unfit: Option<String>,
    /// Number of numbers with a decimal point.
    n_points: usize,
    /// Number of numbers with a decimal comma.
    n_commas: usize,
    /// Number of them that are not quoted, and of quoted numbers without a comma. They show that numbers
    /// are not quoted because a comma separates the fields.
    n_freely_quoted: usize,
    /// First number such as `1,234`.
    comma_or_group: Option<String>,
    /// First number such as `1.234`.
    point_or_group: Option<String>,
    /// Number of numbers other than zero that have no marks.
    n_unmarked: usize,
    n_timestamps: usize,
    /// Number of timestamps that are numbers.
    n_number_times: usize,
    /// Number of timestamps that are numbers with the digits of a date and an hour.
    n_dates_with_hour: usize,
    /// Number of timestamps that are numbers with the digits of a date with two digits of the year.
    n_short_dates: usize,
    /// Number of timestamps that are numbers since 1970, and of those in nanoseconds.
    n_counted: usize,
    n_nanos: usize,
    /// Timestamps in the first records.
    times: Vec<Option<Timestamp>>,
    /// Reason why the first value that is not a timestamp was rejected.
    no_time: Option<String>,
    n_dates: usize,
    /// Number of dates that start with the day or the month.
    n_day_first: usize,
    n_clocks: usize,
    /// Number of values that are the year, month, day, hour or minute that the name of the field
    /// suggests.
    n_parts: usize,
    /// Minimum and maximum of the whole numbers of the field.
    parts: Option<(i64, i64)>,
}

impl SniffedFields {
    /// Creates fields that are known to the caller: the timestamp, and other fields with their types.
    #[must_use]
    pub fn declare(time: &str, fields: impl IntoIterator<Item = (String, Dtype)>) -> Self {
        let field = |name, dtype, n_timestamps| {
            let seen = Seen { name, n_values: n_timestamps, n_timestamps, ..Seen::default() };
            Field { dtype, ..seen.conclude(true) }
        };
        let time = field(time.to_owned(), Dtype::String, 1);
        let others = fields.into_iter().map(|(name, dtype)| field(name, dtype, 0));
        Self {
            fields: [time].into_iter().chain(others).collect(),
            n_records: 0,
            has_format: true,
            has_unit: true,
        }
    }

    fn numbers(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.dtype != Dtype::String)
    }

    /// Returns the decimal mark of the numbers.
    ///
    /// # Errors
    /// [`FileError::Invalid`] if both decimal marks are possible.
    pub fn decimal(&self) -> Result<Decimal, FileError> {
        let sum = |count: fn(&Seen) -> usize| self.numbers().map(|field| count(&field.seen)).sum();
        let (n_points, n_commas): (usize, usize) =
            (sum(|seen| seen.n_points), sum(|seen| seen.n_commas));
        let n_freely_quoted: usize = sum(|seen| seen.n_freely_quoted);
        let is_comma = n_commas > n_points;
        let unclear = |seen: &Seen| {
            if is_comma {
                // In a file with commas between fields, a quoted `1,5` can be a pair of numbers, which
                // says nothing about the numbers of other fields.
                let is_unclear = n_freely_quoted == 0 && seen.n_commas == 0;
                return seen.point_or_group.clone().filter(|_| is_unclear);
            }
            // Of 980, 995 and 1.010, the last is a thousand more likely than one.
            let point_or_group = seen.point_or_group.clone().filter(|_| seen.n_unmarked > 0);
            seen.comma_or_group.clone().or(point_or_group).filter(|_| n_points == 0)
        };
        let unclear = self.numbers().find_map(|field| Some((&field.name, unclear(&field.seen)?)));
        match unclear {
            Some((field, example)) => Err(FileError::Invalid(format!(
                "unclear numbers in column {field}: {example} has a group mark or a fraction: \
                 pass --decimal . or --decimal ,"
            ))),
            None if is_comma => Ok(Decimal::Comma),
            None => Ok(Decimal::Point),
        }
    }

    /// Returns a number with a decimal point that would be a thousand times greater with a decimal
    /// comma, if no number of the file shows which mark it has.
    #[must_use]
    pub fn possible_group(&self) -> Option<&str> {
        if self.numbers().any(|field| field.seen.n_points > 0) {
            return None;
        }
        self.numbers().find_map(|field| field.seen.point_or_group.as_deref())
    }
}

impl Field {
    /// Returns true if the field contains timestamps: at least half of its values must be timestamps if
    /// its name suggests that (`is_called_so`), otherwise nine in ten. Ambiguous dates count as
    /// timestamps. Other values are reported when the file is read.
    fn is_time(&self, is_called_so: bool) -> bool {
        let Seen { n_timestamps, n_values, .. } = self.seen;
        let is_half = n_timestamps > 0 && n_timestamps * 2 >= n_values;
        self.is_day_first() || self.seen.is_most(n_timestamps) || is_called_so && is_half
    }

    /// Returns true if the timestamps of the field are numbers.
    const fn is_number_time(&self) -> bool {
        self.seen.n_number_times * 2 > self.seen.n_timestamps
    }

    /// Returns the unit of numbers, or `None` if it is detected for each number.
    fn time_unit(&self) -> Option<TimeUnit> {
        let Seen { n_dates_with_hour, n_values, .. } = self.seen;
        (n_dates_with_hour > 0 && n_dates_with_hour == n_values).then_some(TimeUnit::Date)
    }

    /// Describes numbers that are probably no times since 1970, although they would be plausible ones.
    fn doubt(&self) -> Option<&'static str> {
        let Seen { n_counted, n_nanos, n_short_dates, n_values, .. } = self.seen;
        let times = self.seen.times.iter().flatten();
        let (first, last) = (times.clone().min()?, times.max()?);
        match () {
            () if n_counted < n_values || self.time_unit().is_some() => None,
            () if *last < DAY_NUMBERS_END => {
                Some("they can be times of day: write them as 09:30, or pass --time-unit")
            }
            () if n_nanos == n_values && TICKS.contains(first) && TICKS.contains(last) => {
                Some("they can be ticks of .NET: convert them, or pass --time-unit ns")
            }
            () if n_short_dates == n_values && n_values > 1 => {
                Some("they can be dates: pass --time-format %y%m%d%H%M or --time-unit")
            }
            () => None,
        }
    }

    const fn is_date(&self) -> bool {
        self.seen.is_most(self.seen.n_dates)
    }

    const fn is_day_first(&self) -> bool {
        self.seen.is_most(self.seen.n_day_first)
    }

    const fn is_clock(&self) -> bool {
        self.seen.is_most(self.seen.n_clocks)
    }

    /// Returns true if the name of the field suggests hours and its values are hours of a day.
    fn is_hour(&self) -> bool {
        self.is_part(TimePart::Clock) && !self.is_clock()
    }

    /// Returns true if the name of the field suggests this part of a timestamp and its values fit.
    fn is_part(&self, part: TimePart) -> bool {
        self.seen.is_most(self.seen.n_parts)
            && TimePart::of_name(&self.name).is_some_and(|(named, _)| named == part)
    }

    /// Returns the number of the first hour of a day, determined from the values.
    ///
    /// # Errors
    /// [`FileError::Invalid`] if neither 0 nor 24 occurs, or both do.
    fn first_hour(&self) -> Result<i8, FileError> {
        match self.seen.parts {
            Some((0, ..=23)) => Ok(0),
            Some((1, 24..)) => Ok(1),
            hours => {
                let (least, most) = hours.unwrap_or_default();
                Err(FileError::Invalid(format!(
                    "unclear hours in column {}, {least} to {most}: pass --first-hour 0 or \
                     --first-hour 1",
                    self.name
                )))
            }
        }
    }
}

/// Examines the first records of the file at `path`. Invalid records are skipped, since they are
/// reported when the file is read.
///
/// # Errors
/// [`FileError`], in particular [`FileError::Empty`] if there are no records.
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
            let is_quoted = matches!(cell, Cell::Text(_));
            let cell = match cell {
                // In CSV, a quoted text can be a number, too.
                Cell::Text(text)
                    if options.format == Format::Csv && !Cell::Bare(text).is_absent() =>
                {
                    Cell::Bare(text)
                }
                cell => cell,
            };
            if let Some(seen) = seen.get_mut(field) {
                seen.look(cell, is_quoted, reading, n_records);
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
            return Err(FileError::Invalid(format!("line {line}: {reason}")));
        }
    }
    let fields = seen.into_iter().map(|seen| seen.conclude(is_typed)).collect();
    let (has_format, has_unit) = (texts.format.is_some(), options.time_unit.is_some());
    Ok(SniffedFields { fields, n_records, has_format, has_unit })
}

impl Seen {
    fn look(
        &mut self,
        cell: Cell<'_>,
        is_quoted: bool,
        reading: TimeReading<'_>,
        record_idx: usize,
    ) {
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
        self.n_not_booleans += usize::from(cell.boolean().is_none());
        if cell.is_number() {
            self.n_numbers += 1;
            self.n_fractions += usize::from(cell.integer().is_none());
        }
        self.n_number_texts +=
            usize::from(matches!(cell, Cell::Text(text) if Cell::Bare(text).is_number()));
        if let Cell::Bare(text) = cell {
            let is_comma_free_number = !text.contains(',') && cell.is_number();
            self.n_freely_quoted += usize::from(is_quoted && is_comma_free_number);
            match mark_evidence(text) {
                MarkEvidence::Nothing => {
                    let is_zero = cell.float() == Some(0.0);
                    self.n_unmarked += usize::from(cell.is_number() && !is_zero);
                }
                MarkEvidence::Only(Decimal::Point) => self.n_points += 1,
                MarkEvidence::Only(Decimal::Comma) => {
                    self.n_commas += 1;
                    self.n_freely_quoted += usize::from(!is_quoted);
                }
                MarkEvidence::CommaOrGroup => {
                    self.comma_or_group.get_or_insert_with(|| cell.describe());
                }
                MarkEvidence::PointOrGroup => {
                    self.point_or_group.get_or_insert_with(|| cell.describe());
                }
            }
        }
        let is_large = cell.integer().is_some_and(|number| number.unsigned_abs() > EXACT_MAX);
        self.n_large += usize::from(is_large);
        self.n_undeclared += usize::from(!matches!(cell, Cell::Integer(_) | Cell::Large(_)));
        self.n_values += 1;
        self.look_for_times(cell, reading, record_idx);
    }

    fn look_for_times(&mut self, cell: Cell<'_>, reading: TimeReading<'_>, record_idx: usize) {
        let whole = number(cell).and_then(exact_integer);
        let has_hour = reading.unit.is_none() && whole.is_some_and(is_date_with_hour);
        self.n_dates_with_hour += usize::from(has_hour);
        let unit = if has_hour { Some(TimeUnit::Date) } else { reading.unit };
        match timestamp(cell, unit, reading.texts) {
            Ok(read) if PLAUSIBLE.contains(&read.at) => {
                self.n_timestamps += 1;
                self.n_number_times += usize::from(number(cell).is_some());
                self.n_short_dates += usize::from(whole.is_some_and(is_short_date));
                let unit = number(cell).and_then(TimeUnit::guess);
                self.n_counted += usize::from(unit.is_some_and(|unit| unit != TimeUnit::Date));
                self.n_nanos += usize::from(unit == Some(TimeUnit::Nanos));
                if record_idx < TIMES_KEPT {
                    self.times.resize(record_idx, None);
                    self.times.push(Some(read.at));
                }
            }
            Ok(ReadTime { at, .. }) => {
                let reason = || format!("{at} is outside the years 1900 to 2100");
                self.no_time.get_or_insert_with(reason);
            }
            Err(reason) => drop(self.no_time.get_or_insert(reason)),
        }
        if let Some((_, range)) = TimePart::of_name(&self.name)
            && let Some(part) = whole
        {
            self.n_parts += usize::from(range.contains(&part));
            let (least, most) = self.parts.unwrap_or((part, part));
            self.parts = Some((least.min(part), most.max(part)));
        }
        if let Some(text) = cell.plain_text() {
            self.n_dates += usize::from(is_date(&text));
            self.n_day_first += usize::from(day_first(&text).is_some());
            self.n_clocks += usize::from(is_clock(&text, is_clock_name(&self.name)));
        }
    }

    /// Returns true if `n_of` is at least nine tenths of the number of values.
    const fn is_most(&self, n_of: usize) -> bool {
        n_of > 0 && n_of * 10 >= self.n_values * 9
    }

    /// Returns the field. `is_typed` is true if the file distinguishes integers from other numbers.
    fn conclude(self, is_typed: bool) -> Field {
        // If a few texts are among numbers, the type is a number and the texts are reported when the
        // file is read. A column of texts would hide them.
        let is_float = self.n_numbers > 0 && self.n_numbers * 2 >= self.n_values;
        let dtype = match () {
            () if self.example.is_none() && self.n_dashes + self.n_quoted_absent == 0 => {
                Dtype::Float
            }
            () if self.example.is_none() => Dtype::String,
            () if self.n_not_booleans == 0 => Dtype::Boolean,
            () if is_typed && self.n_undeclared == 0 => Dtype::Integer,
            () if is_float && self.n_fractions == 0 && self.n_large > 0 => Dtype::Integer,
            () if is_float => Dtype::Float,
            () => Dtype::String,
        };
        Field {
            name: self.name.clone(),
            dtype,
            example: self.example.clone(),
            has_number_texts: self.n_values > 0 && self.n_number_texts == self.n_values,
            // A field is a column if at least one of its values can be stored. Other values are reported
            // when the file is read.
            unfit: self.unfit.clone().filter(|_| self.n_values == 0),
            seen: self,
        }
    }
}

/// Returns the value of a number, also if it is written in a text.
fn number(cell: Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Text(text) => Cell::Bare(text).float(),
        cell => cell.float(),
    }
}
