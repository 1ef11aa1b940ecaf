//! Texts of dates and times as files have them: ISO 8601 with or without its marks, in a time zone
//! where they name no offset, or in a format of strptime.

use std::str::FromStr;

use jiff::{
    Zoned,
    civil::{Date, DateTime, Time},
    fmt::{strtime, temporal::DateTimeParser},
    tz::TimeZone,
};
use model::timestamp::Timestamp;

use super::cell::{TypedTime, WrittenZone};

/// Digits of a fraction of a second that are stored: microseconds.
const FRACTION_DIGITS: usize = 6;

/// A timestamp, and whether the file has it finer than microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadTime {
    pub(super) at: Timestamp,
    pub(super) is_cut: bool,
}

/// How texts are read as timestamps. Without a format: RFC 3339 and its relatives; in UTC unless a
/// zone or the text says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeTexts {
    /// The format of all texts.
    pub format: Option<TimeFormat>,
    /// The zone of texts without an offset.
    pub zone: Zone,
}

/// A format of strptime such as `%d/%m/%Y %H:%M`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFormat(String);

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// Why a format or a zone cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeTextError {
    /// The format has a directive that there is not.
    #[error("no time format: {0}; one is '%d/%m/%Y %H:%M'")]
    Format(String),
    /// The zone is neither an offset nor in this system's time zone database.
    #[error(
        "no time zone `{0}`: pass an offset such as +02:00, UTC, or a name such as \
             America/New_York (of this system's time zone database)"
    )]
    Zone(String),
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
        TimeZone::get(text).map(Self).map_err(|_| TimeTextError::Zone(text.to_owned()))
    }
}

impl Zone {
    /// The timestamp of a date and time in the zone.
    ///
    /// # Errors
    /// If the clocks are set so that it is never or twice, or it is out of range.
    fn timestamp(&self, at: DateTime) -> Result<Timestamp, String> {
        let found = self.0.to_ambiguous_timestamp(at);
        if !found.is_ambiguous() {
            let found = found.unambiguous().map_err(|error| error.to_string())?;
            return Ok(Timestamp::from_micros(found.as_microsecond()));
        }
        Err("clocks are set then, so that it is never or twice in this time zone".to_owned())
    }
}

impl TimeTexts {
    /// Reads a date, with or without a time, with or without an offset.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn read(&self, text: &str) -> Result<ReadTime, String> {
        let text = text.trim();
        if let Some(format) = &self.format {
            return self.read_format(format, text);
        }
        if let Ok(at) = text.parse() {
            return Ok(ReadTime { at, is_cut: is_finer(text) });
        }
        if let Some(formats) = day_first(text) {
            return Err(format!(
                "`{text}` may begin with the day or the month: pass --time-format {formats}"
            ));
        }
        let none = || format!("`{}` is no timestamp", super::cell::shorten(text));
        let (date, rest) = date(text).ok_or_else(none)?;
        let (time, rest) = match rest.trim_start_matches(['T', ' ', '\t', '_']) {
            "" => (Time::midnight(), ""),
            rest => clock(rest).ok_or_else(none)?,
        };
        let at = date.to_datetime(time);
        let at = match rest.trim() {
            "" => self.zone.timestamp(at),
            rest => Zone(offset(rest).ok_or_else(none)?).timestamp(at),
        };
        let at = at.map_err(|reason| format!("`{text}`: {reason}"))?;
        Ok(ReadTime { at, is_cut: is_finer(text) })
    }

    /// The timestamp of a file with types: in the time zone where it is written in none.
    ///
    /// # Errors
    /// If clocks are set so that it is never or twice in the zone.
    pub(super) fn resolve(&self, time: TypedTime) -> Result<ReadTime, String> {
        let TypedTime { at, is_cut, zone } = time;
        if zone == WrittenZone::Utc || self.zone == Zone::default() {
            return Ok(ReadTime { at, is_cut });
        }
        let civil = jiff::Timestamp::from_microsecond(at.micros());
        let civil = civil.map_err(|error| error.to_string())?.to_zoned(TimeZone::UTC).datetime();
        let at = self.zone.timestamp(civil).map_err(|reason| format!("{civil}: {reason}"))?;
        Ok(ReadTime { at, is_cut })
    }

    fn read_format(&self, format: &TimeFormat, text: &str) -> Result<ReadTime, String> {
        let none =
            |_| format!("`{}` is not in the format {}", super::cell::shorten(text), format.0);
        let broken = strtime::parse(&format.0, text).map_err(none)?;
        let whole = broken.to_timestamp();
        let (at, nanos) = match (whole, broken.to_datetime()) {
            (Ok(at), _) => (Timestamp::from_micros(at.as_microsecond()), at.subsec_nanosecond()),
            (Err(_), Ok(at)) => (self.zone.timestamp(at)?, at.subsec_nanosecond()),
            (Err(_), Err(error)) => return Err(none(error)),
        };
        Ok(ReadTime { at, is_cut: nanos % 1_000 != 0 })
    }

    /// The start of a date that a number is written as, such as 20260101, or the second of one
    /// such as 20260101153000.
    pub(super) fn read_digits(&self, number: i64) -> Option<Timestamp> {
        self.zone.timestamp(digits(number)?).ok()
    }
}

