//! Parses dates and times in files: ISO 8601 with or without separators, or a format of strptime. Texts
//! without an offset are in a given time zone.

use std::str::FromStr;

use jiff::Zoned;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{self, AmbiguousOffset, TimeZone};
use model::timestamp::{Timestamp, has_leap_second};

use super::cell::{NO_TIMESTAMP, TypedTime, WrittenZone, exact_integer};

/// Number of stored digits of a fraction of a second, which gives microseconds.
const FRACTION_DIGITS: usize = 6;

/// Error for a time that the clock shows twice.
pub(super) const TWICE: &str =
    "the clock shows it twice in this time zone: pass --ambiguous earlier or later";

/// A parsed timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadTime {
    pub(super) at: Timestamp,
    /// True if the text has a higher precision than microseconds.
    pub(super) is_cut: bool,
    /// The later timestamp at which the clock shows the same time, if the order of the rows decides
    /// which one is meant.
    pub(super) later: Option<Timestamp>,
}

impl ReadTime {
    /// Creates a timestamp that is exact and unambiguous.
    pub(super) const fn exact(at: Timestamp) -> Self {
        Self { at, is_cut: false, later: None }
    }
}

/// Interpretation of a time that the clock shows twice because it is set back in autumn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = no_ambiguous)]
pub enum Ambiguous {
    /// By the order of the rows, if the file contains the hour twice. Otherwise the time is rejected.
    #[default]
    #[strum(disabled)]
    ByOrder,
    /// The earlier timestamp, before the clock is set back.
    Earlier,
    /// The later timestamp.
    Later,
    /// The time is rejected, whatever the order of the rows.
    Reject,
}

fn no_ambiguous(_: &str) -> String {
    "unknown interpretation of ambiguous times; expected earlier, later or reject".to_owned()
}

/// Rules for parsing texts as timestamps. Without a format, RFC 3339 and similar formats are accepted.
/// Timestamps are in UTC unless a zone or the text specifies otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeTexts {
    /// Format of all texts.
    pub format: Option<TimeFormat>,
    /// Zone of texts without an offset.
    pub zone: Zone,
    /// Interpretation of times that the clock of the zone shows twice.
    pub ambiguous: Ambiguous,
}

/// A format of strptime such as `%d/%m/%Y %H:%M`. Without a day, it is the first day of the month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFormat(String);

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// An invalid format or zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeTextError {
    /// The format has an unknown directive.
    #[error("invalid time format: {0}; an example is '%d/%m/%Y %H:%M'")]
    Format(String),
    /// The zone is neither an offset nor in this system's time zone database.
    #[error(
        "unknown time zone `{0}`: pass an offset such as +02:00, UTC, or a name such as \
             America/New_York (of this system's time zone database)"
    )]
    Zone(String),
    /// This system has no time zone database.
    #[error("{NO_ZONES}")]
    NoZones,
}

/// Error text if this system has no time zone database, so that no name of a zone is known.
pub const NO_ZONES: &str = "no time zone database on this machine: install the package tzdata, or set \
                            TZDIR to the directory of a database";

/// Returns true if this system has a time zone database.
#[must_use]
pub fn has_zones() -> bool {
    !tz::db().is_definitively_empty()
}

/// Returns the error for an unknown time zone.
fn unknown_zone(text: &str, has_zones: bool) -> TimeTextError {
    if has_zones { TimeTextError::Zone(text.to_owned()) } else { TimeTextError::NoZones }
}

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for TimeFormat {
    type Err = TimeTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let printed =
            strtime::format(text, &Zoned::new(jiff::Timestamp::UNIX_EPOCH, TimeZone::UTC));
        match printed {
            Ok(_) if text.contains('%') => Ok(Self(text.to_owned())),
            Ok(_) => Err(TimeTextError::Format("it has no %".to_owned())),
            Err(error) => Err(TimeTextError::Format(error.to_string())),
        }
    }
}

impl FromStr for Zone {
    type Err = TimeTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(offset) = offset(text) {
            return Ok(Self(offset));
        }
        TimeZone::get(text).map(Self).map_err(|_| unknown_zone(text, has_zones()))
    }
}

