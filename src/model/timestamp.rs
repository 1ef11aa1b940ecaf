//! Timestamps: UTC, in microseconds since 1970.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use crate::parse::ParseError;

/// Microseconds in a second.
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Days from March 1 of the year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;

/// A timestamp in UTC with a resolution of microseconds, as in the upstream dataset service.
///
/// Displayed as RFC 3339 in UTC, with a fraction only if it is not zero: `2026-07-30T21:57:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Earliest timestamp that can be displayed: the start of the year −9999.
    pub const MIN: Self = Self(-377_705_023_201_000_000);
    /// Latest timestamp that can be displayed, near the end of the year 9999.
    pub const MAX: Self = Self(253_402_207_200_000_000);

    /// Returns the timestamp `micros` microseconds after the start of 1970, clamped to the range
    /// [`Self::MIN`] to [`Self::MAX`].
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        if micros < Self::MIN.0 {
            Self::MIN
        } else if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Returns the timestamp `seconds` seconds after the start of 1970, clamped to the valid range.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self::from_micros(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    /// Returns the microseconds since 1970.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the seconds since 1970, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(MICROS_PER_SECOND)
    }

    /// Returns the duration since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        u64::try_from(self.0.saturating_sub(earlier.0))
            .map_or(Duration::ZERO, Duration::from_micros)
    }
}

/// Returns the microseconds in `duration`, at most [`i64::MAX`].
fn micros_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(micros_of(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self::from_micros(self.0.saturating_sub(micros_of(duration)))
    }
}

impl Timestamp {
    /// Returns the timestamp after this one if `text`, from which this one was parsed, is later than it. As
    /// the start of a range, it then selects no row before the start.
    #[must_use]
    pub fn rounded_up(self, text: &str) -> Self {
        if is_finer_than_stored(text) { self + Duration::from_micros(1) } else { self }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Cannot fail: jiff supports all values between `MIN` and `MAX`.
        jiff::Timestamp::from_microsecond(self.0).map_err(|_| fmt::Error)?.fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = ParseError;

    /// Parses a timestamp and rounds it down to a microsecond.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(seconds) = whole_seconds(text) {
            return Ok(Self::from_seconds(seconds));
        }
        let wanted = "an RFC 3339 timestamp such as 2026-07-30T21:57:00Z";
        if has_leap_second(text) || has_wide_offset(text) {
            return Err(ParseError::new(text, wanted));
        }
        text.parse::<jiff::Timestamp>()
            .map(|timestamp| {
                let is_rounded_up = timestamp.subsec_nanosecond() % 1000 < 0;
                Self::from_micros(timestamp.as_microsecond() - i64::from(is_rounded_up))
            })
            .map_err(|_| ParseError::new(text, wanted))
    }
}

/// Splits the time part of a timestamp into its digits and colons, and the text after the seconds.
fn time_of_day(text: &str) -> Option<(&str, &str)> {
    let (_, time) = text.split_once(['T', 't', ' '])?;
    let end = time.find(|letter: char| !letter.is_ascii_digit() && letter != ':');
    Some(time.split_at(end.unwrap_or(time.len())))
}

/// Returns true if the seconds of a timestamp are 60. Such leap seconds cannot be represented as a
/// [`Timestamp`]. If a row with such a timestamp were stored at the previous second, it would
/// replace the row of that second.
#[must_use]
pub fn has_leap_second(text: &str) -> bool {
    let Some((time, _)) = time_of_day(text) else { return false };
    let n_digits = time.bytes().filter(u8::is_ascii_digit).count();
    n_digits == 6 && time.ends_with("60")
}

/// Returns true if the offset of a timestamp is a day or more, which is invalid in RFC 3339.
fn has_wide_offset(text: &str) -> bool {
    let Some((_, rest)) = time_of_day(text) else { return false };
    let Some((_, offset)) = rest.split_once(['+', '-']) else { return false };
    offset.get(..2).and_then(|hours| hours.parse::<u8>().ok()).is_some_and(|hours| hours > 23)
}

/// Returns true if the fraction of a timestamp has a nonzero digit after the six digits that are
/// stored.
#[must_use]
pub fn is_finer_than_stored(text: &str) -> bool {
    let Some((_, rest)) = time_of_day(text) else { return false };
    let Some(fraction) = rest.strip_prefix(['.', ',']) else { return false };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    digits.skip(6).any(|digit| digit != b'0')
}

/// Parses a text such as `2026-07-30T21:57:00Z` as seconds since 1970. This is the most frequent form,
/// which the general parser would parse ten times slower. Returns `None` for other forms and invalid
/// numbers.
fn whole_seconds(text: &str) -> Option<i64> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let number = |from: usize, to: usize| {
        bytes.get(from..to)?.iter().try_fold(0_i64, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    if !marks.iter().all(|(at, mark)| bytes.get(*at) == Some(mark)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let n_days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=n_days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years begin in March, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before_year =
        year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Months of 31 and 30 days alternate, except that July and August have 31 days each, as do December
    // and January.
    let days_before_month = (153 * month + 2) / 5;
    let days = days_before_year + days_before_month + day - 1 - DAYS_TO_1970;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests;
