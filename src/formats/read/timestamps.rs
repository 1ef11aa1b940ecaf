//! Parses timestamps in files: texts in RFC 3339 and similar formats, or numbers since 1970.

use std::ops::Range;

use model::timestamp::Timestamp;

use super::cell::{Cell, NO_TIMESTAMP, TypedTime, WrittenZone, exact_integer};
use super::time_text::{ReadTime, TimeTexts, digits};

/// Range in which the unit of a number is detected, in seconds since 1970: the years 1971 to 2100.
/// Within these years, no number is valid in two units, except dates with an hour (see
/// [`is_date_with_hour`]). Smaller numbers are almost never timestamps.
const PLAUSIBLE_SECONDS: Range<f64> = 31_536_000.0..4_133_980_800.0;

/// Units of time since 1970, with their number per second.
const COUNTING_UNITS: [(TimeUnit, f64); 4] = [
    (TimeUnit::Seconds, 1.0),
    (TimeUnit::Millis, 1e3),
    (TimeUnit::Micros, 1e6),
    (TimeUnit::Nanos, 1e9),
];

/// Days from 1899-12-30, which spreadsheets count as day 0, to 1970.
const SPREADSHEET_DAYS: f64 = 25_569.0;

/// Milliseconds per day.
const DAY_MILLIS: f64 = 86_400_000.0;

/// Unit or format of timestamps that are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = no_unit)]
pub enum TimeUnit {
    /// Seconds since 1970, with or without a fraction.
    #[strum(serialize = "s")]
    Seconds,
    /// Thousandths of a second since 1970.
    #[strum(serialize = "ms")]
    Millis,
    /// Millionths of a second since 1970.
    #[strum(serialize = "us")]
    Micros,
    /// Nanoseconds since 1970, stored as microseconds.
    #[strum(serialize = "ns")]
    Nanos,
    /// The digits are a date with an optional time: 20260101, 2026010115, 202601011530 or 20260101153000.
    Date,
    /// The digits are a month, such as 202601.
    Month,
    /// The number is a year.
    Year,
    /// Days since 1899-12-30, as counted by spreadsheets.
    Excel,
}

fn no_unit(_: &str) -> String {
    "unknown unit of time; expected s, ms, us, ns, date for 20260101, month for 202601, year, or excel for \
     days of a spreadsheet".to_owned()
}

impl TimeUnit {
    /// Returns the unit in which `number` is a timestamp of the years 1971 to 2100, or `Date` if its
    /// digits are a date. Returns `None` if there is no such unit. A date with an hour, or with an hour
    /// and a minute, counts as seconds or milliseconds, since a single number is ambiguous.
    #[must_use]
    pub fn guess(number: f64) -> Option<Self> {
        let whole = exact_integer(number).filter(|number| !is_date_with_hour(*number));
        if whole.and_then(digits).is_some() {
            return Some(Self::Date);
        }
        let is_plausible =
            |(_, per_second): &(Self, f64)| PLAUSIBLE_SECONDS.contains(&(number / per_second));
        COUNTING_UNITS.into_iter().find(is_plausible).map(|(unit, _)| unit)
    }

    /// Returns the timestamp `number` units after 1970, or the date that the digits of `number`
    /// represent.
    fn timestamp(self, number: i64, texts: &TimeTexts) -> Option<ReadTime> {
        let at = match self {
            Self::Seconds => timestamp_from_micros(number.checked_mul(1_000_000)?),
            Self::Millis => timestamp_from_micros(number.checked_mul(1_000)?),
            Self::Micros => timestamp_from_micros(number),
            Self::Nanos => timestamp_from_micros(number.div_euclid(1_000)),
            Self::Date => return texts.read_digits(number),
            Self::Month => return texts.read_month(number.div_euclid(100), number % 100),
            Self::Year => return texts.read_month(number, 1),
            #[expect(clippy::cast_precision_loss, reason = "days are below 2^53")]
            Self::Excel => return spreadsheet_day(number as f64, texts),
        };
        let is_cut = self == Self::Nanos && number % 1_000 != 0;
        Some(ReadTime { is_cut, ..ReadTime::exact(at?) })
    }

