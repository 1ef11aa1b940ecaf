//! The time zone in which times are displayed: UTC, the local zone, or a zone with a given name.

use std::str::FromStr;
use std::sync::OnceLock;

use jiff::{Zoned, tz};
use model::timestamp::Timestamp;

/// The time zone in use, set once before the first frame. It is static, because every displayed
/// time depends on it.
static IN_USE: OnceLock<TimeZone> = OnceLock::new();

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeZone(tz::TimeZone);

/// A name is not the name of a time zone.
#[derive(Debug, thiserror::Error)]
#[error("unknown time zone `{name}`, expected UTC, local, or a name such as Europe/Berlin")]
pub struct UnknownZone {
    name: String,
}

impl TimeZone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(tz::TimeZone::UTC);

    /// Displays all times in this zone from now on. Only the first call has an effect.
    pub(crate) fn use_for_times(self) {
        IN_USE.set(self).ok();
    }
}

impl FromStr for TimeZone {
    type Err = UnknownZone;

    fn from_str(name: &str) -> Result<Self, UnknownZone> {
        match name.to_ascii_lowercase().as_str() {
            "utc" => Ok(Self::UTC),
            // The zone in the variable `TZ`, otherwise the zone of the system.
            "local" => Ok(tz::TimeZone::try_system().map_or(Self::UTC, Self)),
            _ => {
                tz::TimeZone::get(name).map(Self).map_err(|_| UnknownZone { name: name.to_owned() })
            }
        }
    }
}

/// Converts `time` to the zone `zone`.
fn zoned_in(time: Timestamp, zone: &TimeZone) -> Zoned {
    let time = jiff::Timestamp::from_microsecond(time.micros()).unwrap_or_default();
    time.to_zoned(zone.0.clone())
}

/// Converts `time` to the time zone in use.
pub(crate) fn zoned(time: Timestamp) -> Zoned {
    zoned_in(time, IN_USE.get().unwrap_or(&TimeZone::UTC))
}

/// Converts `time` to UTC.
pub(crate) fn utc(time: Timestamp) -> Zoned {
    zoned_in(time, &TimeZone::UTC)
}

/// Returns ` UTC` if the time zone in use has another offset at `time`.
pub(crate) fn utc_mark(time: Timestamp) -> &'static str {
    mark_of(&zoned(time))
}

fn mark_of(time: &Zoned) -> &'static str {
    if time.offset().is_zero() { "" } else { " UTC" }
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
    fn time_is_shown_in_the_chosen_time_zone() {
        check("UTC", "2026-07-30 23:02:31 UTC");
        check("utc", "2026-07-30 23:02:31 UTC");
        check("Europe/Berlin", "2026-07-31 01:02:31 CEST");
        check("America/New_York", "2026-07-30 19:02:31 EDT");
        assert!("local".parse::<TimeZone>().is_ok());
    }

    #[test]
    fn days_in_utc_are_marked_in_another_time_zone() {
        let mark = |time: &str, zone: &str| {
            mark_of(&zoned_in(time.parse().unwrap(), &zone.parse().unwrap()))
        };
        assert_eq!(mark("2026-07-30T00:00:00Z", "UTC"), "");
        assert_eq!(mark("2026-07-30T00:00:00Z", "America/New_York"), " UTC");
        assert_eq!(mark("2026-07-30T00:00:00Z", "Europe/London"), " UTC");
    }

    #[test]
    fn error_names_the_unknown_time_zone() {
        let error = "Mars/Olympus".parse::<TimeZone>().unwrap_err().to_string();
        assert!(error.contains("`Mars/Olympus`") && error.contains("local"), "{error}");
    }
}
