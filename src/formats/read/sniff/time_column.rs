//! Chooses the field with the timestamps by evidence: its name, the number of its timestamps, how many
//! of them differ, and their order.
//!
//! If two fields are equally likely but have different timestamps, the user has to choose.

use model::timestamp::Timestamp;

use super::super::FileError;
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

/// Words in the names of fields that are not the row's timestamp, even if their values are times, such
/// as deadlines, or increasing numbers. They include words for the end of an interval, since a row is
/// identified by the beginning.
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

/// Names of a field with the hour of the day, if another field has the date, in lower case.
const HOUR_NAMES: [&str; 6] = ["hour", "hr", "he", "hour_ending", "hour ending", "hour of day"];

/// Names of a field that may have the time of day in an unsupported format, if another field has the
/// date. In lower case.
const DAY_PART_NAMES: [&str; 5] = ["hhmm", "hrmn", "hhmmss", "minute", "minutes"];

/// Minimum percentage of distinct values for a field to count as distinct, and of ordered pairs of
/// values for a field to count as ordered.
const DISTINCT_PERCENT: usize = 90;

/// Maximum difference between timestamps of two fields that are considered equal.
const SAME_MICROS: i64 = 1_000_000;

/// Field or fields of a file that contain the timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFields {
    /// Name of the field with the timestamp, or with the date.
    pub name: String,
    /// Name of the field with the time of day, if the other field only has the date.
    pub time_of_day: Option<String>,
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
        self.name == field || self.time_of_day.as_deref() == Some(field)
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

/// A field, or a pair of fields, that may contain the timestamps.
struct Candidate<'a> {
    field: &'a Field,
    time_of_day: Option<&'a Field>,
    strength: NameStrength,
    /// Index of the name among [`TIME_NAMES`].
    name_idx: usize,
    is_distinct: bool,
    /// True if there is more than one distinct timestamp.
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
    fn new(field: &'a Field, time_of_day: Option<&'a Field>) -> Self {
        // For a pair of fields, only the dates are known here, without the times of day.
        let times: &[_] = if time_of_day.is_some() { &[] } else { &field.seen.times };
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
            time_of_day,
            strength: if time_of_day.is_some() { NameStrength::Word } else { strength(field) },
            name_idx: usual_idx(&field.name).unwrap_or(TIME_NAMES.len()),
            is_distinct: is_most(sorted.len(), known.len()),
            has_several: sorted.len() > 1,
            is_ordered: is_most(n_ordered, n_steps),
            times,
        }
    }

    /// Returns the evidence for the candidate, most important first. A name that suggests other values
    /// weighs most, since expiry dates, for example, are often ordered.
    fn evidence(&self) -> (bool, bool, NameStrength, bool) {
        let is_named = self.strength > NameStrength::Other;
        (is_named, self.is_distinct, self.strength, self.is_ordered)
    }

    /// Returns true if both candidates have the same timestamp in every record.
    fn agrees(&self, other: &Self) -> bool {
        let both = self.times.iter().zip(other.times);
        let mut both = both.filter_map(|(one, other)| Some((*one)?.micros() - (*other)?.micros()));
        !self.times.is_empty() && both.all(|apart| apart.abs() < SAME_MICROS)
    }

    /// Returns true if the difference to the other field is the same in every record. If both fields
    /// have no names, the first one is then the beginning of an interval and the other one its end.
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
    /// better and its values are worse.
    fn rivals(&self, best: &Self) -> bool {
        let is_equal = self.evidence() == best.evidence();
        let is_better_named =
            self.strength > best.strength && self.has_several && !self.field.is_date();
        (is_equal || is_better_named) && !best.agrees(self) && !best.begins(self)
    }

    /// Returns the name and an example for error messages.
    fn describe(&self) -> String {
        let fields = [Some(self.field), self.time_of_day];
        let names: Vec<_> = fields.iter().flatten().map(|field| field.name.as_str()).collect();
        format!("{} ({})", names.join(" and "), example(&fields))
    }
}

/// Returns the first value of each field, separated by a space.
fn example(fields: &[Option<&Field>]) -> String {
    let texts = fields.iter().flatten().map(|field| field.example.as_deref().unwrap_or_default());
    let texts: Vec<_> = texts.map(|text| text.trim_matches('`').trim()).collect();
    texts.join(" ")
}

