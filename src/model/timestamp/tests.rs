use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, shown: &str) {
    assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), shown);
}

#[test]
fn timestamps_are_formatted_without_trailing_zeros() {
    check("2026-07-30T21:57:00Z", "2026-07-30T21:57:00Z");
    check("2026-07-30T21:57:00.000Z", "2026-07-30T21:57:00Z");
    check("2026-07-30T21:57:00.376Z", "2026-07-30T21:57:00.376Z");
    check("2026-07-30T21:57:00.123456789Z", "2026-07-30T21:57:00.123456Z");
}

#[test]
fn offsets_are_converted_to_utc() {
    check("2026-07-30T23:57:00+02:00", "2026-07-30T21:57:00Z");
}

#[test]
fn invalid_timestamps_are_rejected() {
    for text in ["", "yesterday", "2026-07-30", "2026-07-30T21:57:00", "1753912620"] {
        assert!(text.parse::<Timestamp>().is_err(), "{text}");
    }
}

#[test]
fn extreme_timestamps_round_trip() {
    for timestamp in [Timestamp::MIN, Timestamp::MAX] {
        assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
    }
}

proptest! {
    #[test]
    fn timestamps_round_trip(micros in -60_000_000_000_000_000_i64..250_000_000_000_000_000) {
        let timestamp = Timestamp::from_micros(micros);
        prop_assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
    }

    #[test]
    fn fast_path_parses_like_the_general_parser(
        year in 0..10_000_i64, month in 0..14_i64, day in 0..33_i64, of_day in 0..90_000_i64,
    ) {
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
        let want = text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
        prop_assert_eq!(whole_seconds(&text), want, "{}", text);
        for other in [text.replace('T', " "), text.replace('Z', "+"), text.replacen('0', "x", 1)] {
            prop_assert_eq!(whole_seconds(&other).filter(|_| other != text), None);
        }
    }
}

#[test]
fn leap_seconds_and_offsets_of_24_hours_are_rejected() {
    for text in [
        "2016-12-31T23:59:60Z",
        "2016-12-31T23:59:60.5Z",
        "2017-01-01T00:59:60+01:00",
        "2024-01-01T00:00:00+25:00",
        "2024-01-01T00:00:00.5-24:00",
    ] {
        assert!(text.parse::<Timestamp>().is_err(), "{text}");
    }
    for text in ["2024-01-01T00:00:00+23:59", "2024-01-01T00:60:00Z", "2024-01-01T23:59:59-12:00"] {
        assert_eq!(text.parse::<Timestamp>().is_ok(), !text.contains(":60"), "{text}");
    }
}

#[test]
fn fractions_finer_than_microseconds_are_detected() {
    for (text, want) in [
        ("2024-01-03T00:00:00.000000001Z", true),
        ("2024-01-03T00:00:00.123456100+01:00", true),
        ("2024-01-03T00:00:00.123456000Z", false),
        ("2024-01-03T00:00:00.5Z", false),
        ("2024-01-03T00:00:00Z", false),
    ] {
        assert_eq!(is_finer_than_stored(text), want, "{text}");
    }
}