/// The date and time that a number is written as; none where it is of other years than people trade
/// and measure in.
pub(super) fn digits(number: i64) -> Option<DateTime> {
    /// A day, as of 20260101.
    const DATE: std::ops::Range<i64> = 19_000_101..21_000_101;
    /// A second, as of 20260101153000.
    const SECOND: std::ops::Range<i64> = 19_000_101_000_000..21_000_101_000_000;
    let text = number.to_string();
    match number {
        number if DATE.contains(&number) => Some(date(&text)?.0.to_datetime(Time::midnight())),
        number if SECOND.contains(&number) => {
            let (date, rest) = date(&text)?;
            let (time, _) = clock(rest)?;
            Some(date.to_datetime(time))
        }
        _ => None,
    }
}

/// Whether `text` is a date without a time, in whichever order.
pub(super) fn is_date(text: &str) -> bool {
    let text = text.trim();
    date(text).is_some_and(|(_, rest)| rest.is_empty())
        || day_first(text).is_some_and(|formats| !formats.contains("%H"))
}

/// Whether `text` is a time of day; without colons only if `is_called_so`.
pub(super) fn is_clock(text: &str, is_called_so: bool) -> bool {
    let text = text.trim();
    (is_called_so || text.contains(':')) && clock(text).is_some_and(|(_, rest)| rest.is_empty())
}

/// The two formats that a date may be in whose day or month is first; none of others.
pub(super) fn day_first(text: &str) -> Option<String> {
    let text = text.trim();
    let (first, rest) = number(text, 1, 2)?;
    let mark = rest.chars().next().filter(|mark| "/.-".contains(*mark))?;
    let (second, rest) = number(rest.strip_prefix(mark)?, 1, 2)?;
    let (_, rest) = number(rest.strip_prefix(mark)?, 4, 4)?;
    let time = match rest.trim_start_matches([' ', 'T']) {
        "" => "",
        rest if rest.matches(':').count() > 1 => " %H:%M:%S",
        rest if rest.contains(':') => " %H:%M",
        _ => return None,
    };
    let day_first = format!("'%d{mark}%m{mark}%Y{time}'");
    let month_first = format!("'%m{mark}%d{mark}%Y{time}'");
    match (first, second) {
        (13.., _) => Some(day_first),
        (_, 13..) => Some(month_first),
        _ => Some(format!("{day_first} or {month_first}")),
    }
}

/// Reads a date of which the year is first, and returns what follows it.
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