    /// Same as [`Self::timestamp`]. A fraction of a microsecond is truncated, unless `number` is the float
    /// that is nearest to a whole microsecond.
    #[expect(clippy::float_cmp, reason = "floats that are parsed from the same digits are equal")]
    fn timestamp_of_float(self, number: f64, texts: &TimeTexts) -> Option<ReadTime> {
        let (micros, from_micros): (f64, fn(f64) -> f64) = match self {
            Self::Seconds => (number * 1e6, |micros| micros / 1e6),
            Self::Millis => (number * 1e3, |micros| micros / 1e3),
            Self::Micros => (number, |micros| micros),
            Self::Nanos => (number / 1e3, |micros| micros * 1e3),
            Self::Date | Self::Month | Self::Year => {
                return self.timestamp(exact_integer(number)?, texts);
            }
            Self::Excel => return spreadsheet_day(number, texts),
        };
        let (nearest, floor) = (micros.round(), micros.floor());
        let is_cut = from_micros(nearest) != number;
        let micros = match is_cut {
            false => nearest,
            // The conversion to microseconds was rounded up.
            true if from_micros(floor) > number => floor - 1.0,
            true => floor,
        };
        let at = timestamp_from_micros(round_to_integer(micros)?)?;
        Some(ReadTime { is_cut, ..ReadTime::exact(at) })
    }
}

/// Returns true if the digits of `number` are a date and an hour, such as 2026010115, or also a minute. As
/// seconds since 1970, the former are in the years 2030 to 2036, and as milliseconds the latter are in
/// 1976. If all numbers of a field are of this form, they are dates.
pub(super) fn is_date_with_hour(number: i64) -> bool {
    let is_hour = (1_900_010_100..2_100_000_000).contains(&number);
    let is_minute = (190_001_010_000..210_000_000_000).contains(&number);
    (is_hour || is_minute) && digits(number).is_some()
}

/// Returns true if the digits of `number` are a date with two digits of the year, an hour and a minute,
/// such as 2601011530.
pub(super) fn is_short_date(number: i64) -> bool {
    (0..10_000_000_000).contains(&number) && digits(200_000_000_000 + number).is_some()
}

/// Returns the timestamp of a number of days as counted by spreadsheets, rounded to a millisecond.
///
/// Spreadsheets export few digits, so that 02:00 can be 45293.08333, which is 0.288 s less. The result
/// is therefore a whole minute or second if that has the same digits.
fn spreadsheet_day(days: f64, texts: &TimeTexts) -> Option<ReadTime> {
    let millis = (days - SPREADSHEET_DAYS) * DAY_MILLIS;
    let n_decimals = days.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let error_millis = DAY_MILLIS / 10_f64.powi(n_decimals.try_into().ok()?) / 2.0;
    let rounded = [60_000.0, 1_000.0].map(|unit| (millis / unit).round() * unit);
    let is_within = |rounded: &f64| (rounded - millis).abs() <= error_millis;
    let millis = round_to_integer(rounded.into_iter().find(is_within).unwrap_or(millis))?;
    let at = timestamp_from_micros(millis.checked_mul(1_000)?)?;
    texts.resolve(TypedTime { at, is_cut: false, zone: WrittenZone::None }).ok()
}

/// Rounds a finite number. A number out of range saturates.
fn round_to_integer(number: f64) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and the range check rejects it"
    )]
    let whole = number.is_finite().then_some(number.round() as i64);
    whole
}

