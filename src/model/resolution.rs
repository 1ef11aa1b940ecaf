//! Resolutions: raw rows, or buckets of a fixed length.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::Span;
use jiff::civil::{Time, date};
use jiff::tz::{TimeZone, db};

use crate::parse::ParseError;
use crate::timestamp::Timestamp;

/// Number of seconds in a day of 24 hours.
const DAY_SECONDS: u64 = 86_400;

/// Names in the time zone database of the system.
static ZONE_NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| db().available().map(|name| name.to_string()).collect());

/// Maximum length of a bucket: 30 days.
const LENGTH_MAX: Duration = Duration::from_hours(30 * 24);

/// Maximum number of buckets in the time range of a query, if buckets are computed when they are read.
/// The same as the maximum for `5m`.
const COMPUTED_BUCKETS_MAX: u32 = 2016;

/// Units of the length of a bucket, in seconds, longest first.
const UNITS: [(&str, u64); 4] = [("d", DAY_SECONDS), ("h", 3600), ("m", 60), ("s", 1)];

/// Granularity of the rows of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// Rows as they were ingested.
    Raw,
    /// Buckets of five minutes.
    FiveMinutes,
    /// Buckets of 15 minutes. The upstream dataset service does not have them.
    FifteenMinutes,
    /// Buckets of an hour.
    Hour,
    /// Buckets of four hours. The upstream dataset service does not have them.
    FourHours,
    /// Buckets of a day.
    Day,
    /// Buckets of any other length in whole seconds, which are computed when they are read. With a time
    /// zone, the length is in whole days, which begin at midnight in the zone and can have 23 or 25
    /// hours.
    Every(Duration, Option<Zone>),
}

/// A time zone, by its name in the IANA database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone(&'static str);

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl FromStr for Zone {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = ZONE_NAMES.iter().find(|name| *name == text && TimeZone::get(name).is_ok());
        let known = known.map(|name| Self(name));
        known.ok_or_else(|| ParseError::new(text, "a time zone such as Europe/Berlin"))
    }
}

impl Zone {
    /// Returns the start and the end of the bucket of `n_days` days that contains `timestamp`. Buckets are
    /// counted from 1970. Returns `None` at the ends of the calendar.
    fn days_around(self, timestamp: Timestamp, n_days: i64) -> Option<(Timestamp, Timestamp)> {
        let zone = TimeZone::get(self.0).ok()?;
        let at = jiff::Timestamp::from_microsecond(timestamp.micros()).ok()?;
        let epoch = date(1970, 1, 1);
        let day = i64::from(epoch.until(zone.to_datetime(at).date()).ok()?.get_days());
        let start_of = |idx: i64| {
            let days = Span::new().try_days(idx.checked_mul(n_days)?).ok()?;
            let midnight = zone.to_timestamp(epoch.checked_add(days).ok()?.to_datetime(Time::MIN));
            Some(Timestamp::from_micros(midnight.ok()?.as_microsecond()))
        };
        let idx = day.div_euclid(n_days);
        let (start, end) = (start_of(idx)?, start_of(idx + 1)?);
        // If the clock is turned back after midnight, it shows the previous day again. These times belong
        // to the day that has already begun.
        if end <= timestamp { Some((end, start_of(idx + 2)?)) } else { Some((start, end)) }
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.bucket().unwrap_or_default().as_secs();
        match UNITS.iter().find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", seconds / unit),
            None => f.write_str("raw"),
        }
    }
}

impl FromStr for Resolution {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "raw" {
            return Ok(Self::Raw);
        }
        let length = UNITS.iter().find_map(|(name, unit)| {
            let number = text.strip_suffix(name)?;
            let number: u64 = number.parse().ok().filter(|_| !number.starts_with('+'))?;
            Some(Duration::from_secs(number.checked_mul(*unit)?))
        });
        let length = length.filter(|length| !length.is_zero() && *length <= LENGTH_MAX);
        let length = length.ok_or_else(|| {
            ParseError::new(
                text,
                "a resolution (raw, or a length of up to 30 days such as 5m or 1h)",
            )
        })?;
        let named = Self::ALL.into_iter().find(|named| named.bucket() == Some(length));
        Ok(named.unwrap_or(Self::Every(length, None)))
    }
}

impl Resolution {
    /// Raw rows and all resolutions with stored buckets, finest first.
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

    /// Returns the resolution from which buckets of this resolution are computed, or `None` for raw
    /// rows. The choice affects sums of floats, since these depend on the order of addition.
    #[must_use]
    pub fn source(self) -> Option<Self> {
        match self {
            Self::Raw => None,
            Self::FiveMinutes => Some(Self::Raw),
            Self::FifteenMinutes | Self::Hour => Some(Self::FiveMinutes),
            Self::FourHours | Self::Day => Some(Self::Hour),
            // A bucket of 15 minutes lies within one day, since the offsets of all time zones since 1980
            // are multiples of 15 minutes.
            Self::Every(_, Some(_)) => Some(Self::FifteenMinutes),
            Self::Every(length, None) => Self::DOCUMENTED.into_iter().rev().find(|finer| {
                let finer = finer.bucket().map_or(1, |finer| finer.as_secs());
                length.as_secs().is_multiple_of(finer)
            }),
        }
    }

