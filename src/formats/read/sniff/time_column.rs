//! Chooses the field with the timestamps by evidence: its name, the number of its timestamps, how many
//! of them differ, and their order.
//!
//! If two fields are equally likely but have different timestamps, the user has to choose.

use std::ops::RangeInclusive;

use model::dataset::Dtype;
use model::timestamp::Timestamp;

use super::super::FileError;
use super::super::cell::NO_TIMESTAMP;
use super::super::time_text::TimeTexts;
use super::super::timestamps::TimeUnit;
use super::{Field, SniffedFields};

/// Usual names of the field with the timestamp, in lower case, the most likely first.
const TIME_NAMES: [&str; 14] = [
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
    "unix_time",
    "open time",
    "unixtime",
    "epoch",
];

/// Words in names of times, in lower case.
const TIME_WORDS: [&str; 16] = [
    "time",
    "timestamp",
    "datetime",
    "date",
    "ts",
    "at",
    "day",
    "when",
    "epoch",
    "unix",
    "utc",
    "gmt",
    "month",
    "period",
    "start",
    "begin",
];

/// Words in the names of fields that do not contain the row's timestamp, even if their values look like
/// timestamps: deadlines are times, and ids increase. They include words for the end of an interval,
/// since a row is identified by the beginning of its interval.
const OTHER_WORDS: [&str; 21] = [
    "id",
    "expiry",
    "expiration",
    "expires",
    "expire",
    "maturity",
    "birth",
    "birthday",
    "dob",
    "boot",
    "uptime",
    "elapsed",
    "step",
    "horizon",
    "lead",
    "until",
    "end",
    "close",
    "to",
    "seq",
    "sequence",
];

/// Names of a field with the time of day, if another field has the date, in lower case.
const CLOCK_NAMES: [&str; 3] = ["time", "time_of_day", "time of day"];

/// Names of a field with the hour of the day, if other fields have the date, in lower case.
const HOUR_NAMES: [&str; 6] = ["hour", "hr", "he", "hour_ending", "hour ending", "hour of day"];

/// Name of a field with the hour of the day, if the name of the field with the year is a single letter,
/// too. In other files, `h` is the high of bars.
const HOUR_LETTER: &str = "h";

/// Names of a field that may have the time of day in an unsupported format, if another field has the
/// date. In lower case.
const DAY_PART_NAMES: [&str; 5] = ["hhmm", "hrmn", "hhmmss", "minute", "minutes"];

/// Minimum percentage of distinct values for a field to count as distinct, and of ordered pairs of
/// values for a field to count as ordered.
const DISTINCT_PERCENT: usize = 90;

/// Maximum difference between timestamps of two fields that are considered equal.
const SAME_MICROS: i64 = 1_000_000;

/// Part of a timestamp that is in a field of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimePart {
    /// The date, or its year.
    Date,
    /// The month, if [`Date`](Self::Date) is the year.
    Month,
    /// The day of the month.
    Day,
    /// The time of day, or its hour.
    Clock,
    /// The minute, if [`Clock`](Self::Clock) is the hour.
    Minute,
}

impl TimePart {
    /// Returns the part that a whole number in a field of this name can be, and its range.
    pub(super) fn of_name(name: &str) -> Option<(Self, RangeInclusive<i64>)> {
        let is_in = |names: &[&str]| names.iter().any(|part| name.eq_ignore_ascii_case(part));
        match () {
            () if is_in(&["year", "yr", "yyyy", "y"]) => Some((Self::Date, 1900..=2100)),
            () if is_in(&["month", "mon", "mo", "mm", "m"]) => Some((Self::Month, 1..=12)),
            () if is_in(&["day", "dy", "dd", "d", "day of month"]) => Some((Self::Day, 1..=31)),
            () if is_hour_name(name) || is_in(&[HOUR_LETTER]) => Some((Self::Clock, 0..=24)),
            () if is_in(&["minute", "minutes", "min"]) => Some((Self::Minute, 0..=59)),
            () => None,
        }
    }
}