impl Zone {
    /// Returns the timestamp of a date and time in the zone.
    ///
    /// # Errors
    /// If the clock skips the time, if it is out of range, or if the clock shows it twice and
    /// `ambiguous` rejects that.
    fn timestamp(&self, at: DateTime, ambiguous: Ambiguous) -> Result<ReadTime, String> {
        let found = self.0.to_ambiguous_timestamp(at);
        let micros = |at: Result<jiff::Timestamp, jiff::Error>| {
            let at = at.map_err(|error| error.to_string())?;
            Ok::<_, String>(Timestamp::from_micros(at.as_microsecond()))
        };
        match (found.offset(), ambiguous) {
            (AmbiguousOffset::Unambiguous { .. }, _) => {
                micros(found.unambiguous()).map(ReadTime::exact)
            }
            (AmbiguousOffset::Gap { .. }, _) => {
                Err("the clock skips it in this time zone".to_owned())
            }
            (AmbiguousOffset::Fold { .. }, Ambiguous::Reject) => Err(TWICE.to_owned()),
            (AmbiguousOffset::Fold { .. }, Ambiguous::Earlier) => {
                micros(found.earlier()).map(ReadTime::exact)
            }
            (AmbiguousOffset::Fold { .. }, Ambiguous::Later) => {
                micros(found.later()).map(ReadTime::exact)
            }
            (AmbiguousOffset::Fold { .. }, Ambiguous::ByOrder) => {
                let later = Some(micros(found.later())?);
                Ok(ReadTime { later, ..ReadTime::exact(micros(found.earlier())?) })
            }
        }
    }
}

impl TimeTexts {
    /// Parses a date, with or without a time, with or without an offset.
    ///
    /// # Errors
    /// Human-readable description of the error.
    pub(super) fn read(&self, text: &str) -> Result<ReadTime, String> {
        let text = text.trim();
        if let Some(format) = &self.format {
            return self.read_format(format, text);
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(ReadTime { is_cut: is_finer(text), ..ReadTime::exact(at) });
        }
        if has_leap_second(text) {
            return Err(describe_leap_second(text));
        }
        if let Some(formats) = day_first(text) {
            let first = match formats.as_str() {
                formats if formats.contains(" or ") => "can begin with the day or the month",
                formats if formats.starts_with("'%d") => "begins with the day",
                _ => "begins with the month",
            };
            return Err(format!("`{text}` {first}: pass --time-format {formats}"));
        }
        let none = || format!("`{}` {NO_TIMESTAMP}", super::cell::shorten(text));
        let (date, rest) = date(text).ok_or_else(none)?;
        let (time, rest) = match rest.trim_start_matches(['T', ' ', '\t', '_']) {
            "" => (Time::midnight(), ""),
            rest => clock(rest).ok_or_else(none)?,
        };
        let at = date.to_datetime(time);
        let read = match rest.trim() {
            "" => self.zone.timestamp(at, self.ambiguous),
            rest => Zone(offset(rest).ok_or_else(none)?).timestamp(at, self.ambiguous),
        };
        let read = read.map_err(|reason| format!("`{text}`: {reason}"))?;
        Ok(ReadTime { is_cut: is_finer(text), ..read })
    }

    /// Parses a date and combines it with the number of an hour. The first hour of a day is
    /// `first_hour`.
    ///
    /// # Errors
    /// Human-readable description of the error.
    pub(super) fn read_hour(
        &self,
        date_text: &str,
        hour: &str,
        first_hour: i8,
    ) -> Result<ReadTime, String> {
        let none =
            || format!("`{hour}` is not an hour of a day that begins with hour {first_hour}");
        let number: f64 = hour.parse().map_err(|_| none())?;
        let number = exact_integer(number).and_then(|number| i8::try_from(number).ok());
        let number = number.and_then(|number| number.checked_sub(first_hour)).ok_or_else(none)?;
        let time = Time::new(number, 0, 0, 0).map_err(|_| none())?;
        if self.format.is_some() || day_first(date_text).is_some() {
            return self.read(&format!("{date_text} {}", time.strftime("%H:%M")));
        }
        let (date, rest) = date(date_text).ok_or_else(|| format!("`{date_text}` is not a date"))?;
        if !rest.is_empty() {
            return Err(format!("`{date_text}` is not a date without a time"));
        }
        let read = self.zone.timestamp(date.to_datetime(time), self.ambiguous);
        read.map_err(|reason| format!("`{date_text}` hour {hour}: {reason}"))
    }