    /// Returns the resolution whose buckets begin at midnight in `zone`, or `None` if its buckets are not
    /// whole days.
    #[must_use]
    pub fn in_zone(self, zone: Zone) -> Option<Self> {
        let length = self.bucket().filter(|length| length.as_secs().is_multiple_of(DAY_SECONDS))?;
        Some(Self::Every(length, Some(zone)))
    }

    /// Returns the length of a bucket, or `None` for raw rows. In a time zone, a day counts as 24 hours.
    #[must_use]
    pub const fn bucket(self) -> Option<Duration> {
        match self {
            Self::Raw => None,
            Self::FiveMinutes => Some(Duration::from_mins(5)),
            Self::FifteenMinutes => Some(Duration::from_mins(15)),
            Self::Hour => Some(Duration::from_hours(1)),
            Self::FourHours => Some(Duration::from_hours(4)),
            Self::Day => Some(Duration::from_hours(24)),
            Self::Every(length, _) => Some(length),
        }
    }

    /// Returns the maximum time range of a query, or `None` if it is unlimited.
    ///
    /// The upstream dataset service has the same limits for its resolutions. The resolutions that only
    /// this program has allow the same number of buckets as the next finer resolution: 2016 as for `5m`,
    /// 2160 as for `1h`. Computed buckets have the same maximum as `5m`.
    #[must_use]
    pub const fn span_max(self) -> Option<Duration> {
        match self {
            Self::Raw => Some(Duration::from_hours(24)),
            Self::FiveMinutes => Some(Duration::from_hours(7 * 24)),
            Self::FifteenMinutes => Some(Duration::from_hours(21 * 24)),
            Self::Hour => Some(Duration::from_hours(90 * 24)),
            Self::FourHours => Some(Duration::from_hours(360 * 24)),
            Self::Day => None,
            Self::Every(length, _) => Some(length.saturating_mul(COMPUTED_BUCKETS_MAX)),
        }
    }

