//! The time zone of displayed times: UTC, the local one, or a named one.

use std::str::FromStr;
use std::sync::OnceLock;

use jiff::{Zoned, tz};
use model::timestamp::Timestamp;

/// Zone in use, set once before the first frame. Static, since every displayed time depends on it.
static IN_USE: OnceLock<TimeZone> = OnceLock::new();

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeZone(tz::TimeZone);

/// The name is not a time zone.
#[derive(Debug, thiserror::Error)]
#[error("unknown time zone `{name}`, expected UTC, local, or a name such as Europe/Berlin")]
pub struct UnknownZone {
    name: String,
}

impl TimeZone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(tz::TimeZone::UTC);

    /// Shows times in this zone from now on. Later calls have no effect.
    pub(crate) fn use_for_times(self) {
        IN_USE.set(self).ok();
    }
}

impl FromStr for TimeZone {
    type Err = UnknownZone;

    fn from_str(name: &str) -> Result<Self, UnknownZone> {
        match name.to_ascii_lowercase().as_str() {
            "utc" => Ok(Self::UTC),
            // The zone of `TZ`, or of the system.
            "local" => Ok(tz::TimeZone::try_system().map_or(Self::UTC, Self)),
            _ => {
                tz::TimeZone::get(name).map(Self).map_err(|_| UnknownZone { name: name.to_owned() })
            }
        }
    }
}

/// Returns `time` in `zone`.
fn zoned_in(time: Timestamp, zone: &TimeZone) -> Zoned {
    let time = jiff::Timestamp::from_microsecond(time.micros()).unwrap_or_default();
    time.to_zoned(zone.0.clone())
}

/// Returns `time` in the zone in use.
pub(crate) fn zoned(time: Timestamp) -> Zoned {
    zoned_in(time, IN_USE.get().unwrap_or(&TimeZone::UTC))
}

/// Returns `time` in UTC.
pub(crate) fn utc(time: Timestamp) -> Zoned {
    zoned_in(time, &TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(zone: &str, want: &str) {
        let time: Timestamp = "2026-07-30T23:02:31Z".parse().unwrap();
        let zone: TimeZone = zone.parse().unwrap();
        assert_eq!(zoned_in(time, &zone).strftime("%F %T %Z").to_string(), want);
    }

    #[test]
    fn time_is_shown_in_a_zone() {
        check("UTC", "2026-07-30 23:02:31 UTC");
        check("utc", "2026-07-30 23:02:31 UTC");
        check("Europe/Berlin", "2026-07-31 01:02:31 CEST");
        check("America/New_York", "2026-07-30 19:02:31 EDT");
        assert!("local".parse::<TimeZone>().is_ok());
    }

    #[test]
    fn unknown_zone_is_named() {
        let error = "Mars/Olympus".parse::<TimeZone>().unwrap_err().to_string();
        assert!(error.contains("`Mars/Olympus`") && error.contains("local"), "{error}");
    }
}