    /// Returns the timestamp of a value from a format with types. Applies the time zone if the file
    /// declares none.
    ///
    /// # Errors
    /// If the clock of the zone skips the time or shows it twice.
    pub(super) fn resolve(&self, time: TypedTime) -> Result<ReadTime, String> {
        let TypedTime { at, is_cut, zone } = time;
        if zone == WrittenZone::Utc || self.zone == Zone::default() {
            return Ok(ReadTime { is_cut, ..ReadTime::exact(at) });
        }
        let civil = jiff::Timestamp::from_microsecond(at.micros());
        let civil = civil.map_err(|error| error.to_string())?.to_zoned(TimeZone::UTC).datetime();
        let read = self.zone.timestamp(civil, self.ambiguous);
        Ok(ReadTime { is_cut, ..read.map_err(|reason| format!("{civil}: {reason}"))? })
    }

    fn read_format(&self, format: &TimeFormat, text: &str) -> Result<ReadTime, String> {
        let none =
            |_| format!("`{}` is not in the format {}", super::cell::shorten(text), format.0);
        let mut broken = strtime::parse(&format.0, text).map_err(none)?;
        if broken.month().is_some() && broken.day().is_none() {
            broken.set_day(Some(1)).map_err(none)?;
        }
        let whole = broken.to_timestamp();
        let (read, nanos) = match (whole, broken.to_datetime()) {
            (Ok(at), _) => {
                let read = ReadTime::exact(Timestamp::from_micros(at.as_microsecond()));
                (read, at.subsec_nanosecond())
            }
            (Err(_), Ok(at)) => {
                let read = self.zone.timestamp(at, self.ambiguous);
                let read = read.map_err(|reason| format!("`{text}`: {reason}"))?;
                (read, at.subsec_nanosecond())
            }
            (Err(_), Err(error)) => return Err(none(error)),
        };
        if read.at.seconds().rem_euclid(60) == 59 && is_leap_second(text) {
            return Err(describe_leap_second(text));
        }
        Ok(ReadTime { is_cut: nanos % 1_000 != 0, ..read })
    }

    /// Returns the start of a date that is written as a number such as 20260101, or the time that is
    /// written as a number such as 20260101153000.
    pub(super) fn read_digits(&self, number: i64) -> Option<ReadTime> {
        self.zone.timestamp(digits(number)?, self.ambiguous).ok()
    }

    /// Returns the start of a month. January is 1.
    pub(super) fn read_month(&self, year: i64, month: i64) -> Option<ReadTime> {
        let (year, month) = (i16::try_from(year).ok()?, i8::try_from(month).ok()?);
        let date = Date::new(year, month, 1).ok()?;
        self.zone.timestamp(date.to_datetime(Time::midnight()), self.ambiguous).ok()
    }
}

/// Returns the date and time that are written as a number, or `None` outside of the years 1900 to 2099.
pub(super) fn digits(number: i64) -> Option<DateTime> {
    /// Number of digits of a date such as 20260101, and with an hour, a minute and a second.
    const LENGTHS: [usize; 4] = [8, 10, 12, 14];
    let text = u64::try_from(number).ok()?.to_string();
    let (date, rest) = date(&text)?;
    if !LENGTHS.contains(&text.len()) || !(1900..2100).contains(&date.year()) {
        return None;
    }
    let time = match rest {
        "" => Time::midnight(),
        hour if hour.len() == 2 => Time::new(hour.parse().ok()?, 0, 0, 0).ok()?,
        rest => clock(rest)?.0,
    };
    Some(date.to_datetime(time))
}

/// Returns true if `text` is a date without a time, in any order.
pub(super) fn is_date(text: &str) -> bool {
    let text = text.trim();
    date(text).is_some_and(|(_, rest)| rest.is_empty())
        || day_first(text).is_some_and(|formats| !formats.contains(['H', 'I']))
}

/// Returns true if `text` is a time of day. A text without colons and without two points only counts if
/// the name of the field suggests it (`is_called_so`).
pub(super) fn is_clock(text: &str, is_called_so: bool) -> bool {
    let text = text.trim();
    let has_marks = text.contains(':') || text.matches('.').count() == 2;
    (is_called_so || has_marks) && clock(text).is_some_and(|(_, rest)| rest.is_empty())
}

