//! How coarse rows are: as ingested, or folded into buckets of a fixed length.

use std::{fmt, str::FromStr, time::Duration};

use crate::timestamp::Timestamp;

/// How coarse the rows of a query are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// As ingested.
    Raw,
    /// Buckets of five minutes.
    FiveMinutes,
    /// Buckets of an hour.
    Hour,
    /// Buckets of a day.
    Day,
}

/// A text names no resolution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{text}` as a resolution, which is raw, 5m, 1h or 1d")]
pub struct ResolutionError {
    text: String,
}

impl Resolution {
    /// Every resolution, finest first.
    pub const ALL: [Self; 4] = [Self::Raw, Self::FiveMinutes, Self::Hour, Self::Day];

    /// The resolutions that are kept as buckets, each a whole multiple of the one before it.
    pub const BUCKETED: [Self; 3] = [Self::FiveMinutes, Self::Hour, Self::Day];

    /// How long a bucket is; none for raw rows.
    #[must_use]
    pub const fn bucket(self) -> Option<Duration> {
        match self {
            Self::Raw => None,
            Self::FiveMinutes => Some(Duration::from_mins(5)),
            Self::Hour => Some(Duration::from_hours(1)),
            Self::Day => Some(Duration::from_hours(24)),
        }
    }

    /// The widest span between `start` and `end` that a query may ask for, by document 2; none if
    /// it is unlimited.
    #[must_use]
    pub const fn span_max(self) -> Option<Duration> {
        match self {
            Self::Raw => Some(Duration::from_hours(24)),
            Self::FiveMinutes => Some(Duration::from_hours(7 * 24)),
            Self::Hour => Some(Duration::from_hours(90 * 24)),
            Self::Day => None,
        }
    }

    /// The start of the bucket that holds `moment`; `moment` itself for raw rows.
    #[must_use]
    pub fn bucket_start(self, moment: Timestamp) -> Timestamp {
        let Some(bucket) = self.bucket() else { return moment };
        let micros = i64::try_from(bucket.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(moment.micros().div_euclid(micros).saturating_mul(micros))
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Raw => "raw",
            Self::FiveMinutes => "5m",
            Self::Hour => "1h",
            Self::Day => "1d",
        })
    }
}

impl FromStr for Resolution {
    type Err = ResolutionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|resolution| resolution.to_string() == text)
            .ok_or_else(|| ResolutionError { text: text.chars().take(32).collect() })
    }
}

#[cfg(test)]
mod tests;