/// Reads a time of day, with colons or of 4, 6 or 9 digits, and returns what follows it.
fn clock(text: &str) -> Option<(Time, &str)> {
    let n_digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (hour, minute, second, rest) = match n_digits {
        1 | 2 => {
            let (hour, rest) = number(text, 1, 2)?;
            let (minute, rest) = number(rest.strip_prefix(':')?, 2, 2)?;
            let (second, rest) = match rest.strip_prefix(':') {
                Some(rest) => number(rest, 2, 2)?,
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
    let small = |number: i32| i8::try_from(number).ok();
    let time = Time::new(small(hour)?, small(minute)?, small(second)?, nanos).ok()?;
    Some((time, rest))
}

/// An offset from UTC: `Z`, `UTC`, `+02:00`, `+0200` or `+02`.
fn offset(text: &str) -> Option<TimeZone> {
    if ["Z", "z", "UTC", "GMT"].contains(&text) {
        return Some(TimeZone::UTC);
    }
    let is_offset = text.starts_with(['+', '-']);
    DateTimeParser::new().parse_time_zone(text).ok().filter(|_| is_offset)
}

/// Reads a number of as many digits as there are, at most `max`, and returns what follows it.
fn number(text: &str, min: usize, max: usize) -> Option<(i32, &str)> {
    let n_digits = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(n_digits)?;
    (n_digits >= min).then(|| Some((digits.parse().ok()?, rest)))?
}

/// Whether a text has a fraction of a second that is finer than microseconds.
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
        let texts = TimeTexts { format, zone: zone.parse().unwrap() };
        let got = match texts.read(text) {
            Ok(ReadTime { at, is_cut: false }) => at.to_string(),
            Ok(ReadTime { at, is_cut: true }) => format!("{at} cut"),
            Err(reason) => reason,
        };
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn dates_are_read_with_any_mark_and_without() {
        for text in ["2026-07-30", "2026.07.30", "2026/7/30", "20260730", "20260730 000000"] {
            check(text, "UTC", None, "2026-07-30T00:00:00Z");
        }
        check("2026.07.30 21:57", "UTC", None, "2026-07-30T21:57:00Z");
        check("20120201 000003660", "UTC", None, "2012-02-01T00:00:03.66Z");
        check("2026-07-30T21:57:00,5+0200", "UTC", None, "2026-07-30T19:57:00.5Z");
        check("2026-07-30 21:57:00.123456789", "UTC", None, "2026-07-30T21:57:00.123456Z cut");
        check("2026-02-30", "UTC", None, "`2026-02-30` is no timestamp");
        assert!(digits(20_260_101).is_some() && digits(20_261_301).is_none());
        assert!(digits(20_260_101_153_000).is_some() && digits(1_700_000_000_000).is_none());
    }

    #[test]
    fn the_zone_is_that_of_texts_without_an_offset() {
        check("2026-01-02 00:00", "-05:00", None, "2026-01-02T05:00:00Z");
        check("2026-01-02T00:00:00Z", "-05:00", None, "2026-01-02T00:00:00Z");
        check("2026-07-01", "Europe/Zurich", None, "2026-06-30T22:00:00Z");
        let want = "`2026-10-25 02:30`: clocks are set then, so that it is never or twice in this \
                    time zone";
        check("2026-10-25 02:30", "Europe/Zurich", None, want);
        assert!("Mars/Base".parse::<Zone>().unwrap_err().to_string().contains("no time zone"));
    }

    #[test]
    fn a_date_whose_order_is_open_is_refused_with_the_formats_it_may_have() {
        let hint = "may begin with the day or the month: pass --time-format";
        let want = format!("`01/02/2026` {hint} '%d/%m/%Y' or '%m/%d/%Y'");
        check("01/02/2026", "UTC", None, &want);
        check(
            "30.07.2026 9:30",
            "UTC",
            None,
            &format!("`30.07.2026 9:30` {hint} '%d.%m.%Y %H:%M'"),
        );
        check("01/02/2026", "UTC", Some("%d/%m/%Y"), "2026-02-01T00:00:00Z");
        check("01/02/2026 15:30", "+01:00", Some("%m/%d/%Y %H:%M"), "2026-01-02T14:30:00Z");
        let want = "`x` is not in the format %m/%d/%Y";
        check("x", "UTC", Some("%m/%d/%Y"), want);
        assert!("%d/%!".parse::<TimeFormat>().is_err() && "d".parse::<TimeFormat>().is_err());
    }
}