/// Returns the possible formats of a date that begins with the day or the month, or `None` for other
/// texts.
pub(super) fn day_first(text: &str) -> Option<String> {
    let text = text.trim();
    let (first, rest) = number(text, 1, 2)?;
    let mark = rest.chars().next().filter(|mark| "/.-".contains(*mark))?;
    let (second, rest) = number(rest.strip_prefix(mark)?, 1, 2)?;
    let (_, rest) = number(rest.strip_prefix(mark)?, 4, 4)?;
    let time = clock_format(rest.trim_start_matches([' ', 'T']))?;
    let day_first = format!("'%d{mark}%m{mark}%Y{time}'");
    let month_first = format!("'%m{mark}%d{mark}%Y{time}'");
    match (first, second) {
        (13.., _) => Some(day_first),
        (_, 13..) => Some(month_first),
        _ => Some(format!("{day_first} or {month_first}")),
    }
}

/// Returns the format of a time of day, preceded by a space. An empty text gives an empty format.
/// Returns `None` if `text` is not a time of day.
fn clock_format(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some(String::new());
    }
    let n_points = text.matches('.').count();
    let mark = match text.contains(':') {
        true => ':',
        false if n_points > 1 => '.',
        false => return None,
    };
    let (hour, half) =
        if text.to_ascii_lowercase().ends_with('m') { ("%I", " %p") } else { ("%H", "") };
    let second = match text.matches(mark).count() > 1 {
        true if mark == ':' && n_points > 0 => format!("{mark}%S%.f"),
        true => format!("{mark}%S"),
        false => String::new(),
    };
    Some(format!(" {hour}{mark}%M{second}{half}"))
}

/// Parses a date that begins with the year and returns the rest.
fn date(text: &str) -> Option<(Date, &str)> {
    let (year, rest) = number(text, 4, 4)?;
    let (month, day, rest) = if let Some(mark @ ('-' | '.' | '/')) = rest.chars().next() {
        let (month, rest) = number(rest.strip_prefix(mark)?, 1, 2)?;
        let (day, rest) = number(rest.strip_prefix(mark)?, 1, 2)?;
        (month, day, rest)
    } else {
        let (month, rest) = number(rest, 2, 2)?;
        let (day, rest) = number(rest, 2, 2)?;
        (month, day, rest)
    };
    let small = |number: i32| i8::try_from(number).ok();
    let date = Date::new(i16::try_from(year).ok()?, small(month)?, small(day)?).ok()?;
    Some((date, rest))
}

/// Parses a time of day with colons, with two points (18.00.00), or as 4, 6 or 9 digits, followed by an
/// optional AM or PM. Returns the rest.
fn clock(text: &str) -> Option<(Time, &str)> {
    let n_digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (hour, minute, second, rest) = match n_digits {
        1 | 2 => {
            let (hour, rest) = number(text, 1, 2)?;
            let mark = rest.chars().next().filter(|mark| [':', '.'].contains(mark))?;
            let (minute, rest) = number(rest.strip_prefix(mark)?, 2, 2)?;
            let (second, rest) = match rest.strip_prefix(mark) {
                Some(rest) => number(rest, 2, 2)?,
                // 18.00 is a number, not a time.
                None if mark == '.' => return None,
                None => (0, rest),
            };
            (hour, minute, second, rest)
        }
        4 | 6 | 9 => {
            let (hour, rest) = number(text, 2, 2)?;
            let (minute, rest) = number(rest, 2, 2)?;
            let (second, rest) = if n_digits == 4 { (0, rest) } else { number(rest, 2, 2)? };
            (hour, minute, second, rest)
        }
        _ => return None,
    };
    let fraction = if n_digits == 9 { Some(rest) } else { rest.strip_prefix(['.', ',']) };
    let (nanos, rest) = match fraction {
        None => (0, rest),
        Some(fraction) => {
            let end = fraction.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, rest) = fraction.split_at_checked(end)?;
            let kept: String = digits.chars().chain("000000000".chars()).take(9).collect();
            (kept.parse().ok().filter(|_| end > 0)?, rest)
        }
    };
    let (hour, rest) = half_day(hour, rest)?;
    let small = |number: i32| i8::try_from(number).ok();
    let time = Time::new(small(hour)?, small(minute)?, small(second)?, nanos).ok()?;
    Some((time, rest))
}

