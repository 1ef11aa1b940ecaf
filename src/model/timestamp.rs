//! A moment in UTC, to the microsecond.

use std::{
    fmt,
    ops::{Add, Sub},
    str::FromStr,
    time::Duration,
};

/// Microseconds in a second.
const MICROS_PER_SECOND: i64 = 1_000_000;

/// A moment in UTC, counted in microseconds since 1970.
///
/// Microseconds because that is the finest grain the upstream dataset service shows. Displayed as
/// RFC 3339 in UTC with a fraction only where there is one: `2026-07-30T21:57:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// A text is not an RFC 3339 timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{text}` as an RFC 3339 timestamp such as 2026-07-30T21:57:00Z")]
pub struct TimestampError {
    text: String,
}

impl Timestamp {
    /// The earliest moment that can be displayed: the start of the year −9999.
    pub const MIN: Self = Self(-377_705_023_201_000_000);
    /// The last moment that can be displayed: near the end of the year 9999.
    pub const MAX: Self = Self(253_402_207_200_000_000);

    /// Returns the moment `micros` microseconds after 1970, held within [`Self::MIN`] and [`Self::MAX`].
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

    /// Returns the moment `seconds` seconds after 1970, held within range.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self::from_micros(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    /// Microseconds since 1970.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(MICROS_PER_SECOND)
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        u64::try_from(self.0.saturating_sub(earlier.0))
            .map_or(Duration::ZERO, Duration::from_micros)
    }
}

/// The microseconds of `duration`, held at the largest number there is.
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

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every value within MIN and MAX is one that jiff can hold.
        jiff::Timestamp::from_microsecond(self.0).map_err(|_| fmt::Error)?.fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|moment| Self::from_micros(moment.as_microsecond()))
            .map_err(|_| TimestampError { text: text.chars().take(64).collect() })
    }
}

#[cfg(test)]
mod tests;
