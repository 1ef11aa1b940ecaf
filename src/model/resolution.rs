//! Resolutions: raw rows, or buckets of a fixed length.

use std::time::Duration;

use crate::{parse::ParseError, timestamp::Timestamp};

/// How coarse the rows of a query are.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumString,
)]
#[strum(parse_err_ty = ParseError, parse_err_fn = no_resolution)]
pub enum Resolution {
    /// Rows as ingested.
    #[strum(serialize = "raw")]
    Raw,
    /// Buckets of five minutes.
    #[strum(serialize = "5m")]
    FiveMinutes,
    /// Buckets of a quarter of an hour. Document 2 does not have them.
    #[strum(serialize = "15m")]
    FifteenMinutes,
    /// Buckets of an hour.
    #[strum(serialize = "1h")]
    Hour,
    /// Buckets of four hours. Document 2 does not have them.
    #[strum(serialize = "4h")]
    FourHours,
    /// Buckets of a day.
    #[strum(serialize = "1d")]
    Day,
}

fn no_resolution(text: &str) -> ParseError {
    ParseError::new(text, "a resolution, which is raw, 5m, 15m, 1h, 4h or 1d")
}

impl Resolution {
    /// Every resolution, finest first.
    pub const ALL: [Self; 6] = [
        Self::Raw,
        Self::FiveMinutes,
        Self::FifteenMinutes,
        Self::Hour,
        Self::FourHours,
        Self::Day,
    ];

    /// The resolutions that every service of document 2 has, finest first.
    pub const DOCUMENTED: [Self; 4] = [Self::Raw, Self::FiveMinutes, Self::Hour, Self::Day];

    /// What a bucket is folded from; none for raw rows. A sum of floats depends on it.
    #[must_use]
    pub const fn source(self) -> Option<Self> {
        match self {
            Self::Raw => None,
            Self::FiveMinutes => Some(Self::Raw),
            Self::FifteenMinutes | Self::Hour => Some(Self::FiveMinutes),
            Self::FourHours | Self::Day => Some(Self::Hour),
        }
    }

    /// How long a bucket is; none for raw rows.
    #[must_use]
    pub const fn bucket(self) -> Option<Duration> {
        match self {
            Self::Raw => None,
            Self::FiveMinutes => Some(Duration::from_mins(5)),
            Self::FifteenMinutes => Some(Duration::from_mins(15)),
            Self::Hour => Some(Duration::from_hours(1)),
            Self::FourHours => Some(Duration::from_hours(4)),
            Self::Day => Some(Duration::from_hours(24)),
        }
    }

    /// The widest span between `start` and `end` that a query may ask for; none if it is unlimited.
    ///
    /// The resolutions of document 2 have the spans it gives. The others have as many buckets as
    /// the finer resolution beside them: 2016 as `5m`, 2160 as `1h`.
    #[must_use]
    pub const fn span_max(self) -> Option<Duration> {
        match self {
            Self::Raw => Some(Duration::from_hours(24)),
            Self::FiveMinutes => Some(Duration::from_hours(7 * 24)),
            Self::FifteenMinutes => Some(Duration::from_hours(21 * 24)),
            Self::Hour => Some(Duration::from_hours(90 * 24)),
            Self::FourHours => Some(Duration::from_hours(360 * 24)),
            Self::Day => None,
        }
    }

    /// The start of the bucket that holds `timestamp`; `timestamp` itself for raw rows.
    #[must_use]
    pub fn bucket_start(self, timestamp: Timestamp) -> Timestamp {
        let Some(bucket) = self.bucket() else { return timestamp };
        let micros = i64::try_from(bucket.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(timestamp.micros().div_euclid(micros).saturating_mul(micros))
    }
}

#[cfg(test)]
mod tests;