impl SniffedFields {
    /// Returns the field with the timestamp: `named`, or the field with the best evidence. A field with
    /// only dates is combined with a field of times of day. `first_hour` is the number of a day's first
    /// hour if the time of day is an hour, or `None` to detect it from the numbers.
    ///
    /// # Errors
    /// [`FileError::Columns`] unless exactly one field qualifies and its dates or hours are unambiguous.
    pub fn time(
        &self,
        named: Option<&str>,
        first_hour: Option<i8>,
    ) -> Result<TimeFields, FileError> {
        let pair = self.date_and_clock();
        let found = match named {
            Some(named) => {
                let is_named = |field: &&Field| field.name.eq_ignore_ascii_case(named);
                let field = self.fields.iter().find(is_named);
                let field = field.ok_or_else(|| {
                    let names = self.names();
                    FileError::Columns(format!("no column {named} among {names}"))
                })?;
                let in_pair =
                    pair.filter(|(date, clock)| [&date.name, &clock.name].contains(&&field.name));
                in_pair.map_or((field, None), |(date, clock)| (date, Some(clock)))
            }
            None => self.choose(pair)?,
        };
        let (field, clock) = found;
        if field.is_day_first() && !self.has_format {
            return Err(unclear_dates(field, clock));
        }
        let first_hour = match clock.filter(|clock| clock.is_hour()) {
            Some(clock) => Some(first_hour.map_or_else(|| clock.first_hour(), Ok)?),
            None => None,
        };
        let time_of_day = clock.map(|clock| clock.name.clone());
        Ok(TimeFields { name: field.name.clone(), time_of_day, first_hour, unit: None })
    }

    /// Chooses the candidate with the best evidence.
    fn choose<'a>(
        &'a self,
        pair: Option<(&'a Field, &'a Field)>,
    ) -> Result<(&'a Field, Option<&'a Field>), FileError> {
        let is_in_pair = |field: &Field| {
            pair.is_some_and(|(date, clock)| [&date.name, &clock.name].contains(&&field.name))
        };
        let single = self.fields.iter().filter(|field| !is_in_pair(field));
        let candidates = single
            .map(|field| Candidate::new(field, None))
            .chain(pair.map(|(date, clock)| Candidate::new(date, Some(clock))))
            .filter(|it| {
                it.time_of_day.is_some() || it.field.is_time(it.strength > NameStrength::Silent)
            });
        let mut candidates: Vec<_> = candidates.collect();
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
                Ok((best.field, best.time_of_day))
            }
            Some(rival) => Err(FileError::Columns(format!(
                "unclear which column is the time, {} or {}: pass --time-column {} or \
                 --time-column {}",
                best.describe(),
                rival.describe(),
                best.field.name,
                rival.field.name
            ))),
        }
    }

    /// Checks that a field with only dates has no matching field with the time of day in an unsupported
    /// format. Otherwise all rows of a day would get the same timestamp.
    ///
    /// # Errors
    /// [`FileError::Columns`] if there is such a field.
    fn check_day_parts(&self, chosen: &Candidate<'_>) -> Result<(), FileError> {
        let is_part = |field: &&Field| {
            let name = &field.name;
            is_clock_name(name)
                || is_hour_name(name)
                || DAY_PART_NAMES.iter().any(|part| name.eq_ignore_ascii_case(part))
        };
        let date = chosen.field;
        if chosen.time_of_day.is_some() || !date.is_date() || chosen.is_distinct {
            return Ok(());
        }
        match self.fields.iter().filter(|field| field.name != date.name).find(is_part) {
            None => Ok(()),
            Some(part) => Err(FileError::Columns(format!(
                "unclear times of day in column {} ({}) next to {}: write them as 09:30, or pass \
                 --time-column {} to only use the date",
                part.name,
                example(&[Some(part)]),
                date.name,
                date.name
            ))),
        }
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.fields.iter().map(|field| field.name.as_str()).collect();
        names.join(", ")
    }

    /// Explains that no field has timestamps, and why the field with the most likely name was rejected.
    fn no_time(&self) -> FileError {
        let names = self.names();
        let why = self.fields.iter().find_map(|field| {
            let reason = field.seen.no_time.as_ref()?;
            (strength(field) >= NameStrength::Word).then(|| format!("; {}: {reason}", field.name))
        });
        let why = why.unwrap_or_default();
        FileError::Columns(format!(
            "no column with timestamps among {names}: name it with --time-column{why}"
        ))
    }

    /// Returns the field with only dates and the matching field with times of day: a field with a usual
    /// name, the field just after the dates, or a field with hours.
    fn date_and_clock(&self) -> Option<(&Field, &Field)> {
        let (idx, date) = self.fields.iter().enumerate().find(|(_, field)| field.is_date())?;
        let called =
            self.fields.iter().find(|field| field.is_clock() && is_clock_name(&field.name));
        let next = self.fields.get(idx + 1).filter(|field| field.is_clock());
        let hour = || self.fields.iter().find(|field| field.is_hour());
        Some((date, called.or(next).or_else(hour)?))
    }
}

/// Describes the ambiguous dates of a field.
fn unclear_dates(field: &Field, clock: Option<&Field>) -> FileError {
    let text = example(&[Some(field), clock]);
    let reason = TimeTexts::default().read(&text).err();
    let reason = reason.unwrap_or_else(|| "pass --time-format".to_owned());
    FileError::Columns(format!("ambiguous dates in column {}: {reason}", field.name))
}