/// Field or fields of a file that contain the timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFields {
    /// Name of the field with the timestamp, the date or the year.
    pub name: String,
    /// Names of the other fields, if the timestamp is in several fields.
    pub others: Vec<(TimePart, String)>,
    /// Number of the first hour of a day, if the time of day is the number of an hour. `None` if it is a
    /// clock time.
    pub first_hour: Option<i8>,
    /// Unit of numbers, or `None` to detect it from the size of each number.
    pub unit: Option<TimeUnit>,
}

impl TimeFields {
    /// Returns true if `field` is the name of one of these fields.
    #[must_use]
    pub fn contains(&self, field: &str) -> bool {
        self.names().any(|name| name == field)
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().map(|(_, name)| name);
        std::iter::once(&self.name).chain(others).map(String::as_str)
    }
}

/// Strength of the evidence that a field with a certain name has the timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameStrength {
    /// The name suggests other values, or the name is neutral and the values are numbers.
    Other,
    /// The name is neutral.
    Silent,
    /// The name contains a word for time.
    Word,
    /// The name is a usual name of a timestamp field.
    Usual,
}

/// Fields that together may contain the timestamps.
#[derive(Clone)]
struct TimeGroup<'a> {
    /// Field with the date or the year.
    date: &'a Field,
    others: Vec<(TimePart, &'a Field)>,
}

impl<'a> TimeGroup<'a> {
    fn fields(&self) -> impl Iterator<Item = &'a Field> {
        std::iter::once(self.date).chain(self.others.iter().map(|(_, field)| *field))
    }

    fn contains(&self, field: &Field) -> bool {
        self.fields().any(|other| other.name == field.name)
    }

    fn part(&self, part: TimePart) -> Option<&'a Field> {
        self.others.iter().find(|(other, _)| *other == part).map(|(_, field)| *field)
    }
}

/// A field, or a group of fields, that may contain the timestamps.
struct Candidate<'a> {
    field: &'a Field,
    group: Option<TimeGroup<'a>>,
    strength: NameStrength,
    /// Index of the name among [`TIME_NAMES`].
    name_idx: usize,
    is_distinct: bool,
    /// False if at least two timestamps are known and all are equal.
    has_several: bool,
    is_ordered: bool,
    /// Timestamps in the first records.
    times: &'a [Option<Timestamp>],
}

/// Returns true if fields with timestamps often have this name.
pub(in crate::read) fn is_time_name(name: &str) -> bool {
    let name = name.trim().trim_start_matches('<').trim_end_matches('>');
    usual_idx(name).is_some()
}

/// Returns true if a field of this name may have times of day without colons.
pub(super) fn is_clock_name(name: &str) -> bool {
    CLOCK_NAMES.iter().any(|clock| name.eq_ignore_ascii_case(clock))
}

/// Returns true if a field of this name may have hours of a day.
pub(super) fn is_hour_name(name: &str) -> bool {
    HOUR_NAMES.iter().any(|hour| name.eq_ignore_ascii_case(hour))
}

fn usual_idx(name: &str) -> Option<usize> {
    let name = name.trim_start_matches('_'); // InfluxDB names its column `_time`.
    TIME_NAMES.iter().position(|usual| name.eq_ignore_ascii_case(usual))
}

fn strength(field: &Field) -> NameStrength {
    let name = &field.name;
    if usual_idx(name).is_some() {
        return NameStrength::Usual;
    }
    let mut spaced = String::new();
    for letter in name.chars() {
        // quoteTime consists of two words, EXPIRY of a single word.
        if letter.is_uppercase() && spaced.ends_with(char::is_lowercase) {
            spaced.push(' ');
        }
        spaced.push(letter);
    }
    let lower = spaced.to_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_alphabetic());
    let is_of = |list: &[&str]| words.clone().any(|word| list.contains(&word));
    match () {
        () if is_of(&OTHER_WORDS) => NameStrength::Other,
        () if is_of(&TIME_WORDS) || words.any(|word| word.ends_with("time")) => NameStrength::Word,
        () if field.is_number_time() => NameStrength::Other,
        () => NameStrength::Silent,
    }
}

