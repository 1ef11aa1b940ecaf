//! Resolutions: raw rows, or buckets of a fixed length.

use std::time::Duration;

use crate::parse::ParseError;
use crate::timestamp::Timestamp;

/// Granularity of the rows of a query.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumString,
)]
#[strum(parse_err_ty = ParseError, parse_err_fn = no_resolution)]
pub enum Resolution {
    /// Rows as they were ingested.
    #[strum(serialize = "raw")]
    Raw,
    /// Buckets of five minutes.
    #[strum(serialize = "5m")]
    FiveMinutes,
    /// Buckets of 15 minutes. The upstream dataset service does not have them.
    #[strum(serialize = "15m")]
    FifteenMinutes,
    /// Buckets of an hour.
    #[strum(serialize = "1h")]
    Hour,
    /// Buckets of four hours. The upstream dataset service does not have them.
    #[strum(serialize = "4h")]
    FourHours,
    /// Buckets of a day.
    #[strum(serialize = "1d")]
    Day,
}

fn no_resolution(text: &str) -> ParseError {
    ParseError::new(text, "a resolution (raw, 5m, 15m, 1h, 4h or 1d)")
}

impl Resolution {
    /// All resolutions, finest first.
    pub const ALL: [Self; 6] = [
        Self::Raw,
        Self::FiveMinutes,
        Self::FifteenMinutes,
        Self::Hour,
        Self::FourHours,
        Self::Day,
    ];

    /// Resolutions of the upstream dataset service, finest first.
    pub const DOCUMENTED: [Self; 4] = [Self::Raw, Self::FiveMinutes, Self::Hour, Self::Day];

    /// Returns the resolution from which buckets of this one are computed, or `None` for raw rows. The
    /// choice affects sums of floats, since these depend on the order.
    #[must_use]
    pub const fn source(self) -> Option<Self> {
        match self {
            Self::Raw => None,
            Self::FiveMinutes => Some(Self::Raw),
            Self::FifteenMinutes | Self::Hour => Some(Self::FiveMinutes),
            Self::FourHours | Self::Day => Some(Self::Hour),
        }
    }

    /// Returns the length of a bucket, or `None` for raw rows.
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

    /// Returns the maximum time range of a query, or `None` if it is unlimited.
    ///
    /// The limits for resolutions of the upstream dataset service are the same as there. The limits for
    /// the others allow the same number of buckets as the next finer resolution: 2016 as for `5m`, 2160
    /// as for `1h`.
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

    /// Returns the start of the bucket that contains `timestamp`. Raw rows have no buckets, so for these
    /// it returns `timestamp` itself.
    #[must_use]
    pub fn bucket_start(self, timestamp: Timestamp) -> Timestamp {
        let Some(bucket) = self.bucket() else { return timestamp };
        let micros = i64::try_from(bucket.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(timestamp.micros().div_euclid(micros).saturating_mul(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resolution: &str, timestamp: &str, start: &str) {
        let resolution: Resolution = resolution.parse().unwrap();
        assert_eq!(resolution.bucket_start(timestamp.parse().unwrap()).to_string(), start);
    }

    #[test]
    fn buckets_are_aligned_in_utc() {
        check("raw", "2026-07-30T21:57:01.5Z", "2026-07-30T21:57:01.5Z");
        check("5m", "2026-07-30T21:59:59.999Z", "2026-07-30T21:55:00Z");
        check("15m", "2026-07-30T21:59:59.999Z", "2026-07-30T21:45:00Z");
        check("4h", "2026-07-30T23:59:59Z", "2026-07-30T20:00:00Z");
        check("1h", "2026-07-30T21:00:00Z", "2026-07-30T21:00:00Z");
        check("1d", "2026-07-30T23:59:59Z", "2026-07-30T00:00:00Z");
        check("1h", "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z");
    }

    #[test]
    fn bucket_lengths_are_multiples_of_finer_ones() {
        let lengths = Resolution::ALL.map(|r| r.bucket().map_or(1, |length| length.as_secs()));
        assert!(lengths.windows(2).all(|pair| pair[1] % pair[0] == 0));
    }

    #[test]
    fn coarser_resolutions_allow_longer_ranges() {
        let spans = Resolution::ALL.map(Resolution::span_max);
        assert!(spans[..5].is_sorted() && spans[..5].iter().all(Option::is_some));
        assert_eq!(spans[5], None);
    }

    #[test]
    fn buckets_are_computed_from_finer_resolutions() {
        for resolution in Resolution::ALL {
            assert!(resolution.source().is_none_or(|finer| finer < resolution));
        }
    }

    #[test]
    fn names_round_trip() {
        for resolution in Resolution::ALL {
            assert_eq!(resolution.to_string().parse(), Ok(resolution));
        }
        assert!("7m".parse::<Resolution>().is_err());
    }
}