/// Parses the timestamp in `cell`. A number is in `unit`, or else in the unit that gives a plausible
/// time. Texts are parsed according to `texts`. If `texts` has a format, numbers are parsed with it,
/// too.
///
/// # Errors
/// Human-readable description of the error.
pub(super) fn timestamp(
    cell: Cell<'_>,
    unit: Option<TimeUnit>,
    texts: &TimeTexts,
) -> Result<ReadTime, String> {
    let in_unit = |number: f64| match unit.or_else(|| TimeUnit::guess(number)) {
        Some(unit) => Ok(unit),
        None => Err(unclear_number(number, &cell.describe())),
    };
    let found = match cell {
        Cell::Time(time) => return texts.resolve(time),
        Cell::Integer(number) if texts.format.is_some() => return texts.read(&number.to_string()),
        #[expect(clippy::cast_precision_loss, reason = "only its magnitude matters")]
        Cell::Integer(number) => in_unit(number as f64)?.timestamp(number, texts),
        Cell::Float(number) => in_unit(number)?.timestamp_of_float(number, texts),
        Cell::Text(text) | Cell::Bare(text) => {
            let number: Option<f64> = text.trim().parse().ok();
            match number.filter(|_| texts.format.is_none()) {
                Some(number) => match text.trim().parse() {
                    Ok(whole) => in_unit(number)?.timestamp(whole, texts),
                    Err(_) => in_unit(number)?.timestamp_of_float(number, texts),
                },
                None => return texts.read(text),
            }
        }
        Cell::Unfit(reason) => return Err(reason.to_owned()),
        Cell::Absent | Cell::Boolean(_) | Cell::Large(_) => None,
    };
    found.ok_or_else(|| format!("{} {NO_TIMESTAMP}", cell.describe()))
}

/// Describes a number that is not a plausible timestamp in any unit, with a hint to an option.
fn unclear_number(number: f64, shown: &str) -> String {
    let whole = exact_integer(number);
    let hint = match whole {
        Some(190_001..=210_012) if whole.is_some_and(|it| (1..=12).contains(&(it % 100))) => {
            "for a month, pass --time-unit month"
        }
        Some(1_900..=2_100) => {
            "for a year, pass --time-unit year; a time of day is not a timestamp"
        }
        Some(0..=2_359) => "a time of day or the number of a step is not a timestamp",
        _ if (20_000.0..80_000.0).contains(&number) => {
            "for a day of a spreadsheet, pass --time-unit excel"
        }
        _ if number.abs() < PLAUSIBLE_SECONDS.end * 1e9 => {
            "pass its unit as --time-unit s, ms, us or ns"
        }
        _ => return format!("{shown} {NO_TIMESTAMP}"),
    };
    format!("{shown} is not a time of the years 1971 to 2100 in any unit: {hint}")
}