impl<'a> Candidate<'a> {
    fn new(field: &'a Field, group: Option<TimeGroup<'a>>) -> Self {
        // For several fields, at most the dates are known here, without the times of day.
        let times: &[_] = if group.is_some() { &[] } else { &field.seen.times };
        let known: Vec<Timestamp> = times.iter().copied().flatten().collect();
        let mut sorted = known.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let n_steps = known.len().saturating_sub(1);
        let n_of = |is_step: fn(&Timestamp, &Timestamp) -> bool| {
            known.array_windows().filter(|[one, next]| is_step(one, next)).count()
        };
        let n_ordered = n_of(|one, next| one <= next).max(n_of(|one, next| one >= next));
        let is_most = |n_of: usize, n_all: usize| n_of * 100 >= n_all * DISTINCT_PERCENT;
        Self {
            field,
            strength: if group.is_some() { NameStrength::Word } else { strength(field) },
            group,
            name_idx: usual_idx(&field.name).unwrap_or(TIME_NAMES.len()),
            is_distinct: is_most(sorted.len(), known.len()),
            has_several: known.len() <= 1 || sorted.len() > 1,
            is_ordered: is_most(n_ordered, n_steps),
            times,
        }
    }

    /// Returns the evidence for the candidate, most important first. A name that suggests other values
    /// weighs most, since expiry dates, for example, are often ordered.
    fn evidence(&self) -> (bool, bool, bool, NameStrength, bool) {
        let is_named = self.strength > NameStrength::Other;
        (is_named, self.is_distinct, self.has_several, self.strength, self.is_ordered)
    }

    /// Returns true if the timestamps of both candidates are known and equal in every record.
    fn agrees(&self, other: &Self) -> bool {
        let both = self.times.iter().zip(other.times);
        let mut both = both.filter_map(|(one, other)| Some((*one)?.micros() - (*other)?.micros()));
        !self.times.is_empty()
            && !other.times.is_empty()
            && both.all(|apart| apart.abs() < SAME_MICROS)
    }

    /// Returns true if the candidate is the beginning of an interval and `other` is its end: neither
    /// field has a name, and `other` is later by the same time in every record.
    fn begins(&self, other: &Self) -> bool {
        let both = self.times.iter().zip(other.times);
        let apart: Vec<i64> =
            both.filter_map(|(one, other)| Some((*other)?.micros() - (*one)?.micros())).collect();
        let is_numbered = |it: &Self| it.field.name.starts_with("column_");
        let is_same = apart.array_windows().all(|[one, next]| one == next);
        is_numbered(self)
            && is_numbered(other)
            && is_same
            && apart.first().is_some_and(|it| *it > 0)
    }

    /// Returns true if the candidate is as likely as `best`: the evidence is equal, or its name is
    /// better and its values are worse. A candidate with the timestamps of `best`, or with the ends of
    /// intervals that begin at them, does not count.
    fn rivals(&self, best: &Self) -> bool {
        let is_equal = self.evidence() == best.evidence();
        let is_better_named =
            self.strength > best.strength && self.has_several && !self.field.is_date();
        (is_equal || is_better_named) && !best.agrees(self) && !best.begins(self)
    }

    /// Returns the name and an example for error messages.
    fn describe(&self) -> String {
        let fields = match &self.group {
            Some(group) => group.fields().collect(),
            None => vec![self.field],
        };
        let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        format!("{} ({})", names.join(" and "), example(&fields))
    }
}

/// Returns the first value of each field, separated by a space.
fn example(fields: &[&Field]) -> String {
    let texts = fields.iter().map(|field| field.example.as_deref().unwrap_or_default());
    let texts: Vec<_> = texts.map(|text| text.trim_matches('`').trim()).collect();
    texts.join(" ")
}