/// Adjusts the hour if AM or PM follows. Returns the rest of the text.
fn half_day(hour: i32, rest: &str) -> Option<(i32, &str)> {
    let (first_pm, after) = match rest.trim_start().split_at_checked(2) {
        Some((half, after)) if half.eq_ignore_ascii_case("am") => (0, after),
        Some((half, after)) if half.eq_ignore_ascii_case("pm") => (12, after),
        _ => return Some((hour, rest)),
    };
    (1..=12).contains(&hour).then_some((hour % 12 + first_pm, after))
}

/// Parses an offset from UTC: `Z`, `UTC`, `+02:00`, `+0200` or `+02`.
fn offset(text: &str) -> Option<TimeZone> {
    if ["Z", "z", "UTC", "GMT"].contains(&text) {
        return Some(TimeZone::UTC);
    }
    let is_offset = text.starts_with(['+', '-']);
    DateTimeParser::new().parse_time_zone(text).ok().filter(|_| is_offset)
}

/// Parses a number of `min` to `max` digits and returns the rest.
fn number(text: &str, min: usize, max: usize) -> Option<(i32, &str)> {
    let n_digits = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(n_digits)?;
    (n_digits >= min).then(|| Some((digits.parse().ok()?, rest)))?
}

fn describe_leap_second(text: &str) -> String {
    format!("`{text}` is a leap second, which is not supported")
}

/// Returns true if a text is written with the second 60, which was parsed as 59.
fn is_leap_second(text: &str) -> bool {
    text.contains(":60") || text.contains("5960") && !text.contains(['.', ','])
}