fn timestamp_from_micros(micros: i64) -> Option<Timestamp> {
    let timestamp = Timestamp::from_micros(micros);
    (timestamp.micros() == micros).then_some(timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: Cell<'_>, unit: Option<TimeUnit>, want: &str) {
        let got = timestamp(cell, unit, &TimeTexts::default());
        let got = got.map_or_else(|reason| reason, |read| read.at.to_string());
        assert_eq!(got, want, "{cell:?}");
    }

    #[test]
    fn unit_of_a_numeric_timestamp_is_detected_from_its_magnitude() {
        let want = "2026-07-30T21:57:00Z";
        let seconds: i64 = want.parse::<Timestamp>().unwrap().seconds();
        check(Cell::Integer(seconds), None, want);
        check(Cell::Integer(seconds * 1_000), None, want);
        check(Cell::Integer(seconds * 1_000_000), None, want);
        check(Cell::Integer(seconds * 1_000_000_000), None, want);
        check(Cell::Bare(&format!("{seconds}.5")), None, "2026-07-30T21:57:00.5Z");
        check(Cell::Integer(100), Some(TimeUnit::Millis), "1970-01-01T00:00:00.1Z");
        check(Cell::Bare("20260101"), None, "2026-01-01T00:00:00Z");
        check(Cell::Float(20_260_101_153_000.0), None, "2026-01-01T15:30:00Z");
        check(Cell::Integer(202_601_011_530), None, "1976-06-02T22:03:31.53Z");
        check(Cell::Integer(202_601_011_530), Some(TimeUnit::Date), "2026-01-01T15:30:00Z");
        check(Cell::Integer(2_026_010_115), None, "2034-03-15T04:35:15Z");
        check(Cell::Integer(2_026_010_115), Some(TimeUnit::Date), "2026-01-01T15:00:00Z");
        check(Cell::Bare("20260101"), Some(TimeUnit::Seconds), "1970-08-23T11:48:21Z");
        check(Cell::Bare("-1"), Some(TimeUnit::Seconds), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn fraction_of_a_microsecond_is_truncated_and_reported() {
        let read = |text: &str, unit| {
            let read = timestamp(Cell::Bare(text), Some(unit), &TimeTexts::default()).unwrap();
            (read.at.to_string(), read.is_cut)
        };
        let want = ("2024-01-01T00:00:00.123456Z".to_owned(), true);
        assert_eq!(read("1704067200123456789", TimeUnit::Nanos), want);
        assert_eq!(read("1704067200123456789.5", TimeUnit::Nanos), want);
        assert_eq!(read("1704067200123456.789", TimeUnit::Micros), want);
        assert_eq!(read("1704067200123.456789", TimeUnit::Millis), want);
        assert_eq!(read("1704067200.123456789", TimeUnit::Seconds), want);
        let end = ("2024-01-01T00:00:59.999999Z".to_owned(), true);
        assert_eq!(read("1704067259.9999996", TimeUnit::Seconds), end);
        let before = ("1969-12-31T23:59:58.499999Z".to_owned(), true);
        assert_eq!(read("-1.5000002", TimeUnit::Seconds), before);
        let whole = |micros: i64, text: &str, unit| {
            assert_eq!(read(text, unit), (Timestamp::from_micros(micros).to_string(), false));
        };
        for step in 0..20_000 {
            let micros = 1_704_067_200_000_000 + step * 7_919;
            let part = |divisor| (micros / divisor, micros % divisor);
            let (seconds, fraction) = part(1_000_000);
            whole(micros, &format!("{seconds}.{fraction:06}"), TimeUnit::Seconds);
            let (millis, fraction) = part(1_000);
            whole(micros, &format!("{millis}.{fraction:03}"), TimeUnit::Millis);
            whole(micros, &format!("{micros}.0"), TimeUnit::Micros);
            whole(micros, &format!("{micros}e3"), TimeUnit::Nanos);
        }
    }

    #[test]
    fn number_that_would_be_before_1971_is_rejected_with_a_hint() {
        for (text, hint) in [
            ("192607", "for a month, pass --time-unit month"),
            ("2020", "for a year, pass --time-unit year"),
            ("45293", "for a day of a spreadsheet, pass --time-unit excel"),
            ("45293.5", "for a day of a spreadsheet, pass --time-unit excel"),
            ("930", "a time of day or the number of a step is not a timestamp"),
            ("0", "a time of day or the number of a step is not a timestamp"),
            ("-86400", "--time-unit s, ms, us or ns"),
            ("31535999", "--time-unit s, ms, us or ns"),
            ("5000000000", "--time-unit s, ms, us or ns"),
        ] {
            let why = timestamp(Cell::Bare(text), None, &TimeTexts::default()).unwrap_err();
            assert!(why.starts_with(&format!("`{text}` is not a time of the years")), "{why}");
            assert!(why.contains(hint), "{why}");
        }
        check(Cell::Bare("192607"), Some(TimeUnit::Month), "1926-07-01T00:00:00Z");
        check(Cell::Bare("192613"), Some(TimeUnit::Month), "`192613` is not a timestamp");
        check(Cell::Integer(2020), Some(TimeUnit::Year), "2020-01-01T00:00:00Z");
        check(Cell::Bare("45293"), Some(TimeUnit::Excel), "2024-01-02T00:00:00Z");
        check(Cell::Float(45_293.5), Some(TimeUnit::Excel), "2024-01-02T12:00:00Z");
        check(Cell::Bare("45293.08333"), Some(TimeUnit::Excel), "2024-01-02T02:00:00Z");
        check(Cell::Bare("45293.04168"), Some(TimeUnit::Excel), "2024-01-02T01:00:01Z");
        check(Cell::Bare("45293.5000000116"), Some(TimeUnit::Excel), "2024-01-02T12:00:00.001Z");
    }

    #[test]
    fn timestamps_are_parsed_with_or_without_time_of_day_and_offset() {
        for text in [
            "2026-07-30T21:57:00Z",
            "2026-07-30T23:57:00+02:00",
            "2026-07-30 21:57:00",
            "2026-07-30T21:57",
            "2026-07-30 21:57:00 UTC",
            "2026-07-30 21:57:00+00:00",
        ] {
            check(Cell::Bare(text), None, "2026-07-30T21:57:00Z");
        }
        check(Cell::Text("2026-07-30"), None, "2026-07-30T00:00:00Z");
        check(Cell::Bare("1e300"), None, "`1e300` is not a timestamp");
    }
}