impl SniffedFields {
    /// Returns the field with the timestamp: `named`, or the field with the best evidence. A field with
    /// only dates is combined with a field of times of day, and a year with its month and day.
    ///
    /// `first_hour` is the number of a day's first hour if the time of day is an hour, or `None` to
    /// detect it from the numbers.
    ///
    /// # Errors
    /// [`FileError::Invalid`] unless exactly one field qualifies and its dates or hours are unambiguous.
    pub fn time(
        &self,
        named: Option<&str>,
        first_hour: Option<i8>,
    ) -> Result<TimeFields, FileError> {
        let group = self.time_group();
        let (field, group) = match named {
            Some(named) => {
                let is_named = |field: &&Field| field.name.eq_ignore_ascii_case(named);
                let field = self.fields.iter().find(is_named);
                let field = field.ok_or_else(|| {
                    let names = self.names();
                    FileError::Invalid(format!("no column {named} among {names}"))
                })?;
                let group = group.filter(|group| group.contains(field));
                (group.as_ref().map_or(field, |group| group.date), group)
            }
            None => self.choose(group)?,
        };
        let clock = group.as_ref().and_then(|group| group.part(TimePart::Clock));
        if field.is_day_first() && !self.has_format {
            return Err(unclear_dates(field, clock));
        }
        if !self.has_format
            && !self.has_unit
            && let Some(doubt) = field.doubt()
        {
            return Err(FileError::Invalid(format!(
                "unclear numbers in column {} ({}): {doubt}",
                field.name,
                example(&[field])
            )));
        }
        let others = group.map(|group| group.others).unwrap_or_default();
        let has_minutes = others.iter().any(|(part, _)| *part == TimePart::Minute);
        let first_hour = match clock.filter(|clock| clock.is_hour() && !has_minutes) {
            Some(clock) => Some(first_hour.map_or_else(|| clock.first_hour(), Ok)?),
            None => None,
        };
        let others = others.into_iter().map(|(part, field)| (part, field.name.clone())).collect();
        Ok(TimeFields { name: field.name.clone(), others, first_hour, unit: field.time_unit() })
    }