/// Returns true if a text has a fraction of a second that is more precise than microseconds.
fn is_finer(text: &str) -> bool {
    let fraction = text.rsplit_once(['.', ',']).map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    digits.skip(FRACTION_DIGITS).any(|digit| digit != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, zone: &str, format: Option<&str>, want: &str) {
        let format = format.map(|format| format.parse().unwrap());
        let texts = TimeTexts { format, zone: zone.parse().unwrap(), ..TimeTexts::default() };
        let got = match texts.read(text) {
            Ok(ReadTime { at, later: Some(later), .. }) => format!("{at} or {later}"),
            Ok(ReadTime { at, is_cut: false, .. }) => at.to_string(),
            Ok(ReadTime { at, is_cut: true, .. }) => format!("{at} cut"),
            Err(reason) => reason,
        };
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn dates_are_parsed_with_any_separator() {
        for text in ["2026-07-30", "2026.07.30", "2026/7/30", "20260730", "20260730 000000"] {
            check(text, "UTC", None, "2026-07-30T00:00:00Z");
        }
        check("2026.07.30 21:57", "UTC", None, "2026-07-30T21:57:00Z");
        check("20120201 000003660", "UTC", None, "2012-02-01T00:00:03.66Z");
        check("2026-07-30T21:57:00,5+0200", "UTC", None, "2026-07-30T19:57:00.5Z");
        check("2026-07-30 21:57:00.123456789", "UTC", None, "2026-07-30T21:57:00.123456Z cut");
        check("2026-02-30", "UTC", None, "`2026-02-30` is not a timestamp");
        assert!(digits(20_260_101).is_some() && digits(20_261_301).is_none());
        assert!(digits(20_260_101_153_000).is_some() && digits(1_700_000_000_000).is_none());
        assert!(digits(2_026_010_123).is_some() && digits(2_026_010_124).is_none());
        assert!(digits(202_601_012_359).is_some() && digits(202_601_012_360).is_none());
    }

    #[test]
    fn time_zone_applies_only_to_times_without_an_offset() {
        check("2026-01-02 00:00", "-05:00", None, "2026-01-02T05:00:00Z");
        check("2026-01-02T00:00:00Z", "-05:00", None, "2026-01-02T00:00:00Z");
        check("2026-07-01", "Europe/Zurich", None, "2026-06-30T22:00:00Z");
        let skipped = "`2026-03-29 02:30`: the clock skips it in this time zone";
        check("2026-03-29 02:30", "Europe/Zurich", None, skipped);
        assert!("Mars/Base".parse::<Zone>().unwrap_err().to_string().contains("unknown time zone"));
        assert!(
            unknown_zone("Europe/Berlin", false).to_string().contains("install the package tzdata")
        );
    }

    #[test]
    fn ambiguous_date_is_rejected_with_the_possible_formats() {
        for want in [
            "`01/02/2026` can begin with the day or the month: pass --time-format '%d/%m/%Y' or \
             '%m/%d/%Y'",
            "`30.07.2026 9:30` begins with the day: pass --time-format '%d.%m.%Y %H:%M'",
            "`03/15/2026` begins with the month: pass --time-format '%m/%d/%Y'",
        ] {
            let text = want.split('`').nth(1).unwrap();
            check(text, "UTC", None, want);
        }
        check("01/02/2026", "UTC", Some("%d/%m/%Y"), "2026-02-01T00:00:00Z");
        check("01/02/2026 15:30", "+01:00", Some("%m/%d/%Y %H:%M"), "2026-01-02T14:30:00Z");
        check("2024-02", "UTC", Some("%Y-%m"), "2024-02-01T00:00:00Z");
        let want = "`x` is not in the format %m/%d/%Y";
        check("x", "UTC", Some("%m/%d/%Y"), want);
        assert!("%d/%!".parse::<TimeFormat>().is_err() && "d".parse::<TimeFormat>().is_err());
    }

    #[test]
    fn repeated_local_time_is_interpreted_as_requested() {
        let both = "2026-10-25T00:30:00Z or 2026-10-25T01:30:00Z";
        check("2026-10-25 02:30", "Europe/Zurich", None, both);
        check("2026-10-25 02:30", "Europe/Zurich", Some("%Y-%m-%d %H:%M"), both);
        for (meaning, want) in [
            ("earlier", "2026-10-25T00:30:00Z"),
            ("later", "2026-10-25T01:30:00Z"),
            (
                "reject",
                "`2026-10-25 02:30`: the clock shows it twice in this time zone: pass \
                        --ambiguous earlier or later",
            ),
        ] {
            let zone = "Europe/Zurich".parse().unwrap();
            let texts = TimeTexts { zone, ambiguous: meaning.parse().unwrap(), format: None };
            let got = texts.read("2026-10-25 02:30").map(|read| read.at.to_string());
            assert_eq!(got.unwrap_or_else(|reason| reason), want);
        }
        assert!("both".parse::<Ambiguous>().is_err());
    }

    #[test]
    fn times_of_day_with_am_pm_or_points_are_parsed() {
        check("2024-01-13 09:30 AM", "UTC", None, "2024-01-13T09:30:00Z");
        check("2024-01-13 09:30 pm", "UTC", None, "2024-01-13T21:30:00Z");
        check("2024-01-13 12:05:01 AM", "UTC", None, "2024-01-13T00:05:01Z");
        check("2024-01-13 13:30 PM", "UTC", None, "`2024-01-13 13:30 PM` is not a timestamp");
        check("2024-01-13 18.00.00", "UTC", None, "2024-01-13T18:00:00Z");
        check("2024-01-13 18.00", "UTC", None, "`2024-01-13 18.00` is not a timestamp");
        let hint = |format: &str| Some(format!("'%d/%m/%Y {format}' or '%m/%d/%Y {format}'"));
        assert_eq!(day_first("01/02/2026 9:30 AM"), hint("%I:%M %p"));
        assert_eq!(day_first("01/02/2026 18.00.00"), hint("%H.%M.%S"));
        check("01/02/2026 9:30 PM", "UTC", Some("%d/%m/%Y %I:%M %p"), "2026-02-01T21:30:00Z");
        check("01/02/2026 18.00.00", "UTC", Some("%d/%m/%Y %H.%M.%S"), "2026-02-01T18:00:00Z");
    }

    #[test]
    fn leap_second_is_rejected() {
        for text in ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.5Z", "20161231T235960Z"] {
            let want = format!("`{text}` is a leap second, which is not supported");
            check(text, "UTC", None, &want);
        }
        check("2016-12-31T23:59:59.605960Z", "UTC", None, "2016-12-31T23:59:59.60596Z");
    }

    #[test]
    fn hours_of_a_day_are_counted_from_zero_or_one_as_configured() {
        let read = |hour: &str, first| {
            let read = TimeTexts::default().read_hour("2024-01-02", hour, first);
            read.map(|read| read.at.to_string())
        };
        assert_eq!(read("0", 0).unwrap(), "2024-01-02T00:00:00Z");
        assert_eq!(read("1", 1).unwrap(), "2024-01-02T00:00:00Z");
        assert_eq!(read("24", 1).unwrap(), "2024-01-02T23:00:00Z");
        assert!(read("24", 0).is_err() && read("0", 1).is_err() && read("1.5", 1).is_err());
    }
}