    /// Returns the start of the bucket that contains `timestamp`. Returns `timestamp` itself for raw
    /// rows, which have no buckets.
    #[must_use]
    pub fn bucket_start(self, timestamp: Timestamp) -> Timestamp {
        if let Some((start, _)) = self.days_around(timestamp) {
            return start;
        }
        let Some(bucket) = self.bucket() else { return timestamp };
        let micros = i64::try_from(bucket.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(timestamp.micros().div_euclid(micros).saturating_mul(micros))
    }

    /// Returns the end of the bucket that contains `timestamp`, which is the start of the next bucket.
    /// Returns `timestamp` itself for raw rows, which have no buckets.
    #[must_use]
    pub fn bucket_end(self, timestamp: Timestamp) -> Timestamp {
        if let Some((_, end)) = self.days_around(timestamp) {
            return end;
        }
        self.bucket_start(timestamp) + self.bucket().unwrap_or_default()
    }

    /// Returns the start and the end of the bucket that contains `timestamp`, if this resolution has a
    /// time zone.
    fn days_around(self, timestamp: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let Self::Every(length, Some(zone)) = self else { return None };
        zone.days_around(timestamp, i64::try_from(length.as_secs() / DAY_SECONDS).ok()?)
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
    fn start_of_a_bucket_is_aligned_in_utc() {
        check("raw", "2026-07-30T21:57:01.5Z", "2026-07-30T21:57:01.5Z");
        check("5m", "2026-07-30T21:59:59.999Z", "2026-07-30T21:55:00Z");
        check("15m", "2026-07-30T21:59:59.999Z", "2026-07-30T21:45:00Z");
        check("4h", "2026-07-30T23:59:59Z", "2026-07-30T20:00:00Z");
        check("1h", "2026-07-30T21:00:00Z", "2026-07-30T21:00:00Z");
        check("1d", "2026-07-30T23:59:59Z", "2026-07-30T00:00:00Z");
        check("1h", "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z");
    }

    /// Checks buckets in time zones. Each row has the resolution, the zone, a timestamp, and the start and
    /// the end of its bucket.
    #[track_caller]
    fn check_in_zones(rows: &[&str]) {
        for row in rows {
            let parts: Vec<&str> = row.split(' ').collect();
            let resolution: Resolution = parts[0].parse().unwrap();
            let resolution = resolution.in_zone(parts[1].parse().unwrap()).unwrap();
            let timestamp = parts[2].parse().unwrap();
            let got = (resolution.bucket_start(timestamp), resolution.bucket_end(timestamp));
            assert_eq!(got, (parts[3].parse().unwrap(), parts[4].parse().unwrap()), "{row}");
        }
    }

    #[test]
    fn days_in_a_time_zone_begin_at_midnight() {
        check_in_zones(&[
            "1d Europe/Berlin 2026-07-30T21:59:59Z 2026-07-29T22:00:00Z 2026-07-30T22:00:00Z",
            "1d Europe/Berlin 2026-07-30T22:00:00Z 2026-07-30T22:00:00Z 2026-07-31T22:00:00Z",
            // Days of 23 and of 25 hours.
            "1d Europe/Berlin 2026-03-29T01:00:00Z 2026-03-28T23:00:00Z 2026-03-29T22:00:00Z",
            "1d Europe/Berlin 2026-10-25T22:59:59Z 2026-10-24T22:00:00Z 2026-10-25T23:00:00Z",
            "2d Europe/Berlin 2026-03-29T01:00:00Z 2026-03-27T23:00:00Z 2026-03-29T22:00:00Z",
            "1d Asia/Kathmandu 2026-07-30T18:14:59Z 2026-07-29T18:15:00Z 2026-07-30T18:15:00Z",
            "1d UTC 1969-12-31T23:59:59Z 1969-12-31T00:00:00Z 1970-01-01T00:00:00Z",
        ]);
    }

    #[test]
    fn days_in_a_time_zone_do_not_overlap_if_the_clock_changes_at_midnight() {
        check_in_zones(&[
            // In Beirut, the clock skips midnight. In Havana, it shows midnight twice.
            "1d Asia/Beirut 2026-03-28T22:00:00Z 2026-03-28T22:00:00Z 2026-03-29T21:00:00Z",
            "1d America/Havana 2026-11-01T05:30:00Z 2026-11-01T04:00:00Z 2026-11-02T05:00:00Z",
            // The clock is turned back from 00:01 to 23:01 of the previous day.
            "1d America/St_Johns 2010-11-07T02:30:00Z 2010-11-07T02:30:00Z 2010-11-08T03:30:00Z",
            "1d America/St_Johns 2010-11-07T02:45:00Z 2010-11-07T02:30:00Z 2010-11-08T03:30:00Z",
            "1d America/St_Johns 2010-11-08T03:29:59Z 2010-11-07T02:30:00Z 2010-11-08T03:30:00Z",
            // Samoa moved across the date line and skipped December 30.
            "1d Pacific/Apia 2011-12-30T09:59:59Z 2011-12-29T10:00:00Z 2011-12-30T10:00:00Z",
            "1d Pacific/Apia 2011-12-30T10:00:00Z 2011-12-30T10:00:00Z 2011-12-31T10:00:00Z",
        ]);
    }

    #[test]
    fn only_resolutions_of_whole_days_can_have_a_time_zone() {
        let zone: Zone = "Europe/Berlin".parse().unwrap();
        for name in ["raw", "5m", "1h", "4h", "36h"] {
            assert_eq!(name.parse::<Resolution>().unwrap().in_zone(zone), None, "{name}");
        }
        let days = Resolution::Day.in_zone(zone).unwrap();
        assert_eq!(
            (days.to_string(), days.source()),
            ("1d".to_owned(), Some(Resolution::FifteenMinutes))
        );
        for ends in [Timestamp::MIN, Timestamp::MAX] {
            assert!(days.bucket_start(ends) <= ends && ends <= days.bucket_end(ends));
        }
        assert_eq!(zone.to_string(), "Europe/Berlin");
        for name in ["", "Mars", "europe/../berlin", "+02:00"] {
            assert!(name.parse::<Zone>().is_err(), "{name}");
        }
    }

    #[test]
    fn each_bucket_length_is_a_multiple_of_the_next_shorter_length() {
        let lengths = Resolution::ALL.map(|r| r.bucket().map_or(1, |length| length.as_secs()));
        assert!(lengths.windows(2).all(|pair| pair[1] % pair[0] == 0));
    }

    #[test]
    fn coarser_resolutions_allow_longer_time_ranges() {
        let spans = Resolution::ALL.map(Resolution::span_max);
        assert!(spans[..5].is_sorted() && spans[..5].iter().all(Option::is_some));
        assert_eq!(spans[5], None);
    }

    #[test]
    fn each_resolution_is_computed_from_a_finer_resolution() {
        for resolution in Resolution::ALL {
            assert!(resolution.source().is_none_or(|finer| finer < resolution));
        }
    }

    #[test]
    fn names_of_resolutions_round_trip() {
        for resolution in Resolution::ALL {
            assert_eq!(resolution.to_string().parse(), Ok(resolution));
        }
        for name in ["45s", "7m", "90m", "3h", "2d", "30d"] {
            assert_eq!(name.parse::<Resolution>().unwrap().to_string(), name);
        }
        assert_eq!(["60m", "86400s"].map(str::parse), [Ok(Resolution::Hour), Ok(Resolution::Day)]);
        for text in
            ["", "0s", "-1m", "1.5h", "31d", "m", "5", "1w", "Raw", "99999999999999999999d", "+5m"]
        {
            assert!(text.parse::<Resolution>().is_err(), "{text}");
        }
    }

    #[test]
    fn unstored_buckets_are_computed_from_the_longest_stored_divisor() {
        let source = |name: &str| name.parse::<Resolution>().unwrap().source().unwrap().to_string();
        let sources = ["45s", "7m", "10m", "90m", "3h", "36h", "2d"].map(source);
        assert_eq!(sources, ["raw", "raw", "5m", "5m", "1h", "1h", "1d"]);
    }
}