    /// Chooses the candidate with the best evidence.
    fn choose<'a>(
        &'a self,
        group: Option<TimeGroup<'a>>,
    ) -> Result<(&'a Field, Option<TimeGroup<'a>>), FileError> {
        let is_in_group =
            |field: &&Field| group.as_ref().is_some_and(|group| group.contains(field));
        let single = self.fields.iter().filter(|field| !is_in_group(field));
        let mut candidates: Vec<_> = single
            .map(|field| Candidate::new(field, None))
            .filter(|it| it.field.is_time(it.strength > NameStrength::Silent))
            .collect();
        candidates.extend(group.map(|group| Candidate::new(group.date, Some(group))));
        candidates.sort_by_key(|it| (std::cmp::Reverse(it.evidence()), it.name_idx));
        let Some(best) = candidates.first() else { return Err(self.no_time()) };
        // In an unnamed field, numbers are only timestamps if the file has no names at all and the
        // numbers are ordered.
        let is_numbered = best.field.name.starts_with("column_");
        let is_sure = best.strength > NameStrength::Other
            || is_numbered && best.is_distinct && best.is_ordered;
        if !is_sure {
            return Err(self.no_time());
        }
        match candidates.iter().skip(1).find(|it| it.rivals(best)) {
            None => {
                self.check_day_parts(best)?;
                Ok((best.field, best.group.clone()))
            }
            Some(rival) => Err(FileError::Invalid(format!(
                "unclear which column is the time, {} or {}: pass --time-column {} or \
                 --time-column {}",
                best.describe(),
                rival.describe(),
                best.field.name,
                rival.field.name
            ))),
        }
    }

    /// Checks that fields with only dates have no matching field with the time of day in an unsupported
    /// format. Otherwise all rows of a day would get the same timestamp.
    ///
    /// # Errors
    /// [`FileError::Invalid`] if there is such a field.
    fn check_day_parts(&self, chosen: &Candidate<'_>) -> Result<(), FileError> {
        let is_part = |field: &&Field| {
            let name = &field.name;
            is_clock_name(name)
                || is_hour_name(name)
                || DAY_PART_NAMES.iter().any(|part| name.eq_ignore_ascii_case(part))
        };
        let date = chosen.field;
        let is_complete = match &chosen.group {
            Some(group) => group.part(TimePart::Clock).is_some(),
            None => !date.is_date() || chosen.is_distinct,
        };
        if is_complete {
            return Ok(());
        }
        match self.fields.iter().filter(|field| field.name != date.name).find(is_part) {
            None => Ok(()),
            Some(part) => Err(FileError::Invalid(format!(
                "unclear times of day in column {} ({}) next to {}: write them as 09:30, or pass \
                 --time-column {} to only use the date",
                part.name,
                example(&[part]),
                date.name,
                date.name
            ))),
        }
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.fields.iter().map(|field| field.name.as_str()).collect();
        names.join(", ")
    }

    /// Explains that no field has timestamps. Includes the reason for rejecting a field with a likely name,
    /// or with a text that is a date but not a valid timestamp.
    fn no_time(&self) -> FileError {
        let names = self.names();
        let why = self.fields.iter().find_map(|field| {
            let reason = field.seen.no_time.as_ref()?;
            let is_date = field.dtype == Dtype::String && !reason.ends_with(NO_TIMESTAMP);
            let is_likely = is_date || strength(field) >= NameStrength::Word;
            is_likely.then(|| format!("; {}: {reason}", field.name))
        });
        let why = why.unwrap_or_default();
        FileError::Invalid(format!(
            "no column with timestamps among {names}: name it with --time-column, and its format with \
             --time-format{why}"
        ))
    }

    /// Returns the fields that have the timestamp together. The date is a field with only dates, or a
    /// year, a month and a day. The time of day is a field with a usual name, the field just after the
    /// date, or a field with hours and possibly one with minutes. A field with dates forms a group only
    /// with a time of day.
    fn time_group(&self) -> Option<TimeGroup<'_>> {
        let find = |part| self.fields.iter().find(|field| field.is_part(part));
        let dated = self.fields.iter().find(|field| field.is_date());
        let (date, mut others) = if let Some(date) = dated {
            (date, Vec::new())
        } else {
            let (month, day) = (find(TimePart::Month)?, find(TimePart::Day)?);
            (find(TimePart::Date)?, vec![(TimePart::Month, month), (TimePart::Day, day)])
        };
        let idx = self.fields.iter().position(|field| field.name == date.name)?;
        let called =
            self.fields.iter().find(|field| field.is_clock() && is_clock_name(&field.name));
        let next = self.fields.get(idx + 1).filter(|field| field.is_clock());
        let has_letters = !others.is_empty() && date.name.len() == 1;
        let is_hour =
            |field: &&Field| field.is_hour() && (is_hour_name(&field.name) || has_letters);
        let clock = called.or(next).or_else(|| self.fields.iter().find(is_hour));
        others.extend(clock.map(|clock| (TimePart::Clock, clock)));
        if clock.is_some_and(Field::is_hour) {
            // `min` is not the minute but a minimum if there is also a `max`, or if the date is a single
            // field, as in `date,hour,min,avg`.
            let has_max = self.fields.iter().any(|field| field.name.eq_ignore_ascii_case("max"));
            let is_minimum = has_max || dated.is_some();
            let is_minute =
                |field: &&Field| !(is_minimum && field.name.eq_ignore_ascii_case("min"));
            let minute = find(TimePart::Minute).filter(is_minute);
            others.extend(minute.map(|minute| (TimePart::Minute, minute)));
        }
        (!others.is_empty()).then_some(TimeGroup { date, others })
    }
}

/// Describes the ambiguous dates of a field.
fn unclear_dates(field: &Field, clock: Option<&Field>) -> FileError {
    let text = example(&[Some(field), clock].into_iter().flatten().collect::<Vec<_>>());
    let reason = TimeTexts::default().read(&text).err();
    let reason = reason.unwrap_or_else(|| "pass --time-format".to_owned());
    FileError::Invalid(format!("ambiguous dates in column {}: {reason}", field.name))
}
